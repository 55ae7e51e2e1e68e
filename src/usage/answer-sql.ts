import { nextTurn } from '../contracts/time.ts'
import {
  ANSWER_ROWS_MAX,
  GROUPS_MAX,
  groupsMax,
  isAboutEndUsers,
  type Percentiles,
  SUMMED_COLUMNS,
  stepMs,
  USAGE_LATENCIES,
  USAGE_MEASURES,
  type UsageAnswer,
  type UsageDimension,
  type UsageLatency,
  type UsageMeasure,
  type UsageQuestion,
  type UsageSums,
} from './answer.ts'
import type { EngineRows, EngineStatement } from './engine.ts'
import { Bindings, inMemory, isOneOf, moment, recordsIn, whole } from './record-sql.ts'

/*
 * A question as statements of SQL, and its answer out of what they find. They look at the records once for the groups
 * and their sums, once for sums by time, if these are asked for, and once for each latency, of which they count how
 * often each code is there.
 */

/** The text of DuckDB's error. */
export const TOO_MANY_GROUPS = 'too many groups'

const COUNTED: Readonly<Record<Exclude<UsageMeasure, (typeof SUMMED_COLUMNS)[number]>, string>> = {
  calls: 'count(*)',
  errors: "count(*) FILTER (outcome = 'error')",
  unpriced: "count(*) FILTER (outcome = 'ok' AND cost_usd IS NULL AND NOT replayed)",
  estimated: 'count(*) FILTER (estimated)',
  replayed: 'count(*) FILTER (replayed)',
}

/** Sums of records. Each is a whole number below 2^53. */
const SUMS = [
  ...Object.entries(COUNTED).map(([name, count]) => `${count}::DOUBLE AS sum_${name}`),
  ...SUMMED_COLUMNS.map((name) => `coalesce(${inMemory(name, `sum(${name})`)}, 0) AS sum_${name}`),
].join(', ')
/** The same of sums. */
const SUMS_AGAIN = USAGE_MEASURES.map((name) => `coalesce(sum(sum_${name}), 0) AS sum_${name}`).join(', ')
const SUM_NAMES = USAGE_MEASURES.map((name) => `sum_${name}`).join(', ')

const SHARES = { p50: 0.5, p95: 0.95, p99: 0.99 } as const
/** Nearest ranks, of codes with how many have at most that. */
const PERCENTILES = Object.entries(SHARES)
  .map(
    ([name, share]) => `min(code) FILTER (so_far >= greatest(1, ceil(${share} * of_all)))::DOUBLE AS ${name}`,
  )
  .join(', ')

type Latencies = { [Name in UsageLatency]?: Percentiles | null }

/** A statement, and what becomes of what it finds. */
type Take = (rows: EngineRows) => void

/** The answer to a question, as statements of one connection that find its parts. */
export class AnswerQuery {
  readonly statements: EngineStatement[] = []
  readonly #takes: Take[] = []
  readonly #question: UsageQuestion
  readonly #paths: readonly string[]
  readonly #noLatencies: Latencies
  #groups = 0
  #total: UsageSums['sums'] = noSums()
  readonly #totalLatencies: Latencies
  readonly #rows: UsageAnswer['rows'][number][] = []
  /** By the place of the group and the step. */
  readonly #latencies = new Map<string, Latencies>()

  /** @param paths files that have the records; at least one */
  constructor(question: UsageQuestion, paths: readonly string[]) {
    this.#question = question
    this.#paths = paths
    this.#noLatencies = noLatencies(question)
    this.#totalLatencies = { ...this.#noLatencies }
    this.#groupAll()
    this.#pickCounts()
    if (question.step === 'none') this.#tellGroups()
    else this.#tellSteps()
    if (hasLatencies(question)) for (const latency of USAGE_LATENCIES) this.#tellLatency(latency)
  }

  /** @param found what each of the statements has found */
  async answer(found: readonly EngineRows[]): Promise<UsageAnswer> {
    for (const [at, take] of this.#takes.entries()) {
      take(found[at]!)
      if (found[at]!.rows > 0) await nextTurn()
    }
    const total = { sums: this.#total, latencies: this.#totalLatencies }
    return { groups: this.#groups, rows: this.#rows, total }
  }

  #add(sql: string, { values }: Bindings = new Bindings(), take: Take = () => {}): void {
    this.statements.push({ sql, values })
    this.#takes.push(take)
  }

  /** The records that are asked about, as what follows FROM, with what groups them. */
  #records(bindings: Bindings): string {
    const { fromMs, toMs, by, where, step } = this.#question
    const tests = [
      `ended_at >= ${moment(fromMs)}`,
      `ended_at < ${moment(toMs)}`,
      ...Object.entries(where).map(([name, values]) =>
        isOneOf(dimensionText(name as UsageDimension), values, bindings),
      ),
    ]
    const columns = by.map((name, at) => `${dimensionText(name)} AS v${at}`)
    if (step !== 'none') {
      const length = stepMs(step)
      columns.push(`(epoch_ms(ended_at) // ${length} - ${Math.floor(fromMs / length)})::INTEGER AS step`)
    } else columns.push('0 AS step')
    const measured = [...new Set([...SUMMED_COLUMNS, ...USAGE_LATENCIES, 'outcome', 'estimated', 'replayed'])]
    return `(SELECT ${[...columns, ...measured].join(', ')}
      FROM ${recordsIn(this.#paths, bindings)} WHERE ${tests.join(' AND ')})`
  }

