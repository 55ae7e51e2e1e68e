import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { AuditLine, CatalogStore, RecordName } from '../../../src/contracts/catalog-store.ts'
import type { State } from '../../../src/contracts/state.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { tempFolder } from '../../support/scratch.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { type CatalogOrder, pairOf, pairRecords, RACED } from './catalog-process.ts'

const LONG = process.env.LARKWAY_TEST_LONG === '1'
const PROGRAM = fileURLToPath(new URL('./catalog-process.ts', import.meta.url))
const PROCESSES = 2
/** Changes of all processes together. */
const RACES = LONG ? 5_000 : 500
/** How often processes, or the server, are killed. */
const KILLS = LONG ? 30 : 4

/** A process that changes the catalog, what it prints, and how it ends. */
function run(t: Test, order: CatalogOrder) {
  const child = spawn(process.execPath, [
    '--disable-warning=ExperimentalWarning',
    PROGRAM,
    JSON.stringify(order),
  ])
  t.teardown(() => child.kill('SIGKILL'))
  const lines: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  let errors = ''
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  const ended = once(child, 'close')
  return {
    lines,
    ended,
    errors: () => errors,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

async function openFile(t: Test, file: string): Promise<State> {
  const state = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  t.teardown(() => state.close())
  return state
}

/** Everything in pages, newest first. */
async function allOf<Item extends { readonly number: number }>(
  page: (below: number | null) => Promise<readonly Item[]>,
): Promise<Item[]> {
  const all: Item[] = []
  for (let below: number | null = null; ; ) {
    const items: readonly Item[] = await page(below)
    const last = items.at(-1)
    if (!last) return all
    all.push(...items)
    below = last.number
  }
}

const versionsOf = (catalog: CatalogStore, record: RecordName) =>
  allOf((below) => catalog.versions(record, below, 1000))
const linesOf = (catalog: CatalogStore): Promise<AuditLine[]> =>
  allOf((below) => catalog.audit(null, below, 1000))

/** Whether they are all numbers from the count of them down to 1. */
const isGapless = (items: readonly { readonly number: number }[]) =>
  items.every(({ number }, i) => number === items.length - i)

/** Processes change what they have read, all at once. */
async function races(t: Test, place: string, catalog: CatalogStore): Promise<void> {
  const beginning = await catalog.version()
  const processes = Array.from({ length: PROCESSES }, (_, i) =>
    run(t, { place, work: 'race', count: RACES / PROCESSES, name: `p${i}` }),
  )
  for (const { ended, errors } of processes) {
    t.same(await ended, [0, null])
    t.equal(errors(), '')
  }
  const told = processes.flatMap(({ lines }) => lines.map((line) => line.split(' ')))
  t.equal(told.length, RACES, 'each was answered')
  const won = told.filter(([, , , version]) => version !== 'conflict')
  t.comment(`${won.length} of ${told.length} were done`)
  t.ok(won.length > 10 && won.length < told.length, 'some won, some lost')

  // Each that was done was made to the version that the one before it had left.
  const after = new Map(won.map(([, , expected, version]) => [expected, version]))
  let version: string | undefined = beginning
  let length = 0
  for (let next = after.get(version); next !== undefined; next = after.get(version)) {
    version = next
    length += 1
  }
  t.equal(length, won.length, 'they are one chain')
  t.equal(version, await catalog.version(), 'which ends where the catalog is')

  const tokens = new Set(won.map(([, token]) => token))
  const made = await Promise.all(RACED.map((record) => versionsOf(catalog, record)))
  t.ok(made.every(isGapless), 'versions have no gap')
  t.same(new Set(made.flat().map(({ fields }) => fields.token)), tokens)
  t.equal(made.flat().length, won.length)
  const lines = await linesOf(catalog)
  t.ok(isGapless(lines), 'nor has the audit list')
  t.same(new Set(lines.map(({ detail }) => detail)), tokens)
  t.equal(lines.length, won.length, 'a line for each that was done, and for no other')
}

t.test('processes race for a catalog in a file', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const { catalog } = await openFile(t, file)
  await races(t, file, catalog)
})

t.test('processes race for a catalog in Redis', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const { catalog } = await openRedisState(t, url)
  await races(t, url, catalog)
})

/** What processes said: by lane the changes that they sent, with their tokens, and those that were acknowledged. */
class Told {
  readonly sent = new Map<string, Map<number, string>>()
  readonly acknowledged = new Map<string, Set<number>>()
  read(lines: readonly string[]): void {
    for (const line of lines) {
      const [what, lane = '', n, token] = line.split(' ')
      // The last line may have been cut.
      if (what === 's' && token?.length === 36) at(this.sent, lane, () => new Map()).set(Number(n), token)
      if (what === 'd' && n && line.endsWith(` ${n}`))
        at(this.acknowledged, lane, () => new Set()).add(Number(n))
    }
  }
  get size() {
    return [...this.acknowledged.values()].reduce((sum, { size }) => sum + size, 0)
  }
}

