import fc from 'fast-check'
import t, { type Test } from 'tap'
import { createLogger } from '../../src/contracts/log.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import { systemClock } from '../../src/contracts/time.ts'
import type { UsageRetention } from '../../src/contracts/usage-lake.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { CompactionRounds, type CompactorOptions } from '../../src/usage/compactor.ts'
import type { UsageLake } from '../../src/usage/lake.ts'
import { createRoller } from '../../src/usage/store.ts'
import { Dice } from '../support/dice.ts'
import { tempFolder } from '../support/scratch.ts'
import {
  failingObjects,
  files,
  lakeOf,
  randomRecord,
  readerOf,
  segmentOf,
  storedRecords,
  totalsOf,
  withFile,
} from '../support/usage-lake.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const FOREVER: UsageRetention = { days: 100_000, byWorkspace: new Map() }
const silent = createLogger('silent')

/** What closed segments have, by path. */
type Segments = Map<string, readonly UsageRecord[]>

/** A node over a store: what rolls segments, and what merges. */
function nodeOver(objects: Objects, segments: Segments, options: Partial<CompactorOptions> = {}) {
  const lake = lakeOf(objects)
  const compaction = new CompactionRounds({
    lake,
    files,
    permits: { take: async () => ({ lease: { release() {} } }) },
    healthy: async () => true,
    retention: () => FOREVER,
    log: silent,
    graceMs: 0,
    ...options,
  })
  const roller = createRoller({
    lake,
    files: {
      roll: (path, take) => withFile(segmentOf(segments.get(path) ?? []), (own) => files.roll(own, take)),
    },
  })
  return { lake, compact: () => compaction.run(), roll: (id: string) => roller({ id, path: id, bytes: 0 }) }
}

/** Sums of what is to be read, and of what a question is answered; a record that is there twice is an error. */
async function readAll(t: Test, lake: UsageLake, fromMs: number, toMs: number, isEachOnce = true) {
  const found = await lake.files(fromMs, toMs)
  const records = await storedRecords(lake, found)
  const ids = new Set(records.map(({ record_id: id }) => id))
  if (isEachOnce) t.equal(ids.size, records.length, 'no record is there twice')
  const { total } = await readerOf(lake).ask({
    ...{ fromMs, toMs, step: 'none', by: [], where: {}, sort: 'calls', limit: 1, offset: 0, sumsOnly: true },
  })
  const { calls: count, cost_usd: cost, audio_seconds: seconds } = total.sums
  const sums = { count, cost, seconds }
  return { files: found, totals: totalsOf(records), sums, records }
}

function traffic(dice: Dice, count: number, fromMs: number, toMs: number, prefix = 'use'): UsageRecord[] {
  return Array.from({ length: count }, (_, at) => randomRecord(dice, `${prefix}_${at}`, { fromMs, toMs }))
}

