import { USAGE_COLUMNS, type UsageColumnName, type UsageRecord } from '../contracts/usage-record.ts'
import { systemClock } from '../time.ts'
import { LogFile, type LogGroup, type LogObject, type LogSource } from './log-file.ts'
import { applyTests, type LogId, type LogTest, markId } from './log-filter.ts'
import { DAY_MS, dateMs, dateOf, datesBetween } from './names.ts'

/** Where a list of records stands: behind this record; without an id, at that moment, whose records are to come. */
export interface LogPlace {
  readonly endedAtMs: number
  readonly recordId: string | null
}

/** What records are asked for. Plain data: it goes to another thread. */
export interface LogQuestion<Name extends UsageColumnName = UsageColumnName> {
  /** Records that ended from `fromMs` to `toMs`, exclusive. */
  readonly fromMs: number
  readonly toMs: number
  /** Whether the newest come first. */
  readonly isNewestFirst: boolean
  /** All have to pass. */
  readonly tests: readonly LogTest[]
  readonly id: LogId | null
  /** Null: from the beginning. */
  readonly after: LogPlace | null
  readonly limit: number
  /** What is asked of each record, besides its id; absent: all. Others are not read. */
  readonly columns?: readonly Name[]
}

/** A record, or what was asked of it. */
export type LogRecord<Name extends UsageColumnName = UsageColumnName> = Pick<UsageRecord, Name | 'record_id'>

/** How much may be done for one question. */
export interface LogBounds {
  /** Bytes of files; what is under way when they are used up is still read. */
  readonly bytes: number
  readonly milliseconds: number
}

/**
 * Some 10 million records by their ids, or 20 times as many by other columns. What is in memory at a time is a row
 * group of the columns that are asked for, some tens of MiB.
 */
export const LOG_BOUNDS: LogBounds = { bytes: 256 * 1024 * 1024, milliseconds: 8_000 }

export interface LogFound<Name extends UsageColumnName = UsageColumnName> {
  /** In their order, each once, unless a job that two nodes have ended is on two pages. */
  readonly records: readonly LogRecord<Name>[]
  /** Where to go on; null: there are no more. */
  readonly next: LogPlace | null
  /** All that ended from the one to the other was looked at, exclusive. */
  readonly searched: { readonly fromMs: number; readonly toMs: number }
  /** Bytes of files that were read. */
  readonly bytes: number
}

/** Footers that are read at a time. */
const AT_A_TIME = 16
/** How far clocks of nodes, and that of the store, may be apart. */
const SKEW_MS = 600_000
/** Days that are listed one by one, before it is asked which others have files. */
const FIRST_DAYS = 7
/** Days whose footers are read while one is looked at, once the first was not enough. */
const DAYS_AHEAD = 2

/**
 * Finds records, day by day and row group by row group: those whose bounds say that they have none are left out, of
 * others the columns of the filter are read, and those that are asked for only of those that have records of the
 * answer. A question that takes too much ends early, and says how far it came.
 */
export async function searchLog<Name extends UsageColumnName>(
  question: LogQuestion<Name>,
  source: LogSource,
  bounds: LogBounds = LOG_BOUNDS,
): Promise<LogFound<Name>> {
  // It has the columns of the question.
  return (await new LogSearch(question, source, bounds).run()) as LogFound<Name>
}

interface Candidate {
  readonly endedAtMs: number
  readonly recordId: string
  readonly group: LogGroup
  readonly row: number
}

class LogSearch {
  readonly #question: LogQuestion
  readonly #source: LogSource
  readonly #bounds: LogBounds
  readonly #untilMs: number
  /** 1: later times come later; -1: they come first. */
  readonly #sign: 1 | -1
  readonly #id: Buffer | null
  /** In order, each id once. */
  #found: Candidate[] = []
  /** Up to this moment, in the order of the answer, nothing that was left out can be missing. */
  #known: number
  #bytes = 0

