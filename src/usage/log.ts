import type { CancelSignal } from '../contracts/cancellation.ts'
import { systemClock } from '../contracts/time.ts'
import type { UsageColumn, UsageColumnName, UsageRecord } from '../contracts/usage-record.ts'
import { USAGE_COLUMNS } from '../contracts/usage-record.ts'
import type { EngineForm, EngineRows, EngineStatement, UsageEngine } from './engine.ts'
import type { UsageLake } from './lake.ts'
import type { LogFormat } from './log-report.ts'
import { DAY_MS, dateMs, dateOf } from './names.ts'
import { whileGone } from './reader.ts'
import { Bindings, inMemory, isOneOf, moment, recordsIn, whole } from './record-sql.ts'

type ColumnOf<Kind extends UsageColumn['kind']> = Extract<
  (typeof USAGE_COLUMNS)[number],
  { readonly kind: Kind }
>['name']
export type LogWordColumn = ColumnOf<'word'>
export type LogNumberColumn = ColumnOf<'count' | 'milliseconds' | 'money'>
export type LogIdColumn = ColumnOf<'id'>

/** A condition on one column of a record. */
export type LogTest =
  /** One of these values; null: none. */
  | { readonly column: LogWordColumn | 'end_user'; readonly oneOf: readonly (string | null)[] }
  /** A value that does not begin so, or none. */
  | { readonly column: LogWordColumn; readonly notFrom: string }
  /** A number from `from` to `to`, exclusive, as it is in memory: money in micro-USD. */
  | { readonly column: LogNumberColumn; readonly from: number; readonly to: number }

/** An id, and the columns of which one has to have it. */
export interface LogId {
  readonly value: string
  readonly columns: readonly LogIdColumn[]
}

/** Where a list of records continues: after this record; without an id, at that moment, whose records are to come. */
export interface LogPlace {
  readonly endedAtMs: number
  readonly recordId: string | null
}

/** A question for records. */
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
  /** The columns that are asked for, besides the id of each record; absent: all. Others are not read. */
  readonly columns?: readonly Name[]
}

/** A record, or the columns of it that were asked for. */
export type LogRecord<Name extends UsageColumnName = UsageColumnName> = Pick<UsageRecord, Name | 'record_id'>

interface Found {
  /** Where to continue; null: there are no more. */
  readonly next: LogPlace | null
  /** All that ended from the one to the other was looked at, exclusive. */
  readonly searched: { readonly fromMs: number; readonly toMs: number }
}

export interface LogFound<Name extends UsageColumnName = UsageColumnName> extends Found {
  /** In their order, each once, except that a job that two nodes have ended may be on two pages. */
  readonly records: readonly LogRecord<Name>[]
}

/** A part of a file of records. */
export interface LogText extends Found {
  readonly rows: number
  readonly text: string
}

/** Finds records of usage. */
export interface UsageLog {
  /**
   * @param signal ends the search when no one waits for it
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails, OVERLOADED when too many wait; what aborted it
   */
  search<Name extends UsageColumnName>(
    question: LogQuestion<Name>,
    signal: CancelSignal,
  ): Promise<LogFound<Name>>
  /** As `search`, as a part of a file; with all columns. */
  write(question: LogQuestion, format: LogFormat, signal: CancelSignal): Promise<LogText>
}

export interface UsageLogOptions {
  readonly lake: Pick<UsageLake, 'files' | 'hold'>
  readonly engine: Pick<UsageEngine, 'run'>
  /** A question that takes longer ends after the days that it looks at, and says how far it came. */
  readonly limitMs?: number
}

const LIMIT_MS = 8_000
/** Days that are looked at together, at most; the first is looked at alone, then twice as many each time. */
const DAYS_MAX = 64

