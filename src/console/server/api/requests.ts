import { type Static, Type } from 'typebox'
import type { RecordedFailure, RequestFilter, RequestRecord } from '../../../contracts/console.ts'
import { ERRORS, type ErrorCode, GatewayError } from '../../../contracts/errors.ts'
import { PLAYGROUND_IDS } from '../../../gateway/admin/keys.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import type { EndpointsAnswer, FailureAnswer, RequestAnswer, RequestsAnswer } from '../answers/requests.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { keyNames } from './keys.ts'
import { timeParameter } from './lists.ts'
import type { NodeHistory } from './node-history.ts'

const PATH = '/workspaces/:workspace/requests'
const LIMIT_DEFAULT = 50
/** As many as a page shows. */
const LIMIT_MAX = 300

const Text = Type.String({ minLength: 1, maxLength: 256 })
const ListQuery = Type.Object({
  outcome: Type.Optional(Type.Enum(['ok', 'failed'])),
  path: Type.Optional(Text),
  app: Type.Optional(Text),
  key_id: Type.Optional(Text),
  request_id: Type.Optional(Text),
  /** Lists reads and calls of the playground too, as a path or an id does. */
  all: Type.Optional(Type.Enum(['true', 'false'])),
  before: Type.Optional(Text),
  after: Type.Optional(Text),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
})

/** `GET /endpoints`, for the page alone: the paths that requests can be filtered by. */
export function endpointsEndpoint(context: ConsoleContext): ConsoleRoute {
  const answer: EndpointsAnswer = { paths: context.recordedPaths }
  return consoleEndpoint(context, 'GET', '/endpoints', {}, () => answer)
}

/** The newest requests of a workspace, filtered, and one of them. */
export function requestEndpoints(context: ConsoleContext, history: NodeHistory): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', PATH, { query: ListQuery }, (call) => listRequests(call, history)),
    consoleEndpoint(context, 'GET', `${PATH}/:id`, {}, showRequest),
  ]
}

async function listRequests(
  { context, params: { workspace }, query }: ConsoleCall<typeof PATH, unknown, Static<typeof ListQuery>>,
  history: NodeHistory,
): Promise<RequestsAnswer> {
  const filter: RequestFilter = {
    workspace,
    outcome: query.outcome ?? null,
    path: query.path ?? null,
    app: query.app ?? null,
    keyId: query.key_id ?? null,
    jobId: null,
    requestId: query.request_id ?? null,
    beforeMs: timeParameter(query, 'before'),
    afterMs: timeParameter(query, 'after'),
    limit: query.limit ?? LIMIT_DEFAULT,
  }
  const [found, coverage, nameOfKey] = await Promise.all([
    query.all === 'true' || filter.path !== null || filter.requestId !== null
      ? context.state.requests.list(filter)
      : listCalls(context, filter),
    history.coverage(workspace),
    keyNames(context),
  ])
  return { requests: found.map((record) => requestAnswer(record, nameOfKey(record.keyId))), coverage }
}

/** Calls alone: no reads such as `GET /v1/me` and polls of jobs, and nothing of the playground. */
async function listCalls({ state }: ConsoleContext, filter: RequestFilter): Promise<RequestRecord[]> {
  const found = new Map<string, RequestRecord>()
  for (let beforeMs = filter.beforeMs; ; ) {
    const page = await state.requests.list({ ...filter, beforeMs, limit: LIMIT_MAX })
    for (const record of page) if (isCall(record)) found.set(record.recordId ?? record.id, record)
    const last = page.at(-1)
    if (page.length < LIMIT_MAX || last === undefined || found.size >= filter.limit)
      return [...found.values()].slice(0, filter.limit)
    // Others of the same millisecond may follow.
    beforeMs = last.atMs + 1 === beforeMs ? last.atMs : last.atMs + 1
  }
}

/** A live session is called by `GET`. */
function isCall({ method, status, keyId }: RequestRecord): boolean {
  return !(method === 'GET' && status !== 101) && !keyId.startsWith(PLAYGROUND_IDS)
}

/** One record by its own id, or the newest one of a request id. One of another workspace is unknown, too. */
async function showRequest({ context, params }: ConsoleCall<`${typeof PATH}/:id`, unknown, unknown>) {
  const { workspace, id } = params
  const record = (await context.state.requests.get(workspace, id)) ?? (await newestOf(context, workspace, id))
  if (record === null)
    throw new GatewayError('NOT_FOUND', 'there is no such request, or it is no longer kept')
  const nameOfKey = await keyNames(context)
  return requestAnswer(record, nameOfKey(record.keyId))
}

/** The newest record with this request id; of a job its submission, rather than a run. */
async function newestOf(
  { state }: ConsoleContext,
  workspace: string,
  requestId: string,
): Promise<RequestRecord | null> {
  const all = {
    outcome: null,
    path: null,
    app: null,
    keyId: null,
    jobId: null,
    beforeMs: null,
    afterMs: null,
  }
  const found = await state.requests.list({ ...all, workspace, requestId, limit: LIMIT_MAX })
  return found.find(({ status }) => status !== null) ?? found[0] ?? null
}

export function requestAnswer(record: RequestRecord, keyName: string | null = null): RequestAnswer {
  const { id, app, method, path, status, error, milliseconds, route, replayed, attempts, usage } = record
  return {
    record_id: record.recordId ?? id,
    id,
    at: timestamp(record.atMs),
    app,
    key_id: record.keyId,
    key_name: keyName,
    method,
    path,
    status,
    error,
    failure: error === null ? null : failureAnswer(error, record.failure ?? null),
    milliseconds,
    added_milliseconds: record.addedMs,
    received_bytes: record.receivedBytes,
    sent_bytes: record.sentBytes,
    route,
    policy_version_id: record.policyVersionId,
    job_id: record.jobId,
    replayed,
    cache: record.cache ?? null,
    attempts,
    usage,
    cost_usd: record.costUsd,
    live: record.live ?? null,
  }
}

function failureAnswer(error: string, failure: RecordedFailure | null): FailureAnswer {
  const { param = null, rule = null, reason = null, missing = [], limit = null } = failure ?? {}
  return {
    message: Object.hasOwn(ERRORS, error) ? ERRORS[error as ErrorCode].message : '',
    param,
    rule,
    reason,
    missing,
    limit,
    entries: (failure?.entries ?? []).map(({ retryAfterMs, ...entry }) => {
      return { ...entry, retry_after_ms: retryAfterMs }
    }),
    more_entries: failure?.moreEntries ?? 0,
  }
}
