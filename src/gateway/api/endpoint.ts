import { callFacts, failureCode, requestEnd } from '../../contracts/call-facts.ts'
import type { Scope } from '../../contracts/catalog.ts'
import { ERRORS, type ErrorCode, errorReply, GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type { Links, Results } from '../../contracts/links.ts'
import type { Logger } from '../../contracts/log.ts'
import type { AudioDigester, MediaProbe } from '../../contracts/media.ts'
import type { OperationName } from '../../contracts/operations.ts'
import type { Recorder, RecorderNote } from '../../contracts/recorder.ts'
import type { RemoteAudio } from '../../contracts/remote-audio.ts'
import type { Spool } from '../../contracts/spool.ts'
import type { Tracing } from '../../contracts/tracing.ts'
import { admit, authenticate, noteHead, requireScope, soundOf, takeToken } from '../call/authentication.ts'
import { type AdmittedContext, CallContext } from '../call/context/call-context.ts'
import type { Services } from '../call/context/services.ts'
import type { UpgradeReply } from '../edge/client-socket.ts'
import type { Ending, Exchange, FinishListener, Reply, WholeReply } from '../edge/exchange.ts'
import { edgeFacts } from '../edge/exchange.ts'
import { rememberedLines } from '../edge/reply.ts'
import type { EdgeRoute } from '../edge/server.ts'
import type { JobSignals } from '../jobs/watch.ts'
import type { LiveSessions } from '../live/sessions.ts'
import type { Uploads } from '../long/uploads.ts'
import type { RequestMetrics } from '../observe/metrics/request-metrics.ts'
import type { TenantMetrics } from '../observe/metrics/tenant-metrics.ts'
import { readTraceparent } from '../observe/tracing/traceparent.ts'
import type { CallbackForm } from '../webhooks/callbacks.ts'
import { callLines, nameWarnings } from './fact-headers.ts'
import { ANY_ORIGIN_HEADERS, type HeaderName, type ParameterName } from './openapi/headers.ts'
import type { Content, ErrorShape, Operation } from './openapi/operation.ts'
import { BODY_ERRORS, KEY_ERRORS, shapedError } from './openapi/operation.ts'
import type { Json } from './openapi/schema.ts'

/**
 * An endpoint is one value: path, scope, schemas of body and answers, errors and handler. This file runs it, in this
 * order: authentication, scope and a token of the key's bucket; reception of the body; the handler; one answer, one
 * line in the log. The OpenAPI document and the table of endpoints are folds over the same values.
 */

/** Parts of a node that endpoints work with. */
export interface Dependencies {
  readonly services: Services
  readonly spool: Spool
  /** Takes a body that is not needed, because its answer is there already. */
  readonly discard: Spool
  readonly probe: MediaProbe
  readonly digester: AudioDigester
  readonly remoteAudio: RemoteAudio
  readonly uploads: Uploads
  readonly results: Results
  readonly jobs: JobServices
  readonly live: LiveSessions
  /** Seal what is handed out; the first one seals, all of them open. */
  readonly secretKeys: readonly Buffer[]
  /** Origin under which callers reach this node; absent: URLs of its own are paths. */
  readonly publicUrl?: string
  /** Absent: callbacks go to https alone. `insecure`, for development: also to this machine. */
  readonly webhooks?: { readonly insecure: boolean }
  readonly log: Logger
  /** Null: it is off. */
  readonly tracing: Tracing | null
  /** Null: they are not counted. */
  readonly metrics?: { readonly requests: RequestMetrics; readonly tenants?: TenantMetrics } | null
  /** Absent: nothing is shown in the console. */
  readonly recorder?: Recorder
}

/** Parts of a node that endpoints of jobs work with, beside the state. */
interface JobServices {
  readonly objects: JobObjects
  /** Signs URLs that open large results. */
  readonly links: Links
  readonly signals: JobSignals
}

export interface Admitted<Needs = Dependencies> {
  readonly exchange: Exchange
  readonly context: AdmittedContext
  readonly deps: Needs
}

export interface EndpointCall<Body = undefined, Needs = Dependencies> extends Admitted<Needs> {
  readonly body: Body
}

/** How the body of an endpoint is documented. */
interface DocumentedBody {
  readonly contents: readonly Content[]
  /** Documented parameters that belong to the body, such as fields sent in the query. */
  readonly parameters?: readonly (ParameterName | Json)[]
}

/** A body that is received as a whole before the handler is called. */
interface AwaitedBody<Body> extends DocumentedBody {
  /** @throws GatewayError before or while the body is read */
  receive(request: Admitted): Promise<Body>
}

/** A body whose handler continues in the turn in which it is complete: a promise less, which small calls feel. */
export interface ContinuedBody<Body> extends DocumentedBody {
  readonly receive?: never
  /** @throws GatewayError as `receive`, and as `next` does */
  receiveThen<Next>(request: Admitted, next: (body: Body) => Next | Promise<Next>): Promise<Next>
}

/** The body of an endpoint: how it is documented, and how it is received. */
export type RequestBody<Body> = AwaitedBody<Body> | ContinuedBody<Body>

/** Conventions of a family of clients that differ from the gateway's own. Its functions are pure. */
export interface Door {
  /** Its paths begin with `/name/`. Jobs keep it, to find the `callback` of its endpoint again. */
  readonly name: string
  readonly tag: Operation['tag']
  /** Header in which these clients look for the id of the request. */
  readonly requestIdHeader: HeaderName & Lowercase<HeaderName>
  /** The id of a request in the form that they take; absent: as it is. */
  readonly vendorId?: (id: string) => string
  /** Header in which they look for the reason of a refusal; absent: in the body alone. */
  readonly errorHeader?: HeaderName & Lowercase<HeaderName>
  /** Puts an error into the names that these clients use for fields. */
  readonly translateError: (error: GatewayError, request: Pick<Exchange, 'headers'>) => GatewayError
  /** Names that these clients have for fields of ours; absent: the same. Warnings are put into them. */
  readonly names?: Readonly<Record<string, string>>
  readonly errorShape?: ErrorShape
  /** The header that brings the key, as `Authorization: Bearer` would have it; absent: that one. */
  readonly authorization?: (headers: Exchange['headers']) => string | undefined
  /** Paths of the vendor, below `/name/`, that are not served, with what to use instead: 404 names it. */
  readonly unserved?: Readonly<Record<string, string>>
}

/**
 * `call`: each request with a key has a record in the ledger of usage. `session`: so has each live session, which a
 * handshake opens. `none`: it asks no model for anything, as a read or a change of settings does not.
 */
export type EndpointKind = 'call' | 'session' | 'none'

interface Described extends Pick<Operation, 'id' | 'tag' | 'summary' | 'description' | 'answers'> {
  /** Beside those of the path, the body and the idempotency key. */
  readonly parameters?: Operation['parameters']
}

/**
 * Authenticates who has something that stands for a key. Null: it is for `authenticate` to look at.
 *
 * @throws GatewayError UNAUTHENTICATED
 */
export type GrantAuthentication = (
  authorization: string | undefined,
  context: CallContext,
  deps: Dependencies,
) => AdmittedContext | null

interface EndpointDefinition<Method, Path, Body, Needs> extends Described {
  readonly method: Method
  readonly path: Path
  readonly kind: Exclude<EndpointKind, 'session'>
  /** False: the console does not list its requests. */
  readonly recorded?: false
  readonly scope: Scope
  /** Keys with the scope `operator` need no other. */
  readonly operator?: true
  /** False: takes no token of the key's bucket, and has no body. */
  readonly limited?: false
  /** Absent: there are keys alone. */
  readonly authenticateGrant?: GrantAuthentication
  /** Pages of any origin may ask, and read the answer: there are no cookies, so that whoever asks has a key. */
  readonly anyOrigin?: true
  /** The first parameter of the path is the workspace of the key: any other is answered as if there were none. */
  readonly ofWorkspace?: true
  /** Honours `Idempotency-Key`; by the name of an operation: in the ledger of calls, looked at with the token. */
  readonly idempotent?: true | OperationName
  readonly body?: RequestBody<Body>
  /** Beside those of every endpoint with a key, and with a body. */
  readonly errors?: readonly ErrorCode[]
  readonly door?: Door
  /** How the end of its jobs is told to the callback that their caller named. One for each door at most. */
  readonly callback?: CallbackForm
  readonly handle: (call: EndpointCall<Body, Needs>) => Reply | Promise<Reply>
}

interface PublicDefinition<Method, Path, Needs> extends Described {
  readonly method: Method
  readonly path: Path
  readonly errors: readonly ErrorCode[]
  /** Asked by balancers and monitors: leaves no line in the log. */
  readonly probe?: true
  readonly handle: (exchange: Exchange, needs: Needs) => Reply | Promise<Reply>
}

/** An endpoint with all that is to be known of it. `Needs` is what its handler works with. */
export interface Endpoint<Needs = Dependencies, Method = Operation['method'], Path = string>
  extends Operation {
  readonly method: Method & Operation['method']
  readonly path: Path & string
  readonly kind: EndpointKind
  /** The console lists its requests. */
  readonly recorded: boolean
  readonly door?: Door
  readonly callback?: CallbackForm
  route(needs: Needs): EdgeRoute
}

/** Defines an endpoint for holders of API keys. */
export function endpoint<
  const Method extends Operation['method'],
  const Path extends string,
  Body = undefined,
  Needs extends Dependencies = Dependencies,
>(definition: EndpointDefinition<Method, Path, Body, Needs>): Endpoint<Needs, Method, Path> {
  const { method, path, kind, recorded = true, idempotent, body, door, callback, errors = [] } = definition
  const { scope, operator, id, tag, summary, description, parameters = [], limited = true } = definition
  return {
    ...{ method, path, kind, recorded, id, tag, summary, scope, limited },
    ...(callback === undefined ? {} : { callback }),
    ...(operator === undefined ? {} : { operator }),
    ...(description === undefined ? {} : { description }),
    idempotent: idempotent !== undefined,
    parameters: [
      ...parameters,
      ...(idempotent === undefined ? [] : (['IdempotencyKey'] as const)),
      ...(body?.parameters ?? []),
    ],
    ...(body === undefined ? {} : { body: body.contents }),
    answers: definition.answers,
    ...(door === undefined ? {} : { door, headers: [door.requestIdHeader] }),
    ...(definition.anyOrigin ? { headers: ANY_ORIGIN_HEADERS } : {}),
    ...(door?.errorHeader === undefined ? {} : { errorHeaders: [door.errorHeader] }),
    ...(door?.errorShape === undefined ? {} : { errorShape: door.errorShape }),
    errors: [
      ...KEY_ERRORS.filter((code) => limited || code !== 'RATE_LIMITED'),
      ...(body === undefined ? [] : BODY_ERRORS),
      ...errors,
    ],
    route: (needs) => ({
      ...observedRoute(
        needs,
        {
          method,
          path,
          recorded,
          idempotent: idempotent !== undefined,
          anyOrigin: definition.anyOrigin,
          door,
        },
        (exchange, context) => respond(definition, exchange, context, needs),
      ),
      refusesHeads: true,
    }),
  }
}

/** Defines an endpoint that takes no key. */
export function publicEndpoint<
  const Method extends Operation['method'],
  const Path extends string,
  Needs extends Watchers = Watchers,
>(definition: PublicDefinition<Method, Path, Needs>): Endpoint<Needs, Method, Path> {
  const { method, path, probe, handle, ...described } = definition
  return {
    ...{ parameters: [], ...described, method, path, kind: 'none', recorded: false },
    ...{ scope: null, limited: false, idempotent: false },
    route(needs) {
      const answer: EdgeRoute['handle'] = (exchange) => {
        const send = (reply: Reply) => exchange.reply(probe ? { ...reply, lines: NOT_STORED } : reply)
        const reply = handle(exchange, needs)
        if (reply instanceof Promise) return reply.then(send)
        send(reply)
      }
      if (probe) return { method, path, probe, handle: answer }
      return keyless(needs, { method, path, handle: answer })
    },
  }
}

/** Admits the caller, receives the body and calls the handler; at once where nothing has to be waited for. */
function respond<Body, Needs extends Dependencies>(
  definition: EndpointDefinition<unknown, unknown, Body, Needs>,
  exchange: Exchange,
  context: CallContext,
  deps: Needs,
): Reply | Promise<Reply> {
  const granted = definition.authenticateGrant?.(exchange.headers.authorization, context, deps) ?? null
  const admitted =
    granted === null
      ? admitCaller(definition, exchange, context, deps.services)
      : admitGrant(granted, definition.scope, exchange, deps.services)
  if (admitted instanceof Promise)
    return admitted.then((later) => receiveAndHandle(definition, exchange, later, deps))
  return receiveAndHandle(definition, exchange, admitted, deps)
}

function receiveAndHandle<Body, Needs extends Dependencies>(
  { body, handle }: EndpointDefinition<unknown, unknown, Body, Needs>,
  exchange: Exchange,
  context: AdmittedContext,
  deps: Needs,
): Reply | Promise<Reply> {
  const request = { exchange, context, deps, body: undefined as Body }
  if (body === undefined) return handle(request)
  context.trace?.begin('body')
  const next = (received: Body) => {
    context.trace?.end()
    request.body = received
    return handle(request)
  }
  return body.receive === undefined ? body.receiveThen(request, next) : body.receive(request).then(next)
}

/** @throws GatewayError UNAUTHENTICATED, PERMISSION_DENIED, RATE_LIMITED; NOT_FOUND for another's workspace */
function admitCaller(
  {
    scope,
    operator,
    limited,
    ofWorkspace,
    idempotent,
    door,
  }: Pick<
    EndpointDefinition<0, 0, 0, 0>,
    'scope' | 'operator' | 'limited' | 'ofWorkspace' | 'idempotent' | 'door'
  >,
  exchange: Exchange,
  context: CallContext,
  services: Services,
): AdmittedContext | Promise<AdmittedContext> {
  const { headers } = exchange
  const authorization =
    door?.authorization === undefined ? headers.authorization : door.authorization(headers)
  if (limited === false) {
    const admitted = authenticate(services, context, authorization)
    requireScope(admitted.principal, scope, operator)
    soundOf(admitted, noteHead(services, admitted, exchange))
    context.trace?.end()
    return admitted
  }
  if (ofWorkspace) return admitToWorkspace({ scope, operator }, exchange, context, services)
  const key = typeof idempotent === 'string' ? idempotencyKeyOf(exchange) : undefined
  const idempotency =
    typeof idempotent === 'string' && key !== undefined ? { operation: idempotent, key } : undefined
  return admit(services, context, authorization, { scope, operator, idempotency, head: exchange })
}

/** Admits whoever has a grant: only the holder of a key may say whom a request is for. */
async function admitGrant(
  granted: AdmittedContext,
  scope: Scope,
  { headFault }: Exchange,
  services: Services,
): Promise<AdmittedContext> {
  requireScope(granted.principal, scope)
  await takeToken(services, granted)
  return soundOf(granted, headFault)
}

/** Takes the token before the workspace is looked at, so that guessing is limited, too. */
async function admitToWorkspace(
  { scope, operator }: { readonly scope: Scope; readonly operator: true | undefined },
  exchange: Exchange,
  context: CallContext,
  services: Services,
): Promise<AdmittedContext> {
  const admitted = authenticate(services, context, exchange.headers.authorization)
  const fault = noteHead(services, admitted, exchange)
  await takeToken(services, admitted)
  soundOf(admitted, fault)
  if (exchange.params[0] !== admitted.principal.workspace.id)
    throw new GatewayError('NOT_FOUND', 'there is no such workspace')
  requireScope(admitted.principal, scope, operator)
  return admitted
}

/** Parts that are told of every request when it is over. */
export type Watchers = Pick<Dependencies, 'log' | 'metrics'>

/** Lets pages of any origin read an answer, with the headers of its kind of endpoint. */
export const ANY_ORIGIN = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': '*',
} as const

