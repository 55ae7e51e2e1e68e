import { randomUUID } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/contracts/errors.ts'
import { newId } from '../../src/contracts/ids.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import { USAGE_COLUMNS, type UsageRecord } from '../../src/contracts/usage-record.ts'
import { SegmentEncoder } from '../../src/usage/encoder.ts'
import { createUsageEngine } from '../../src/usage/engine.ts'
import { UsageLake } from '../../src/usage/lake.ts'
import type { UsageObject } from '../../src/usage/names.ts'
import { createUsageReader } from '../../src/usage/reader.ts'
import { createRecordFiles } from '../../src/usage/record-files.ts'
import { Bindings, inMemory, recordsIn } from '../../src/usage/record-sql.ts'
import type { Dice } from './dice.ts'

const DAY_MS = 86_400_000
const FRAME_BYTES = 1024 * 1024
const SEGMENT_RECORDS = 20_000

/** The engine of all tests of a process; it ends with that. */
export const engine = createUsageEngine({
  places: [join(tmpdir(), 'larkway-engine-of-tests')],
  folders: null,
})

/** The files of usage of a store. */
export const lakeOf = (objects: Objects) => new UsageLake(objects, engine)

export const files = createRecordFiles(engine)

export const readerOf = (lake: UsageLake) => createUsageReader({ lake, engine })

export async function putFile(lake: UsageLake, date: string, name: string, file: Uint8Array) {
  await withFile(file, (path) => lake.put(date, name, path))
}

/** Puts records as the files of segments, one for each day; those of a process are no larger. */
export async function putRecords(lake: UsageLake, records: readonly UsageRecord[], name: string) {
  for (let at = 0; at < records.length; at += SEGMENT_RECORDS) {
    const some = records.slice(at, at + SEGMENT_RECORDS)
    const own = at === 0 ? name : `${name}_${at}`
    for (const { date, file } of await rollRecords(some)) await putFile(lake, date, own, file)
  }
}

/** What sums have to be equal to. */
export interface UsageTotals {
  count: number
  /** Micro-USD. */
  cost: number
  /** Milliseconds. */
  seconds: number
}

export function totalsOf(records: Iterable<Pick<UsageRecord, 'cost_usd' | 'audio_seconds'>>): UsageTotals {
  const totals = { count: 0, cost: 0, seconds: 0 }
  for (const { cost_usd, audio_seconds } of records) {
    totals.count += 1
    totals.cost += cost_usd ?? 0
    totals.seconds += audio_seconds ?? 0
  }
  return totals
}

export interface TrafficOptions {
  /** Moments at which records end. */
  readonly fromMs: number
  readonly toMs: number
  readonly workspaces?: number
}

/** A record of traffic as it comes: a key has one app, which has one workspace; a twentieth are errors. */
export function randomRecord(dice: Dice, id: string, options: TrafficOptions): UsageRecord {
  const { fromMs, toMs, workspaces = 5 } = options
  const key = dice.below(200)
  const app = key % (4 * workspaces)
  const isAudio = dice.below(3) === 0
  const isError = dice.below(20) === 0
  const total = 100 + dice.below(5_000)
  const endedAt = fromMs + dice.below(Math.min(toMs - fromMs, DAY_MS))
  const milliseconds = isAudio ? dice.below(600_000) : null
  return {
    record_id: id,
    kind: dice.below(10) === 0 ? 'job' : 'call',
    request_id: `req_${dice.below(2 ** 31).toString(36)}`,
    job_id: dice.below(10) === 0 ? `tj_${dice.below(2 ** 31).toString(36)}` : null,
    session_id: null,
    trace_id: null,
    started_at: endedAt - total,
    ended_at: endedAt,
    node: `node-${dice.below(3)}`,
    workspace: `ws-${app % workspaces}`,
    app: `app-${app}`,
    key_id: `key_${key}`,
    end_user: dice.below(2) === 0 ? null : `user-${dice.below(5_000)}-ü`,
    purpose: null,
    operation: isAudio ? 'transcription' : 'chat',
    endpoint: isAudio ? 'POST /v1/audio/transcriptions' : 'POST /v1/chat/completions',
    route: `route-${app % 3}`,
    policy_version_id: 'pv_1',
    provider: isAudio ? 'deepgram' : 'openai',
    model: isAudio ? 'nova-3' : 'gpt-4o-mini',
    region: null,
    attempts: 1 + dice.below(2),
    attempt_reasons: null,
    outcome: isError ? 'error' : 'ok',
    status: isError ? 502 : 200,
    error_code: isError ? 'PROVIDER_ERROR' : null,
    error_param: null,
    replayed: dice.below(50) === 0,
    cache: null,
    audio_seconds: milliseconds,
    billable_audio_seconds: milliseconds,
    video_seconds: null,
    input_tokens: isAudio ? null : dice.below(4_000),
    output_tokens: isAudio ? null : dice.below(800),
    characters: null,
    images: null,
    credits: null,
    cost_usd: isError ? null : dice.below(20_000),
    estimated: false,
    received_bytes: dice.below(100_000),
    sent_bytes: dice.below(10_000),
    total_ms: total,
    body_ms: dice.below(3),
    upstream_ms: total - 1,
    first_ms: isAudio ? null : dice.below(total),
  }
}

