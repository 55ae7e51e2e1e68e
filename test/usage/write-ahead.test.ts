import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createLogger } from '../../src/contracts/log.ts'
import type { ClosedSegment } from '../../src/contracts/usage-segment.ts'
import { lockRemovable } from '../../src/gateway/storage/folder-lock.ts'
import { oldestSegmentMs } from '../../src/usage/backlog.ts'
import { emptyRow } from '../../src/usage/record-row.ts'
import { WriteAhead, type WriteAheadDependencies } from '../../src/usage/write-ahead.ts'
import { readSegmentFile, segmentRecords, usageRecords } from '../support/usage-records.ts'
import { VirtualClock } from '../support/virtual-clock.ts'
import { waitUntil } from '../support/wait-until.ts'

const FAST = {
  segmentMs: 50,
  keptMs: 50,
  syncMs: 10,
  pauseMs: 50,
  retryMs: [10, 20],
  graceMs: 2_000,
} as const
const SLOW = { ...FAST, segmentMs: 600_000 } as const

function rowOf(id: string) {
  return { ...emptyRow('node'), request_id: id, ended_at: Date.now(), started_at: Date.now() - 5 }
}

async function open(t: Test, over: Partial<WriteAheadDependencies> = {}) {
  const root = over.root ?? t.testdir()
  const lines: { msg: string }[] = []
  const log = createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) })
  const parts = { root, lock: lockRemovable, roll: null, backlogBytes: 1e9, timing: FAST, log }
  const rows = await WriteAhead.open({ ...parts, ...over })
  return {
    root,
    rows,
    lines,
    ids: async () => (await usageRecords(root)).map(({ request_id }) => request_id),
  }
}

/** Takes segments, and remembers the requests in them. */
function taker() {
  const segments: ClosedSegment[] = []
  const ids: string[] = []
  let refusals = 0
  return {
    segments,
    ids,
    refuse: (times: number) => {
      refusals = times
    },
    roll: async (segment: ClosedSegment) => {
      if (refusals > 0) {
        refusals -= 1
        throw new Error('the store is away')
      }
      segments.push(segment)
      for (const { request_id } of segmentRecords(await readSegmentFile(segment.path))) ids.push(request_id)
    },
  }
}

t.test('rows are in the kernel after some milliseconds, or at once', async (t) => {
  const { rows, ids } = await open(t, { timing: SLOW })
  rows.add(rowOf('a'))
  rows.add(rowOf('b'))
  t.ok(await waitUntil(async () => (await ids()).length === 2, 2_000))
  t.same(await ids(), ['a', 'b'])
  rows.add(rowOf('c'))
  rows.flush()
  t.same(await ids(), ['a', 'b', 'c'], 'or at once')
  await rows.close()
  t.same(await ids(), ['a', 'b', 'c'], 'and stay where nobody takes them')
  t.match(rows.figures(), { written: 3, lost: 0, rolled: 0 })
})

t.test('what is complete is held back from the end of the first record that is not handed on', async (t) => {
  const clock = new VirtualClock(Date.now() - 1_000)
  const tried = Promise.withResolvers<void>()
  const roll = async () => {
    tried.resolve()
    throw new Error('the store is away')
  }
  const { rows, root } = await open(t, { clock, roll, timing: { ...FAST, gatherMs: 100 } })
  const waiting = [rowOf('a')]
  rows.gatherFrom(() => {
    for (const row of waiting.splice(0)) rows.add(row)
  })
  const endedMs = clock.wallNow()
  rows.expect()
  await clock.advance(100)
  t.ok(rows.doneUntilMs < endedMs, 'while its segment is open')
  await clock.advance(FAST.segmentMs)
  await tried.promise
  t.equal(rows.doneUntilMs, endedMs - 1, 'and when it is closed')
  t.equal(await oldestSegmentMs(root), endedMs)
})

