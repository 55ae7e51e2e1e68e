import { type Static, type TObject, Type } from 'typebox'
import { Value } from 'typebox/value'
import { GatewayError } from '../../contracts/errors.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import { requireOperator, requireWorkspace } from '../../gateway/admin/actor.ts'
import { ISSUE_LENGTH_MAX, issueDetails } from '../../gateway/admin/issues.ts'
import { codingFor, compressedNow } from '../../gateway/api/assets.ts'
import { observedRoute } from '../../gateway/api/endpoint.ts'
import { faultOf } from '../../gateway/api/json-fault.ts'
import { jsonReply } from '../../gateway/api/json-reply.ts'
import type { CallContext } from '../../gateway/call/context/call-context.ts'
import { checkShape, Issues, issueLines } from '../../gateway/catalog/issues.ts'
import type { Exchange, Reply, WholeReply } from '../../gateway/edge/exchange.ts'
import { isObject, readJson } from '../../gateway/edge/json-body.ts'
import { invalidField } from '../../gateway/edge/refusals.ts'
import type { EdgeRoute } from '../../gateway/edge/server.ts'
import type { ConsoleContext } from './context.ts'
import { requireCsrfToken, requireSameOrigin } from './security.ts'
import { bucketOf, callerByKey, sessionOf, takeToken, type Viewer, viewerIn, viewerOf } from './session.ts'

/** How callers come in, and how it is known that they mean a change. */
interface Door {
  readonly prefix: string
  readonly viewerOf: (
    exchange: Exchange,
    call: CallContext,
    context: ConsoleContext,
  ) => Viewer | Promise<Viewer>
  /** @throws GatewayError PERMISSION_DENIED */
  readonly requireIntent: (exchange: Exchange, viewer: Viewer) => void
  /** Names the bucket of a key. */
  readonly bucket: string
}

/** For our own page, by its session: no other page can make changes with it. */
const PAGE_DOOR: Door = {
  prefix: '/console/api',
  viewerOf,
  requireIntent(exchange, viewer) {
    requireSameOrigin(exchange)
    requireCsrfToken(exchange, sessionOf(viewer))
  },
  bucket: 'console',
}

/** For programs: by a key, which no browser sends by itself. */
const KEY_DOOR: Door = {
  prefix: '/v1/admin',
  viewerOf: callerByKey,
  requireIntent() {},
  bucket: 'admin',
}

/** Real routes are far shorter. */
const BODY_BYTES_MAX = 256 * 1024
/** A bucket of its own, so that open consoles take nothing from the calls of the key that signed in. */
const RATE_LIMIT: RateLimit = { requestsPerMinute: 1200, burst: 300 }
/**
 * Limit for all changes by admins of one workspace together: each is checked against the whole catalog, on the thread
 * that serves calls, and stays on the audit list for good. Operators are not limited.
 */
const CHANGES: RateLimit = { requestsPerMinute: 240, burst: 200 }
/** The share of the memory that bodies count against. */
const MEMORY_SHARE = 'console'
/** Shorter answers go out in one packet anyway. UTF-16 units. */
const COMPRESSED_LENGTH_MIN = 1024

const NO_FIELDS = Type.Object({})
type NoFields = typeof NO_FIELDS

type Method = EdgeRoute['method']

/** The names in a path, e.g. `workspace` and `route` of `/workspaces/:workspace/routes/:route`. */
type ParamsOf<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamsOf<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never

/** A call of the console whose viewer may make it. */
export interface ConsoleCall<Path extends string, Body, Query> {
  readonly exchange: Exchange
  readonly context: ConsoleContext
  readonly viewer: Viewer
  /** Parameters of the path. A workspace exists, and the viewer may see it. */
  readonly params: Readonly<Record<ParamsOf<Path>, string>>
  readonly body: Body
  readonly query: Query
}

export interface ConsoleOptions<Body extends TObject, Query extends TObject> {
  /** Fields of the JSON body; absent: the body is not looked at. */
  readonly body?: Body
  /** Parameters of the query, strings and integers; absent: there are none. */
  readonly query?: Query
  /** Absent: admins may make the call too, in their own workspace. */
  readonly role?: 'operator'
  /** The workspace of the path may be a new one. Only for operators. */
  readonly makesWorkspace?: true
  /** Status of a good answer; 200 by default. */
  readonly status?: number
}

