import { GatewayError } from '../errors.ts'
import type { AggregateTable } from './aggregate.ts'
import { AggregateFormatError, type AggregateHead, decodeHead, decodeSection } from './aggregate-file.ts'
import { answerFrom, tableFor, type UsageAnswer, type UsageQuestion } from './answer.ts'

/** An object of the store. */
interface StoredFile {
  readonly key: string
  readonly bytes: number
}

/** Files of usage, each with its sums beside it; `UsageLake` is what has them. */
export interface UsageFiles<File extends StoredFile = StoredFile> {
  /** Those that have the records of whole days from `fromMs` to `toMs`, exclusive, each record in one of them. */
  files(fromMs: number, toMs: number): Promise<readonly File[]>
  /** For each file the object that has its sums; null where there is none. */
  aggregates(files: readonly File[]): Promise<readonly (StoredFile | null)[]>
  read(file: StoredFile): Promise<Uint8Array<ArrayBuffer>>
}

export interface UsageReaderOptions<File extends StoredFile> {
  readonly lake: UsageFiles<File>
  /** Makes the sums of a file that has none, or none that can be read. */
  readonly sumUp: (file: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>
  /** Bytes of sums to keep in memory. */
  readonly cacheBytes?: number
}

/** Answers questions of usage. */
export interface UsageReader {
  /**
   * The answer out of all records whose files are in the store.
   *
   * @throws TooManyGroups, GatewayError DEPENDENCY_UNAVAILABLE when the store fails
   */
  ask(question: UsageQuestion): Promise<UsageAnswer>
}

/** Sums of 10 million calls by 5,000 keys are about as much. */
const CACHE_BYTES = 64 * 1024 * 1024
/** Files that are read at a time: a store answers each in some milliseconds. */
const AT_A_TIME = 8
/** Times that a file may be gone which was listed: a merge took its place meanwhile. */
const TRIES = 3

/** Reads aggregates, which never change, and keeps those that were asked for last. */
export function createUsageReader<File extends StoredFile>({
  lake,
  sumUp,
  cacheBytes = CACHE_BYTES,
}: UsageReaderOptions<File>): UsageReader {
  const kept = new TableCache(cacheBytes)

  async function tableOf(
    file: File,
    sums: StoredFile | null,
    name: keyof AggregateHead,
  ): Promise<AggregateTable> {
    const key = `${name} ${file.key}`
    const known = kept.get(key)
    if (known !== undefined) return known
    const table = await sectionOf(sums === null ? null : await lake.read(sums), name).catch(async (error) => {
      if (!(error instanceof AggregateFormatError)) throw error
      return sectionOf(await sumUp(await lake.read(file)), name)
    })
    kept.put(key, table)
    return table
  }

  async function answer(question: UsageQuestion): Promise<UsageAnswer> {
    const name = tableFor(question)
    const files = await lake.files(question.fromMs, question.toMs)
    const sums = await lake.aggregates(files)
    return answerFrom(question, async function* () {
      const reading: Promise<AggregateTable>[] = []
      for (let at = 0; at < files.length || reading.length > 0; ) {
        for (; at < files.length && reading.length < AT_A_TIME; at += 1) {
          const table = tableOf(files[at]!, sums[at] ?? null, name)
          // It is awaited later, in its turn.
          table.catch(() => {})
          reading.push(table)
        }
        yield await reading.shift()!
      }
    })
  }

  return {
    async ask(question) {
      for (let left = TRIES - 1; ; left -= 1) {
        try {
          return await answer(question)
        } catch (error) {
          if (left === 0 || !isGone(error)) throw error
        }
      }
    },
  }
}

/** Whether the store says that there is no such object. */
export function isGone(error: unknown): boolean {
  const cause = error instanceof GatewayError ? error.cause : null
  return (
    cause instanceof Error && (cause.name === 'NoSuchKey' || ('code' in cause && cause.code === 'ENOENT'))
  )
}

/** @throws AggregateFormatError, also where there are no sums */
async function sectionOf(sums: Uint8Array | null, name: keyof AggregateHead): Promise<AggregateTable> {
  if (sums === null) throw new AggregateFormatError('there are no sums')
  const head = decodeHead(sums)
  return (await decodeSection(sums.subarray(head[name].start, head[name].end), head, name)).table
}

/** Tables by key, up to some bytes; the one that was used longest ago goes first. */
class TableCache {
  readonly #bytesMax: number
  readonly #tables = new Map<string, { readonly table: AggregateTable; readonly bytes: number }>()
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get(key: string): AggregateTable | undefined {
    const found = this.#tables.get(key)
    if (found === undefined) return undefined
    this.#tables.delete(key)
    this.#tables.set(key, found)
    return found.table
  }

  put(key: string, table: AggregateTable): void {
    const bytes = bytesOf(table)
    if (bytes > this.#bytesMax || this.#tables.has(key)) return
    this.#tables.set(key, { table, bytes })
    this.#bytes += bytes
    for (const [oldest, { bytes: freed }] of this.#tables) {
      if (this.#bytes <= this.#bytesMax) break
      this.#tables.delete(oldest)
      this.#bytes -= freed
    }
  }
}

/** Bytes of a table in memory: its columns, and texts at what V8 takes for them. */
function bytesOf({ hours, dimensions, measures, latencies }: AggregateTable): number {
  const texts = Object.values(dimensions).flatMap(({ values }) => values)
  const columns = [
    hours,
    ...Object.values(dimensions).map(({ indices }) => indices),
    ...Object.values(measures),
    ...Object.values(latencies).flatMap(({ ends, buckets, counts }) => [ends, buckets, counts]),
  ]
  const columnBytes = columns.reduce((sum, { byteLength }) => sum + byteLength, 0)
  return texts.reduce((sum, text) => sum + 32 + text.length, columnBytes)
}
