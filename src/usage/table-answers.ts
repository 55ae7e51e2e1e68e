import type { AggregateTable } from './aggregate.ts'
import { AggregateFormatError, type AggregateHead, decodeHead, decodeSection } from './aggregate-file.ts'
import { answerFrom, tableFor, type UsageAnswer, type UsageQuestion } from './answer.ts'
import { DAY_MS, dateMs } from './names.ts'

/**
 * Gives the sums of a file by its place in a list; null: there are none. Those that are `made` are made of the records.
 */
export type ReadSums = (place: number, made: boolean) => Promise<Uint8Array | null>

/** A file with the records of one day. */
export interface AnsweredFile {
  readonly key: string
  readonly date: string
}

/** Answers questions from the sums of some files. */
export interface UsageAnswers {
  /**
   * @param files the sums of a key never change
   * @throws TooManyGroups, and what reading throws
   */
  answer(question: UsageQuestion, files: readonly AnsweredFile[], read: ReadSums): Promise<UsageAnswer>
}

/** Sums of 10 million calls by 5,000 keys are about as much. */
const CACHE_BYTES = 64 * 1024 * 1024
/** Files that are read at a time: a store answers each in some milliseconds. */
const AT_A_TIME = 8

/** Answers here, and keeps the tables that were asked for last. */
export class TableAnswers implements UsageAnswers {
  readonly #kept: TableCache

  constructor(cacheBytes = CACHE_BYTES) {
    this.#kept = new TableCache(cacheBytes)
  }

  answer(question: UsageQuestion, files: readonly AnsweredFile[], read: ReadSums): Promise<UsageAnswer> {
    const tableOf = this.#tableOf.bind(this)
    return answerFrom(question, async function* () {
      const reading: Promise<AggregateTable>[] = []
      for (let at = 0; at < files.length || reading.length > 0; ) {
        for (; at < files.length && reading.length < AT_A_TIME; at += 1) {
          const place = at
          const { key, date } = files[place]!
          const table = tableOf(key, sectionFor(question, date), (made) => read(place, made))
          // It is awaited later, in its turn.
          table.catch(() => {})
          reading.push(table)
        }
        yield await reading.shift()!
      }
    })
  }

  async #tableOf(
    file: string,
    name: keyof AggregateHead,
    read: (made: boolean) => Promise<Uint8Array | null>,
  ): Promise<AggregateTable> {
    const key = `${name} ${file}`
    const known = this.#kept.get(key)
    if (known !== undefined) return known
    const table = await sectionOf(await read(false), name).catch(async (error) => {
      if (!(error instanceof AggregateFormatError)) throw error
      return sectionOf(await read(true), name)
    })
    this.#kept.put(key, table)
    return table
  }
}

/** Where a question is about a whole day, and not by hour, sums by day do. */
function sectionFor(question: UsageQuestion, date: string): keyof AggregateHead {
  const table = tableFor(question)
  if (table === 'endUsers' || question.step === 'hour') return table
  const ms = dateMs(date)
  return question.fromMs <= ms && ms + DAY_MS <= question.toMs ? 'days' : 'calls'
}

/** @throws AggregateFormatError, also where there are no sums */
async function sectionOf(sums: Uint8Array | null, wanted: keyof AggregateHead): Promise<AggregateTable> {
  if (sums === null) throw new AggregateFormatError('there are no sums')
  const head = decodeHead(sums)
  const name = wanted === 'days' && head.days.start === head.days.end ? 'calls' : wanted
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