t.test('a crash at any step of rolling and merging loses nothing and doubles nothing', async (t: Test) => {
  const dice = new Dice(19)
  // Over midnight, so that a segment becomes two files.
  const nowMs = Date.now()
  const midnight = nowMs - (nowMs % DAY_MS) - DAY_MS
  const [fromMs, toMs] = [midnight - HOUR_MS, midnight + HOUR_MS]
  const now = () => nowMs + 2 * HOUR_MS
  const segments: Segments = new Map(
    ['seg_a', 'seg_b', 'seg_c'].map((id) => [id, traffic(dice, 40, fromMs, toMs, id)]),
  )
  // A job that two nodes finished.
  segments.set('seg_c', [...segments.get('seg_c')!, segments.get('seg_a')![0]!])
  const distinct = [...segments.values()].flat().slice(0, -1)
  const expected = totalsOf(distinct)
  for (const doesBefore of [false, true]) {
    let crashes = 0
    for (let failAt = 1; ; failAt += 1) {
      const { store, failing } = failingObjects(await createFileObjects(await tempFolder(t)))
      const node = nodeOver(store, segments, { clock: { ...systemClock, wallNow: now } })
      failing.failAt = failAt
      failing.doesBefore = doesBefore
      for (const id of segments.keys()) await node.roll(id).catch(() => node.roll(id))
      const rolled = failing.calls
      await node.compact()
      if (failing.calls >= failAt && rolled < failAt) {
        const { totals } = await readAll(t, lakeOf(store), fromMs, toMs, false)
        t.ok(
          totals.count === expected.count || totals.count === expected.count + 1,
          `call ${failAt}: ${totals.count} records`,
        )
      }
      const hasCrashed = failing.calls >= failAt
      failing.failAt = Number.POSITIVE_INFINITY
      // Another process, which remembers nothing.
      const next = nodeOver(store, segments, { clock: { ...systemClock, wallNow: now } })
      await next.compact()
      const { files, totals, sums } = await readAll(t, next.lake, fromMs, toMs)
      t.same(
        { totals, sums, files: files.length },
        { totals: expected, sums: expected, files: 2 },
        `call ${failAt}`,
      )
      const names: string[] = []
      for await (const { key } of store.list('')) names.push(key)
      t.equal(names.length, 2, `nothing else stays: ${names}`)
      if (!hasCrashed) break
      crashes += 1
    }
    t.ok(crashes > 20, `${crashes} crashes`)
  }
})

t.test('a segment that is rolled again after its file was merged adds nothing', async (t: Test) => {
  const nowMs = Date.now()
  const fromMs = nowMs - DAY_MS
  const segments: Segments = new Map(
    ['seg_a', 'seg_b'].map((id) => [id, traffic(new Dice(3), 50, fromMs, fromMs + 1000, id)]),
  )
  const objects = await createFileObjects(await tempFolder(t))
  const node = nodeOver(objects, segments, { clock: { ...systemClock, wallNow: () => nowMs + 2 * HOUR_MS } })
  for (const id of segments.keys()) await node.roll(id)
  await node.compact()
  await node.roll('seg_a')
  const before = await readAll(t, node.lake, fromMs, nowMs)
  t.equal(before.totals.count, 100)
  await node.compact()
  const after = await readAll(t, node.lake, fromMs, nowMs)
  t.same(after.files, before.files)
  t.same((await node.lake.day(before.files[0]!.date)).superseded, [], 'and goes')
})

t.test(
  'what two nodes merged at once, each without seeing all of the other, is merged again',
  async (t: Test) => {
    const nowMs = Date.now()
    const fromMs = nowMs - DAY_MS
    const ids = ['seg_a', 'seg_b', 'seg_c']
    const segments: Segments = new Map(
      ids.map((id) => [id, traffic(new Dice(5), 50, fromMs, fromMs + 1000, id)]),
    )
    const objects = await createFileObjects(await tempFolder(t))
    const node = nodeOver(objects, segments, {
      clock: { ...systemClock, wallNow: () => nowMs + 2 * HOUR_MS },
    })
    for (const id of ids) await node.roll(id)
    const hiding = (hidden: string): Objects => ({
      ...objects,
      async *list(prefix) {
        for await (const info of objects.list(prefix))
          if (!info.key.includes(hidden) && !info.key.includes('merged-')) yield info
      },
      async remove() {},
    })
    for (const hidden of ['seg_a', 'seg_c'])
      await nodeOver(hiding(hidden), segments, {
        clock: { ...systemClock, wallNow: () => nowMs + 2 * HOUR_MS },
      }).compact()
    const twice = await readAll(t, node.lake, fromMs, nowMs, false)
    t.equal(twice.files.length, 2)
    t.equal(twice.totals.count, 200, 'seg_b is in both')
    await node.compact()
    const once = await readAll(t, node.lake, fromMs, nowMs)
    t.equal(once.totals.count, 150)
    t.same(once.sums, once.totals)
  },
)

