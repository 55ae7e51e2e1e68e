import { type Static, Type } from 'typebox'
import { GatewayError } from '../../../errors.ts'
import { invalid } from '../../../inbound/refusals.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { recordId } from '../../../schema/catalog-store.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { RouteAnswer, RoutesAnswer } from './answers.ts'
import { changeDraft, changePart, conflict, requireRoom } from './change-part.ts'
import { refusedFor } from './faults.ts'
import { requireOwnName } from './own-name.ts'
import { partOf } from './parts.ts'
import { noRoute, type RouteName, RoutesQuery, routeAnswer, routeSummaries } from './route-answers.ts'

const LIST = '/workspaces/:workspace/routes'
const PATH = `${LIST}/:route` as const

const Revision = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

const DraftBody = Type.Object({
  fields: Type.Object({}, { description: 'as a configuration file would have them; they may have faults' }),
  revision: Type.Union([Revision, Type.Null()], {
    description: 'of the draft that is replaced; null: there is none',
  }),
})

const PublishBody = Type.Object({ revision: Revision })

type Call<Body = unknown> = ConsoleCall<typeof PATH, Body, unknown>

/** The routes of a workspace: drafts are made, looked at and published. */
export function routeEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'GET', LIST, { query: RoutesQuery }, listRoutes),
    consoleEndpoint(desk, 'GET', PATH, {}, showRoute),
    consoleEndpoint(desk, 'DELETE', PATH, {}, deleteRoute),
    consoleEndpoint(desk, 'PUT', `${PATH}/draft`, { body: DraftBody }, putDraft),
    consoleEndpoint(desk, 'DELETE', `${PATH}/draft`, {}, dropDraft),
    consoleEndpoint(desk, 'POST', `${PATH}/publish`, { body: PublishBody }, publishRoute),
  ]
}

function listRoutes(
  call: ConsoleCall<typeof LIST, unknown, Static<typeof RoutesQuery>>,
): Promise<RoutesAnswer> {
  return routeSummaries(call, call.params.workspace, call.query)
}

/** @throws GatewayError NOT_FOUND */
export async function showRoute(call: Call): Promise<RouteAnswer> {
  const answer = await routeAnswer(call, routeIn(call.params))
  if (answer === null) throw notFound()
  return answer
}

/**
 * Saves a draft, whatever is wrong with it. Only its beginning is on the audit list: it serves nobody, and the page
 * saves it with every change.
 */
async function putDraft(call: Call<Static<typeof DraftBody>>): Promise<RouteAnswer> {
  const { desk, params, body } = call
  const record = routeIn(params)
  const part = partOf(desk, record)
  if (part?.managedBy === 'file')
    throw refusedFor([`the route "${record.name}" is managed by the configuration file`])
  if (part === null && body.revision === null) await requireNewRoute(desk, record)
  const owner = (body.fields as { readonly workspace?: unknown }).workspace ?? params.workspace
  if (owner !== params.workspace)
    throw invalid(`fields.workspace: must be ${params.workspace}`, 'fields.workspace')
  const fields = { ...body.fields, workspace: params.workspace }
  const begins = body.revision === null ? 'route.draft' : null
  await changeDraft(call, { do: 'draft', record, fields, revision: body.revision }, begins)
  return showRoute(call)
}

/** Dropping what is not there is no error: the answer of the first time may have been lost. */
async function dropDraft(call: Call): Promise<RouteAnswer> {
  const record = routeIn(call.params)
  const before = await call.desk.records.get(record)
  if (before?.draft) await changeDraft(call, { do: 'discard', record }, 'route.discard')
  return (await routeAnswer(call, record)) ?? noRoute(record)
}

async function publishRoute(call: Call<Static<typeof PublishBody>>): Promise<RouteAnswer> {
  const record = routeIn(call.params)
  await changePart(call, async () => {
    const { draft = null } = (await call.desk.records.get(record)) ?? {}
    if (draft?.revision !== call.body.revision)
      throw draft === null && partOf(call.desk, record) === null ? notFound() : conflict()
    return { record, fields: draft.fields, draft, action: 'route.publish' }
  })
  return showRoute(call)
}

async function deleteRoute(call: Call): Promise<{ deleted: true }> {
  const { desk } = call
  const record = routeIn(call.params)
  if (partOf(desk, record) === null) {
    const { draft = null } = (await desk.records.get(record)) ?? {}
    if (draft === null) throw notFound()
    await changeDraft(call, { do: 'discard', record }, 'route.discard')
  } else await changePart(call, () => ({ record, fields: null, action: 'route.remove' }))
  return { deleted: true }
}

/** @throws GatewayError INVALID_REQUEST for a name that is not to be had */
async function requireNewRoute(desk: ConsoleDesk, record: RouteName): Promise<void> {
  const all = (await desk.records.list(record.workspace)).filter((one) => one.kind === 'route')
  if (all.some((one) => recordId(one) === recordId(record))) return
  requireOwnName(record.workspace, record.name, 'route')
  requireRoom(desk, record, all.filter((one) => one.published === null).length)
}

export function routeIn({ workspace, route }: Call['params']): RouteName {
  return { kind: 'route', workspace, name: route }
}

export function notFound(): GatewayError {
  return new GatewayError('NOT_FOUND', 'there is no such route')
}
