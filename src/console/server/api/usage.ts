import { type Static, type TSchema, Type } from 'typebox'
import { nextTurn } from '../../../contracts/time.ts'
import { answerUsage, askUsage, usageQuestion } from '../../../gateway/admin/usage.ts'
import { USAGE_DIMENSIONS, USAGE_PARAMETERS, type UsageInput } from '../../../gateway/admin/usage-question.ts'
import { jsonReply, largeList } from '../../../gateway/api/json-reply.ts'
import { invalidField } from '../../../gateway/edge/refusals.ts'
import {
  ANSWER_ROWS_MAX,
  groupsMax,
  timeSteps,
  USAGE_LATENCIES,
  USAGE_MEASURES,
  type UsageAnswerRow,
  type UsageMeasure,
  type UsageQuestion,
} from '../../../usage/answer.ts'
import { csvLine } from '../../../usage/csv.ts'
import { dateOf } from '../../../usage/names.ts'
import type { UsageReport } from '../../../usage/report.ts'
import { linesOf, reportCells, reportColumns, reportJson, rowsJson } from '../../../usage/report.ts'
import type { UsageNames } from '../answers/usage.ts'
import type { ConsoleContext } from '../context.ts'
import type { ConsoleCall, ConsoleRoute } from '../endpoint.ts'
import { compressed, consoleEndpoint, scopeOf, WorkspaceField, WrittenReply } from '../endpoint.ts'
import { EXPORT_MAX, exportReply, timeLeft } from '../exports.ts'
import { keyNames } from './keys.ts'

const PATH = '/usage'

/** Every parameter of `GET /v1/usage`, each at most once; what it may be is for the reader of questions to say. */
const QUESTION: Record<string, TSchema> = Object.fromEntries(
  [...Object.keys(USAGE_PARAMETERS), ...USAGE_DIMENSIONS].map((name) => [name, Type.Optional(Type.String())]),
)
const Query = Type.Object({
  ...QUESTION,
  workspace: WorkspaceField,
  format: Type.Optional(Type.Enum(['json', 'csv'])),
  figures: Type.Optional(
    Type.String({
      maxLength: 512,
      description: 'Of each row only these measures and latencies, divided by commas; all by default.',
    }),
  ),
})
/** Columns of a row besides its time and its dimensions. */
const FIGURES: ReadonlySet<string> = new Set([...USAGE_MEASURES, ...USAGE_LATENCIES])

type Call = ConsoleCall<typeof PATH, unknown, Static<typeof Query>>

/** Values of a query by their names. */
type Fields = Readonly<Record<string, string>>

/** Usage of one workspace, or (operators) of all: questions and answers of `GET /v1/usage`, with names of keys. */
export function usageEndpoint(context: ConsoleContext): ConsoleRoute {
  return consoleEndpoint(context, 'GET', PATH, { query: Query }, usageReply)
}

async function usageReply(call: Call): Promise<WrittenReply> {
  const { context, viewer, query, exchange } = call
  const scope = scopeOf(call)
  const fields = query as Fields
  const { format = 'json', figures } = fields
  const actor = { ...viewer.actor, workspace: scope }
  const shown = figures === undefined ? null : figuresIn(figures)
  if (format === 'csv') {
    for (const name of ['limit', 'offset', 'figures'])
      if (Object.hasOwn(query, name)) throw invalidField(name, 'cannot be combined with format')
    const question = usageQuestion(actor, usageInput(scope, fields), context.usage)
    const days = `${dateOf(question.fromMs)}-${dateOf(question.toMs - 1)}`
    return new WrittenReply(exportReply(`usage-${days}`, format, usageFile(question, call)))
  }
  const report = await askUsage(actor, usageInput(scope, fields), context.usage, exchange.signal)
  const answer = {
    ...reportJson(report),
    is_recorded: context.usage.isRecorded,
    names: await namesIn(report, context),
    data: largeList(
      report.answer.rows.length,
      () => rowsJson(report),
      (row) => (shown === null ? row : withFigures(row, shown)),
    ),
  }
  return new WrittenReply(await compressed(await jsonReply(answer), exchange))
}

/** A question of a query, of a workspace where it is of one. */
function usageInput(scope: string | null, { format: _, figures: __, ...asked }: Fields): UsageInput {
  const input = new Map(Object.entries(asked).map(([name, value]) => [name, [value]]))
  if (scope !== null) input.set('workspace', [scope])
  return input
}

/** @throws GatewayError INVALID_REQUEST */
function figuresIn(text: string): ReadonlySet<string> {
  const names = text.split(',')
  for (const name of names)
    if (!FIGURES.has(name)) throw invalidField('figures', 'must name measures and latencies of the answer')
  return new Set(names)
}

function withFigures(row: object, shown: ReadonlySet<string>): object {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !FIGURES.has(name) || shown.has(name)))
}

/**
 * A line of CSV for each group and step, in the order asked for, with the names of keys. Groups that there is no room
 * for come last, in one line for each step; the column `groups` says of how many a line is.
 */
