import type { KeptSession } from '../../../contracts/console.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { audit } from '../../../gateway/admin/audit.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import type { EdgeRoute } from '../../../gateway/edge/server.ts'
import type { ListedSession } from '../answers/access.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import { holderAnswer, sessionOf, sessionTarget, type Viewer, viewerWith } from '../session.ts'

const PATH = '/sessions'
const ONE = '/sessions/:id'
/** Longer than anyone reads; the ones that end first are left out. */
const LISTED_MAX = 500

/** The sessions of the console: of everybody for operators, else one's own. They can be ended one by one. */
export function sessionEndpoints(context: ConsoleContext): EdgeRoute[] {
  return [
    consoleEndpoint(context, 'GET', PATH, {}, listSessions),
    consoleEndpoint(context, 'DELETE', ONE, {}, endSession),
  ]
}

async function listSessions({ viewer, context }: ConsoleCall<typeof PATH, unknown, unknown>) {
  const { sessions } = context.state
  const holder = viewer.role === 'operator' ? null : sessionOf(viewer).holder
  const found = await sessions.list(holder, LISTED_MAX)
  return { sessions: await Promise.all(found.map((session) => sessionAnswer(session, viewer, context))) }
}

async function sessionAnswer(
  session: KeptSession,
  viewer: Viewer,
  context: ConsoleContext,
): Promise<ListedSession> {
  const its = await viewerWith(session, context)
  return {
    id: session.id,
    current: session.id === sessionOf(viewer).id,
    own: session.holder === sessionOf(viewer).holder,
    role: its?.role ?? null,
    workspaces: its?.workspaces ?? [],
    ...holderAnswer(its ?? { principal: null, session }),
    address: session.address,
    browser: session.browser,
    began_at: timestamp(session.beganAtMs),
    seen_at: timestamp(session.seenAtMs),
    expires_at: timestamp(session.expiresAtMs),
  }
}

/** Ends a session at once, on every node. Others' sessions are as good as none, but for operators. */
async function endSession({ viewer, params, context }: ConsoleCall<typeof ONE, unknown, unknown>) {
  const { sessions } = context.state
  const session = await sessions.find(params.id)
  const isSeen =
    session !== null && (viewer.role === 'operator' || session.holder === sessionOf(viewer).holder)
  if (!isSeen) throw new GatewayError('NOT_FOUND', 'there is no such session')
  const { person } = session
  await audit(context.admin.state.catalog, viewer.actor, {
    action: 'session.revoke',
    workspace: null,
    target: sessionTarget(session.id),
    detail: person === null ? 'of an API key' : `of ${person.name}`,
  })
  await sessions.end(session.id)
  return { ended: true }
}