export function createUsageLog({ lake, engine, limitMs = LIMIT_MS }: UsageLogOptions): UsageLog {
  const run = (question: LogQuestion, as: EngineForm, signal: CancelSignal) =>
    whileGone(() => new LogSearch(question, { lake, engine, as, signal }).run(limitMs))
  return {
    async search<Name extends UsageColumnName>(question: LogQuestion<Name>, signal: CancelSignal) {
      const { parts, ...found } = await run(question, 'values', signal)
      const records = new Map(parts.flatMap(recordsOf).map((record) => [record.record_id, record]))
      return { ...found, records: [...records.values()] as unknown as LogRecord<Name>[] }
    },
    async write(question, format, signal) {
      const { parts, ...found } = await run(question, format, signal)
      const texts = parts.flatMap(({ columns }) => columns[0] as string[])
      const rows = parts.flatMap(({ columns }) => columns[1] as number[])
      return {
        ...found,
        rows: rows.reduce((sum, count) => sum + count, 0),
        text: texts.filter((text) => text !== '').join(format === 'json' ? ',\n' : ''),
      }
    },
  }
}

function recordsOf({ names, columns, rows }: EngineRows): LogRecord[] {
  return Array.from({ length: rows }, (_, row) =>
    Object.fromEntries(names.map((name, at) => [name, columns[at]![row]])),
  ) as unknown as LogRecord[]
}

interface Searched extends Found {
  /** Records of each part of the time that was looked at. */
  readonly parts: readonly EngineRows[]
}

interface LogSearchDependencies extends Pick<UsageLogOptions, 'lake' | 'engine'> {
  /** How records are handed over. */
  readonly as: EngineForm
  readonly signal: CancelSignal
}

/** Some days' records. */
interface Looked {
  /** One more than are wanted, if there are as many. */
  readonly count: number
  /** The place of the last one that is wanted; null: there is none. */
  readonly last: LogPlace | null
  readonly records: EngineRows
}

/** Finds records, some days at a time, those that come first in the order of the answer before the others. */
class LogSearch {
  readonly #question: LogQuestion
  readonly #deps: LogSearchDependencies

  constructor(question: LogQuestion, deps: LogSearchDependencies) {
    this.#question = question
    this.#deps = deps
  }

  async run(limitMs: number): Promise<Searched> {
    const { fromMs, toMs, isNewestFirst, limit } = this.#question
    const untilMs = systemClock.now() + limitMs
    const parts: EngineRows[] = []
    let left = limit
    let [from, to] = this.#range()
    for (let days = 1; from < to; days = Math.min(2 * days, DAYS_MAX)) {
      const [partFrom, partTo] = isNewestFirst
        ? [Math.max(from, dateMs(dateOf(to - 1)) - (days - 1) * DAY_MS), to]
        : [from, Math.min(to, dateMs(dateOf(from)) + days * DAY_MS)]
      const looked = await this.#look(partFrom, partTo, left)
      if (looked !== null) {
        parts.push(looked.records)
        if (looked.count > left) return this.#upTo(parts, looked.last!)
        left -= looked.count
      }
      if (isNewestFirst) to = partFrom
      else from = partTo
      if (from < to && (left === 0 || systemClock.now() >= untilMs))
        return this.#upTo(parts, { endedAtMs: isNewestFirst ? to - 1 : from, recordId: null })
    }
    return { parts, next: null, searched: { fromMs, toMs } }
  }

