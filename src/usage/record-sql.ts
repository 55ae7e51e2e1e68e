import type { UsageColumn, UsageColumnName } from '../contracts/usage-record.ts'
import { USAGE_COLUMNS, USAGE_SCALES } from '../contracts/usage-record.ts'
import type { EngineValue } from './engine.ts'

/*
 * Records as SQL sees them: names of columns, types and numbers of ours are written into statements, whatever comes
 * from outside is bound.
 */

/** Values of a statement, in the order of their numbers. */
export class Bindings {
  readonly values: EngineValue[] = []

  /** @returns what stands for the value in the statement */
  bind(value: EngineValue): string {
    return `$${this.values.push(value)}`
  }
}

/** Types of columns in files. */
const TYPES: Readonly<Record<UsageColumn['kind'], string>> = {
  id: 'VARCHAR',
  word: 'VARCHAR',
  flag: 'BOOLEAN',
  time: 'TIMESTAMPTZ',
  count: 'BIGINT',
  milliseconds: 'BIGINT',
  seconds: 'DECIMAL(18, 3)',
  money: 'DECIMAL(18, 6)',
}

/** A file that is older than a column has nulls there, also where all are. */
const NO_RECORD = USAGE_COLUMNS.map(({ name, kind }) => `NULL::${TYPES[kind]} AS ${name}`).join(', ')

/**
 * The records of files, as a part of FROM.
 *
 * @param paths at least one
 * @param hasPlaces with `filename` and `file_row_number`
 */
export function recordsIn(paths: readonly string[], bindings: Bindings, hasPlaces = false): string {
  const places = hasPlaces ? ', filename = true, file_row_number = true' : ''
  const files = `read_parquet(${bindings.bind(paths)}, union_by_name = true, hive_partitioning = false${places})`
  return `(FROM ${files} UNION ALL BY NAME SELECT ${NO_RECORD} WHERE false)`
}

/**
 * A query for the records of files, each once: a file is left out as soon as a merged one has its records, but the
 * record of a job, or of a session, may be in two files until they are merged, since two nodes may have ended it. Then
 * the one that ended last counts.
 */
export function distinctRecordsIn(paths: readonly string[]): string {
  const list = paths.map((path) => `'${path.replaceAll("'", "''")}'`).join(', ')
  const files = `read_parquet([${list}], hive_partitioning = true, union_by_name = true)`
  return `SELECT * FROM ${files} WHERE kind = 'call' UNION ALL BY NAME SELECT * FROM (
    SELECT DISTINCT ON (record_id) * FROM ${files} WHERE kind <> 'call' ORDER BY record_id, ended_at DESC)`
}

/** A moment as a constant. @throws RangeError for what is no whole number */
export function moment(ms: number): string {
  return `make_timestamptz(${whole(ms)}::BIGINT * 1000)`
}

/** A number of ours that is written into a statement. */
export function whole(value: number): string {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no whole number`)
  return String(value)
}

const KINDS = new Map<string, UsageColumn['kind']>(USAGE_COLUMNS.map(({ name, kind }) => [name, kind]))

/** A column, or a sum of it, as a whole number: money in micro-USD, times in epoch milliseconds. */
export function inMemory(column: UsageColumnName, expression: string = column): string {
  const kind = KINDS.get(column)
  if (kind === 'time') return `epoch_ms(${expression})::DOUBLE`
  if (kind === 'money' || kind === 'seconds')
    return `round(${expression}::DOUBLE * ${10 ** USAGE_SCALES[kind]})`
  return kind === 'count' || kind === 'milliseconds' ? `${expression}::DOUBLE` : expression
}

/** Whether a text column has one of these values; null: none. */
export function isOneOf(expression: string, values: readonly (string | null)[], bindings: Bindings): string {
  const texts = values.filter((value) => value !== null)
  const tests = [
    ...(texts.length === 0
      ? []
      : [`${expression} IN (${texts.map((text) => bindings.bind(text)).join(', ')})`]),
    ...(texts.length < values.length ? [`${expression} IS NULL`] : []),
  ]
  return tests.length === 0 ? 'false' : `(${tests.join(' OR ')})`
}
