import type { LiveSample, SessionEnds } from '../../contracts/console.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { type Clock, sleep } from '../../contracts/time.ts'
import type { LiveSessions } from '../live/sessions.ts'
import type { AdminActor, AdminContext } from './actor.ts'
import { requireOwner } from './actor.ts'
import { audit } from './audit.ts'

/** How long another node may take to end a session, which looks for such orders once a second. */
const ORDER_MS = 3_000
const LOOK_MS = 100

/** The parts that ending a session needs. */
interface LiveAdminContext extends Pick<AdminContext, 'state'> {
  readonly live: Pick<LiveSessions, 'find'>
  readonly clock: Clock
  readonly sessionEnds: SessionEnds
  /** Sessions of all nodes, as they told some seconds ago. */
  readonly ofOtherNodes: () => Promise<readonly LiveSample[]>
}

/**
 * Ends a live session: what was sent until now is still transcribed, and its caller is told. Another node that has it
 * does so within about a second.
 *
 * @throws GatewayError NOT_FOUND, also for a session of another workspace; DEPENDENCY_UNAVAILABLE
 */
export async function endSession(
  actor: AdminActor,
  { id, workspace }: { readonly id: string; readonly workspace: string },
  { state, live, sessionEnds, ofOtherNodes, clock }: LiveAdminContext,
): Promise<void> {
  requireOwner(actor, workspace)
  const here = live.find(id)
  const found =
    here === null
      ? (await ofOtherNodes()).find((sample) => sample.id === id)
      : { workspace: here.context.principal.workspace.id, keyId: here.context.principal.key.id }
  if (found === undefined || found.workspace !== workspace) throw new GatewayError('NOT_FOUND', ENDED)
  const detail = `of the key ${found.keyId}`
  await audit(state.catalog, actor, { action: 'live.end', workspace, target: `live/${id}`, detail })
  if (here === null) await orderEnd(id, sessionEnds, clock)
  else here.session.stop()
}

const ENDED = 'the session has ended'

/** @throws GatewayError NOT_FOUND when no node has it any more */
async function orderEnd(id: string, ends: SessionEnds, clock: Clock): Promise<void> {
  await ends.order(id)
  for (const untilMs = clock.now() + ORDER_MS; clock.now() < untilMs; ) {
    await sleep(clock, LOOK_MS)
    if (!(await ends.pending()).includes(id)) return
  }
  await ends.withdraw(id)
  throw new GatewayError('NOT_FOUND', ENDED)
}
