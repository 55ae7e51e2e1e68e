import { type Static, Type } from 'typebox'
import type { CancelSignal } from '../../../contracts/cancellation.ts'
import { ERRORS, type ErrorCode, GatewayError } from '../../../contracts/errors.ts'
import type { UsageColumnName, UsageRecord } from '../../../contracts/usage-record.ts'
import { PLAYGROUND_IDS } from '../../../gateway/admin/keys.ts'
import { inPlaceOf } from '../../../gateway/admin/usage.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import type { StreamedReply } from '../../../gateway/edge/exchange.ts'
import { invalidField } from '../../../gateway/edge/refusals.ts'
import type { CALL_DIMENSIONS } from '../../../usage/answer.ts'
import type { LogFound, LogPlace, LogQuestion, LogRecord, LogTest } from '../../../usage/log.ts'
import { idSpans, type LogSpan, logIdOf } from '../../../usage/log-id.ts'
import { LOG_FORMATS, type LogFormat, recordJson, recordsHead } from '../../../usage/log-report.ts'
import { DAY_MS, dateOf, HOUR_MS } from '../../../usage/names.ts'
import type {
  LogAnswer,
  LogRecordAnswer,
  LogRowAnswer,
  LogRowsAnswer,
  OneLogRecordAnswer,
} from '../answers/log.ts'
import type { ConsoleContext } from '../context.ts'
import type { ConsoleCall, ConsoleRoute } from '../endpoint.ts'
import { consoleEndpoint, scopeOf, WorkspaceField, WrittenReply } from '../endpoint.ts'
import { exportedList, exportReply } from '../exports.ts'
import { keyNames, PlaygroundField } from './keys.ts'
import { timeParameter } from './lists.ts'

const PATH = '/log'
const ROWS = '/log-rows'
/** Columns of what the page shows of a record in its list. */
const ROW_COLUMNS = [
  ...(['kind', 'ended_at', 'workspace', 'app', 'key_id', 'endpoint', 'provider', 'model'] as const),
  ...(['attempts', 'attempt_reasons', 'outcome', 'status', 'error_code', 'cache', 'cost_usd'] as const),
  'total_ms',
] as const satisfies readonly UsageColumnName[]
const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200
/** Records are kept no longer than that, and a bit for clocks. */
const DAYS_MAX = 1_100
/** Records of an export that are asked for at a time. */
const EXPORT_PART = 10_000
/** How far records of one id are from each other, at most. */
const NEAR_MS = 8 * DAY_MS
/** Keys of the playground whose calls are left out of the sums. */
const KEYS_MAX = 10_000

const VALUE_MAX = 512
const word = (description: string) =>
  Type.Optional(
    Type.String({ maxLength: VALUE_MAX, description: `${description}; empty: records without one` }),
  )
const time = (description: string) => Type.Optional(Type.String({ maxLength: 64, description }))

/** Columns that have to have one value, with what the reference says of each. */
const WORDS = {
  app: word('id of an app'),
  key_id: word('id of a key'),
  end_user: word('for whom the call was'),
  purpose: word('purpose that was applied'),
  kind: Type.Optional(Type.Enum(['call', 'job', 'session', 'lease_expired'])),
  operation: word('`transcription`, `chat`, …'),
  endpoint: word('such as `POST /v1/chat`'),
  route: word('name of a route'),
  provider: word('the one that was tried last'),
  model: word('the one that was tried last'),
  outcome: Type.Optional(Type.Enum(['ok', 'error', 'canceled', 'left'])),
  error_code: word('code of an error'),
} as const

const FILTERS = {
  ...WORDS,
  workspace: WorkspaceField,
  from: time('when a record ended, at the earliest; a date, a time in RFC 3339, or epoch milliseconds'),
  to: time('the same, at the latest, exclusive; by default now'),
  id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 256, description: 'of a request, trace, job, session or record' }),
  ),
  status: Type.Optional(
    Type.String({ pattern: '^[1-5](xx|\\d\\d)$', description: '`502`, or `5xx` for all of them' }),
  ),
  min_ms: Type.Optional(Type.Integer({ minimum: 0, description: '`total_ms` at least' })),
  min_cost_usd: Type.Optional(
    Type.String({ pattern: '^\\d{1,9}(\\.\\d{1,6})?$', description: '`cost_usd` at least' }),
  ),
  playground: PlaygroundField,
}

