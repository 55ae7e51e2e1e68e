import {
  type AsyncBuffer,
  type ColumnMetaData,
  type FileMetaData,
  parquetMetadataAsync,
  type Statistics,
} from 'hyparquet'
import {
  USAGE_COLUMNS,
  type UsageColumn,
  type UsageColumnName,
  type UsageRecord,
} from '../contracts/usage-record.ts'
import { BLOOM_BLOCK_BYTES, bloomBlockAt, mayBeIn } from './bloom.ts'
import { FOOTER_PAIRS } from './lake.ts'
import {
  excludes,
  isWithin,
  isWithoutValues,
  type LogIdColumn,
  type LogTest,
  rowsOf,
  wholeOf,
} from './log-filter.ts'
import { CREATED_BY, extentOfChunk, type GroupToRead, readPicked, readRows } from './parquet.ts'
import { asUnpacked, UsageRows } from './rows.ts'
import { pickFromColumn, type UnpackedColumn, unpackColumn } from './unpacking.ts'

/** A file of records, as a listing has it. */
export interface LogObject {
  readonly key: string
  readonly bytes: number
  /** When it was put, on the clock of the store; absent: at any time. */
  readonly putMs?: number
  /** The file that it is, where a thread can read it by itself; null or absent: it has to be asked for. */
  readonly path?: string | null
}

/** Where files of records are: `UsageLake`, or what asks it from another thread. */
export interface LogSource {
  /** Days from `fromMs` to `toMs`, exclusive, that have files. */
  dates(fromMs: number, toMs: number): Promise<readonly string[]>
  /** The files that have the records of a day; each record is in one of them, unless it is a job's. */
  files(date: string): Promise<readonly LogObject[]>
  /** Bytes of a file; `to` is exclusive. */
  read(object: LogObject, from: number, to: number): Promise<ArrayBuffer>
  /** Absent: none are kept. */
  readonly footers?: LogFooters
}

interface LogFooter {
  readonly metadata: FileMetaData
  /** The last bytes of the file, or all of a small one. */
  readonly tail: ArrayBuffer
}

/** Files whose metadata are kept: those of a day before they are merged. Each takes some 100 KB at most. */
const FOOTERS_KEPT = 300

/** Files of which it is known when their records ended: those of a busy fleet before they are merged. */
const SPANS_KEPT = 10_000

/** Metadata of files that were looked at, which never change; those that were used longest ago go first. */
export class LogFooters {
  readonly #kept = new Map<string, LogFooter>()
  readonly #spans = new Map<string, LogTimes>()

  get(key: string): LogFooter | undefined {
    const found = this.#kept.get(key)
    if (found === undefined) return undefined
    this.#kept.delete(key)
    this.#kept.set(key, found)
    return found
  }

  put(key: string, footer: LogFooter): void {
    this.#kept.set(key, footer)
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > FOOTERS_KEPT && oldest !== undefined) this.#kept.delete(oldest)
  }

  /** Undefined: it was not looked at, or that is long ago. */
  timesOf(key: string): LogTimes | undefined {
    return this.#spans.get(key)
  }

  putTimes(key: string, times: LogTimes): void {
    this.#spans.set(key, times)
    const [oldest] = this.#spans.keys()
    if (this.#spans.size > SPANS_KEPT && oldest !== undefined) this.#spans.delete(oldest)
  }
}

/** When the first and the last record of a file ended, epoch milliseconds. */
export interface LogTimes {
  readonly fromMs: number
  readonly toMs: number
}

/** Bytes at the end of a file that are read first: the metadata of most is in them. */
const FOOTER_BYTES = 64 * 1024

/** Rows of a file that are read together, and what is known of them without reading them. */
export interface LogGroup {
  readonly file: LogFile
  readonly place: number
  readonly rows: number
  /** When the first and the last of them ended, epoch milliseconds. */
  readonly fromMs: number
  readonly toMs: number
}

/** How far apart columns are read together: a store of objects is asked in the time in which it sends some of these. */
const GAP_BYTES = 256 * 1024

interface ReadChunk {
  readonly data: ColumnMetaData
  readonly bytes: Buffer
}

/** Columns of a row group that were read. */
class LogColumns {
  readonly #group: GroupToRead
  readonly #chunks: ReadonlyMap<string, ReadChunk>

  constructor(group: GroupToRead, chunks: ReadonlyMap<string, ReadChunk>) {
    this.#group = group
    this.#chunks = chunks
  }

