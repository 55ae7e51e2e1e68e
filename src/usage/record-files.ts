import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { USAGE_COLUMNS, USAGE_SCALES, type UsageColumn } from '../contracts/usage-record.ts'
import type { EngineStatement, UsageEngine } from './engine.ts'
import { DAY_MS, dateMs } from './names.ts'
import { Bindings, recordsIn } from './record-sql.ts'
import { CSV_COLUMNS, type SegmentDay } from './segment-csv.ts'

/** Keys of the pairs in the metadata of a file. */
export const FOOTER_PAIRS = { inputs: 'larkway.inputs', workspaces: 'larkway.workspaces' } as const

/** Rows of a row group: those whose bounds say that they have no record of an answer are not read. */
const GROUP_ROWS = 61_440

/** A file of records, at a path of this machine until `take` has resolved. */
export interface RecordFile {
  readonly path: string
  readonly rows: number
}

/** The records of a segment that ended on one day. */
export interface RolledFile extends RecordFile {
  readonly date: string
}

export interface Merge {
  /** Files of records. */
  readonly paths: readonly string[]
  /** Names that the file says it has the records of. */
  readonly names: readonly string[]
  /** Workspaces whose records are left out. */
  readonly expired: readonly string[]
}

/** Makes files of records. */
export interface RecordFiles {
  /**
   * Makes the files of a segment, one for each day.
   *
   * @throws Error when the segment cannot be read, EngineError, and what `take` throws
   */
  roll(segment: string, take: (file: RolledFile) => Promise<void>): Promise<void>
  /**
   * Makes one file of some: every record once, by its `record_id`. Of those with the same the one that ended last
   * stays: whoever wrote it knew what had become of the others.
   *
   * @throws EngineError, and what `take` throws
   */
  merge(merge: Merge, take: (file: RecordFile) => Promise<void>): Promise<void>
}

type FileEngine = Pick<UsageEngine, 'run' | 'folder'>

export function createRecordFiles(engine: FileEngine): RecordFiles {
  const run = (statements: readonly EngineStatement[]) => engine.run(statements, { lane: 'writing' })
  return {
    roll: (segment, take) =>
      withPaths(engine, 2, async ([csv = '', path = '']) => {
        const [days] = await run([{ segment, csv }])
        for (const day of daysIn(days!.columns)) {
          await run([copyOf(rowsOn(day.date, csv), path, { inputs: [], workspaces: day.workspaces })])
          await take({ date: day.date, rows: day.rows, path })
        }
      }),
    merge: ({ paths, names, expired }, take) =>
      withPaths(engine, 1, async ([path = '']) => {
        const bindings = new Bindings()
        const records = `FROM ${recordsIn(paths, bindings, true)} AS records`
        const kept = expired.length === 0 ? 'true' : `NOT list_contains(${bindings.bind(expired)}, workspace)`
        const { values } = bindings
        const [found] = await run([
          { sql: `SELECT DISTINCT workspace ${records} WHERE ${kept} ORDER BY workspace`, values },
        ])
        const workspaces = found!.columns[0] as string[]
        const select = `SELECT ${NAMES} ${records} ANTI JOIN left_out USING (filename, file_row_number) WHERE ${kept}`
        const [, , copied] = await run([
          {
            sql: `CREATE TEMP TABLE twice AS SELECT record_id ${records} GROUP BY ALL HAVING count(*) > 1`,
            values: bindingsOf(paths),
          },
          { sql: leftOut(records), values: bindingsOf(paths) },
          { ...copyOf(select, path, { inputs: names, workspaces }), values },
        ])
        await take({ rows: Number(copied!.columns[0]![0]), path })
      }),
  }
}

/** Values of a statement that names files alone. */
function bindingsOf(paths: readonly string[]): Bindings['values'] {
  const bindings = new Bindings()
  bindings.bind(paths)
  return bindings.values
}

