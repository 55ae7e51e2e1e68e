import { type Static, Type } from 'typebox'
import { putApp, putPurpose, removeApp, removePurpose } from '../../../gateway/admin/catalog.ts'
import { storedKeys } from '../../../gateway/admin/keys.ts'
import { catalogParts } from '../../../gateway/admin/parts.ts'
import { AppShape, PurposeShape } from '../../../gateway/catalog/file.ts'
import type { AppsAnswer, NamesAnswer, WorkspaceAnswer } from '../answers/workspaces.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { fileKeys } from './keys.ts'
import { PAGING, paged } from './lists.ts'
import { appAnswer, workspaceAnswer } from './workspaces.ts'

const LIST = '/workspaces/:workspace/apps'
const APP = `${LIST}/:app` as const
const NAMES = '/workspaces/:workspace/names'
const PURPOSE = '/workspaces/:workspace/purposes/:purpose'

const ListQuery = Type.Object(PAGING)
/** A form offers all of them. */
const NAMES_MAX = 1_000
const NamesQuery = Type.Object({
  ...PAGING,
  of: Type.Enum(['apps', 'keys', 'routes']),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: NAMES_MAX })),
})

const AppBody = Type.Object(AppShape.properties)
const PurposeBody = Type.Object(PurposeShape.properties)

type AppCall<Body = unknown> = ConsoleCall<typeof APP, Body, unknown>
type PurposeCall<Body = unknown> = ConsoleCall<typeof PURPOSE, Body, unknown>

/** The apps of a workspace, the purposes that they may bind to routes, and names for pickers. */
export function appEndpoints(context: ConsoleContext): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', LIST, { query: ListQuery }, listApps),
    consoleEndpoint(context, 'GET', NAMES, { query: NamesQuery }, listNames),
    consoleEndpoint(context, 'PUT', APP, { body: AppBody }, replaceApp),
    consoleEndpoint(context, 'DELETE', APP, {}, deleteApp),
    consoleEndpoint(context, 'PUT', PURPOSE, { body: PurposeBody }, replacePurpose),
    consoleEndpoint(context, 'DELETE', PURPOSE, {}, deletePurpose),
  ]
}

function listApps(call: ConsoleCall<typeof LIST, unknown, Static<typeof ListQuery>>): AppsAnswer {
  const { context, viewer, params, query } = call
  const all = catalogParts(context.catalog, 'app', params.workspace)
  const { page, total } = paged(all, query, ({ name, fields }) => [name, JSON.stringify(fields)])
  return { apps: page.map((part) => appAnswer(part, viewer.role)), total, all: all.length }
}

async function listNames({
  context,
  params: { workspace },
  query,
}: ConsoleCall<typeof NAMES, unknown, Static<typeof NamesQuery>>): Promise<NamesAnswer> {
  const all = await namesIn(context, workspace, query.of)
  const { page, total } = paged(all, query, ({ id, name }) => [id, name])
  return { names: page, total }
}

async function namesIn(
  { catalog, deps }: ConsoleContext,
  workspace: string,
  of: 'apps' | 'keys' | 'routes',
): Promise<NamesAnswer['names']> {
  if (of !== 'keys')
    return catalogParts(catalog, of === 'apps' ? 'app' : 'route', workspace).map(({ name }) => ({
      id: name,
      name,
    }))
  const { snapshot, state } = deps.services
  const stored = (await storedKeys(state.keys, workspace)).filter(({ kind }) => kind !== 'playground')
  const keys = [...fileKeys(snapshot(), workspace), ...stored]
  return keys.map(({ id, name }) => ({ id, name })).sort((one, other) => (one.name < other.name ? -1 : 1))
}

async function replaceApp(call: AppCall<Static<typeof AppBody>>): Promise<WorkspaceAnswer> {
  const { context, viewer, params, body } = call
  const { workspace, app: name } = params
  await putApp(viewer.actor, { workspace, name, fields: body }, context.admin)
  return workspaceAnswer(call, workspace)
}

async function deleteApp(call: AppCall): Promise<WorkspaceAnswer> {
  const { workspace, app: name } = call.params
  await removeApp(call.viewer.actor, { workspace, name }, call.context.admin)
  return workspaceAnswer(call, workspace)
}

async function replacePurpose(call: PurposeCall<Static<typeof PurposeBody>>): Promise<WorkspaceAnswer> {
  const { context, viewer, params, body } = call
  const { workspace, purpose: name } = params
  await putPurpose(viewer.actor, { workspace, name, fields: body }, context.admin)
  return workspaceAnswer(call, workspace)
}

async function deletePurpose(call: PurposeCall): Promise<WorkspaceAnswer> {
  const { workspace, purpose: name } = call.params
  await removePurpose(call.viewer.actor, { workspace, name }, call.context.admin)
  return workspaceAnswer(call, workspace)
}
