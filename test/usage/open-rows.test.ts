import { mkdir, readdir, rmdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { newId } from '../../src/contracts/ids.ts'
import { createLogger } from '../../src/contracts/log.ts'
import type { ClosedSegment } from '../../src/contracts/usage-segment.ts'
import { Backlog } from '../../src/usage/backlog.ts'
import { SegmentEncoder, type UsageRow } from '../../src/usage/encoder.ts'
import { adoptOpenRows } from '../../src/usage/open-rows.ts'
import { emptyRow } from '../../src/usage/record-row.ts'
import { watchTurns } from '../support/loop-turns.ts'
import { readSegmentFile, segmentRecords } from '../support/usage-records.ts'
import { waitUntil } from '../support/wait-until.ts'

const NOW_MS = Date.now()
const FRAME_ROWS = 500

function rowOf(over: Partial<UsageRow>): UsageRow {
  return { ...emptyRow('node'), ended_at: NOW_MS, started_at: NOW_MS - 5, ...over }
}

function session(id: string, over: Partial<UsageRow> = {}): UsageRow {
  return rowOf({ kind: 'session', record_id: id, session_id: id, request_id: `req_${id}`, ...over })
}

function call(at: number): UsageRow {
  return rowOf({ request_id: newId('req'), ended_at: NOW_MS + at, input_tokens: at, cost_usd: at })
}

/** Writes a segment as a process does, some rows at a time. @returns its id */
async function write(folder: string, rows: readonly UsageRow[], name?: string): Promise<string> {
  const id = newId('seg')
  const encoder = new SegmentEncoder({ id, openedAtMs: NOW_MS })
  const frames: Buffer[] = []
  for (const [at, row] of rows.entries()) {
    encoder.add(row)
    if (at % FRAME_ROWS === 0) frames.push(Buffer.from(encoder.take()))
  }
  await writeFile(join(folder, name ?? `${id}.usage`), Buffer.concat([...frames, encoder.take()]))
  return id
}

function folders(t: Test) {
  const root = t.testdir({ dead: {}, living: {} })
  return { from: join(root, 'dead'), to: join(root, 'living') }
}

/** The largest share of the work for which nothing else may run; collections of garbage are in it. */
const SHARE_MAX = 0.4

const refuse = (_name: string, error: unknown) => {
  throw error
}

/** A file that is there and cannot be read. */
const putUnreadable = async (folder: string, name: string) => mkdir(join(folder, name))

/** Takes over the files of a dead process, and hands on those that can be read. */
function heirOf(t: Test, { from, to }: ReturnType<typeof folders>) {
  const lines: { level: string; msg: string; path?: string }[] = []
  const rolled: unknown[] = []
  const roll = async ({ path }: ClosedSegment) => {
    for (const { record_id: id } of segmentRecords(await readSegmentFile(path))) rolled.push(id)
  }
  const log = createLogger('info', { write: (line) => void lines.push(JSON.parse(line)) })
  const backlog = new Backlog({ folder: to, roll, log, retryMs: [5, 20] })
  t.teardown(() => backlog.close(100))
  const adopt = () => backlog.adopt(dirname(from), async () => async () => {})
  const said = (words: string) => lines.filter(({ msg }) => msg.includes(words)).map(({ path }) => path)
  return { backlog, adopt, said, rolled }
}

t.test('sessions without a record are taken over, each as it was known last', async (t) => {
  const { from, to } = folders(t)
  const id = await write(
    from,
    [
      session('open', { audio_seconds: 1 }),
      session('ended'),
      session('ended_late'),
      session('open', { audio_seconds: 2 }),
    ],
    'open-sessions',
  )
  await writeFile(join(from, 'open-sessions.new'), 'torn')
  await write(from, [call(1), session('ended'), call(2)])
  // Of another kind, whatever its id.
  await write(from, [rowOf({ record_id: 'open', kind: 'job' }), call(3)])
  await write(from, [call(4), session('ended_late')])
  const adopted = await adoptOpenRows(from, to, refuse)
  t.same(adopted, { id, path: join(to, `${id}.usage`) })
  const records = segmentRecords(await readSegmentFile(adopted!.path))
  t.match(records, [{ record_id: 'open', audio_seconds: 2, request_id: 'req_open' }])
  t.equal(records.length, 1)
  t.equal((await readdir(from)).length, 3, 'the segments stay')
  t.equal(await adoptOpenRows(from, to, refuse), null, 'it is taken over once')
})

t.test('nothing is made where all sessions have a record', async (t) => {
  const { from, to } = folders(t)
  await write(from, [session('a'), session('b')], 'open-sessions')
  await write(from, [session('b'), call(1), session('a')])
  t.equal(await adoptOpenRows(from, to, refuse), null)
  t.same(await readdir(to), [])
  t.equal((await readdir(from)).length, 1)
})

t.test('a segment that can never be read holds up neither the others nor the open sessions', async (t) => {
  const places = folders(t)
  const { backlog, adopt, said, rolled } = heirOf(t, places)
  const { from } = places
  await write(from, [session('open'), session('ended')], 'open-sessions')
  await write(from, [session('ended'), rowOf({ record_id: 'one' })])
  const bad = `${newId('seg')}.usage`
  await putUnreadable(from, bad)
  await write(from, [rowOf({ record_id: 'two' })])
  for (let round = 0; round < 3; round += 1) await adopt()
  t.same([rolled, backlog.adopted], [[], []], 'what cannot be read for once may tell of sessions')
  t.equal(said('cannot be taken over').length, 1)
  await adopt()
  t.same(backlog.adopted, ['dead'])
  t.same(said('a file of a dead process cannot be read'), [bad])
  t.ok(await waitUntil(async () => rolled.length === 4, 5_000))
  t.same(rolled.sort(), ['ended', 'one', 'open', 'two'])
  t.ok(await waitUntil(async () => (await readdir(places.to)).length === 1, 5_000))
  t.same([await readdir(places.to), backlog.bytes > 0], [[bad], true], 'it is kept')
})

t.test('open sessions that can never be read hold up no segment', async (t) => {
  const places = folders(t)
  const { backlog, adopt, said, rolled } = heirOf(t, places)
  await putUnreadable(places.from, 'open-sessions')
  for (const id of ['one', 'two']) await write(places.from, [rowOf({ record_id: id })])
  for (let round = 0; round < 4; round += 1) await adopt()
  t.same(backlog.adopted, ['dead'])
  t.ok(await waitUntil(async () => rolled.length === 2 && said('cannot be handed on').length > 0, 5_000))
  t.same(rolled.sort(), ['one', 'two'])
  t.ok(
    await waitUntil(async () => (await readdir(places.to)).length === 1, 5_000),
    'they are kept, as a segment',
  )
})

t.test('what can be read again is taken over with the sessions that have ended', async (t) => {
  const places = folders(t)
  const { adopt, said, rolled } = heirOf(t, places)
  await write(places.from, [session('open'), session('ended')], 'open-sessions')
  await write(places.from, [session('ended')])
  const bad = `${newId('seg')}.usage`
  await putUnreadable(places.from, bad)
  await adopt()
  await rmdir(join(places.from, bad))
  await adopt()
  t.ok(await waitUntil(async () => rolled.length === 2, 5_000))
  t.same(rolled.sort(), ['ended', 'open'])
  t.same(said('cannot be'), [])
})

t.test('calls go on while large segments are looked through', async (t) => {
  const { from, to } = folders(t)
  const calls = Array.from({ length: 45_000 }, (_, at) => call(at))
  await write(from, [session('open'), session('ended')], 'open-sessions')
  for (let count = 0; count < 3; count += 1) await write(from, calls)
  await write(from, [...calls, session('ended')])
  const before = process.cpuUsage()
  const turns = watchTurns()
  const adopted = await adoptOpenRows(from, to, refuse)
  const { user, system } = process.cpuUsage(before)
  const longestMs = await turns()
  // Looked through whole, the segments took three fifths.
  const share = longestMs / ((user + system) / 1000)
  t.ok(share < SHARE_MAX, `nothing else for ${longestMs} ms of CPU, ${share} of it all`)
  t.match(segmentRecords(await readSegmentFile(adopted!.path)), [{ record_id: 'open' }])
})
