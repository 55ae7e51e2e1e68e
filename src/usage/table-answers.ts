import type { AggregateTable, UsageDimension } from './aggregate.ts'
import {
  AggregateFormatError,
  type AggregateHead,
  decodeHead,
  decodeSection,
  hasSection,
  SECTION_DIMENSIONS,
  type SectionName,
} from './aggregate-file.ts'
import { answerFrom, Grouping, tableFor, type UsageAnswer, type UsageQuestion } from './answer.ts'
import { DAY_MS, dateMs, HOUR_MS } from './names.ts'
import { ofWorkspace, summedBy } from './table-parts.ts'
import { TextDictionary } from './texts.ts'

/** Some bytes of the sums of a file (`to` is exclusive, and may be behind their end), or sums made of its records. */
export type SumsPart = { readonly from: number; readonly to: number } | 'made'

/** Gives a part of the sums of a file by its place in a list; null: there are none. */
export type ReadSums = (place: number, part: SumsPart) => Promise<Uint8Array | null>

/** A file with the records of one day. */
export interface AnsweredFile {
  readonly key: string
  readonly date: string
  /** The file that has its sums, where a thread can read them by itself; null or absent: they have to be asked for. */
  readonly sums?: string | null
}

/** Answers questions from the sums of some files. */
export interface UsageAnswers {
  /**
   * @param files those with the records of all questions; the sums of a key never change
   * @throws TooManyGroups, and what reading throws
   */
  answerAll(
    questions: readonly UsageQuestion[],
    files: readonly AnsweredFile[],
    read: ReadSums,
  ): Promise<readonly UsageAnswer[]>
}

/**
 * Two fifths of it are for tables of calls, which is what a month of 10 million calls by 5,000 keys takes by day; as
 * much for those of 20,000 end users, which would push the others out; and the rest for what was made of both.
 */
const CACHE_BYTES = 160 * 1024 * 1024
/** Texts that are kept once for all tables. */
const TEXTS_MAX = 200_000
/** Parts of which it is remembered that they are useless: those of some questions about a year. */
const USELESS_MAX = 10_000
/** Ways to sum up that are remembered; pages have some twenty. */
const SUMS_MAX = 200
/** Files that are opened ahead: a store answers each in some milliseconds, and what is small is read by that. */
const OPENED_AHEAD = 32
/** Tables that are read ahead: some of hours have 7 MB. */
const READ_AHEAD = 8
/** Bytes of sums that are read first: the small sections are in them, and of others the head says where they are. */
const FIRST_BYTES = 96 * 1024
/** Files of which it is remembered where their sections are: some hundred bytes for each. */
const HEADS_MAX = 10_000

/** Answers here, and keeps the tables that were asked for last. */
export class TableAnswers implements UsageAnswers {
  readonly #calls: TableCache
  readonly #endUsers: TableCache
  /** Tables summed up by few dimensions, and those of one workspace. */
  readonly #parts: TableCache
  /** Those that were asked for, by their names. */
  readonly #sums = new Map<string, TablePart>()
  /** Parts that are not far smaller than the table of which they would be. */
  readonly #useless = new Set<string>()
  /** Of the questions under way, by what they group: a page asks for a table and for its chart at once. */
  readonly #groupings = new Map<string, { readonly grouping: Grouping; questions: number }>()
  #texts = new TextDictionary()
  readonly #heads = new HeadCache()

  constructor(cacheBytes = CACHE_BYTES) {
    this.#calls = new TableCache(cacheBytes * 0.4)
    this.#endUsers = new TableCache(cacheBytes * 0.4)
    this.#parts = new TableCache(cacheBytes * 0.2)
  }

  answerAll(
    questions: readonly UsageQuestion[],
    files: readonly AnsweredFile[],
    read: ReadSums,
  ): Promise<readonly UsageAnswer[]> {
    return Promise.all(questions.map((question) => this.answer(question, files, read)))
  }