const PAGED = {
  ...FILTERS,
  after: Type.Optional(Type.String({ maxLength: 300, description: '`next` of the page before' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
}
const RowsQuery = Type.Object(PAGED)
const ListQuery = Type.Object({ ...PAGED, format: Type.Optional(Type.Enum([...LOG_FORMATS])) })
const OneQuery = Type.Object(FILTERS)

type Filters = Static<typeof OneQuery>
type ListCall = ConsoleCall<typeof PATH, unknown, Static<typeof ListQuery>>

/** Filters, of what the viewer may see. */
interface Asked {
  /** Null: all workspaces. */
  readonly scope: string | null
  readonly query: Static<typeof RowsQuery>
}

/** Records of the usage ledger: filtered, found by an id, exported; and one of them with its neighbors. */
export function logEndpoints(context: ConsoleContext): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', PATH, { query: ListQuery }, listLog),
    consoleEndpoint(context, 'GET', ROWS, { query: RowsQuery }, async (call) => {
      const asked = { scope: scopeOf(call), query: call.query }
      return inPlaceOf(call.viewer.actor, context.usage, () => logRows(context, asked, call.exchange.signal))
    }),
    consoleEndpoint(context, 'GET', `${PATH}/:record`, { query: OneQuery }, async (call) => {
      const { query, params, exchange } = call
      const asked = { scope: scopeOf(call), query }
      return inPlaceOf(call.viewer.actor, context.usage, () =>
        oneOf(context, asked, { ...params, signal: exchange.signal }),
      )
    }),
  ]
}

async function listLog(call: ListCall): Promise<LogAnswer | WrittenReply> {
  const { context, query, exchange, viewer } = call
  if (query.format !== undefined) {
    if (query.after !== undefined || query.limit !== undefined)
      throw invalidField(query.after === undefined ? 'limit' : 'after', 'cannot be combined with format')
    const asked = questionOf(query, scopeOf(call), context.clock.wallNow())
    return new WrittenReply(exportOf(asked, query.format, call))
  }
  const asked = { scope: scopeOf(call), query }
  const { records, ...page } = await inPlaceOf(viewer.actor, context.usage, () =>
    pageOf(context, asked, { signal: exchange.signal }),
  )
  return { ...page, records: await recordAnswers(records, context) }
}

async function logRows(context: ConsoleContext, asked: Asked, signal: CancelSignal): Promise<LogRowsAnswer> {
  const { records, ...page } = await pageOf(context, asked, { signal, columns: ROW_COLUMNS })
  return { ...page, records: await rowAnswers(records, context) }
}

/** A page of records. @param columns what is asked of each; absent: all */
async function pageOf<Name extends UsageColumnName>(
  context: ConsoleContext,
  { scope, query }: Asked,
  { signal, columns }: { readonly signal: CancelSignal; readonly columns?: readonly Name[] },
): Promise<Omit<LogAnswer, 'records'> & Pick<LogFound<Name>, 'records'>> {
  const nowMs = context.clock.wallNow()
  const after = query.after === undefined ? null : placeIn(query.after)
  const question = {
    ...questionOf(query, scope, nowMs),
    ...{ after, limit: query.limit ?? LIMIT_DEFAULT },
    ...(columns === undefined ? {} : { columns }),
  }
  const [found, total] = await Promise.all([
    find(question, context, signal),
    after === null ? totalOf(query, scope, question, context) : null,
  ])
  const { next, searched, records } = found
  return {
    is_recorded: context.usage.isRecorded,
    records,
    next: next === null ? null : placeText(next),
    searched: { from: timestamp(searched.fromMs), to: timestamp(Math.min(searched.toMs, nowMs)) },
    total,
  }
}

/** One record by its own id, and those before and after it under the same filters. */
async function oneOf(
  context: ConsoleContext,
  { scope, query }: Asked,
  { record: wanted, signal }: { readonly record: string; readonly signal: CancelSignal },
): Promise<OneLogRecordAnswer> {
  const { log } = context.usage
  const nowMs = context.clock.wallNow()
  const all = { ...questionOf({}, scope, nowMs), tests: workspaceTests(scope), limit: 1 }
  const own = { ...all, id: { value: wanted, columns: ['record_id'] as const } }
  const { records } = await find(own, context, signal)
  const [record] = records
  if (record === undefined)
    throw new GatewayError('NOT_FOUND', 'there is no such record, or it is no longer kept')
  const after = { endedAtMs: record.ended_at, recordId: record.record_id }
  const asked = reaching(questionOf(query, scope, nowMs), record.ended_at, all)
  // Records of one id are few, and near each other: the others need not be looked at for them.
  const near =
    asked.id === null
      ? {}
      : {
          fromMs: Math.max(asked.fromMs, record.ended_at - NEAR_MS),
          toMs: Math.min(asked.toMs, record.ended_at + NEAR_MS),
        }
  const beside = (isNewestFirst: boolean) =>
    log.search({ ...asked, ...near, isNewestFirst, after, limit: 1, columns: [] }, signal)
  const [older, newer] = await Promise.all([beside(true), beside(false)])
  const [answer] = await recordAnswers([record], context)
  return {
    record: answer!,
    newer: newer.records[0]?.record_id ?? null,
    older: older.records[0]?.record_id ?? null,
  }
}

/** A link may lead to a record out of the range; then its neighbour on that side is out of it too. */
function reaching(asked: LogQuestion, endedAtMs: number, all: LogSpan): LogQuestion {
  return {
    ...asked,
    fromMs: endedAtMs < asked.fromMs ? all.fromMs : asked.fromMs,
    toMs: endedAtMs >= asked.toMs ? all.toMs : asked.toMs,
  }
}

function questionOf(query: Filters, scope: string | null, nowMs: number): LogQuestion {
  // Clocks of other nodes may be ahead.
  const toMs = timeParameter(query, 'to') ?? nowMs + HOUR_MS
  const fromMs = Math.max(timeParameter(query, 'from') ?? 0, toMs - DAYS_MAX * DAY_MS)
  return {
    fromMs,
    toMs,
    isNewestFirst: true,
    tests: testsOf(query, scope),
    id: query.id === undefined ? null : logIdOf(query.id),
    after: null,
    limit: EXPORT_PART,
  }
}

function workspaceTests(scope: string | null): LogTest[] {
  return scope === null ? [] : [{ column: 'workspace', oneOf: [scope] }]
}

function testsOf(query: Filters, scope: string | null): LogTest[] {
  const { status, min_ms: least, min_cost_usd: cost, playground } = query
  const tests = workspaceTests(scope)
  for (const column of Object.keys(WORDS) as (keyof typeof WORDS)[]) {
    const value = query[column]
    if (value !== undefined) tests.push({ column, oneOf: [value === '' ? null : value] })
  }
  if (status !== undefined) tests.push({ column: 'status', ...statusRange(status) })
  if (least !== undefined) tests.push({ column: 'total_ms', from: least, to: Number.POSITIVE_INFINITY })
  if (cost !== undefined)
    tests.push({ column: 'cost_usd', from: Math.round(Number(cost) * 1e6), to: Number.POSITIVE_INFINITY })
  // A key or an id that is named is meant, even one of the playground.
  if (playground !== 'true' && query.key_id === undefined && query.id === undefined)
    tests.push({ column: 'key_id', notFrom: PLAYGROUND_IDS })
  return tests
}

function statusRange(status: string): { readonly from: number; readonly to: number } {
  if (!status.endsWith('xx')) return { from: Number(status), to: Number(status) + 1 }
  const from = Number(status[0]) * 100
  return { from, to: from + 100 }
}

/** Finds records; an id first where it is most likely. */
async function find<Name extends UsageColumnName>(
  question: LogQuestion<Name>,
  { usage }: ConsoleContext,
  signal: CancelSignal,
): Promise<LogFound<Name>> {
  const { id, after, fromMs, toMs } = question
  const spans: readonly LogSpan[] =
    id === null || after !== null ? [{ fromMs, toMs }] : idSpans(id.value, { fromMs, toMs })
  const looked: LogFound<Name>[] = []
  for (const span of spans) {
    const found = await usage.log.search({ ...question, ...span }, signal)
    looked.push(found)
    if (found.records.length > 0) break
  }
  const last = looked.at(-1) ?? { records: [], next: null }
  const searched = {
    fromMs: Math.min(toMs, ...looked.map((found) => found.searched.fromMs)),
    toMs: looked.length === 0 ? toMs : Math.max(...looked.map((found) => found.searched.toMs)),
  }
  return { ...last, searched }
}

/** How many records there are in all, where sums tell: of whole hours, by what they are summed up by. */
async function totalOf(
  query: Filters,
  scope: string | null,
  { fromMs, toMs, id }: LogQuestion,
  { usage }: ConsoleContext,
): Promise<number | null> {
  const { end_user: user, min_ms: least, min_cost_usd: cost, status, from, to } = query
  if (id !== null || [user, least, cost].some((value) => value !== undefined)) return null
  if (from === undefined || fromMs % HOUR_MS !== 0 || (to !== undefined && toMs % HOUR_MS !== 0)) return null
  const where: { [Name in (typeof CALL_DIMENSIONS)[number]]?: readonly (string | null)[] } = {}
  for (const column of Object.keys(WORDS) as (keyof typeof WORDS)[]) {
    const value = query[column]
    if (column !== 'end_user' && value !== undefined) where[column] = [value === '' ? null : value]
  }
  if (status !== undefined) {
    const range = statusRange(status)
    where.status = Array.from({ length: range.to - range.from }, (_, at) => String(range.from + at))
  }
  if (scope !== null) where.workspace = [scope]
  const isAll = query.playground === 'true' || query.key_id !== undefined
  const { rows, total } = await usage.reader.ask({
    fromMs,
    toMs: Math.ceil(toMs / HOUR_MS) * HOUR_MS,
    step: 'none',
    by: isAll ? [] : ['key_id'],
    where,
    sort: 'calls',
    offset: 0,
    limit: KEYS_MAX,
    sumsOnly: true,
    ...(isAll ? { groups: [] } : { beginning: PLAYGROUND_IDS }),
  })
  if (rows.length === KEYS_MAX) return null
  return rows.reduce((rest, { sums }) => rest - sums.calls, total.sums.calls)
}

async function recordAnswers(
  records: readonly UsageRecord[],
  context: ConsoleContext,
): Promise<LogRecordAnswer[]> {
  if (records.length === 0) return []
  const nameOf = await keyNames(context)
  const { traceUrl } = context.catalog.current()
  return records.map((record) => ({
    ...recordJson(record),
    key_name: nameOf(record.key_id),
    error_message: codeMessage(record.error_code),
    trace_url:
      record.trace_id === null || traceUrl === undefined
        ? null
        : traceUrl.replaceAll('{trace_id}', encodeURIComponent(record.trace_id)),
    tries: triesIn(record.attempt_reasons),
  }))
}

async function rowAnswers(
  records: readonly LogRecord<(typeof ROW_COLUMNS)[number]>[],
  context: ConsoleContext,
): Promise<LogRowAnswer[]> {
  if (records.length === 0) return []
  const nameOf = await keyNames(context)
  return records.map(({ attempt_reasons: reasons, ...record }) => ({
    ...recordJson(record),
    key_name: nameOf(record.key_id),
    tries: triesIn(reasons),
  }))
}

function codeMessage(code: string | null): string | null {
  return code !== null && Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode].message : null
}