  #upTo(parts: readonly EngineRows[], next: LogPlace): Searched {
    const { fromMs, toMs, isNewestFirst } = this.#question
    const { endedAtMs, recordId } = next
    // Other records of the last one's moment may be missing still; the moment itself counts as looked at.
    const reached = recordId === null ? (isNewestFirst ? endedAtMs + 1 : endedAtMs) : endedAtMs
    if (isNewestFirst) return { parts, next, searched: { fromMs: reached, toMs } }
    return { parts, next, searched: { fromMs, toMs: recordId === null ? reached : reached + 1 } }
  }

  /** The times of records that can still come. */
  #range(): [number, number] {
    const { fromMs, toMs, after, isNewestFirst } = this.#question
    if (after === null) return [fromMs, toMs]
    return isNewestFirst
      ? [fromMs, Math.min(toMs, after.endedAtMs + 1)]
      : [Math.max(fromMs, after.endedAtMs), toMs]
  }

  /** Looks for so many records, and whether there is one more. @returns null: there are no files */
  async #look(fromMs: number, toMs: number, limit: number): Promise<Looked | null> {
    const { lake, engine, signal } = this.#deps
    signal.throwIfAborted()
    const files = await lake.files(fromMs, toMs)
    if (files.length === 0) return null
    // Once the first records are known, files and row groups that have only later ones are left out by their bounds.
    const sign = this.#question.isNewestFirst ? -1 : 1
    const inOrder = files.toSorted((a, b) => (a.key < b.key ? -sign : sign))
    const held = await lake.hold(inOrder)
    try {
      const found = await engine.run(this.#statements(held.paths, fromMs, toMs, limit), { signal })
      const [, counts, records] = found
      const [count, endedAtMs, recordId] = counts!.columns.map(([value]) => value)
      const last = recordId === null ? null : { endedAtMs: endedAtMs as number, recordId: recordId as string }
      return { count: Number(count), last, records: records! }
    } finally {
      held.release()
    }
  }

  #statements(paths: readonly string[], fromMs: number, toMs: number, limit: number): EngineStatement[] {
    const { columns: named, isNewestFirst } = this.#question
    const bindings = new Bindings()
    const asked = ['record_id', ...USAGE_COLUMNS.flatMap(({ name }) => (isAsked(name, named) ? [name] : []))]
    const names = [...new Set(asked)] as UsageColumnName[]
    const columns = names.map((name) => `${inMemory(name)} AS ${name}`).join(', ')
    const order = isNewestFirst ? 'DESC' : 'ASC'
    const placed = `row_number() OVER (ORDER BY ended ${order}, record_id ${order})`
    return [
      {
        sql: `CREATE TEMP TABLE found AS SELECT ${placed} AS place, * FROM (
          SELECT epoch_ms(records.ended_at)::DOUBLE AS ended, ${columns}
          FROM ${recordsIn(paths, bindings)} AS records WHERE ${this.#tests(fromMs, toMs, bindings)}
          ORDER BY records.ended_at ${order}, records.record_id ${order} LIMIT ${whole(limit + 1)})`,
        values: bindings.values,
      },
      {
        sql: `SELECT count(*)::DOUBLE, max(ended) FILTER (place = ${whole(limit)}),
          max(record_id) FILTER (place = ${whole(limit)}) FROM found`,
      },
      {
        sql: `SELECT ${names.join(', ')} FROM found WHERE place <= ${whole(limit)}
          QUALIFY row_number() OVER (PARTITION BY record_id ORDER BY place) = 1 ORDER BY place`,
        as: this.#deps.as,
      },
    ]
  }

  #tests(fromMs: number, toMs: number, bindings: Bindings): string {
    const { tests, id, after, isNewestFirst } = this.#question
    const all = [`ended_at >= ${moment(fromMs)}`, `ended_at < ${moment(toMs)}`]
    for (const test of tests) all.push(testSql(test, bindings))
    if (id !== null) {
      const value = bindings.bind(id.value)
      all.push(`(${id.columns.map((column) => `${column} = ${value}`).join(' OR ')})`)
    }
    if (after !== null && after.recordId !== null) {
      const behind = `record_id ${isNewestFirst ? '<' : '>'} ${bindings.bind(after.recordId)}`
      all.push(`(ended_at <> ${moment(after.endedAtMs)} OR ${behind})`)
    }
    return all.join(' AND ')
  }
}

function isAsked(name: UsageColumnName, named: readonly UsageColumnName[] | undefined): boolean {
  return named === undefined || named.includes(name)
}

const MICROS = 1_000_000

function testSql(test: LogTest, bindings: Bindings): string {
  const { column } = test
  if ('oneOf' in test) return isOneOf(column, test.oneOf, bindings)
  if ('notFrom' in test)
    return `(${column} IS NULL OR NOT starts_with(${column}, ${bindings.bind(test.notFrom)}))`
  const bound = (value: number) =>
    column === 'cost_usd' ? `(${whole(value)}::DECIMAL(18, 0) / ${MICROS})` : whole(value)
  const upper = test.to === Number.POSITIVE_INFINITY ? [] : [`${column} < ${bound(test.to)}`]
  return [`${column} >= ${bound(test.from)}`, ...upper].join(' AND ')
}