  /** As `answerAll`, of one. */
  async answer(
    question: UsageQuestion,
    files: readonly AnsweredFile[],
    read: ReadSums,
  ): Promise<UsageAnswer> {
    const tables = () => this.#tables(question, files, read)
    const { fromMs, toMs, by, where } = question
    const name = JSON.stringify([fromMs, toMs, by, where, files.map(({ key }) => key)])
    const shared = this.#groupings.get(name) ?? { grouping: new Grouping(question), questions: 0 }
    this.#groupings.set(name, shared)
    shared.questions += 1
    try {
      return await answerFrom(question, tables, shared.grouping)
    } finally {
      shared.questions -= 1
      if (shared.questions === 0) this.#groupings.delete(name)
    }
  }

  /** Those of all files, in their order. */
  async *#tables(
    question: UsageQuestion,
    files: readonly AnsweredFile[],
    read: ReadSums,
  ): AsyncGenerator<AggregateTable> {
    const readFrom =
      (place: number): ReadPart =>
      (part) =>
        read(place, part)
    const opened = ahead(files, OPENED_AHEAD, (file, place) => this.#open(file, readFrom(place)))
    const tables = ahead(files, READ_AHEAD, async (file, place) =>
      this.#tableOf(question, file, await opened(place), readFrom(place)),
    )
    for (const place of files.keys()) yield await tables(place)
  }

  #open({ key }: AnsweredFile, read: ReadPart): Promise<OpenedSums> {
    return this.#once(this.#heads, key, async () => {
      const made = await openSums(read)
      return { value: made, kept: { ...made, bytes: null } }
    })
  }

  /** A table of a file that has the rows of the answer, and as few others as can be. */
  async #tableOf(
    question: UsageQuestion,
    file: AnsweredFile,
    opened: OpenedSums,
    read: ReadPart,
  ): Promise<AggregateTable> {
    if (this.#useless.size > USELESS_MAX) this.#useless.clear()
    const section = sectionFor(question, file.date, opened.head)
    const cache = section === 'endUsers' ? this.#endUsers : this.#calls
    const name = JSON.stringify([section, file.key])
    const whole = () =>
      this.#once(cache, name, async () => {
        const table = this.#withKnownTexts(await readSection(section, opened, read))
        return { value: table, kept: table }
      })
    for (const least of partsFor(question, section)) {
      const part = this.#partAtHand(least, [section, file.key])
      const partKey = JSON.stringify([section, file.key, part.name])
      if (this.#useless.has(partKey)) continue
      const table = await this.#once(this.#parts, partKey, async () => {
        const all = await whole()
        const some = part.of(all)
        if (some === null) this.#useless.add(partKey)
        return { value: some ?? all, kept: some }
      })
      if (!this.#useless.has(partKey)) return table
    }
    return whole()
  }

  /** A part, or one with more dimensions that is kept or being made: it has the same answers. */
  #partAtHand(part: TablePart, table: readonly string[]): TablePart {
    const { name, dimensions } = part
    if (dimensions === null) return part
    if (this.#sums.size > SUMS_MAX) this.#sums.clear()
    this.#sums.set(name, part)
    const keyOf = (other: TablePart) => JSON.stringify([...table, other.name])
    const isThere = (key: string) => this.#parts.has(key) || this.#parts.reading.has(key)
    const larger = [...this.#sums.values()].find(
      (other) =>
        dimensions.every((dimension) => other.dimensions?.includes(dimension)) && isThere(keyOf(other)),
    )
    return larger ?? part
  }

  /**
   * The same with the texts that other tables have, so that a question looks them up by their numbers in all but the
   * first: the end users and keys of one day are mostly those of the next.
   */
  #withKnownTexts(table: AggregateTable): AggregateTable {
    // Tables that are kept keep theirs.
    if (this.#texts.size > TEXTS_MAX) this.#texts = new TextDictionary()
    const dimensions = Object.entries(table.dimensions).map(([name, { values, indices }]) => [
      name,
      { values: this.#texts.numbered(values), indices },
    ])
    return { ...table, dimensions: Object.fromEntries(dimensions) }
  }

  /** What is kept, or what is being made for another question, or what is made now. */
  async #once<Value>(cache: Cache<Value>, key: string, make: () => Promise<Made<Value>>): Promise<Value> {
    const known = cache.get(key)
    if (known !== undefined) return known
    const reading = cache.reading.get(key)
    if (reading !== undefined) {
      // What another question reads is over when that question is.
      const other = await reading.catch(() => null)
      return other === null ? this.#once(cache, key, make) : other.value
    }
    const making = make()
    cache.reading.set(key, making)
    try {
      const { value, kept } = await making
      if (kept !== null) cache.put(key, kept)
      return value
    } finally {
      if (cache.reading.get(key) === making) cache.reading.delete(key)
    }
  }
}