t.test(
  'records go when their workspace keeps them no longer, and files when nobody does',
  async (t: Test) => {
    const nowMs = Date.now()
    const today = nowMs - (nowMs % DAY_MS)
    const segments: Segments = new Map()
    const objects = await createFileObjects(await tempFolder(t))
    let retention: UsageRetention = { days: 30, byWorkspace: new Map([['ws-1', 3]]) }
    const node = nodeOver(objects, segments, {
      clock: { ...systemClock, wallNow: () => nowMs },
      retention: () => retention,
    })
    for (const age of [0, 3, 4, 30, 31]) {
      const fromMs = today - age * DAY_MS
      segments.set(`seg_${age}`, traffic(new Dice(age), 200, fromMs, fromMs + DAY_MS, `use_${age}`))
      await node.roll(`seg_${age}`)
    }
    await node.compact()
    const kept = async () => {
      const { records, totals, sums } = await readAll(t, node.lake, today - 40 * DAY_MS, today + DAY_MS)
      t.same(sums, totals)
      const days = Map.groupBy(records, ({ ended_at }) => (today - (ended_at - (ended_at % DAY_MS))) / DAY_MS)
      return [...days]
        .map(([age, rows]) => [age, new Set(rows.map(({ workspace }) => workspace)).size])
        .sort()
    }
    t.same(await kept(), [
      [0, 5],
      [3, 5],
      [30, 4],
      [4, 4],
    ])
    retention = {
      days: 3,
      byWorkspace: new Map([
        ['ws-1', 3],
        ['ws-2', 10],
      ]),
    }
    await node.compact()
    t.same(await kept(), [
      [0, 5],
      [3, 5],
      [4, 1],
    ])
  },
)

/** Rolls segments of whole days that are so many days ago. */
async function rollAged(
  node: ReturnType<typeof nodeOver>,
  segments: Segments,
  { today, ages, records }: { today: number; ages: Readonly<Record<string, number>>; records: number },
): Promise<void> {
  for (const [id, age] of Object.entries(ages)) {
    const fromMs = today - age * DAY_MS
    segments.set(id, traffic(new Dice(age), records, fromMs, fromMs + DAY_MS, id))
    await node.roll(id)
  }
}

/** A store that has files which cannot be read. */
function unreadable(objects: Objects, isBad: (key: string) => boolean): Objects {
  return {
    ...objects,
    get: async (key, ...others) => {
      if (isBad(key)) throw new Error('EIO: i/o error, read')
      return objects.get(key, ...others)
    },
    fileOf: () => null,
  }
}

t.test(
  'a day that cannot be read keeps no other from being merged or deleted, and goes with its age',
  async (t: Test) => {
    const nowMs = Date.now()
    const today = nowMs - (nowMs % DAY_MS)
    const dayOf = (age: number) => new Date(today - age * DAY_MS).toISOString().slice(0, 10)
    const segments: Segments = new Map()
    const stored = await createFileObjects(await tempFolder(t))
    const objects = unreadable(stored, (key) => key.includes(dayOf(20)))
    let clockMs = nowMs + 2 * HOUR_MS
    const rounds: boolean[] = []
    const watch = { rolled() {}, merged() {}, compacted: (isDone: boolean) => void rounds.push(isDone) }
    const retention: UsageRetention = { days: 30, byWorkspace: new Map([['ws-1', 10]]) }
    const options = { clock: { ...systemClock, wallNow: () => clockMs }, retention: () => retention, watch }
    const node = nodeOver(objects, segments, options)
    const ages = { seg_bad: 20, seg_aging: 15, seg_a: 21, seg_b: 21, seg_c: 2, seg_d: 2 }
    await rollAged(node, segments, { today, ages, records: 100 })
    await node.compact()
    const listed = await node.lake.listed()
    const names = (age: number) => listed.get(dayOf(age))?.map(({ name }) => name.split('-')[0])
    t.same(rounds, [false], 'somebody is told')
    t.same(names(20), ['seg_bad'])
    t.same(names(21), ['merged'], 'inputs of an earlier day are deleted')
    t.same(names(2), ['merged'])
    const aging = await readAll(t, node.lake, today - 15 * DAY_MS, today - 14 * DAY_MS)
    t.ok(aging.records.length > 0)
    t.notOk(aging.records.some(({ workspace }) => workspace === 'ws-1'))
    clockMs += 11 * DAY_MS
    await node.compact()
    t.same(rounds, [false, true])
    t.notOk((await node.lake.listed()).has(dayOf(20)), 'nobody keeps it any more')
  },
)

