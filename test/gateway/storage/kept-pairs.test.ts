import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import t from 'tap'
import { type Clock, systemClock } from '../../../src/contracts/time.ts'
import { createBudget } from '../../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../../src/gateway/storage/folder.ts'
import { createKeptPairs } from '../../../src/gateway/storage/kept-pairs.ts'
import { tempFolder } from '../../support/scratch.ts'
import { clockAhead } from '../../support/virtual-clock.ts'
import { chunksOf } from './objects.contract.ts'
import { keysOf, sweepOnce } from './rig.ts'

const PAIR = {
  workspace: 'acme',
  route: 'voice',
  operation: 'transcription',
  provider: 'one',
  model: 'old',
  shadowProvider: 'other',
  shadowModel: 'new',
} as const
const KEPT = { pair: PAIR, texts: { entry: 'a lark', shadow: 'an ark '.repeat(100_000) } }
const OWNER = { workspace: 'acme', callId: 'req_1' }

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = []
  for await (const item of items) found.push(item)
  return found
}

t.test('pairs of other nodes, of other keys, and in other places', async (t) => {
  const objects = await createFileObjects(await tempFolder(t))
  const budget = createBudget(64 * 1024 * 1024)
  const [key, newKey] = [randomBytes(32), randomBytes(32)]
  const signal = new AbortController().signal
  const node = (secretKeys: readonly Buffer[], clock: Clock = systemClock) =>
    createKeptPairs({ objects, budget, secretKeys, clock })
  await node([key]).keep(OWNER, KEPT, 3_600, signal)
  t.match(await node([newKey, key]).find(OWNER), { kept: KEPT }, 'a node whose first key is a newer one')
  t.equal(await node([newKey]).find(OWNER), null, 'without the key')
  t.equal(await node([key]).find({ ...OWNER, workspace: 'umbra' }), null)
  t.equal(await node([key]).find({ ...OWNER, callId: 'req_2' }), null)
  const late = clockAhead(3_602_000)
  t.equal(await node([key], late).find(OWNER), null, 'its time is over')

  const [name = ''] = await keysOf(objects, 'pair/')
  const [info] = await all(objects.list(name))
  const bytes = await all(await objects.get(name, 0, info!.bytes, signal))
  const elsewhere = name.replace(/\.[0-9a-f]+$/, '.0000000000000000')
  await objects.remove(name)
  await objects.put(elsewhere, chunksOf(Buffer.concat(bytes)), info!.bytes, { signal })
  t.equal(await node([key]).find(OWNER), null, 'what was moved does not open')
  t.equal(budget.used, 0)
})

t.test('the sweeper removes a pair and what is left of one when their time is over', async (t) => {
  const objects = await createFileObjects(await tempFolder(t))
  const parts = { objects, budget: createBudget(1024 ** 2), secretKeys: [randomBytes(32)] }
  const pairs = createKeptPairs(parts)
  const kept = { ...KEPT, texts: { entry: 'a', shadow: 'b' } }
  const signal = new AbortController().signal
  await pairs.keep(OWNER, kept, 60, signal)
  await pairs.keep({ ...OWNER, callId: 'long' }, kept, 7_200, signal)
  const found = await pairs.find(OWNER)
  if (found === null || found === 'several' || !('settle' in found)) throw new Error('it is not there')
  await found.settle(3)
  t.same(await pairs.find(OWNER), { takenWords: 3 })
  const sweepAhead = async (ms: number) => {
    const log = pino({ level: 'silent' })
    await sweepOnce({ objects, log, alone: false, clock: clockAhead(ms) })
    return (await keysOf(objects, 'pair/')).length
  }
  t.equal(await sweepAhead(0), 2)
  t.equal(await sweepAhead(120_000), 1)
  t.equal(await sweepAhead(7_300_000), 0)
})
