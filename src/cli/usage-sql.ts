import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { GatewayError } from '../errors.ts'
import type { UsageLake } from '../usage/lake.ts'
import type { UsageObject } from '../usage/names.ts'
import { CommandFailure } from './arguments.ts'

/** Memory of DuckDB, so that the process stays within 512 MiB; beyond it DuckDB puts data aside on the disk. */
const MEMORY = '384MiB'
const THREADS = 2
const DUCKDB = '@duckdb/node-api'

export interface SqlOptions {
  readonly lake: UsageLake
  /** The records are those that ended on the days from here to there, exclusive. */
  readonly fromMs: number
  readonly toMs: number
  /** Data folder of the server; null: the files are in a bucket, and are fetched. */
  readonly folder: string | null
}

export interface SqlAnswer {
  readonly names: string[]
  /** Values as JSON has them: decimals and whole numbers over 2^53 as texts. */
  readonly rows: unknown[][]
}

/**
 * Answers a query over records, which are the view `usage`. DuckDB is not installed with Larkway: it is 70 MB, and only
 * this command needs it.
 *
 * @throws CommandFailure when DuckDB is missing or refuses the query
 */
export async function askSql(query: string, { lake, fromMs, toMs, folder }: SqlOptions): Promise<SqlAnswer> {
  const { DuckDBInstance } = await duckdb()
  const aside = await mkdtemp(join(tmpdir(), 'larkway-usage-'))
  try {
    const files = await lake.files(fromMs, toMs)
    if (files.length === 0) throw new CommandFailure('there are no records of that time')
    const paths = await Promise.all(
      files.map((file) => (folder === null ? fetched(file, lake, aside) : join(folder, file.key))),
    )
    const instance = await DuckDBInstance.create(':memory:', {
      memory_limit: MEMORY,
      threads: String(THREADS),
      temp_directory: join(aside, 'duckdb'),
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
    })
    const connection = await instance.connect()
    try {
      await connection.run("SET TimeZone = 'UTC'")
      await connection.run(viewOf(paths))
      const reader = await connection.runAndReadAll(query)
      return { names: reader.columnNames(), rows: reader.getRowsJson() }
    } finally {
      connection.closeSync()
      instance.closeSync()
    }
  } catch (error) {
    if (error instanceof CommandFailure || error instanceof GatewayError) throw error
    throw new CommandFailure(error instanceof Error ? error.message : String(error), { cause: error })
  } finally {
    await rm(aside, { recursive: true, force: true })
  }
}

/**
 * Each record once. A file is left out as soon as a merged one has its records; the record of a job, or of a session,
 * may be in two files until they are merged, since two nodes may have ended it: then the one that ended last counts.
 */
export function viewOf(paths: readonly string[]): string {
  const list = paths.map((path) => `'${path.replaceAll("'", "''")}'`).join(', ')
  const files = `read_parquet([${list}], hive_partitioning = true, union_by_name = true)`
  return `CREATE VIEW usage AS
    SELECT * FROM ${files} WHERE kind = 'call'
    UNION ALL BY NAME
    SELECT * FROM (
      SELECT DISTINCT ON (record_id) * FROM ${files} WHERE kind <> 'call' ORDER BY record_id, ended_at DESC
    )`
}

async function duckdb(): Promise<typeof import('@duckdb/node-api')> {
  try {
    return await import('@duckdb/node-api')
  } catch {
    throw new CommandFailure(
      `--sql needs DuckDB, which is not installed with Larkway: npm install --no-save ${DUCKDB}, where Larkway is`,
    )
  }
}

/** Copies a file of the bucket. @returns its path, which has the partition in it */
async function fetched(file: UsageObject, lake: UsageLake, folder: string): Promise<string> {
  const path = join(folder, file.key)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, await lake.read(file))
  return path
}