  constructor(question: LogQuestion, source: LogSource, bounds: LogBounds) {
    this.#question = question
    this.#bounds = bounds
    this.#untilMs = systemClock.now() + bounds.milliseconds
    this.#sign = question.isNewestFirst ? -1 : 1
    this.#id = question.id === null ? null : Buffer.from(question.id.value)
    this.#known = this.#end
    this.#source = {
      dates: (from, to) => source.dates(from, to),
      files: (date) => source.files(date),
      ...(source.footers === undefined ? {} : { footers: source.footers }),
      read: (object, from, to) => {
        this.#bytes += to - from
        return source.read(object, from, to)
      },
    }
  }

  async run(): Promise<LogFound> {
    const stopped = await this.#walk()
    // All that is beyond the first moment of what was not looked at is unknown, that moment included.
    if (stopped !== null) this.#know(stopped - this.#sign)
    const { limit } = this.#question
    const isKnown = ({ endedAtMs }: Candidate) => this.#sign * (endedAtMs - this.#known) <= 0
    const found = this.#found.filter(isKnown)
    const shown = found.slice(0, limit)
    const next = found.length > limit ? placeOf(shown.at(-1)!) : this.#rest()
    const reached = next === null ? this.#end : next.recordId === null ? this.#known : next.endedAtMs
    return {
      records: await this.#records(shown),
      next,
      searched: this.#searched(reached),
      bytes: this.#bytes,
    }
  }

  /** The moment of the last record that can be asked for. */
  get #end(): number {
    const { fromMs, toMs, isNewestFirst } = this.#question
    return isNewestFirst ? fromMs : toMs - 1
  }

  /** Where to go on when what is known ends before the question does. */
  #rest(): LogPlace | null {
    if (this.#sign * (this.#known - this.#end) >= 0) return null
    return { endedAtMs: this.#known + this.#sign, recordId: null }
  }

  #searched(reachedMs: number): LogFound['searched'] {
    const { fromMs, toMs, isNewestFirst } = this.#question
    return isNewestFirst ? { fromMs: reachedMs, toMs } : { fromMs, toMs: reachedMs + 1 }
  }

  #know(ms: number): void {
    if (this.#sign * (ms - this.#known) < 0) this.#known = ms
  }

  /** Looks at what there is, in order. @returns the first moment of what was not looked at; null: all was */
  async #walk(): Promise<number | null> {
    const dates = this.#dates()
    const opened: OpenedDay[] = []
    for (let wanted = 1; ; wanted = 1 + DAYS_AHEAD) {
      while (opened.length < wanted) {
        const { value: date } = await dates.next()
        if (date === undefined) break
        const nearMs = this.#nearest(dateMs(date), dateMs(date) + DAY_MS - 1)
        const first = this.#firstOf(date)
        // It is awaited later, in its turn, or not at all.
        first.catch(() => {})
        opened.push({ nearMs, first })
      }
      const day = opened.shift()
      if (day === undefined) return null
      if (this.#hasEnough(day.nearMs)) return day.nearMs
      const stopped = await this.#lookAt(await day.first, day.nearMs)
      if (stopped !== null) return stopped
    }
  }

  /**
   * Opens the files of a day, those that come first in the order of the answer before the others, until all of it is
   * found: a day has a thousand of them before they are merged.
   *
   * @returns as `#walk`
   */
  async #lookAt({ files: first, objects }: OpenedFiles, nearMs: number): Promise<number | null> {
    const groups: LogGroup[] = []
    let files: OpenedFiles['files'] = first
    for (let at = files.length; ; at += files.length) {
      groups.push(...files.flat())
      groups.sort((a, b) => this.#sign * (this.#nearOf(a) - this.#nearOf(b)))
      const next = objects[at]
      // Of those that are not opened yet, the moment that comes first.
      const restMs = next === undefined ? null : this.#firstMomentOf(next, nearMs)
      for (let group = groups[0]; group !== undefined; group = groups[0]) {
        const groupMs = this.#nearOf(group)
        if (restMs !== null && this.#sign * (groupMs - restMs) >= 0) break
        if (this.#hasEnough(groupMs) || this.#isSpent(groupMs)) return groupMs
        groups.shift()
        await this.#look(group)
      }
      if (restMs === null) return null
      if (this.#hasEnough(restMs) || this.#isSpent(restMs)) return restMs
      files = await this.#open(objects.slice(at, at + AT_A_TIME))
    }
  }

  async #firstOf(date: string): Promise<OpenedFiles> {
    const { fromMs, toMs } = this.#range()
    const listed = await this.#source.files(date)
    const objects = listed.filter(
      (object) => this.#newestIn(object) >= fromMs && this.#oldestIn(object) < toMs,
    )
    objects.sort((a, b) =>
      this.#sign < 0 ? this.#newestIn(b) - this.#newestIn(a) : this.#oldestIn(a) - this.#oldestIn(b),
    )
    return { objects, files: await this.#open(objects.slice(0, AT_A_TIME)) }
  }

  /** Opens files. @returns of each the row groups that may have records of the answer */
  #open(objects: readonly LogObject[]): Promise<LogGroup[][]> {
    return Promise.all(
      objects.map(async (object) => {
        const { groups } = await LogFile.open(object, this.#source)
        return this.#withId(groups.filter((group) => this.#isMeant(group)))
      }),
    )
  }

  async #withId(groups: readonly LogGroup[]): Promise<LogGroup[]> {
    const may = await Promise.all(groups.map((group) => this.#mayHaveId(group)))
    return groups.filter((_, at) => may[at])
  }

  #mayHaveId({ file, place }: LogGroup, columns = this.#question.id?.columns ?? []): Promise<boolean> | true {
    return this.#id === null || file.mayHaveId(place, columns, this.#id)
  }

  /** The moment of a day, in the order of the answer, before which no record of a file can be. */
  #firstMomentOf(object: LogObject, nearMs: number): number {
    return this.#sign < 0
      ? Math.min(nearMs, this.#newestIn(object))
      : Math.max(nearMs, this.#oldestIn(object))
  }

  /** The first moment that a record of a file has; any, where it was not looked at. */
  #oldestIn({ key }: LogObject): number {
    return this.#source.footers?.timesOf(key)?.fromMs ?? Number.NEGATIVE_INFINITY
  }

  /** The latest moment that a record of a file has, or can have: they had ended when it was put. */
  #newestIn({ key, putMs = Number.POSITIVE_INFINITY }: LogObject): number {
    return this.#source.footers?.timesOf(key)?.toMs ?? putMs + SKEW_MS
  }

  /** The days to look at, in order. */
  async *#dates(): AsyncGenerator<string, undefined> {
    const { fromMs, toMs } = this.#range()
    if (fromMs >= toMs) return undefined
    const isNewest = this.#sign < 0
    const edgeMs =
      dateMs(dateOf(isNewest ? toMs - 1 : fromMs)) + (isNewest ? 1 - FIRST_DAYS : FIRST_DAYS) * DAY_MS
    const [nearFrom, nearTo] = isNewest ? [Math.max(fromMs, edgeMs), toMs] : [fromMs, Math.min(toMs, edgeMs)]
    const [farFrom, farTo] = isNewest ? [fromMs, Math.max(fromMs, edgeMs)] : [Math.min(toMs, edgeMs), toMs]
    const inOrder = (dates: readonly string[]) => [...dates].sort((a, b) => (a < b ? -1 : 1) * this.#sign)
    yield* inOrder(datesBetween(nearFrom, nearTo))
    if (farFrom < farTo) yield* inOrder(await this.#source.dates(farFrom, farTo))
    return undefined
  }

  /** The times of records that can still come. */
  #range(): { readonly fromMs: number; readonly toMs: number } {
    const { fromMs, toMs, after, isNewestFirst } = this.#question
    if (after === null) return { fromMs, toMs }
    if (isNewestFirst) return { fromMs, toMs: Math.min(toMs, after.endedAtMs + 1) }
    return { fromMs: Math.max(fromMs, after.endedAtMs), toMs }
  }

  #nearest(firstMs: number, lastMs: number): number {
    const { fromMs, toMs } = this.#range()
    return this.#sign > 0 ? Math.max(firstMs, fromMs) : Math.min(lastMs, toMs - 1)
  }

  #nearOf({ fromMs, toMs }: LogGroup): number {
    return this.#nearest(fromMs, toMs)
  }

  #isMeant({ file, place, fromMs, toMs }: LogGroup): boolean {
    const range = this.#range()
    return toMs >= range.fromMs && fromMs < range.toMs && file.mayHave(place, this.#question.tests)
  }

  /** Whether everything that comes from a moment on is behind the records of the answer, and behind the one after. */
  #hasEnough(ms: number): boolean {
    const last = this.#found[this.#question.limit]
    return last !== undefined && this.#sign * (ms - last.endedAtMs) > 0
  }

  /**
   * Whether it is to end before a moment. However little may be done for a question, it goes on beyond the moment at
   * which it began: else nobody would come to its end.
   */
  #isSpent(ms: number): boolean {
    if (this.#sign * (ms - this.#nearest(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY)) <= 0)
      return false
    return this.#bytes >= this.#bounds.bytes || systemClock.now() >= this.#untilMs
  }

  /** Adds the records of a row group that may be in the answer. */
  async #look(group: LogGroup): Promise<void> {
    const { file, place, rows: count } = group
    const { tests, limit } = this.#question
    const marks = new Uint8Array(count)
    if (!(await this.#markIds(group, marks))) return
    const columns = await file.read(place, ['ended_at', ...tests.map(({ column }) => column)])
    await applyTests(tests, (column) => columns.unpacked(column), marks)
    if (!marks.includes(1)) return
    const ended = await columns.unpacked('ended_at')
    if (ended === null || !('values' in ended)) throw new Error('usage: a file has no times')
    const endedAt = ended.values
    const { fromMs, toMs } = this.#range()
    const matches: number[] = []
    for (let row = 0; row < count; row++)
      if (marks[row] === 1 && endedAt[row]! >= fromMs && endedAt[row]! < toMs) matches.push(row)
    if (matches.length === 0) return
    const kept = this.#nearestRows(matches, endedAt, limit + 1)
    const ids = await file.texts(place, 'record_id', kept)
    this.#add(kept.map((row, at) => ({ endedAtMs: endedAt[row]!, recordId: ids[at] ?? '', group, row })))
  }

  /** Marks the rows that have the id, or all where none is asked for. @returns whether any is marked */
  async #markIds(group: LogGroup, marks: Uint8Array): Promise<boolean> {
    const { file, place } = group
    const { id } = this.#question
    if (id === null || this.#id === null) {
      marks.fill(1)
      return true
    }
    for (const column of id.columns) {
      if (!(await this.#mayHaveId(group, [column]))) continue
      const rows = await file.readIds(place, column, this.#id)
      if (rows !== null) markId(id.value, column, rows, marks)
    }
    return marks.includes(1)
  }

  /** The first rows in the order of the answer, and those of the same moment as the last of them. */
  #nearestRows(wanted: number[], endedAt: Float64Array, least: number): number[] {
    // Of the moment at which the list goes on some may have been told of already.
    const { after } = this.#question
    const count = least + wanted.filter((row) => endedAt[row] === after?.endedAtMs).length
    if (wanted.length <= count) return wanted
    wanted.sort((a, b) => this.#sign * (endedAt[a]! - endedAt[b]!))
    const edge = endedAt[wanted[count - 1]!]!
    const end = wanted.findIndex((row, at) => at >= count && endedAt[row] !== edge)
    if (end < 0) return wanted
    this.#know(edge)
    return wanted.slice(0, end)
  }

  #add(candidates: readonly Candidate[]): void {
    const { after, limit } = this.#question
    const compare = (a: Omit<Candidate, 'group' | 'row'>, b: Omit<Candidate, 'group' | 'row'>) =>
      this.#sign *
      (a.endedAtMs - b.endedAtMs || (a.recordId < b.recordId ? -1 : a.recordId > b.recordId ? 1 : 0))
    const from = after?.recordId == null ? null : { endedAtMs: after.endedAtMs, recordId: after.recordId }
    const behind = from === null ? candidates : candidates.filter((one) => compare(one, from) > 0)
    const seen = new Set<string>()
    const distinct = [...this.#found, ...behind].sort(compare).filter(({ recordId }) => {
      const isNew = !seen.has(recordId)
      seen.add(recordId)
      return isNew
    })
    this.#found = distinct.slice(0, limit + 1)
  }

  /** What is asked of the records that are shown. */
  async #records(shown: readonly Candidate[]): Promise<LogRecord[]> {
    const { columns: names } = this.#question
    const columns = USAGE_COLUMNS.filter(({ name }) => names === undefined || names.includes(name))
    const records = new Map<Candidate, LogRecord>()
    for (const [group, own] of Map.groupBy(shown, ({ group }) => group)) {
      const rows = own.map(({ row }) => row)
      const ids = own.map(({ recordId }) => recordId)
      for (const [at, record] of (await group.file.records(group.place, rows, ids, columns)).entries())
        records.set(own[at]!, record)
    }
    return shown.map((one) => records.get(one)!)
  }
}

/** A day whose files are being opened. */
interface OpenedDay {
  /** Of its moments the one that comes first. */
  readonly nearMs: number
  readonly first: Promise<OpenedFiles>
}

interface OpenedFiles {
  /** In the order in which they are opened. */
  readonly objects: readonly LogObject[]
  /** Of the first of them, the row groups that may have records of the answer. */
  readonly files: readonly (readonly LogGroup[])[]
}

function placeOf({ endedAtMs, recordId }: Candidate): LogPlace {
  return { endedAtMs, recordId }
}