/**
 * Begins work on so many items before their turn, half of them together: what they ask for goes in one message.
 *
 * @returns gives the result of an item by its place; they are to be taken in their order
 */
function ahead<Item, Result>(
  items: readonly Item[],
  most: number,
  begin: (item: Item, place: number) => Promise<Result>,
): (place: number) => Promise<Result> {
  const begun: Promise<Result>[] = []
  let next = 0
  return (place) => {
    if (next - place <= most / 2)
      for (; next < items.length && next < place + most; next += 1) {
        const result = begin(items[next]!, next)
        // It is awaited later, in its turn.
        result.catch(() => {})
        begun.push(result)
      }
    return begun.shift()!
  }
}

/** What was made, and what of it is worth a place in the cache; null: nothing. */
interface Made<Value> {
  readonly value: Value
  readonly kept: Value | null
}

interface Cache<Value> {
  /** What is being made, by its key. */
  readonly reading: Map<string, Promise<Made<Value>>>
  get(key: string): Value | undefined
  put(key: string, value: Value): void
}

type ReadPart = (part: SumsPart) => Promise<Uint8Array | null>

interface TablePart {
  readonly name: string
  /** What it is summed up by; null: it is no sum. */
  readonly dimensions: readonly UsageDimension[] | null
  /** Null: all of it. */
  readonly of: (table: AggregateTable) => AggregateTable | null
}

/**
 * Dimensions of which one says nearly all of the others: by all of them a table has hardly more rows than by one, and
 * answers what a page asks by each of them.
 */
const ALIKE: readonly (readonly UsageDimension[])[] = [
  ['kind', 'outcome', 'status', 'error_code'],
  ['provider', 'model'],
]

/** What of a table is enough for a question, which may be none smaller than all of it. */
function partsFor({ by, where }: UsageQuestion, section: SectionName): TablePart[] {
  if (section !== 'endUsers') {
    const named = new Set([...by, ...(Object.keys(where) as UsageDimension[])])
    const alike = ALIKE.filter((names) => names.some((name) => named.has(name))).flat()
    const wide = new Set([...named, ...alike])
    return wide.size === named.size ? [sumPart(named)] : [sumPart(wide), sumPart(named)]
  }
  const [workspace, ...others] = where.workspace ?? []
  if (typeof workspace !== 'string' || others.length > 0) return []
  return [{ name: `=${workspace}`, dimensions: null, of: (table) => ofWorkspace(table, workspace) }]
}

function sumPart(named: ReadonlySet<UsageDimension>): TablePart {
  const dimensions = [...named].sort()
  return { name: dimensions.join(), dimensions, of: (table) => summedBy(table, dimensions) }
}

/** Sections of calls, those of the fewest rows first. */
const BY_ROWS = ['daysByOutcome', 'daysByModel', 'outcomes', 'daysByRoute', 'daysByKey', 'days'] as const
const BY_HOUR: ReadonlySet<SectionName> = new Set(['outcomes'])

