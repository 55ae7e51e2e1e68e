import { GatewayError } from '../errors.ts'
import type { LiveSessions } from '../live/sessions.ts'
import type { AdminActor, AdminContext } from './actor.ts'
import { requireOwner } from './actor.ts'
import { audit } from './audit.ts'

/**
 * Ends a live session of this node: what was sent until now is still transcribed, and its caller is told.
 *
 * @throws GatewayError NOT_FOUND, also for a session of another workspace or node; DEPENDENCY_UNAVAILABLE
 */
export async function endSession(
  actor: AdminActor,
  { id, workspace }: { readonly id: string; readonly workspace: string },
  { state, live }: Pick<AdminContext, 'state'> & { readonly live: Pick<LiveSessions, 'find'> },
): Promise<void> {
  requireOwner(actor, workspace)
  const open = live.find(id)
  if (open === null || open.context.principal.workspace.id !== workspace)
    throw new GatewayError('NOT_FOUND', 'the session has ended, or another node has it')
  const detail = `of the key ${open.context.principal.key.id}`
  await audit(state.catalog, actor, { action: 'live.end', workspace, target: `live/${id}`, detail })
  open.session.stop()
}