  get #values(): string[] {
    return this.#question.by.map((_, at) => `v${at}`)
  }

  #groupAll(): void {
    const bindings = new Bindings()
    const columns = [...this.#values, SUMS].join(', ')
    const grouped = this.#values.length === 0 ? 'HAVING count(*) > 0' : `GROUP BY ${this.#values.join(', ')}`
    this.#add(
      `CREATE TEMP TABLE groups AS SELECT ${columns} FROM ${this.#records(bindings)} ${grouped}`,
      bindings,
    )
    const count = `CASE WHEN count(*) > ${GROUPS_MAX} THEN error('${TOO_MANY_GROUPS}') ELSE count(*) END`
    this.#add(
      `SELECT ${count}::DOUBLE AS groups, ${SUMS_AGAIN} FROM groups`,
      new Bindings(),
      ({ columns }) => {
        this.#groups = Number(columns[0]![0])
        this.#total = sumsAt(columns.slice(1), 0)
      },
    )
  }

  /** The groups that are told of, in their order. */
  #pickCounts(): void {
    const { sort, offset, groups, beginning = '', by } = this.#question
    const limit = Math.min(this.#question.limit, groupsMax(this.#question), ANSWER_ROWS_MAX)
    const bindings = new Bindings()
    const picked = `CREATE TEMP TABLE picked AS SELECT row_number() OVER (ORDER BY`
    if (groups === undefined) {
      const order = [`sum_${sort} DESC`, ...this.#values.map((value) => `coalesce(${value}, '')`)].join(', ')
      const begun =
        beginning === '' || by.length === 0 ? '' : `WHERE starts_with(v0, ${bindings.bind(beginning)})`
      this.#add(
        `${picked} ${order}) - 1 AS place, * FROM groups ${begun}
          ORDER BY place LIMIT ${whole(limit)} OFFSET ${whole(offset)}`,
        bindings,
      )
      return
    }
    const lists = by.map((_, at) => bindings.bind(groups.map((values) => values[at] ?? null)))
    const named =
      by.length === 0
        ? `(SELECT range AS named_at FROM range(${whole(Math.min(1, groups.length))}))`
        : `(SELECT generate_subscripts(${lists[0]}::VARCHAR[], 1) AS named_at,
            ${lists.map((list, at) => `unnest(${list}::VARCHAR[]) AS n${at}`).join(', ')})`
    const same = by.map((_, at) => `v${at} IS NOT DISTINCT FROM n${at}`)
    this.#add(
      `${picked} named_at) - 1 AS place, groups.* FROM groups JOIN ${named} ON ${['true', ...same].join(' AND ')}
        ORDER BY place LIMIT ${whole(limit)}`,
      bindings,
    )
  }

  #tellGroups(): void {
    const columns = ['place', '0 AS step', ...this.#values, SUM_NAMES].join(', ')
    this.#add(`SELECT ${columns} FROM picked ORDER BY place`, new Bindings(), (rows) => this.#take(rows))
  }

  #tellSteps(): void {
    const bindings = new Bindings()
    const columns = ['place', 'step', ...this.#values.map((value) => `picked.${value}`), SUMS].join(', ')
    this.#add(
      `SELECT ${columns} FROM ${this.#joined(bindings, '')} GROUP BY ALL ORDER BY place, step`,
      bindings,
      (rows) => this.#take(rows),
    )
  }

  /** Records with the places of their groups. @param kind of the join: `LEFT` has those of no told group too */
  #joined(bindings: Bindings, kind: 'LEFT' | ''): string {
    const same = this.#values.map((value) => `asked.${value} IS NOT DISTINCT FROM picked.${value}`)
    return `${this.#records(bindings)} AS asked ${kind} JOIN picked ON ${['true', ...same].join(' AND ')}`
  }

  #take({ columns, rows }: EngineRows): void {
    const { step, fromMs, by } = this.#question
    const length = step === 'none' ? 0 : stepMs(step)
    const firstStep = step === 'none' ? 0 : Math.floor(fromMs / length)
    const sumColumns = columns.slice(2 + by.length)
    // Rows of a group are told one after another, and share its values.
    let [group, values]: [unknown, (string | null)[]] = [null, []]
    for (let at = 0; at < rows; at += 1) {
      const [place, own] = [columns[0]![at], Number(columns[1]![at])]
      if (place !== group) values = by.map((_, index) => columns[2 + index]![at] as string | null)
      group = place
      const latencies = { ...this.#noLatencies }
      this.#latencies.set(`${place} ${own}`, latencies)
      const timeMs = step === 'none' ? null : (firstStep + own) * length
      this.#rows.push({ timeMs, values, sums: sumsAt(sumColumns, at), latencies })
    }
  }

  #tellLatency(latency: UsageLatency): void {
    const bindings = new Bindings()
    const table = `of_${latency}`
    this.#add(
      `CREATE TEMP TABLE ${table} AS SELECT place, step, ${codeOf(latency)} AS code, count(*) AS records
        FROM ${this.#joined(bindings, 'LEFT')} WHERE ${latency} IS NOT NULL GROUP BY ALL`,
      bindings,
    )
    this.#add(percentilesIn(table, 'WHERE place IS NOT NULL', ['place', 'step']), new Bindings(), (rows) => {
      const [places, steps, ...figures] = rows.columns
      for (let at = 0; at < rows.rows; at += 1) {
        const latencies = this.#latencies.get(`${places![at]} ${Number(steps![at])}`)
        if (latencies !== undefined) latencies[latency] = percentilesAt(figures, at)
      }
    })
    this.#add(percentilesIn(table, '', []), new Bindings(), ({ columns, rows }) => {
      this.#totalLatencies[latency] = rows === 0 ? null : percentilesAt(columns, 0)
    })
  }
}