const COLUMNS = USAGE_COLUMNS.map(({ name }) => `${inMemory(name)} AS ${name}`).join(', ')

/** The records of files, by one question: more of them than may wait for their turn are no fault of the product. */
export async function recordsOf(...files: readonly Uint8Array[]): Promise<UsageRecord[]> {
  if (files.length === 0) return []
  const withAll = (at: number, paths: readonly string[]): Promise<UsageRecord[]> =>
    at === files.length ? recordsAt(paths) : withFile(files[at]!, (path) => withAll(at + 1, [...paths, path]))
  return withAll(0, [])
}

async function recordsAt(paths: readonly string[]): Promise<UsageRecord[]> {
  const bindings = new Bindings()
  const sql = `SELECT ${COLUMNS} FROM ${recordsIn(paths, bindings)}`
  const [found] = await engine.run([{ sql, values: bindings.values }])
  const { names, columns, rows } = found!
  return Array.from({ length: rows }, (_, row) =>
    Object.fromEntries(names.map((name, at) => [name, columns[at]![row]])),
  ) as unknown as UsageRecord[]
}

/** The records of files of a store. */
export async function storedRecords(lake: UsageLake, stored: readonly UsageObject[]): Promise<UsageRecord[]> {
  if (stored.length === 0) return []
  const { paths, release } = await lake.hold(stored)
  return recordsAt(paths).finally(release)
}

/** Works with a file of these bytes. */
export async function withFile<Result>(
  bytes: Uint8Array,
  work: (path: string) => Promise<Result>,
): Promise<Result> {
  const path = join(await engine.folder(), randomUUID())
  await writeFile(path, bytes)
  try {
    return await work(path)
  } finally {
    await rm(path)
  }
}

interface MadeFile {
  readonly date: string
  readonly rows: number
  readonly file: Uint8Array
}

/** The files of a segment, one for each day. */
export async function rollSegment(segment: Uint8Array): Promise<MadeFile[]> {
  const made: MadeFile[] = []
  await withFile(segment, (path) =>
    files.roll(path, async ({ path, ...file }) => {
      made.push({ ...file, file: await readFile(path) })
    }),
  )
  return made
}

/** The files of a segment of these records, one for each day. */
export function rollRecords(records: Iterable<UsageRecord>): Promise<MadeFile[]> {
  return rollSegment(segmentOf(records))
}

export function segmentOf(records: Iterable<UsageRecord>): Buffer {
  const encoder = new SegmentEncoder({ id: newId('seg'), openedAtMs: 0 })
  const frames: Buffer[] = []
  for (const record of records) {
    encoder.add(record)
    if (encoder.bytes > FRAME_BYTES) frames.push(Buffer.from(encoder.take()))
  }
  return Buffer.concat([...frames, encoder.take()])
}

/** A store whose calls can be made to fail, before they happen or after: the caller cannot tell. */
export function failingObjects(objects: Objects) {
  const failing = { calls: 0, failAt: Number.POSITIVE_INFINITY, isAway: false, doesBefore: false }
  async function step<T>(act: () => Promise<T>): Promise<T> {
    failing.calls += 1
    if (failing.isAway) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    if (failing.calls !== failing.failAt) return act()
    if (failing.doesBefore) await act()
    throw new GatewayError('DEPENDENCY_UNAVAILABLE')
  }
  const store: Objects = {
    put: (key, body, length, options) => step(() => objects.put(key, body, length, options)),
    upload: (key, options) => step(() => objects.upload(key, options)),
    get: (key, start, end, signal) => step(() => objects.get(key, start, end, signal)),
    remove: (key) => step(() => objects.remove(key)),
    async *list(prefix) {
      await step(async () => {})
      yield* objects.list(prefix)
    },
    // Every read passes here.
    fileOf: () => null,
    abortUploads: (prefix, before) => objects.abortUploads(prefix, before),
    ping: (signal) => objects.ping(signal),
    close: () => objects.close(),
  }
  return { store, failing }
}