function at<Value>(map: Map<string, Value>, name: string, make: () => Value): Value {
  const value = map.get(name) ?? make()
  map.set(name, value)
  return value
}

/** All that was acknowledged is there, and nothing by half. */
async function isWhole(t: Test, catalog: CatalogStore, told: Told): Promise<void> {
  const lines = await linesOf(catalog)
  t.ok(isGapless(lines), 'the audit list has no gap')
  const halves = new Map<string, string[]>()
  for (const { target, action } of lines) at(halves, target, () => []).push(action)
  const wrong: string[] = []
  let found = 0
  for (const [lane, sent] of told.sent) {
    const [first = [], second = []] = await Promise.all(
      pairRecords(lane).map((record) => versionsOf(catalog, record)),
    )
    const [one, other] = [first, second].map((versions) => versions.map(({ fields }) => fields.n))
    if (!isGapless(first) || !isGapless(second)) wrong.push(`${lane}: versions with a gap`)
    if (String(one) !== String(other)) wrong.push(`${lane}: ${one} but ${other}`)
    if (new Set(one).size !== one?.length) wrong.push(`${lane}: twice: ${one}`)
    for (const n of told.acknowledged.get(lane) ?? [])
      if (!one?.includes(n)) wrong.push(`${lane}: ${n} was lost`)
    for (const n of sent.keys()) {
      const noted = halves.get(`${lane} ${n}`)?.sort().join() ?? ''
      if (noted !== (one?.includes(n) ? 'first,second' : '')) wrong.push(`${lane}: ${n} is noted as ${noted}`)
    }
    const record = await catalog.get(pairRecords(lane)[0])
    const newest = one?.[0]
    if (newest !== undefined && record?.draft?.fields.n !== newest) wrong.push(`${lane}: another draft`)
    if (record?.published?.fields.n !== newest) wrong.push(`${lane}: another version in force`)
    found += one?.length ?? 0
  }
  t.same(wrong, [])
  t.equal(lines.length, 2 * found)
  t.comment(`${told.size} acknowledged, ${found} made`)
}

/** Whoever did not hear what became of its change sends it again, and it is made once. */
async function sendsAgain(t: Test, catalog: CatalogStore, told: Told): Promise<void> {
  const open = [...told.sent].flatMap(([lane, sent]) => {
    const last = [...sent.keys()].at(-1)
    return last === undefined || told.acknowledged.get(lane)?.has(last)
      ? []
      : [{ lane, n: last, token: sent.get(last)! }]
  })
  t.ok(open.length > 0, `${open.length} were under way`)
  for (const { lane, n, token } of open) {
    const { state } = await catalog.change(pairOf(lane, n, token))
    if (state === 'done') at(told.acknowledged, lane, () => new Set()).add(n)
    else t.fail(`${lane} ${n}: ${state}`)
  }
}

t.test(`processes with a catalog in a file are killed ${KILLS} times`, async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const told = new Told()
  for (let round = 0; round < KILLS; round++) {
    const processes = Array.from({ length: PROCESSES }, (_, i) =>
      run(t, { place: file, work: 'pairs', count: 0, name: `${round}.${i}` }),
    )
    const enough = 40 + Math.random() * 100
    const isAtWork = () => processes.every(({ lines }) => lines.length > enough)
    t.ok(await waitUntil(isAtWork, 60_000), 'they are at work')
    await sleep(Math.random() * 20)
    await Promise.all(processes.map(({ kill }) => kill()))
    for (const { lines, errors } of processes) {
      t.equal(errors(), '')
      told.read(lines)
    }
    const { catalog, close } = await openFile(t, file)
    await isWhole(t, catalog, told)
    await sendsAgain(t, catalog, told)
    await isWhole(t, catalog, told)
    await close()
  }
})

t.test(`a Redis with a catalog is killed ${KILLS} times`, { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t, { durable: true })
  const told = new Told()
  for (let round = 0; round < KILLS; round++) {
    const processes = Array.from({ length: PROCESSES }, (_, i) =>
      run(t, { place: redis.url, work: 'pairs', count: 0, name: `${round}.${i}` }),
    )
    const isAtWork = (more: number) => {
      const counts = processes.map(({ lines }) => lines.length)
      return waitUntil(() => processes.every(({ lines }, i) => lines.length > counts[i]! + more), 60_000)
    }
    t.ok(await isAtWork(40), 'they are at work')
    await sleep(Math.random() * 20)
    await redis.restart()
    t.ok(await isAtWork(40), 'and go on with a server that comes back')
    await sleep(Math.random() * 20)
    await Promise.all([redis.kill(), ...processes.map(({ kill }) => kill())])
    for (const { lines, errors } of processes) {
      t.equal(errors(), '')
      told.read(lines)
    }
    await redis.restart()
    const { catalog } = await openRedisState(t, redis.url)
    await isWhole(t, catalog, told)
    await sendsAgain(t, catalog, told)
    await isWhole(t, catalog, told)
  }
})
