import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { newId } from '../../src/ids.ts'
import { SegmentEncoder, type UsageRow } from '../../src/usage/encoder.ts'
import { emptyRow } from '../../src/usage/ledger.ts'
import { adoptOpenRows } from '../../src/usage/open-rows.ts'
import { UsageRows } from '../../src/usage/rows.ts'
import { readSegmentFile } from '../../src/usage/segment-columns.ts'
import { recordsIn } from '../support/usage-lake.ts'

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

/** Counts the records that are made of rows until it is asked. */
function countRecords() {
  const { record } = UsageRows.prototype
  let count = 0
  UsageRows.prototype.record = function (row) {
    count += 1
    return record.call(this, row)
  }
  return () => {
    UsageRows.prototype.record = record
    return count
  }
}

/** Takes the time until it is asked. @returns the longest time for which nothing else could run, milliseconds of CPU */
function watchTurns() {
  let isOver = false
  let longest = 0
  let last = process.cpuUsage()
  const turn = () => {
    const { user, system } = process.cpuUsage(last)
    longest = Math.max(longest, (user + system) / 1000)
    last = process.cpuUsage()
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  return async () => {
    isOver = true
    await new Promise((resolve) => setTimeout(resolve, 5))
    return longest
  }
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
  const adopted = await adoptOpenRows(from, to)
  t.same(adopted, { id, path: join(to, `${id}.usage`) })
  const records = recordsIn(await readSegmentFile(adopted!.path))
  t.match(records, [{ record_id: 'open', audio_seconds: 2, request_id: 'req_open' }])
  t.equal(records.length, 1)
  t.equal((await readdir(from)).length, 3, 'the segments stay')
  t.equal(await adoptOpenRows(from, to), null, 'it is taken over once')
})

t.test('nothing is made where all sessions have a record', async (t) => {
  const { from, to } = folders(t)
  await write(from, [session('a'), session('b')], 'open-sessions')
  await write(from, [session('b'), call(1), session('a')])
  t.equal(await adoptOpenRows(from, to), null)
  t.same(await readdir(to), [])
  t.equal((await readdir(from)).length, 1)
})

t.test('calls go on while large segments are looked through', async (t) => {
  const { from, to } = folders(t)
  const calls = Array.from({ length: 45_000 }, (_, at) => call(at))
  await write(from, [session('open'), session('ended')], 'open-sessions')
  for (let count = 0; count < 3; count += 1) await write(from, calls)
  await write(from, [...calls, session('ended')])
  const records = countRecords()
  const turns = watchTurns()
  const adopted = await adoptOpenRows(from, to)
  const longestMs = await turns()
  t.equal(records(), 1, 'of calls no record is made')
  t.ok(longestMs < 60, `nothing else for ${longestMs} ms`)
  t.match(recordsIn(await readSegmentFile(adopted!.path)), [{ record_id: 'open' }])
})
