import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setPriority } from 'node:os'
import type {
  DuckDBConnection,
  DuckDBDataChunk,
  DuckDBInstance,
  DuckDBResult,
  DuckDBType,
  DuckDBValue,
} from '@duckdb/node-api'
import { systemClock } from '../contracts/time.ts'
import type { UsageRecord } from '../contracts/usage-record.ts'
import type {
  EngineForm,
  EngineReply,
  EngineRequest,
  EngineSettings,
  EngineStatement,
  EngineValue,
  SegmentStatement,
} from './engine.ts'
import { recordsText } from './log-report.ts'
import { convertSegment } from './segment-csv.ts'

/* The program of the process that `engine.ts` starts. It ends with the one that has started it. */

// Threads that are made from here on have the priority of this one.
setPriority(19)
try {
  // When a container runs out of memory, the kernel ends this process before the node, which has calls to answer.
  writeFileSync('/proc/self/oom_score_adj', '1000')
} catch {} // no Linux
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))

/** Rows that are handed over together, at least: a message for each chunk of DuckDB would cost more than the rows. */
const PIECE_ROWS = 8_192
const AGAIN_MS = 20

// As a module of ES its 180 files take twice as much CPU.
const duckdb = createRequire(import.meta.url)('@duckdb/node-api') as typeof import('@duckdb/node-api')
const settings = JSON.parse(process.argv[2]!) as EngineSettings

let opened: Promise<DuckDBInstance> | null = null
/** Connections of the statements under way, by the number of their request. */
const running = new Map<number, DuckDBConnection>()
const cancelled = new Set<number>()

async function openEngine({ aside, folders, memoryMib, threads }: EngineSettings): Promise<DuckDBInstance> {
  const instance = await duckdb.DuckDBInstance.create(':memory:', {
    memory_limit: `${memoryMib}MiB`,
    threads: String(threads),
    temp_directory: aside,
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    allow_community_extensions: 'false',
  })
  const connection = await instance.connect()
  await connection.run("SET GLOBAL TimeZone = 'UTC'")
  // A question reads the same files several times.
  await connection.run('LOAD parquet')
  await connection.run('SET GLOBAL parquet_metadata_cache = true')
  if (folders !== null) {
    const list = folders.map((folder) => `'${folder.replaceAll("'", "''")}/'`).join(', ')
    await connection.run(`SET GLOBAL allowed_directories = [${list}]`)
    await connection.run('SET GLOBAL enable_external_access = false')
    await connection.run('SET GLOBAL lock_configuration = true')
  }
  connection.closeSync()
  return instance
}

function bound(value: EngineValue): DuckDBValue {
  return typeof value === 'object' && value !== null ? duckdb.listValue(value) : value
}

/** DuckDB finds the types of other values. */
function typeOf(value: EngineValue): DuckDBType | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  return duckdb.LIST(typeof value[0] === 'number' ? duckdb.DOUBLE : duckdb.VARCHAR)
}

function reply(message: EngineReply): Promise<void> {
  return new Promise((resolve, reject) =>
    process.send!(message, undefined, undefined, (error) => (error === null ? resolve() : reject(error))),
  )
}

async function handOver(id: number, at: number, result: DuckDBResult, as: EngineForm): Promise<void> {
  const named = result.deduplicatedColumnNames()
  const isText = as !== 'values' && as !== 'plain'
  const names = isText ? ['text', 'rows'] : named
  const columnsOf = (chunk: DuckDBDataChunk): unknown[][] => {
    if (as === 'plain') return chunk.convertColumns(duckdb.JsonDuckDBValueConverter)
    const columns = chunk.convertColumns(duckdb.JSDuckDBValueConverter)
    return isText ? [[recordsText(recordsIn(named, columns), as)], [chunk.rowCount]] : columns
  }
  let columns: unknown[][] = names.map(() => [])
  let hasSent = false
  let rows = 0
  for (;;) {
    const chunk = await result.fetchChunk()
    if (chunk !== null && chunk.rowCount > 0) {
      for (const [place, values] of columnsOf(chunk).entries())
        for (const value of values) columns[place]!.push(value)
      rows += chunk.rowCount
      if (rows < PIECE_ROWS) continue
    }
    const isOver = chunk === null || chunk.rowCount === 0
    if (!hasSent || rows > 0) await reply({ id, at, names, columns })
    if (isOver) return
    hasSent = true
    rows = 0
    columns = names.map(() => [])
  }
}

/** Rows whose columns are those of records, with numbers as they are in memory. */
function recordsIn(names: readonly string[], columns: readonly (readonly unknown[])[]): UsageRecord[] {
  const rows = Array.from(columns[0] ?? [], (_, row) => row)
  return rows.map(
    (row) => Object.fromEntries(names.map((name, at) => [name, columns[at]![row]])) as unknown as UsageRecord,
  )
}

async function handOverDays(id: number, at: number, { segment, csv }: SegmentStatement): Promise<void> {
  const days = convertSegment(segment, csv)
  const columns = [
    days.map((day) => day.date),
    days.map((day) => day.rows),
    days.map((day) => day.workspaces),
  ]
  await reply({ id, at, names: ['date', 'rows', 'workspaces'], columns })
}

async function runAll(
  id: number,
  statements: readonly EngineStatement[],
  connection: DuckDBConnection,
): Promise<void> {
  for (const [at, statement] of statements.entries()) {
    if (cancelled.has(id)) throw new Error('it was given up')
    if ('segment' in statement) {
      await handOverDays(id, at, statement)
      continue
    }
    const { sql, values = [], as = 'values' } = statement
    const types = values.map(typeOf) as DuckDBType[]
    await handOver(id, at, await connection.stream(sql, values.map(bound), types), as)
  }
}

/** Again and again: a statement that is only about to run does not notice. */
function interrupt(id: number): void {
  const connection = running.get(id)
  if (connection === undefined) return
  connection.interrupt()
  systemClock.after(AGAIN_MS, () => interrupt(id))
}

process.on('message', async (request: EngineRequest) => {
  if ('cancel' in request) {
    cancelled.add(request.cancel)
    interrupt(request.cancel)
    return
  }
  const { id, statements } = request
  let failure: string | null = null
  try {
    opened ??= openEngine(settings)
    const connection = await (await opened).connect()
    running.set(id, connection)
    try {
      await runAll(id, statements, connection)
    } finally {
      running.delete(id)
      connection.closeSync()
    }
  } catch (error) {
    failure = error instanceof Error ? error.message : String(error)
  }
  cancelled.delete(id)
  await reply({ id, failure }).catch(() => {})
})