interface RouteOptions extends Pick<EdgeRoute, 'method' | 'path'> {
  /** Default: false. */
  readonly recorded?: boolean
  /** Honours `Idempotency-Key`. */
  readonly idempotent?: boolean
  readonly anyOrigin?: true | undefined
  readonly door?: Door | undefined
}

/** Answers a request, or throws GatewayError. A handshake is answered at once. */
type Respond = (exchange: Exchange, context: CallContext) => Ending | Promise<Reply>

/** Binds a function to the edge: one answer, the headers that became due on the way, one line in the log. */
export function observedRoute(
  deps: Dependencies,
  { method, path, recorded = false, idempotent = false, anyOrigin, door }: RouteOptions,
  respond: Respond,
): EdgeRoute {
  const recorder = recorded ? deps.recorder : undefined
  const observed = { deps, recorder, door }
  return {
    method,
    path,
    handle(exchange) {
      const context = callContext(exchange)
      context.trace = deps.tracing?.request(exchange, path) ?? null
      if (anyOrigin) Object.assign(context.answer.headers, ANY_ORIGIN)
      // Callers must not rely on a key that protects nothing.
      if (!idempotent && exchange.headers['idempotency-key'] !== undefined) {
        context.answer.headers['x-lk-idempotency'] = 'ignored'
      }
      const request = new ObservedRequest(observed, exchange, context)
      exchange.onFinished(request)
      try {
        const reply = respond(exchange, context)
        if (reply instanceof Promise) request.answerLater(reply)
        else if (isUpgrade(reply)) request.upgrade(reply)
        else request.answer(reply)
      } catch (thrown) {
        request.refuse(thrown)
      }
    },
  }
}