t.test(
  'a record that is written again is read once, also when its segment has had to be closed',
  async (t) => {
    const { rows, root } = await open(t)
    const soon = rows.addKept(rowOf('soon'))!
    const late = rows.addKept({ ...rowOf('late'), cost_usd: 3 })!
    const dear = rows.addKept({ ...rowOf('dear'), cost_usd: 3 })!
    rows.addAgain({ ...rowOf('soon'), sent_bytes: 7 }, soon)
    rows.flush()
    t.same(
      (await usageRecords(root)).map(({ request_id, sent_bytes }) => [request_id, sent_bytes]),
      [
        ['soon', 7],
        ['late', 0],
        ['dear', 0],
      ],
    )
    // The segment waits for the others, but not for ever.
    await new Promise((resolve) => setTimeout(resolve, 400))
    rows.addAgain({ ...rowOf('late'), cost_usd: 3, sent_bytes: 9 }, late)
    rows.addAgain({ ...rowOf('dear'), cost_usd: 5, sent_bytes: 9 }, dear)
    await rows.close()
    const records = async (id: string) =>
      (await usageRecords(root)).filter(({ request_id }) => request_id === id)
    t.match(await records('late'), [{ cost_usd: 3, sent_bytes: 0 }], 'sums have it, and have it once')
    const twice = await records('dear')
    t.match(twice, [{ cost_usd: 3 }, { cost_usd: 5 }])
    t.equal(new Set(twice.map(({ record_id }) => record_id)).size, 1, 'they have one id')
    t.match(rows.figures(), { written: 3, lost: 0 })
  },
)

t.test('what was open is forgotten once its record is in the kernel', async (t) => {
  const { rows, root, ids } = await open(t, { timing: { ...SLOW, gatherMs: 600_000 } })
  const isKept = async () =>
    (await readdir(root, { recursive: true })).some((one) => one.endsWith('open-sessions'))
  let count = 1
  rows.keepOpen({
    get count() {
      return count
    },
    rows: (add) => add(rowOf('open')),
  })
  t.ok(await waitUntil(isKept), 'it is kept')
  count = 0
  rows.add(rowOf('ended'))
  t.ok(await waitUntil(async () => !(await isKept())), 'and forgotten')
  t.same(await ids(), ['ended'])
  await rows.close()
})