t.test('compaction goes on where a file cannot be deleted, and comes back to it', async (t: Test) => {
  const nowMs = Date.now()
  const today = nowMs - (nowMs % DAY_MS)
  const segments: Segments = new Map()
  const stored = await createFileObjects(await tempFolder(t))
  let isKept = true
  const objects: Objects = {
    ...stored,
    remove: async (key) => {
      if (isKept && key.endsWith('seg_a.parquet')) throw new Error('EACCES: permission denied')
      await stored.remove(key)
    },
  }
  const node = nodeOver(objects, segments, { clock: { ...systemClock, wallNow: () => nowMs + 2 * HOUR_MS } })
  const ages = { seg_a: 20, seg_b: 20, seg_c: 19, seg_d: 19 }
  await rollAged(node, segments, { today, ages, records: 50 })
  const counts = async () => [...(await node.lake.listed()).values()].map(({ length }) => length).sort()
  await node.compact()
  t.same(await counts(), [1, 2])
  isKept = false
  await node.compact()
  t.same(await counts(), [1, 1])
})

t.test(
  'compaction is a model: every record once, whatever is rolled, fails, or comes late',
  async (t: Test) => {
    const nowMs = Date.now()
    const fromMs = nowMs - (nowMs % DAY_MS) - 3 * DAY_MS
    const toMs = fromMs + 2 * DAY_MS
    const step = fc.oneof(
      fc.record({ roll: fc.nat(5), records: fc.array(fc.nat(60), { maxLength: 30 }) }),
      fc.record({ again: fc.nat(5) }),
      fc.record({ compactAt: fc.nat(3), failAt: fc.option(fc.nat(40)) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
        const dice = new Dice(1)
        // A record is the same wherever it is written: its id says all of it.
        const all = traffic(dice, 61, fromMs, toMs)
        const segments: Segments = new Map()
        const { store, failing } = failingObjects(await createFileObjects(await tempFolder(t)))
        let clockMs = nowMs
        const node = nodeOver(store, segments, {
          clock: { ...systemClock, wallNow: () => clockMs },
          mergeBytes: 1024 * 1024,
        })
        for (const one of steps) {
          if ('roll' in one && !segments.has(`seg_${one.roll}`)) {
            segments.set(
              `seg_${one.roll}`,
              one.records.map((at) => all[at]!),
            )
            await node.roll(`seg_${one.roll}`)
          } else if ('again' in one && segments.has(`seg_${one.again}`)) await node.roll(`seg_${one.again}`)
          else if ('compactAt' in one) {
            clockMs += one.compactAt * HOUR_MS
            failing.failAt = one.failAt === null ? Number.POSITIVE_INFINITY : failing.calls + one.failAt
            await node.compact()
            failing.failAt = Number.POSITIVE_INFINITY
          }
        }
        clockMs += 2 * HOUR_MS
        await node.compact()
        await node.compact()
        const expected = totalsOf(new Set([...segments.values()].flat()))
        // Where a day has one file it is not touched: what is twice in one segment its writer has told apart already.
        const { totals, sums } = await readAll(t, node.lake, fromMs, toMs, false)
        const isSingle = [...segments.values()].filter((records) => records.length > 0).length < 2
        if (!isSingle) t.same({ totals, sums }, { totals: expected, sums: expected })
      }),
      { numRuns: 20 },
    )
  },
)