function isUpgrade(ending: Ending): ending is UpgradeReply {
  return ending.status === 101
}

/** Shared caches know a key in `Authorization` alone: one in another header does not keep an answer from others. */
const NOT_STORED = '\r\ncache-control: no-store'

const idLine = rememberedLines((name: string) => `\r\n${name}: `)

/** Facts that all requests of a route share. */
interface Observed {
  readonly deps: Dependencies
  /** Undefined: the requests of this route are not recorded. */
  readonly recorder: Recorder | undefined
  readonly door: Door | undefined
}

/** A request from its context to its line in the log. */
class ObservedRequest implements FinishListener {
  readonly #observed: Observed
  readonly #exchange: Exchange
  readonly #context: CallContext
  #note: RecorderNote = null

  constructor(observed: Observed, exchange: Exchange, context: CallContext) {
    this.#observed = observed
    this.#exchange = exchange
    this.#context = context
  }

  answerLater(reply: Promise<Reply>): void {
    reply.then(
      (later) => this.answer(later),
      (thrown) => this.refuse(thrown),
    )
  }

  /** Never throws: a later answer has no one to catch it. */
  answer(reply: Reply): void {
    try {
      this.#answer(reply)
    } catch (error) {
      this.#exchange.fail(error)
    }
  }

  #answer(reply: Reply): void {
    const { status, headers, body } = reply
    const common = 'common' in reply ? reply.common : undefined
    const { deps, recorder, door } = this.#observed
    const exchange = this.#exchange
    const context = this.#context
    deps.metrics?.requests.answered(exchange, context.upstreamWaitMs)
    this.#note = recorder?.answered(exchange, context, status) ?? null
    const { headers: all } = context.answer
    if (headers !== undefined) Object.assign(all, headers)
    if (door?.names !== undefined) nameWarnings(all, door.names)
    const own = this.#lines(all)
    const lines = reply.lines === undefined ? own : own + reply.lines
    const sent = { status, headers: all, common, lines, body } as Reply
    exchange.reply(sent, context.principal?.workspace.id)
    if (!wentOn(exchange, context)) return
    logRequest(deps.log, exchange, context, 'request went on')
    recorder?.wentOn(exchange, context)
  }

  /** The exchange continues as a WebSocket, and is over when that is. */
  upgrade(reply: UpgradeReply): void {
    const { deps, recorder, door } = this.#observed
    const exchange = this.#exchange
    const context = this.#context
    deps.metrics?.requests.answered(exchange, context.upstreamWaitMs)
    this.#note = recorder?.answered(exchange, context, reply.status) ?? null
    const headers = { ...context.answer.headers, ...reply.headers }
    if (door?.names !== undefined) nameWarnings(headers, door.names)
    exchange.upgrade({ ...reply, lines: this.#lines(headers), headers })
  }

  #lines(headers: Readonly<Record<string, string>>): string {
    const { door } = this.#observed
    const { method, requestId } = this.#exchange
    const isRead = method === 'GET' || method === 'HEAD'
    const called = callLines(this.#context, headers)
    const lines = isRead && headers['cache-control'] === undefined ? NOT_STORED + called : called
    return door === undefined ? lines : idLine(door.requestIdHeader) + idFor(door, requestId) + lines
  }

  refuse(thrown: unknown): void {
    const { door } = this.#observed
    const error = toGatewayError(thrown)
    const failure = door === undefined ? error : door.translateError(error, this.#exchange)
    this.#context.failure = failure
    this.#context.trace?.failed(failure.code)
    this.answer(refusal(door, failure, this.#exchange.requestId))
  }

  finished(): void {
    const { deps, recorder } = this.#observed
    noteEnd(deps, this.#exchange, this.#context)
    recorder?.ended(this.#exchange, this.#context, this.#note)
  }
}

/** The id of a request as the clients of a door take it. */
export function idFor({ vendorId }: Door, requestId: string): string {
  return vendorId?.(requestId) ?? requestId
}

/** A refusal as the clients of a door read it. */
export function refusal(door: Door | undefined, error: GatewayError, requestId: string): WholeReply {
  const { status, headers, body } = errorReply(error, requestId)
  const { errorHeader, errorShape } = door ?? {}
  return {
    status,
    headers: errorHeader === undefined ? headers : { ...headers, [errorHeader]: visible(error.message) },
    body: JSON.stringify(shapedError(errorShape, error, requestId, body)),
  }
}

/** A message as the value of a header. */
function visible(message: string): string {
  return message.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, HEADER_LENGTH_MAX)
}

const HEADER_LENGTH_MAX = 512

/** Gives a path that takes no API key its line in the log: of its requests no more is known than what the edge sees. */
export function keyless(deps: Watchers, route: EdgeRoute): EdgeRoute {
  return {
    ...route,
    async handle(exchange) {
      const context = callContext(exchange)
      exchange.onFinished(() => noteEnd(deps, exchange, context))
      try {
        await route.handle(exchange)
      } catch (thrown) {
        context.failure = toGatewayError(thrown)
        exchange.replyError(context.failure)
      }
    },
  }
}

/** Makes the context of the call that comes by an exchange. */
function callContext(exchange: Exchange): CallContext {
  const { traceparent } = exchange.headers
  const isValid = traceparent !== undefined && readTraceparent(traceparent) !== null
  return new CallContext(exchange, isValid ? traceparent : undefined)
}

/** True where a call with an idempotency key has ended now, and its caller had left before. */
function wentOn({ status }: Exchange, { slot, failure }: CallContext): boolean {
  return slot !== null && status === ERRORS.CLIENT_CLOSED.status && failure?.code !== 'CLIENT_CLOSED'
}

function noteEnd({ log, metrics }: Watchers, exchange: Exchange, context: CallContext): void {
  logRequest(log, exchange, context)
  const error = failureCode(exchange, context)
  if (error !== undefined) metrics?.requests.failed(error)
  metrics?.tenants?.ended(context, exchange.status, error !== undefined)
}

/**
 * Writes one line per request when its answer is out, streamed ones too: facts by name, never a header, a body or a
 * text that the caller or a provider has written. A call that continues without its caller gets a second line.
 */
function logRequest(log: Logger, exchange: Exchange, context: CallContext, message = 'request'): void {
  const { failure } = context
  context.trace?.finish(requestEnd(exchange, context))
  if (failure?.code !== 'INTERNAL' && !log.isLevelEnabled('info')) return
  const line = {
    ...edgeFacts(exchange),
    trace_id: context.traceId ?? undefined,
    ...callFacts(context),
    job_id: context.jobId ?? undefined,
    replayed: context.answer.replayed ? true : undefined,
    error: failureCode(exchange, context),
  }
  if (failure?.code === 'INTERNAL') log.error({ ...line, err: failure.cause }, message)
  else log.info(line, message)
}

/** Visible ASCII. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,256}$/
const QUOTED = /^"(.*)"$/

/**
 * The caller's `Idempotency-Key`, not yet checked. A quoted one, as structured fields have it, is the same as without
 * its quotes.
 *
 * @returns undefined when none was sent
 */
export function idempotencyKeyOf({ headers }: Pick<Exchange, 'headers'>): string | undefined {
  const sent = headers['idempotency-key']
  return sent === undefined ? undefined : (QUOTED.exec(sent)?.[1] ?? sent)
}

/**
 * Checks the form of an idempotency key. Only callers who are admitted learn what is wrong with theirs.
 *
 * @throws GatewayError INVALID_REQUEST
 */
export function checkIdempotencyKey(key: string): void {
  if (IDEMPOTENCY_KEY.test(key)) return
  throw new GatewayError('INVALID_REQUEST', 'an idempotency key has 1 to 256 visible ASCII characters', {
    param: 'Idempotency-Key',
  })
}