/** `provider/model=reason` of each attempt. A model may have any character but a comma; a provider has no slash. */
function triesIn(reasons: string | null): LogRecordAnswer['tries'] {
  return (reasons ?? '').split(',').flatMap((attempt) => {
    const [, provider, model, reason] = /^([^/]+)\/(.*)=([^=]*)$/.exec(attempt) ?? []
    return provider === undefined || model === undefined || reason === undefined
      ? []
      : [{ provider, model, reason }]
  })
}

const PLACE = /^(\d{1,15})(?:\.(.{1,256}))?$/

/** @throws GatewayError INVALID_REQUEST */
function placeIn(text: string): LogPlace {
  const [, endedAt, recordId = null] = PLACE.exec(text) ?? []
  if (endedAt === undefined) throw invalidField('after', 'must be `next` of a page')
  return { endedAtMs: Number(endedAt), recordId }
}

function placeText({ endedAtMs, recordId }: LogPlace): string {
  return recordId === null ? String(endedAtMs) : `${endedAtMs}.${recordId}`
}

/** All records, or the newest `EXPORT_MAX`. */
function exportOf(question: LogQuestion, format: LogFormat, call: ListCall): StreamedReply {
  const { context, exchange, viewer } = call
  let after: LogPlace | null = null
  const stream = exportedList({
    format,
    head: recordsHead(),
    member: 'records',
    clock: context.clock,
    async next(most) {
      const asked = { ...question, after, limit: Math.min(EXPORT_PART, most) }
      const { text, rows, next } = await inPlaceOf(viewer.actor, context.usage, () =>
        context.usage.log.write(asked, format, exchange.signal),
      )
      after = next
      return { text, rows, more: next !== null }
    },
  })
  return exportReply(`requests-${dateOf(context.clock.wallNow())}`, format, stream)
}