t.test('closed segments are handed on, again after a failure, and deleted then', async (t) => {
  const taken = taker()
  taken.refuse(3)
  const { rows, root, lines } = await open(t, { roll: taken.roll })
  const sent: string[] = []
  for (let count = 0; count < 30; count += 1) {
    sent.push(`r${count}`)
    rows.add(rowOf(`r${count}`))
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  t.ok(await waitUntil(async () => taken.ids.length === 30, 5_000), `${taken.ids.length}`)
  await rows.close()
  t.same(taken.ids, sent)
  t.ok(taken.segments.length > 1)
  t.same(
    taken.segments.map(({ id }) => id),
    taken.segments.map(({ id }) => id).sort(),
    'the oldest first',
  )
  t.same(await readdir(root), [], 'nothing is left')
  t.equal(lines.filter(({ msg }) => msg.includes('cannot be handed on')).length, 1)
  t.match(rows.figures(), { written: 30, lost: 0, rolled: taken.segments.length, backlogBytes: 0 })
})

t.test('segments are closed at a size that doubles with each of a process', async (t) => {
  const taken = taker()
  const { rows } = await open(t, { roll: taken.roll, timing: SLOW })
  for (let count = 0; taken.segments.length < 4; count += 1) {
    rows.add(rowOf(`r${count}`))
    if (count % 10 === 0) rows.flush()
    if (count % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  const sizes = taken.segments.map(({ bytes }) => Math.floor(bytes / 65_536))
  t.same(sizes.slice(0, 4), [1, 2, 4, 8])
  await rows.close()
})

t.test('beyond the bound of the backlog records are lost, loudly once, until it is taken', async (t) => {
  const taken = taker()
  taken.refuse(Number.POSITIVE_INFINITY)
  const { rows, lines } = await open(t, { roll: taken.roll, backlogBytes: 20_000 })
  const isFull = async () => {
    for (let count = 0; count < 100; count += 1) rows.add(rowOf('x'.repeat(50)))
    return rows.figures().lost > 0
  }
  t.ok(await waitUntil(isFull, 5_000))
  t.ok(rows.figures().backlogBytes < 200_000)
  const loud = () => lines.filter(({ msg }) => msg.includes('backlog is full')).length
  t.equal(loud(), 1)
  taken.refuse(0)
  const isTaken = async () => {
    const before = rows.figures().lost
    rows.add(rowOf('after'))
    return rows.figures().lost === before
  }
  t.ok(await waitUntil(isTaken, 5_000))
  await rows.close()
  t.equal(taken.ids.length, rows.figures().written, 'all that were counted as written')
  t.equal(loud(), 1)
})

t.test('a disk that takes nothing costs records, and nothing else', async (t) => {
  const { rows, root, lines, ids } = await open(t)
  const [own] = await readdir(root)
  // Nothing can be made where a folder was.
  execFileSync('mv', [join(root, own!), join(root, 'elsewhere')])
  await writeFile(join(root, own!), '')
  rows.add(rowOf('lost'))
  const charged = rows.addKept(rowOf('charged'))
  rows.flush()
  t.match(rows.figures(), { written: 0, lost: 2 })
  execFileSync('rm', [join(root, own!)])
  await mkdir(join(root, own!))
  const isBack = async () => {
    rows.add(rowOf('kept'))
    rows.flush()
    return rows.figures().written > 0
  }
  t.ok(await waitUntil(isBack, 5_000))
  t.ok(lines.some(({ msg }) => msg.includes('cannot be written')))
  rows.addAgain(rowOf('charged'), charged!)
  rows.flush()
  t.equal((await ids()).filter((id) => id === 'charged').length, 1, 'one that ends later is not lost')
  const { written } = rows.figures()
  t.equal((await ids()).length, written)
  await rows.close()
})

const WRITER = `
import { createLogger } from './src/contracts/log.ts'
import { lockRemovable } from './src/gateway/storage/folder-lock.ts'
import { emptyRow } from './src/usage/record-row.ts'
import { WriteAhead } from './src/usage/write-ahead.ts'
const root = process.argv[1]
const log = createLogger('silent')
const rows = await WriteAhead.open({ root, lock: lockRemovable, roll: null, backlogBytes: 1e9, log })
let count = 0
setInterval(() => {
  for (let some = 0; some < 20; some += 1) {
    rows.add({ ...emptyRow('node'), request_id: 'r' + count, ended_at: Date.now(), started_at: Date.now() })
    count += 1
  }
  rows.flush()
  process.stdout.write(count + '\\n')
}, 1)
`

t.test(
  'what was flushed outlives SIGKILL, and is taken over once, by one of those that look for it',
  async (t) => {
    const root = t.testdir()
    const child = spawn(
      process.execPath,
      ['--no-warnings', '--input-type=module-typescript', '-e', WRITER, root],
      { stdio: ['ignore', 'pipe', 'inherit'], cwd: new URL('../..', import.meta.url) },
    )
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    t.ok(await waitUntil(async () => said.split('\n').length > 50, 20_000))
    const living = taker()
    const first = await open(t, { root, roll: living.roll })
    t.same(living.ids, [], 'nothing is taken from a process that lives')
    child.kill('SIGKILL')
    await once(child, 'exit')
    const acknowledged = Number(said.trimEnd().split('\n').at(-1))
    const second = await open(t, { root, roll: living.roll })
    t.ok(await waitUntil(async () => living.ids.length >= acknowledged, 5_000), `${living.ids.length}`)
    await Promise.all([first.rows.close(), second.rows.close()])
    t.same(
      living.ids,
      Array.from(living.ids, (_, at) => `r${at}`),
      'each once, in order',
    )
    t.same(await readdir(root), [])
  },
)

t.test('a torn segment that a machine has left is taken over up to where it is whole', async (t) => {
  const root = t.testdir()
  const { rows } = await open(t, { root, timing: SLOW })
  for (const id of ['a', 'b', 'c']) {
    rows.add(rowOf(id))
    rows.flush()
  }
  await rows.close()
  const [own] = await readdir(root)
  const [name] = (await readdir(join(root, own!))).filter((one) => one.endsWith('.usage'))
  const path = join(root, own!, name!)
  const { tornBytes } = await readSegmentFile(path)
  t.equal(tornBytes, 0)
  await truncate(path, (await import('node:fs')).statSync(path).size - 3)
  const taken = taker()
  const next = await open(t, { root, roll: taken.roll })
  t.ok(await waitUntil(async () => taken.ids.length === 2, 5_000))
  await next.rows.close()
  t.same(taken.ids, ['a', 'b'])
})
