import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import type { ThreadOptions } from '../../../src/gateway/state/embedded/thread.ts'
import { tempFolder } from '../../support/scratch.ts'
import { beginningOf, claimOf, newDigest, newToken, newWorkspace } from '../../support/state-under-test.ts'

/** For those who wait until a time is over. */
const HURRIED = { busyMs: 1_500, limitMs: 2_000 }

/** A state in a file, the threads that it has started, and what it logs. */
async function stateOf(t: Test, times: Partial<ThreadOptions> = {}) {
  const file = join(await tempFolder(t), 'state.sqlite')
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line).msg) })
  const threads: Worker[] = []
  const onThread = (thread: Worker) => threads.push(thread)
  process.on('worker', onThread)
  const state = await openEmbeddedState({ file, log, ...times })
  t.teardown(async () => {
    process.off('worker', onThread)
    await state.close()
  })
  return { file, lines, threads, state }
}

t.test('all calls have one thread', async (t) => {
  const { state, threads } = await stateOf(t)
  await Promise.all([state.keys.list(), state.keys.list(), state.healthy()])
  t.equal(threads.length, 1)
})

t.test('when the thread dies, calls under way fail and the next one starts it again', async (t) => {
  const { state, lines, threads } = await stateOf(t)
  const [workspace, kept] = [newWorkspace(), newDigest()]
  const begin = (id: string) => state.ledger.begin(beginningOf(workspace, { slot: claimOf(id) }))
  for (let round = 1; round <= 3; round++) {
    const id = newDigest()
    if (round === 1) await begin(kept)
    await begin(id)
    const underWay = Array.from({ length: 50 }, () => begin(newDigest()).catch(({ code }) => code))
    void threads.at(-1)!.terminate()
    const outcomes = await Promise.all(underWay)
    const failed = outcomes.filter((outcome) => outcome === 'DEPENDENCY_UNAVAILABLE')
    t.equal(failed.length + outcomes.filter(({ state }) => state === 'begun').length, 50)
    t.same(await state.ledger.look(workspace, id), { state: 'running' }, 'what was acknowledged is there')
    t.equal(threads.length, round + 1)
    t.equal(lines.length, round)
  }
  t.same(await begin(kept), { state: 'running' })
  t.match(lines[0], /thread of the state has ended/)
})

t.test('a call that finds the file locked for too long fails in time, and those behind it too', async (t) => {
  const { file, state } = await stateOf(t, HURRIED)
  await state.healthy()
  const other = new DatabaseSync(file)
  other.exec('BEGIN IMMEDIATE')
  const workspace = newWorkspace()
  const [first, second] = [newDigest(), newDigest()]
  const begin = (id: string, token = newToken()) =>
    state.ledger.begin(beginningOf(workspace, { token, slot: claimOf(id) }))
  const tookMs = async (begun: Promise<unknown>, reason: RegExp) => {
    const beganMs = performance.now()
    await t.rejects(begun, { code: 'DEPENDENCY_UNAVAILABLE', cause: { message: reason } })
    return performance.now() - beganMs
  }
  let turns = 0
  const turning = setInterval(() => turns++, 10)
  const one = tookMs(begin(first), /locked|no answer within/)
  await sleep(100)
  const token = newToken()
  const two = tookMs(begin(second, token), /no answer within/)
  // They come back while the file is still locked.
  for (const ms of await Promise.all([one, two])) t.ok(ms > 1000, `${Math.round(ms)} ms`)
  clearInterval(turning)
  t.ok(turns > 20, `the event loop went on: ${turns} turns`)
  // What was told to have failed is done nevertheless when the lock ends now; a cancellation takes it back.
  other.exec('ROLLBACK')
  other.close()
  await state.ledger.cancel({ token, workspace, slotId: second })
  t.same(await state.ledger.look(workspace, second), { state: 'free' })
  t.same(await begin(second, token), { state: 'refused', why: 'voided' })
  t.same(await begin(first), { state: 'begun' })
})

t.test('that the state cannot be written is logged once, and once that it can', async (t) => {
  const { file, lines, state } = await stateOf(t, HURRIED)
  await state.healthy()
  const other = new DatabaseSync(file)
  other.exec('BEGIN IMMEDIATE')
  const begin = () => state.ledger.begin(beginningOf('acme', { slot: claimOf(newDigest()) }))
  const refused = { code: 'DEPENDENCY_UNAVAILABLE' }
  await Promise.all([t.rejects(begin(), refused), t.rejects(begin(), refused)])
  t.equal(await state.healthy(), true, 'it can be read')
  t.same(lines, ['the state cannot be written'])
  other.exec('ROLLBACK')
  other.close()
  await begin()
  await begin()
  t.same(lines, ['the state cannot be written', 'the state can be written again'])
})

t.test('a thread that stands still for some seconds costs time, and no refusals', async (t) => {
  const { file, lines, state } = await stateOf(t)
  await state.healthy()
  const other = new DatabaseSync(file)
  other.exec('BEGIN IMMEDIATE')
  const begin = () => state.ledger.begin(beginningOf('acme', { slot: claimOf(newDigest()) }))
  const begun = begin()
  // Longer than calls had before they were refused.
  await sleep(2_500)
  const behind = Promise.all(Array.from({ length: 50 }, begin))
  await sleep(1_000)
  other.exec('ROLLBACK')
  other.close()
  t.ok([await begun, ...(await behind)].every((one) => one.state === 'begun'))
  t.same(lines, [])
})

t.test('calls beyond those that may wait are refused at once', async (t) => {
  const { file, lines, state } = await stateOf(t)
  await state.healthy()
  const other = new DatabaseSync(file)
  other.exec('BEGIN IMMEDIATE')
  const first = state.keys.forget('acme')
  const order: string[] = []
  const settled = (name: string) => () => void order.push(name)
  const waiting = Array.from({ length: 12_000 }, () =>
    state.ledger.look('acme', newDigest()).then(settled('answered'), ({ code }) => settled(code)()),
  )
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(order.length, 2_001)
  t.same([...new Set(order)], ['DEPENDENCY_UNAVAILABLE'])
  t.same(lines, ['the state cannot be written'], 'which is told once')
  other.exec('ROLLBACK')
  other.close()
  await Promise.all([first, ...waiting])
  t.equal(order.filter((name) => name === 'answered').length, 9_999)
})