/** Places of records of which there is a later one, or an equal one in a file before. */
function leftOut(records: string): string {
  return `CREATE TEMP TABLE left_out AS SELECT filename, file_row_number FROM (
    SELECT filename, file_row_number,
      row_number() OVER (PARTITION BY record_id ORDER BY ended_at DESC, filename, file_row_number) AS nth
    ${records} WHERE record_id IN (SELECT record_id FROM twice)) WHERE nth > 1`
}

/** Works with paths of new files of the engine's folder, which are removed afterwards. */
async function withPaths(
  engine: FileEngine,
  count: number,
  work: (paths: readonly string[]) => Promise<void>,
): Promise<void> {
  const folder = await engine.folder()
  const paths = Array.from({ length: count }, () => join(folder, randomUUID()))
  try {
    await work(paths)
  } finally {
    for (const path of paths) await rm(path, { force: true })
  }
}

function daysIn([dates, rows, workspaces]: readonly (readonly unknown[])[]): SegmentDay[] {
  return dates!.map((date, at) => ({
    date: date as string,
    rows: rows![at] as number,
    workspaces: workspaces![at] as string[],
  }))
}

const NAMES = USAGE_COLUMNS.map(({ name }) => name).join(', ')

/** Types of the fields of a segment's CSV, where numbers are whole. */
const CSV_TYPES: Readonly<Record<UsageColumn['kind'], string>> = {
  ...{ id: 'VARCHAR', word: 'VARCHAR', flag: 'BOOLEAN' },
  ...{ time: 'BIGINT', count: 'BIGINT', milliseconds: 'BIGINT', seconds: 'BIGINT', money: 'BIGINT' },
}
const KINDS = new Map<string, UsageColumn['kind']>(USAGE_COLUMNS.map(({ name, kind }) => [name, kind]))
const FIELDS = CSV_COLUMNS.map((name) => `${name}: '${CSV_TYPES[KINDS.get(name)!]}'`).join(', ')
const CSV_OPTIONS = [
  `columns = {${FIELDS}}, auto_detect = false, header = false, delim = ',', quote = '"', escape = '"'`,
  `new_line = '\\n', nullstr = '', allow_quoted_nulls = false`,
].join(', ')
const FROM_CSV = USAGE_COLUMNS.map(({ name, kind }) => `${fromCsv(name, kind)} AS ${name}`).join(', ')

function fromCsv(name: string, kind: UsageColumn['kind']): string {
  if (kind === 'time') return `make_timestamptz(${name} * 1000)`
  if (kind !== 'seconds' && kind !== 'money') return name
  const scale = USAGE_SCALES[kind]
  return `(${name}::DECIMAL(18, 0) * ${10 ** -scale}::DECIMAL(${scale + 1}, ${scale}))::DECIMAL(18, ${scale})`
}

/** The records of a day, out of the CSV of a segment. */
function rowsOn(date: string, csv: string): string {
  const [fromMs, toMs] = [dateMs(date), dateMs(date) + DAY_MS]
  return `SELECT ${FROM_CSV} FROM read_csv(${literal(csv)}, ${CSV_OPTIONS})
    WHERE ended_at >= ${fromMs} AND ended_at < ${toMs}`
}

interface FooterPairs {
  /** Names of the files that it was merged of. */
  readonly inputs: readonly string[]
  readonly workspaces: readonly string[]
}

function copyOf(select: string, path: string, { inputs, workspaces }: FooterPairs): EngineStatement {
  const pairs = [
    [FOOTER_PAIRS.inputs, inputs],
    [FOOTER_PAIRS.workspaces, workspaces],
  ] as const
  const metadata = pairs.map(([key, value]) => `"${key}": ${literal(JSON.stringify(value))}`).join(', ')
  const options = `FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE ${GROUP_ROWS}, KV_METADATA {${metadata}}`
  return { sql: `COPY (${select}) TO ${literal(path)} (${options})` }
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
