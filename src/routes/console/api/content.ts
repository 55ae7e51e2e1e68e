import { type Static, Type } from 'typebox'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { noteChange } from '../../audit-note.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import { workspaceAnswer } from './workspaces.ts'

const PATH = '/workspaces/:workspace/content'

const Body = Type.Object({
  shown: Type.Boolean({ description: 'whether the console may show audio and transcripts of the workspace' }),
})

/** The switch without which nobody sees content in the console. */
export function contentEndpoint(desk: ConsoleDesk): EdgeRoute {
  return consoleEndpoint(desk, 'PUT', PATH, { body: Body }, switchContent)
}

async function switchContent(call: ConsoleCall<typeof PATH, Static<typeof Body>, unknown>) {
  const { desk, viewer, params, body } = call
  const { workspace } = params
  const { settings } = desk.doors.services.state
  const shown = await settings.contentShown(workspace)
  if (shown !== body.shown) {
    const action = body.shown ? 'content.show' : 'content.hide'
    const note = { action, workspace, target: `workspace/${workspace}`, by: viewer.actor }
    await noteChange(desk.records, { ...note, before: { shown }, after: { shown: body.shown } })
    await settings.putContentShown(workspace, body.shown)
  }
  return workspaceAnswer(call, workspace)
}