/** The smallest section of a file that has what a question names. */
function sectionFor(question: UsageQuestion, date: string, head: AggregateHead): SectionName {
  if (tableFor(question) === 'endUsers') return 'endUsers'
  const { by, where, step, fromMs, toMs } = question
  const named = [...by, ...(Object.keys(where) as UsageDimension[])]
  const dayMs = dateMs(date)
  const endMs = head.endHour === null ? dayMs + DAY_MS : head.endHour * HOUR_MS
  // Sums by day do where the question is about all that is in the file, and not by hour.
  const isOfDays = step !== 'hour' && fromMs <= dayMs && endMs <= toMs
  const found = BY_ROWS.find(
    (name) =>
      hasSection(head, name) &&
      (isOfDays || BY_HOUR.has(name)) &&
      named.every((dimension) => SECTION_DIMENSIONS[name].includes(dimension)),
  )
  return found ?? 'calls'
}

/** The sums of a file, of which it is known where they are. */
interface OpenedSums {
  readonly head: AggregateHead
  /** Whether they are made of its records, since there are none that can be read. */
  readonly isMade: boolean
  /** Those that were read already, from the first on. */
  readonly bytes: Uint8Array | null
}

async function openSums(read: ReadPart): Promise<OpenedSums> {
  try {
    const bytes = await read({ from: 0, to: FIRST_BYTES })
    if (bytes === null) throw new AggregateFormatError('there are no sums')
    return { head: decodeHead(bytes), isMade: false, bytes }
  } catch (error) {
    if (!(error instanceof AggregateFormatError)) throw error
    const bytes = await readMade(read)
    return { head: decodeHead(bytes), isMade: true, bytes }
  }
}

async function readMade(read: ReadPart): Promise<Uint8Array> {
  const made = await read('made')
  if (made === null) throw new AggregateFormatError('there are no sums')
  return made
}

async function readSection(name: SectionName, opened: OpenedSums, read: ReadPart): Promise<AggregateTable> {
  const { head, isMade, bytes } = opened
  if (isMade) return sectionOfMade(name, bytes ?? (await readMade(read)))
  try {
    const { start, end } = head.sections[name]
    const isThere = bytes !== null && end <= bytes.length
    const section = isThere ? bytes.subarray(start, end) : await read({ from: start, to: end })
    if (section !== null) return (await decodeSection(section, head, name)).table
  } catch (error) {
    if (!(error instanceof AggregateFormatError)) throw error
  }
  return sectionOfMade(name, await readMade(read))
}

/** Of what was made of the records; all calls where it has no such section, which answer the same. */
async function sectionOfMade(name: SectionName, made: Uint8Array): Promise<AggregateTable> {
  const head = decodeHead(made)
  const found = hasSection(head, name) || name === 'endUsers' ? name : 'calls'
  const { start, end } = head.sections[found]
  return (await decodeSection(made.subarray(start, end), head, found)).table
}

/** Where the sections of files are. */
class HeadCache implements Cache<OpenedSums> {
  readonly reading = new Map<string, Promise<Made<OpenedSums>>>()
  readonly #heads = new Map<string, OpenedSums>()

  get(key: string): OpenedSums | undefined {
    return this.#heads.get(key)
  }

  put(key: string, opened: OpenedSums): void {
    if (this.#heads.size >= HEADS_MAX) this.#heads.clear()
    this.#heads.set(key, opened)
  }
}

/** Tables by key, up to some bytes; the one that was used longest ago goes first. */
class TableCache implements Cache<AggregateTable> {
  readonly reading = new Map<string, Promise<Made<AggregateTable>>>()
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

  has(key: string): boolean {
    return this.#tables.has(key)
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

/** Bytes of a table in memory: what its columns stand in, and a number for each text, which is kept once for all. */
function bytesOf({ hours, dimensions, measures, latencies }: AggregateTable): number {
  const columns = [
    hours,
    ...Object.values(dimensions).map(({ indices }) => indices),
    ...Object.values(measures),
    ...Object.values(latencies).flatMap(({ ends, buckets, counts }) => [ends, buckets, counts]),
  ]
  const buffers = new Set(columns.map(({ buffer }) => buffer))
  const columnBytes = Array.from(buffers).reduce((sum, { byteLength }) => sum + byteLength, 0)
  return Object.values(dimensions).reduce((sum, { values }) => sum + 4 * values.length, columnBytes)
}
