import { type Static, Type } from 'typebox'
import { PurposeShape } from '../../../catalog/file.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { WorkspaceAnswer } from './answers.ts'
import { changePart } from './change-part.ts'
import { workspaceAnswer } from './workspaces.ts'

const PATH = '/workspaces/:workspace/purposes/:purpose'

const Body = Type.Object(PurposeShape.properties)

type Call<Body = unknown> = ConsoleCall<typeof PATH, Body, unknown>

/** The labels that apps may bind to routes. One that an app or a route still names cannot be taken away. */
export function purposeEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'PUT', PATH, { body: Body }, (call) => change(call, call.body)),
    consoleEndpoint(desk, 'DELETE', PATH, {}, (call) => change(call, null)),
  ]
}

async function change(call: Call, fields: Static<typeof Body> | null): Promise<WorkspaceAnswer> {
  const { workspace, purpose: name } = call.params
  const record = { kind: 'purpose', workspace, name } as const
  const action = fields === null ? 'purpose.remove' : 'purpose.publish'
  await changePart(call, () => ({ record, fields, action }))
  return workspaceAnswer(call, workspace)
}
