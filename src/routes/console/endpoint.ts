import { type Static, type TObject, Type } from 'typebox'
import { GatewayError } from '../../errors.ts'
import type { Exchange, Reply } from '../../inbound/exchange.ts'
import { readJson } from '../../inbound/json-body.ts'
import type { EdgeRoute } from '../../inbound/server.ts'
import type { RateLimit } from '../../schema/state.ts'
import { endpoint } from '../endpoint.ts'
import { jsonReply } from '../json-reply.ts'
import { compressed } from './compressed.ts'
import type { ConsoleDesk } from './desk.ts'
import { requireSameOrigin } from './same-origin.ts'
import { requireCsrfToken, takeToken, type Viewer, viewerOf } from './session.ts'
import { strictBody, strictQuery } from './strict-fields.ts'

const API = '/console/api'
/** The longest route that anybody builds is far shorter. */
const MAX_BODY_BYTES = 256 * 1024
/** A bucket of its own, so that open consoles take nothing from the calls of the key that signed in. */
const RATE_LIMIT: RateLimit = { requestsPerMinute: 1200, burst: 300 }
/**
 * Of all changes by admins of one workspace together: each is checked against the whole catalog, on the thread that
 * serves calls, and stays on the audit list for good. Operators have the whole at heart anyway.
 */
const CHANGES: RateLimit = { requestsPerMinute: 240, burst: 200 }
/** Whose share of the memory the bodies count against. */
const MEMORY_OF = 'console'

const NO_FIELDS = Type.Object({})
type NoFields = typeof NO_FIELDS

type Method = EdgeRoute['method']

/** The names in a path, e.g. `workspace` and `route` of `/workspaces/:workspace/routes/:route`. */
type ParamsOf<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamsOf<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never

/** What a call of the console is handled with, once its viewer may make it. */
export interface ConsoleCall<Path extends string, Body, Query> {
  readonly exchange: Exchange
  readonly desk: ConsoleDesk
  readonly viewer: Viewer
  /** What stood in the path. A workspace exists, and the viewer may see it. */
  readonly params: Readonly<Record<ParamsOf<Path>, string>>
  readonly body: Body
  readonly query: Query
}

interface ConsoleOptions<Body extends TObject, Query extends TObject> {
  /** Fields of the JSON body; absent: the body is not looked at. */
  readonly body?: Body
  /** Parameters of the query, strings and integers; absent: there are none. */
  readonly query?: Query
  /** Absent: admins may make it, too, in their own workspace. */
  readonly role?: 'operator'
  /** The workspace of the path may be one that is not there yet. Only for operators. */
  readonly makesWorkspace?: true
  /** Of a good answer; 200 unless said. */
  readonly status?: number
}

/** An answer that is more than a value in JSON. */
export class WrittenReply {
  readonly reply: Reply

  constructor(reply: Reply) {
    this.reply = reply
  }
}

/**
 * Binds an endpoint of the console's API to the edge. In this order: the session; the newest catalog; whether the
 * workspace of the path is there for the viewer, who else learns nothing of it; the role; for everything but GET, that
 * the request comes from our own page; the rate; query and body, which must hold nothing unknown. Answers are kept by
 * no cache.
 *
 * @param path   what follows `/console/api`
 * @param handle gives what is answered as JSON, or a `WrittenReply`; throws GatewayError
 */
export function consoleEndpoint<
  const Path extends string,
  Body extends TObject = NoFields,
  Query extends TObject = NoFields,
>(
  desk: ConsoleDesk,
  method: Method,
  path: Path,
  { body, query, role, makesWorkspace, status = 200 }: ConsoleOptions<Body, Query>,
  handle: (call: ConsoleCall<NoInfer<Path>, Static<Body>, Static<Query>>) => object | Promise<object>,
): EdgeRoute {
  const names = path.split('/').flatMap((part) => (part.startsWith(':') ? [part.slice(1)] : []))
  return endpoint(desk.doors, method, API + path, async (exchange, trail) => {
    trail.headers['cache-control'] = 'no-store'
    const viewer = await viewerOf(exchange, trail, desk)
    // Behind a balancer the change that a page has just made may have been another node's.
    await desk.catalog.refresh()
    const params = Object.fromEntries(names.map((name, index) => [name, exchange.params[index] ?? '']))
    const isMade = makesWorkspace === true && viewer.role === 'operator'
    if (params.workspace !== undefined && !isMade) requireWorkspace(params.workspace, viewer, desk)
    if (role === 'operator') requireOperator(viewer)
    if (method !== 'GET') {
      requireSameOrigin(exchange)
      requireCsrfToken(exchange, viewer.session)
    }
    await takeToken(desk, viewer.principal, {
      id: `console/${viewer.principal.key.id}`,
      rateLimit: RATE_LIMIT,
    })
    if (method !== 'GET' && viewer.role === 'admin') {
      // An embedded state knows a bucket by its id alone: without the workspace one of them would hinder all.
      const id = `console-changes/${viewer.principal.workspace.id}`
      await takeToken(desk, viewer.principal, { id, rateLimit: CHANGES })
    }
    const answer = await handle({
      exchange,
      desk,
      viewer,
      params: params as Record<ParamsOf<Path>, string>,
      query: strictQuery(query ?? NO_FIELDS, exchange.query) as Static<Query>,
      body: (body === undefined ? {} : await readStrict(body, exchange, desk)) as Static<Body>,
    })
    if (answer instanceof WrittenReply) return answer.reply
    return compressed({ ...(await jsonReply(answer)), status }, exchange)
  })
}

/**
 * The JSON body of a request.
 *
 * @throws GatewayError of `readJson` and `strictBody`
 */
export async function readStrict<Shape extends TObject>(
  schema: Shape,
  exchange: Exchange,
  { doors }: ConsoleDesk,
): Promise<Static<Shape>> {
  const { budget } = doors.services
  const { value, release } = await readJson(exchange, {
    budget,
    maxBytes: MAX_BODY_BYTES,
    workspace: MEMORY_OF,
  }).catch((error: unknown) => {
    throw tooLarge(error) ?? error
  })
  exchange.onFinished(release)
  return strictBody(schema, value)
}

/** The refusal of a large body would name the limit of all bodies. */
function tooLarge(error: unknown): GatewayError | null {
  if (!(error instanceof GatewayError) || error.code !== 'REQUEST_TOO_LARGE') return null
  const { limit: _, ...details } = error.extra.details ?? {}
  return new GatewayError('REQUEST_TOO_LARGE', `the body is over ${MAX_BODY_BYTES} bytes`, { details })
}

/**
 * Another's workspace and one that does not exist are the same to an admin.
 *
 * @throws GatewayError NOT_FOUND
 */
export function requireWorkspace(id: string, { role, principal }: Viewer, { catalog }: ConsoleDesk): void {
  const visible = role === 'operator' ? catalog.current().apps.has(id) : id === principal.workspace.id
  if (!visible) throw new GatewayError('NOT_FOUND', 'there is no such workspace')
}

/** @throws GatewayError PERMISSION_DENIED */
export function requireOperator({ role }: Viewer): void {
  if (role === 'operator') return
  throw new GatewayError('PERMISSION_DENIED', 'only an operator may do that', {
    details: { scope: 'operator' },
  })
}