function percentilesIn(table: string, where: string, by: readonly string[]): string {
  const window = by.length === 0 ? '' : `PARTITION BY ${by.join(', ')}`
  const named = [...by, 'code'].join(', ')
  return `SELECT ${[...by, PERCENTILES].join(', ')} FROM (
    SELECT ${named}, sum(n) OVER (${window} ORDER BY code) AS so_far, sum(n) OVER (${window}) AS of_all FROM (
      SELECT ${named}, sum(records) AS n FROM ${table} ${where} GROUP BY ${named}))
    ${by.length === 0 ? 'HAVING count(*) > 0' : `GROUP BY ${by.join(', ')}`}`
}

/** A dimension as a text: a status is a number. */
function dimensionText(dimension: UsageDimension): string {
  return dimension === 'status' ? 'CAST(status AS VARCHAR)' : dimension
}

function sumsAt(columns: EngineRows['columns'], row: number): UsageSums['sums'] {
  const sums = noSums()
  for (const [at, name] of USAGE_MEASURES.entries()) sums[name] = Number(columns[at]![row])
  return sums
}

function percentilesAt(columns: EngineRows['columns'], row: number): Percentiles {
  const at = (column: number) => middleOf(Number(columns[column]![row]))
  return { p50: at(0), p95: at(1), p99: at(2) }
}

const hasLatencies = (question: UsageQuestion) => question.sumsOnly !== true && !isAboutEndUsers(question)

/** The answer where there is no file. */
export function emptyAnswer(question: UsageQuestion): UsageAnswer {
  return { groups: 0, rows: [], total: { sums: noSums(), latencies: noLatencies(question) } }
}

const NO_LATENCIES: Latencies = Object.fromEntries(USAGE_LATENCIES.map((name) => [name, null]))
const NO_SUMS = Object.fromEntries(USAGE_MEASURES.map((name) => [name, 0])) as Record<UsageMeasure, number>

const noLatencies = (question: UsageQuestion) => (hasLatencies(question) ? NO_LATENCIES : {})

/** To make them anew for each of 10,000 rows held up the loop for 60 ms. */
const noSums = () => ({ ...NO_SUMS })

/*
 * Codes of latencies: milliseconds up to 255 have a code each, and above every 16-fold has 240 of the same width, which
 * is a sixteenth of its lower bound at most. Percentiles are exact to 3.2 %, whatever was added in whatever order.
 */

const BASE = 256
const BITS = 4
/** 16-folds above the first 256 ms; the last has no end. */
const RANGES = 4

/** The code of a column, as SQL; less than none counts as none. */
function codeOf(column: string): string {
  const cases = Array.from({ length: RANGES }, (_, range) => {
    const shift = BITS * range
    const code = `${BASE * range} + (${column} >> ${shift})`
    return `WHEN ${column} < ${BASE << shift} THEN ${code}`
  })
  return `CASE WHEN ${column} < 0 THEN 0 ${cases.join(' ')} ELSE ${BASE * RANGES} + (${column} >> ${BITS * RANGES}) END`
}

/** Milliseconds in the middle of what has a code. */
function middleOf(code: number): number {
  if (code < BASE) return code
  const range = Math.min(RANGES, Math.floor(code / BASE))
  const width = 2 ** (BITS * range)
  return Math.round((code - BASE * range) * width + (width - 1) / 2)
}
