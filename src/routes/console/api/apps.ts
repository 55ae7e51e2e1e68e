import { type Static, Type } from 'typebox'
import { AppShape } from '../../../catalog/file.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { WorkspaceAnswer } from './answers.ts'
import { changePart } from './change-part.ts'
import { refusedFor } from './faults.ts'
import { storedKeys, validKeys } from './kept-keys.ts'
import { partOf } from './parts.ts'
import { workspaceAnswer } from './workspaces.ts'

const PATH = '/workspaces/:workspace/apps/:app'

const Body = Type.Object(AppShape.properties)

type Call<Body = unknown> = ConsoleCall<typeof PATH, Body, unknown>

/** The apps of a workspace, each with the routes that it leads to. */
export function appEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'PUT', PATH, { body: Body }, putApp),
    consoleEndpoint(desk, 'DELETE', PATH, {}, deleteApp),
  ]
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
