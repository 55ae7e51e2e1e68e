import { type Static, Type } from 'typebox'
import { GatewayError } from '../../../errors.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { RequestRecord } from '../../../schema/console.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { RequestAnswer } from './answers.ts'
import { momentOf } from './query.ts'

const PATH = '/workspaces/:workspace/requests'
const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200

const Text = Type.String({ minLength: 1, maxLength: 256 })
const ListQuery = Type.Object({
  outcome: Type.Optional(Type.Enum(['ok', 'failed'])),
  path: Type.Optional(Text),
  app: Type.Optional(Text),
  key_id: Type.Optional(Text),
  before: Type.Optional(Text),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
})

/** The newest requests of a workspace, filtered, and one by its id. */
export function requestEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'GET', PATH, { query: ListQuery }, listRequests),
    consoleEndpoint(desk, 'GET', `${PATH}/:id`, {}, showRequest),
  ]
}

async function listRequests(call: ConsoleCall<typeof PATH, unknown, Static<typeof ListQuery>>) {
  const { desk, params, query } = call
  const found = await desk.state.requests.list({
    workspace: params.workspace,
    outcome: query.outcome ?? null,
    path: query.path ?? null,
    app: query.app ?? null,
    keyId: query.key_id ?? null,
    jobId: null,
    beforeMs: momentOf(query, 'before'),
    limit: query.limit ?? LIMIT_DEFAULT,
  })
  return { requests: found.map(requestAnswer) }
}

/** A request of another workspace is unknown, too. */
async function showRequest({ desk, params }: ConsoleCall<`${typeof PATH}/:id`, unknown, unknown>) {
  const found = await desk.state.requests.get(params.workspace, params.id)
  if (found === null) throw new GatewayError('NOT_FOUND', 'there is no such request, or no more')
  return requestAnswer(found)
}

export function requestAnswer(record: RequestRecord): RequestAnswer {
  const { id, app, method, path, status, error, milliseconds, route, replayed, attempts, usage } = record
  return {
    id,
    at: timestamp(record.atMs),
    app,
    key_id: record.keyId,
    method,
    path,
    status,
    error,
    milliseconds,
    added_milliseconds: record.addedMs,
    received_bytes: record.receivedBytes,
    sent_bytes: record.sentBytes,
    route,
    policy_version_id: record.policyVersionId,
    job_id: record.jobId,
    replayed,
    attempts,
    usage,
    cost_usd: record.costUsd,
  }
}