  /** All rows of a column; null: it has no values. */
  async unpacked(column: UsageColumnName): Promise<UnpackedColumn | null> {
    const chunk = this.#chunks.get(column)
    if (chunk === undefined) return null
    const unpacked = unpackColumn(chunk.bytes, chunk.data, this.#rows)
    return unpacked ?? asUnpacked(rowsOf(await readRows({ ...this.#group, columns: [column] }), column))
  }

  /** Values of some rows of a column, each later than the one before; none: it has no values. */
  async picked(column: UsageColumn, rows: readonly number[]) {
    const chunk = this.#chunks.get(column.name)
    if (chunk === undefined) return []
    const picked = pickFromColumn(chunk.bytes, chunk.data, this.#rows, rows)
    return picked ?? (await readPicked(this.#group, column, rows))
  }

  get #rows(): number {
    return Number(this.#group.metadata.row_groups[this.#group.place]!.num_rows)
  }
}

/** A file of records that is read in parts. */
export class LogFile {
  readonly #metadata: FileMetaData
  readonly #file: AsyncBuffer
  readonly groups: readonly LogGroup[]

  private constructor(metadata: FileMetaData, file: AsyncBuffer) {
    this.#metadata = metadata
    this.#file = file
    this.groups = metadata.row_groups.map(({ num_rows }, place) => {
      const { min_value: least, max_value: most } = this.#statistics(place, 'ended_at') ?? {}
      return {
        ...{ file: this, place, rows: Number(num_rows) },
        fromMs: wholeOf(least, 'ended_at') ?? Number.NEGATIVE_INFINITY,
        toMs: wholeOf(most, 'ended_at') ?? Number.POSITIVE_INFINITY,
      }
    })
  }

  /** Reads the metadata of a file, unless they are known; one that is small is read whole, once. */
  static async open(object: LogObject, { read, footers }: Pick<LogSource, 'read' | 'footers'>) {
    const { key, bytes } = object
    const tailFrom = Math.max(0, bytes - FOOTER_BYTES)
    const known = footers?.get(key)
    const tail = known?.tail ?? (await read(object, tailFrom, bytes))
    const file: AsyncBuffer = {
      byteLength: bytes,
      slice: (from, to = bytes) =>
        from >= tailFrom ? tail.slice(from - tailFrom, to - tailFrom) : read(object, from, to),
    }
    const metadata = known?.metadata ?? (await parquetMetadataAsync(file, { initialFetchSize: FOOTER_BYTES }))
    const opened = new LogFile(metadata, file)
    if (known === undefined) {
      footers?.put(key, { metadata, tail })
      footers?.putTimes(key, {
        fromMs: Math.min(...opened.groups.map(({ fromMs }) => fromMs)),
        toMs: Math.max(...opened.groups.map(({ toMs }) => toMs)),
      })
    }
    return opened
  }

  /** Whether its footer, or the bounds of a row group, say that no row passes. */
  mayHave(place: number, tests: readonly LogTest[]): boolean {
    const rows = Number(this.#metadata.row_groups[place]!.num_rows)
    return tests.every(
      (test) => !this.#lacksWorkspace(test) && !excludes(test, this.#statistics(place, test.column), rows),
    )
  }

  /** Whether the bounds and the Bloom filters of a row group leave open that one of some columns has an id. */
  async mayHaveId(place: number, columns: readonly LogIdColumn[], id: Buffer): Promise<boolean> {
    const may = await Promise.all(columns.map((column) => this.#mayHaveIn(place, column, id)))
    return may.includes(true)
  }

  async #mayHaveIn(place: number, column: LogIdColumn, id: Buffer): Promise<boolean> {
    const data = this.#chunk(place, column)
    if (data === undefined || !this.#hasValues(place, column)) return false
    const { statistics, bloom_filter_offset: offset, bloom_filter_length: length = 0 } = data
    if (!isWithin(id, statistics)) return false
    // In front of the blocks stands a head that is shorter than one; we know what ours say.
    const bytes = length - (length % BLOOM_BLOCK_BYTES)
    if (offset === undefined || bytes === 0 || this.#metadata.created_by !== CREATED_BY) return true
    const at = Number(offset) + (length - bytes) + bloomBlockAt(id, bytes)
    return mayBeIn(new DataView(await this.#file.slice(at, at + BLOOM_BLOCK_BYTES)), id)
  }

  /** Reads columns of a row group: those that stand near each other together, and none that has no values. */
  async read(place: number, columns: readonly UsageColumnName[]): Promise<LogColumns> {
    const chunks = columns.flatMap((name) => {
      const data = this.#chunk(place, name)
      return data === undefined || !this.#hasValues(place, name)
        ? []
        : [{ name, data, ...extentOfChunk(data) }]
    })
    chunks.sort((one, other) => one.from - other.from)
    const reads: (typeof chunks)[] = []
    for (const chunk of chunks) {
      const before = reads.at(-1)
      if (before !== undefined && chunk.from - before.at(-1)!.to <= GAP_BYTES) before.push(chunk)
      else reads.push([chunk])
    }
    const read = new Map<string, ReadChunk>()
    await Promise.all(
      reads.map(async (near) => {
        const { from } = near[0]!
        const bytes = await this.#file.slice(from, near.at(-1)!.to)
        for (const { name, data, ...chunk } of near)
          read.set(name, { data, bytes: Buffer.from(bytes, chunk.from - from, chunk.to - chunk.from) })
      }),
    )
    return new LogColumns({ file: this.#file, metadata: this.#metadata, place }, read)
  }

  /** Texts of some rows of a column. */
  async texts(place: number, column: LogIdColumn, rows: readonly number[]): Promise<(string | null)[]> {
    const columns = await this.read(place, [column])
    const order = sortedRows(rows)
    const wanted = order.map(({ row }) => row)
    const values = await columns.picked(USAGE_COLUMNS.find(({ name }) => name === column)!, wanted)
    return inOrder(
      order.map((_, at) => (values[at] ?? null) as string | null),
      order,
    )
  }

  /**
   * Some columns of the records of some rows. One column is decoded after the other, so that not all of a row group is
   * in memory.
   *
   * @param ids `record_id` of each, which whoever found them has read
   */
  async records(
    place: number,
    rows: readonly number[],
    ids: readonly string[],
    columns: readonly (typeof USAGE_COLUMNS)[number][],
  ): Promise<UsageRecord[]> {
    const others = columns.filter(({ name }) => name !== 'record_id')
    const read = await this.read(
      place,
      others.map(({ name }) => name),
    )
    const order = sortedRows(rows)
    const wanted = order.map(({ row }) => row)
    const records = order.map(({ at }): Record<string, unknown> => ({ record_id: ids[at] }))
    for (const column of others) {
      const values = await read.picked(column, wanted)
      for (const [at, record] of records.entries())
        record[column.name] = values[at] ?? (column.kind === 'flag' ? false : null)
    }
    return inOrder(records, order) as unknown as UsageRecord[]
  }

  /**
   * A column of ids, if the id may be in it; null: it is not. An id is looked for in all bytes of the column, which
   * stand one behind the other, before any text is made of them: that is ten times as fast.
   */
  async readIds(place: number, column: LogIdColumn, id: Buffer): Promise<UsageRows | null> {
    const columns = await this.read(place, [column])
    const unpacked = await columns.unpacked(column)
    if (unpacked === null) return null
    if (!('bytes' in unpacked)) throw new Error(`usage: ${column} has no texts`)
    if (!unpacked.bytes.includes(id)) return null
    const rows = new UsageRows()
    rows.setColumn(column, unpacked)
    rows.fill(unpacked.lengths.length, [column])
    return rows
  }

  #lacksWorkspace(test: LogTest): boolean {
    if (test.column !== 'workspace' || !('oneOf' in test)) return false
    const pair = this.#metadata.key_value_metadata?.find(({ key }) => key === FOOTER_PAIRS.workspaces)
    if (pair?.value === undefined) return false
    const workspaces = JSON.parse(pair.value) as string[]
    return !test.oneOf.some((workspace) => workspace !== null && workspaces.includes(workspace))
  }

  #statistics(place: number, column: string): Statistics | undefined {
    return this.#chunk(place, column)?.statistics
  }

  /** False also where the file is older than the column. */
  #hasValues(place: number, column: string): boolean {
    const chunk = this.#chunk(place, column)
    return chunk !== undefined && !isWithoutValues(chunk.statistics, Number(chunk.num_values))
  }

  #chunk(place: number, column: string): ColumnMetaData | undefined {
    const { columns } = this.#metadata.row_groups[place]!
    return columns.find(({ meta_data: data }) => data?.path_in_schema[0] === column)?.meta_data
  }
}

/** Rows, the least first, and where they were. */
function sortedRows(rows: readonly number[]): readonly { readonly row: number; readonly at: number }[] {
  return rows.map((row, at) => ({ row, at })).sort((one, other) => one.row - other.row)
}

/** What belongs to sorted rows, as they were. */
function inOrder<One>(sorted: readonly One[], order: ReturnType<typeof sortedRows>): One[] {
  const all: One[] = []
  for (const [place, one] of sorted.entries()) all[order[place]!.at] = one
  return all
}
