import { type Static, Type } from 'typebox'
import { AppShape } from '../../../catalog/file.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { AppsAnswer, NamesAnswer, WorkspaceAnswer } from './answers.ts'
import { changePart } from './change-part.ts'
import { refusedFor } from './faults.ts'
import { storedKeys, validKeys } from './kept-keys.ts'
import { fileKeys } from './key-answers.ts'
import { PAGING, paged } from './paging.ts'
import { partOf, partsOf } from './parts.ts'
import { appAnswer, workspaceAnswer } from './workspaces.ts'

const LIST = '/workspaces/:workspace/apps'
const PATH = `${LIST}/:app` as const
const NAMES = '/workspaces/:workspace/names'

const ListQuery = Type.Object(PAGING)
/** A form offers all of them. */
const NAMES_MAX = 1_000
const NamesQuery = Type.Object({
  ...PAGING,
  of: Type.Enum(['apps', 'keys', 'routes']),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: NAMES_MAX })),
})

const Body = Type.Object(AppShape.properties)

type Call<Body = unknown> = ConsoleCall<typeof PATH, Body, unknown>

/** The apps of a workspace, each with its routes; and names to pick from, without what they stand for. */
export function appEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'GET', LIST, { query: ListQuery }, listApps),
    consoleEndpoint(desk, 'GET', NAMES, { query: NamesQuery }, listNames),
    consoleEndpoint(desk, 'PUT', PATH, { body: Body }, putApp),
    consoleEndpoint(desk, 'DELETE', PATH, {}, deleteApp),
  ]
}

function listApps(call: ConsoleCall<typeof LIST, unknown, Static<typeof ListQuery>>): AppsAnswer {
  const { desk, viewer, params, query } = call
  const all = partsOf(desk, 'app', params.workspace)
  const { page, total } = paged(all, query, ({ name, fields }) => [name, JSON.stringify(fields)])
  return { apps: page.map((part) => appAnswer(part, viewer.role)), total, all: all.length }
}

async function listNames({
  desk,
  params: { workspace },
  query,
}: ConsoleCall<typeof NAMES, unknown, Static<typeof NamesQuery>>): Promise<NamesAnswer> {
  const { page, total } = paged(await namesIn(desk, workspace, query.of), query, ({ id, name }) => [id, name])
  return { names: page, total }
}

async function namesIn(
  desk: ConsoleDesk,
  workspace: string,
  of: 'apps' | 'keys' | 'routes',
): Promise<NamesAnswer['names']> {
  if (of !== 'keys')
    return partsOf(desk, of === 'apps' ? 'app' : 'route', workspace).map(({ name }) => ({ id: name, name }))
  const keys = [
    ...fileKeys(desk.doors.services.snapshot(), workspace),
    ...(await storedKeys(desk, workspace)),
  ]
  return keys.map(({ id, name }) => ({ id, name })).sort((one, other) => (one.name < other.name ? -1 : 1))
}

async function putApp(call: Call<Static<typeof Body>>): Promise<WorkspaceAnswer> {
  const { params, body } = call
  await changePart(call, () => ({ record: recordOf(params), fields: body, action: 'app.publish' }))
  return workspaceAnswer(call, params.workspace)
}

/** Not while a key stands for it: the key would stand for nobody, and work again for the next app of this name. */
async function deleteApp(call: Call): Promise<WorkspaceAnswer> {
  const { desk, params } = call
  await changePart(call, async () => {
    const record = recordOf(params)
    const keys = validKeys(await storedKeys(desk, params.workspace), desk.nowMs())
    const own = keys.filter((key) => key.app === params.app)
    const stands = own.map((key) => `the key "${key.name}" (${key.id}) stands for it: revoke it first`)
    if (stands.length > 0 && partOf(desk, record)?.managedBy === 'console') throw refusedFor(stands)
    return { record, fields: null, action: 'app.remove' }
  })
  return workspaceAnswer(call, params.workspace)
}

function recordOf({ workspace, app }: Call['params']) {
  return { kind: 'app', workspace, name: app } as const
}