async function* usageFile(question: UsageQuestion, call: Call): AsyncGenerator<string> {
  const { context, viewer, exchange } = call
  const answer = (asked: UsageQuestion) => answerUsage(viewer.actor, asked, context.usage, exchange.signal)
  const { by, step } = question
  const hasTime = timeLeft(context.clock)
  const whole = { ...question, step: 'none', offset: 0, limit: ANSWER_ROWS_MAX } as const
  const { groups, rows } = await answer(whole)
  // One that were left alone would have no name.
  const most = groups > rows.length ? rows.length - 1 : rows.length
  const nameOf = by.includes('key_id') ? await keyNames(context) : () => null
  const line = (row: UsageAnswerRow, of: number) => {
    const id = row.values[by.indexOf('key_id')] ?? null
    return csvLine(fileLine(question, reportCells(row), [id && nameOf(id), of]))
  }
  yield csvLine(fileLine(question, reportColumns(question), ['key_name', 'groups']))
  const totals = new SumTotals()
  const steps = timeSteps(question)
  // A line of each step is kept free for those that are left.
  let room = EXPORT_MAX - steps
  let size = ANSWER_ROWS_MAX / steps
  let at = 0
  while (at < most) {
    hasTime()
    const count = Math.min(most - at, Math.max(1, Math.floor(size)), Math.floor(room / steps))
    const some = rows.slice(at, at + count)
    if (some.length === 0) break
    const chosen = { ...question, groups: some.map(({ values }) => values), limit: some.length }
    const part = step === 'none' ? some : (await answer(chosen)).rows
    for (const row of part) totals.add(row)
    yield* linesInTurns(part, (row) => line(row, 1))
    at += count
    room -= part.length
    // Most groups have sums of a few steps only.
    size = Math.min(groupsMax(question), (count * ANSWER_ROWS_MAX) / Math.max(1, part.length))
  }
  const left = groups - at
  if (left === 0) return
  const all = await answer({ ...question, by: [], offset: 0, limit: 1 })
  const only = left === 1 ? rows[at]?.values : undefined
  const values = only ?? by.map(() => null)
  const rest = all.rows.map((row) => ({ ...row, values, sums: totals.left(row), latencies: {} }))
  yield* linesInTurns(
    rest.filter(({ sums }) => sums.calls > 0),
    (row) => line(row, left),
  )
}

/** Written some at a time: other calls do not wait for all of them. */
async function* linesInTurns<Row>(rows: readonly Row[], line: (row: Row) => string): AsyncGenerator<string> {
  for (const lines of linesOf(rows, line)) {
    yield lines
    await nextTurn()
  }
}

/** The cells of a report with two more: the name of the key after its id, and a number after the dimensions. */
function fileLine<Cell>(
  { step, by }: UsageQuestion,
  cells: readonly Cell[],
  [name, groups]: readonly [Cell, Cell],
) {
  const first = step === 'none' ? 0 : 1
  const keyAt = by.indexOf('key_id')
  const end = first + by.length
  const dimensions = cells.slice(0, end)
  const named = keyAt < 0 ? dimensions : dimensions.toSpliced(first + keyAt + 1, 0, name)
  return [...named, groups, ...cells.slice(end)]
}

type Row = Pick<UsageAnswerRow, 'timeMs' | 'sums'>

/** Sums of the groups that were told of, step by step. */
class SumTotals {
  readonly #steps = new Map<number | null, Record<UsageMeasure, number>>()

  add({ timeMs, sums }: Row): void {
    const known = this.#steps.get(timeMs)
    if (known === undefined) this.#steps.set(timeMs, { ...sums })
    else for (const name of USAGE_MEASURES) known[name] += sums[name]
  }

  /** Sums of all groups minus those written; records may have come in between. */
  left({ timeMs, sums }: Row): UsageAnswerRow['sums'] {
    const known = this.#steps.get(timeMs)
    const left = { ...sums }
    for (const name of USAGE_MEASURES) left[name] = Math.max(0, sums[name] - (known?.[name] ?? 0))
    return left
  }
}

/**
 * Names of a report's keys by their ids; keys that are no longer known are left out. A key that was
 * only asked for is named where it has records: others may be of another workspace.
 */
async function namesIn({ question, answer }: UsageReport, context: ConsoleContext): Promise<UsageNames> {
  const { by, where } = question
  const at = by.indexOf('key_id')
  const groupValues = at < 0 ? [] : answer.rows.map(({ values }) => values[at] ?? null)
  const asked = answer.total.sums.calls > 0 && where.key_id?.length === 1 ? where.key_id : []
  const ids = new Set([...groupValues, ...asked].filter((id) => id !== null))
  if (ids.size === 0) return {}
  const nameOf = await keyNames(context)
  const named = [...ids].map((id) => [id, nameOf(id)] as const)
  return Object.fromEntries(named.filter((pair): pair is [string, string] => pair[1] !== null))
}
