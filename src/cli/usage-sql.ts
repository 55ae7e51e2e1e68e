import { GatewayError } from '../contracts/errors.ts'
import { EngineError, type UsageEngine } from '../usage/engine.ts'
import type { UsageLake } from '../usage/lake.ts'
import { distinctRecordsIn } from '../usage/record-sql.ts'
import { CommandFailure } from './arguments.ts'

/** An operator waits for as long as they like. */
const LIMIT_MS = 86_400_000

export interface SqlOptions {
  readonly lake: UsageLake
  readonly engine: UsageEngine
  /** The records are those that ended on the days from here to there, exclusive. */
  readonly fromMs: number
  readonly toMs: number
}

export interface SqlAnswer {
  readonly names: readonly string[]
  /** Values as JSON has them: decimals and whole numbers over 2^53 as texts. */
  readonly rows: unknown[][]
}

/**
 * Answers a query over records, which are the view `usage`.
 *
 * @throws CommandFailure when there are no records, or DuckDB refuses the query
 */
export async function askSql(query: string, options: SqlOptions): Promise<SqlAnswer> {
  const { lake, engine, fromMs, toMs } = options
  const files = await lake.files(fromMs, toMs)
  if (files.length === 0) throw new CommandFailure('there are no records of that time')
  const held = await lake.hold(files)
  try {
    const view = `CREATE TEMP VIEW usage AS ${distinctRecordsIn(held.paths)}`
    const [, found] = await engine.run([{ sql: view }, { sql: query, as: 'plain' }], { limitMs: LIMIT_MS })
    const { names, columns, rows } = found!
    const rowAt = (row: number) => columns.map((column) => column[row])
    return { names, rows: Array.from({ length: rows }, (_, row) => rowAt(row)) }
  } catch (error) {
    if (!(error instanceof EngineError || error instanceof GatewayError)) throw error
    throw new CommandFailure(error.message, { cause: error })
  } finally {
    held.release()
  }
}