/** An answer that is more than a value in JSON. */
export class WrittenReply {
  readonly reply: Reply

  constructor(reply: Reply) {
    this.reply = reply
  }
}

/** An endpoint of the console's API, bound to the edge, and the same for holders of keys. */
export interface ConsoleRoute extends EdgeRoute {
  /** Below the path of either door: `/workspaces/:workspace`. */
  readonly name: string
  readonly options: ConsoleOptions<TObject, TObject>
  /** The same at the management API, if it is served there. */
  readonly byKey: EdgeRoute
}

/**
 * Binds an endpoint of the console's API to the edge, for its page and for keys. Checks, in this order: the session, or
 * the key; the newest catalog; whether the viewer may see the workspace of the path; the role; for everything but GET,
 * that the request comes from our own page; the rate; query and body, which must hold nothing unknown. No cache keeps
 * the answers.
 *
 * @param path   below `/console/api`
 * @param handle returns the answer as JSON, or a `WrittenReply`; throws GatewayError
 */
export function consoleEndpoint<
  const Path extends string,
  Body extends TObject = NoFields,
  Query extends TObject = NoFields,
>(
  context: ConsoleContext,
  method: Method,
  path: Path,
  options: ConsoleOptions<Body, Query>,
  handle: (call: ConsoleCall<NoInfer<Path>, Static<Body>, Static<Query>>) => object | Promise<object>,
): ConsoleRoute {
  const bound = (door: Door) => boundTo(door, { context, method, path, options, handle })
  return { ...bound(PAGE_DOOR), name: path, options, byKey: bound(KEY_DOOR) }
}

interface Bound<Path extends string, Body extends TObject, Query extends TObject> {
  readonly context: ConsoleContext
  readonly method: Method
  readonly path: Path
  readonly options: ConsoleOptions<Body, Query>
  readonly handle: (call: ConsoleCall<Path, Static<Body>, Static<Query>>) => object | Promise<object>
}

function boundTo<Path extends string, Body extends TObject, Query extends TObject>(
  door: Door,
  { context, method, path, options, handle }: Bound<Path, Body, Query>,
): EdgeRoute {
  const { body, query, role, makesWorkspace, status = 200 } = options
  const names = path.split('/').flatMap((part) => (part.startsWith(':') ? [part.slice(1)] : []))
  return observedRoute(context.deps, { method, path: door.prefix + path }, async (exchange, call) => {
    call.answer.headers['cache-control'] = 'no-store'
    const found = await door.viewerOf(exchange, call, context)
    // With several nodes, the page may just have made its change at another one.
    await context.catalog.refresh()
    const params = Object.fromEntries(names.map((name, index) => [name, exchange.params[index] ?? '']))
    const viewer = params.workspace === undefined ? found : viewerIn(found, params.workspace)
    const isMade = makesWorkspace === true && viewer.role === 'operator'
    if (params.workspace !== undefined && !isMade)
      requireWorkspace(viewer.actor, params.workspace, context.catalog)
    if (role === 'operator') requireOperator(viewer)
    if (method !== 'GET') door.requireIntent(exchange, viewer)
    const bucket = bucketOf(viewer)
    await takeToken(context, { ...bucket, id: `${door.bucket}/${bucket.id}`, rateLimit: RATE_LIMIT })
    if (method !== 'GET' && viewer.role === 'admin') {
      const workspace = viewer.actor.workspace ?? ''
      // An embedded state knows a bucket by its id alone: without the workspace one of them would hinder all.
      await takeToken(context, { workspace, id: `console-changes/${workspace}`, rateLimit: CHANGES })
    }
    const answer = await handle({
      exchange,
      context,
      viewer,
      params: params as Record<ParamsOf<Path>, string>,
      query: strictQuery(query ?? NO_FIELDS, exchange.query) as Static<Query>,
      body: (body === undefined ? {} : await readStrict(body, exchange, context)) as Static<Body>,
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
export function readStrict<Shape extends TObject>(
  schema: Shape,
  exchange: Exchange,
  { deps }: ConsoleContext,
): Promise<Static<Shape>> {
  const { budget } = deps.services
  const options = { budget, maxBytes: BODY_BYTES_MAX, workspace: MEMORY_SHARE }
  return readJson(exchange, options, (value) => strictBody(schema, value)).catch((error: unknown) => {
    throw tooLarge(error) ?? error
  })
}

/** The refusal of a large body would name the limit of all bodies. */
function tooLarge(error: unknown): GatewayError | null {
  if (!(error instanceof GatewayError) || error.code !== 'REQUEST_TOO_LARGE') return null
  const { limit: _, ...details } = error.extra.details ?? {}
  return new GatewayError('REQUEST_TOO_LARGE', `the body is over ${BODY_BYTES_MAX} bytes`, { details })
}

/**
 * The fields of a body, none of them unknown: a misspelled one would be a setting without effect.
 *
 * @throws GatewayError INVALID_REQUEST naming the first field at fault; `details.issues` name all of them
 */
function strictBody<Shape extends TObject>(schema: Shape, value: unknown): Static<Shape> {
  const unknown = isObject(value)
    ? Object.keys(value).find((name) => !Object.hasOwn(schema.properties, name))
    : undefined
  if (unknown === undefined && Value.Check(schema, value)) return value
  const issues = new Issues()
  checkShape({ ...schema, additionalProperties: false }, value, [], issues)
  const { code, message, extra } =
    unknown === undefined
      ? faultOf(schema, value)
      : invalidField(unknown.slice(0, ISSUE_LENGTH_MAX), 'is not a field of this request')
  throw new GatewayError(code, message, { ...extra, details: issueDetails(issueLines(issues.found)) })
}

/**
 * The parameters of a query, each at most once, with integers as numbers.
 *
 * @throws GatewayError INVALID_REQUEST naming the parameter at fault
 */
export function strictQuery<Shape extends TObject>(schema: Shape, query: string): Static<Shape> {
  const fields: Record<string, unknown> = {}
  for (const [name, text] of new URLSearchParams(query)) {
    const shape = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
    const param = name.slice(0, ISSUE_LENGTH_MAX)
    if (shape === undefined) throw invalidField(param, 'is not a parameter of this request')
    if (Object.hasOwn(fields, name)) throw invalidField(param, 'must be given once')
    fields[name] =
      'type' in shape && shape.type === 'integer' && /^\d{1,15}$/.test(text) ? Number(text) : text
  }
  if (!Value.Check(schema, fields)) throw faultOf(schema, fields)
  return fields
}

/** Compresses a long answer for a client that takes it: an hour of the overview shrinks to a tenth. */
export async function compressed(
  reply: WholeReply,
  exchange: Pick<Exchange, 'headers'>,
): Promise<WholeReply> {
  const { headers } = reply
  const body = bodyText(reply.body)
  if (body === null || body.length < COMPRESSED_LENGTH_MIN) return reply
  const varying = { ...headers, vary: 'accept-encoding' }
  const coding = codingFor(exchange)
  if (coding === undefined) return { ...reply, headers: varying }
  return {
    ...reply,
    headers: { ...varying, 'content-encoding': coding },
    body: await compressedNow(body, coding),
  }
}

/** The whole of a body that is text, also where it was written in pieces; null: it is not. */
function bodyText(body: WholeReply['body']): string | null {
  if (typeof body === 'string') return body
  if (body instanceof Uint8Array || !body.every((piece) => typeof piece === 'string')) return null
  return body.join('')
}

/** The parameter `workspace` of lists that span one workspace or all. */
export const WorkspaceField = Type.Optional(Type.String({ minLength: 1, maxLength: 64 }))

type ScopedCall = Pick<
  ConsoleCall<'', unknown, { readonly workspace?: string }>,
  'context' | 'viewer' | 'query'
>

/**
 * The workspace that a list spans; null: all of them. For an admin of one workspace it is that by default.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST when an admin of several does not say which
 */
export function scopeOf({ context, viewer, query: { workspace } }: ScopedCall): string | null {
  if (workspace === undefined) {
    if (viewer.role === 'operator') return null
    const [only = '', ...others] = viewer.workspaces
    if (others.length > 0) throw invalidField('workspace', 'must say which of your workspaces is meant')
    return only
  }
  requireWorkspace(viewerIn(viewer, workspace).actor, workspace, context.catalog)
  return workspace
}
