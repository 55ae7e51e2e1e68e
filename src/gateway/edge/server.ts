import type { ByteBudget } from '../../contracts/budget.ts'
import { ERRORS, type ErrorCode, GatewayError } from '../../contracts/errors.ts'
import { type Logger, stackOf } from '../../contracts/log.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { Apps, type CertificateFiles, type Registration, type TlsListener } from './apps.ts'
import type { RequestFacts } from './arrived-request.ts'
import { type ChunkedBodies, ChunkFraming } from './chunk-framing.ts'
import { handshakeFault, type SocketLimits, socketBehavior } from './client-socket.ts'
import { type Exchange, edgeFacts, type Reply } from './exchange.ts'
import { ImmediateBatch } from './immediate-batch.ts'
import { type EdgeContext, NativeExchange } from './native-exchange.ts'
import { capReceiveBuffers } from './receive-buffers.ts'
import { openReceiveWindow } from './receive-window.ts'
import {
  CREDENTIALS,
  type Framing,
  HeadWindow,
  judgeFraming,
  judgeHeaderBytes,
  malformedChunks,
  otherMethod,
  type RequestHead,
  readHead,
  SELECTORS,
} from './request-head.ts'

import { type Found, NO_PARAMS, Router } from './router.ts'
import type { SegmentView } from './segment-view.ts'
import { EDGE_TIMING, type EdgeTiming } from './timing.ts'
import { UploadTurns } from './upload-turns.ts'
import { type HttpRequest, type HttpResponse, loadUws, type Uws, type us_socket_context_t } from './uws.ts'

export interface EdgeRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'
  /** `/v1/transcription`, `/v1/jobs/:id`, or `/docs/*` for everything below. A GET route serves HEAD too. */
  readonly path: string
  /** A probe of balancers and monitors: its requests do not count as callers. */
  readonly probe?: true
  /** The path takes WebSockets, of these limits; a GET that asks for none is refused. */
  readonly socket?: SocketLimits
  /** It refuses a request for its `headFault` once it knows whose that is; absent: the edge does. */
  readonly refusesHeads?: true
  /**
   * Answers the exchange, at once or later. An error that it throws or rejects with becomes the answer. A promise
   * that is fulfilled without an answer becomes a 500, for none would follow: so await the body before returning.
   */
  handle(exchange: Exchange): void | Promise<void>
}

export interface EdgeOptions {
  readonly routes: readonly EdgeRoute[]
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /** Other processes may listen on the same address and share its connections; else that is an error. */
  readonly shared?: boolean
  /** Most connections at a time; default: no limit. */
  readonly connectionsMax?: number
  /** Listens with TLS, too. */
  readonly tls?: { readonly host: string; readonly port: number; readonly files: CertificateFiles }
  /** Charged for what arrives before a route reads it. */
  readonly budget: ByteBudget
  readonly log: Logger
  /**
   * Sees every exchange before it is answered, also those that no route gets: for metrics. `refusal` is why none gets
   * it; null: one does.
   */
  readonly observe?: (exchange: Exchange, refusal: ErrorCode | null) => void
  /** Writes a refusal of a path without a route as the callers of its prefix read it; null: as everywhere. */
  readonly shaped?: (exchange: Exchange, refusal: GatewayError) => Reply | null
  /** `seen`, which is the default, `strict` or `refuse`; see `LARKWAY_CHUNKED`. */
  readonly chunked?: ChunkedBodies
  /** `capped`, which is the default, or `system`; see `LARKWAY_RECEIVE_BUFFERS`. */
  readonly receiveBuffers?: 'capped' | 'system'
  /** Only tests give others than `EDGE_TIMING`. */
  readonly timing?: Partial<EdgeTiming>
  readonly clock?: Clock
}

export interface EdgeServer {
  readonly port: number
  /** Undefined: it does not listen with TLS. */
  readonly tlsPort: number | undefined
  /** The native build in use, e.g. `20.51.4 (glibc 2.27 build)`. */
  readonly uws: string
  /** Requests that are neither answered nor left by their client. */
  readonly inFlight: number
  /** Requests that were ever accepted, without those to probes. */
  readonly accepted: number
  /** Open connections, with and without a request. */
  readonly connections: number
  /**
   * Gives the certificate that its files hold now to connections that are made from now on; open ones keep theirs.
   *
   * @throws Error when the files cannot be used; the certificate in use stays then
   */
  renewCertificate(): void
  /** Every answer from now on closes its connection; new ones are still accepted. */
  closeConnections(): void
  /** New connections are refused, and every answer from now on closes its connection. */
  stopListening(): void
  /** Answers OVERLOADED to every request that has no answer yet. */
  refuse(): void
  /** Cuts every connection. */
  close(): void
}

interface ServerContext extends EdgeContext {
  readonly shaped: NonNullable<EdgeOptions['shaped']>
  readonly router: Router<EdgeRoute>
  readonly chunked: ChunkedBodies
  accepted: number
  observe(exchange: Exchange, refusal: ErrorCode | null): void
}

/** How requests come in. */
interface Way {
  readonly encrypted: boolean
  /** Null: bytes that the parser cuts off stay unseen. */
  readonly window: HeadWindow | null
}

/** Pause between two lines of the log about refused connections. */
const REFUSAL_LINE_MS = 60_000

/** Every method that uWS has a name for. */
const METHODS = [
  ['get', 'GET'],
  ['post', 'POST'],
  ['put', 'PUT'],
  ['del', 'DELETE'],
  ['head', 'HEAD'],
  ['patch', 'PATCH'],
  ['options', 'OPTIONS'],
  ['trace', 'TRACE'],
  ['connect', 'CONNECT'],
] as const

/**
 * Starts the HTTP edge. The environment must hold `UWS_ENVIRONMENT` when it is called for the first time.
 *
 * @throws Error when no native build loads, two routes clash, or the address cannot be listened on
 */
export async function startServer(options: EdgeOptions): Promise<EdgeServer> {
  const { routes, host, port, budget, log, tls, observe = () => {}, shaped = () => null } = options
  const { chunked = 'seen', clock = systemClock } = options
  const router = new Router(routes)
  const timing = { ...EDGE_TIMING, ...options.timing }
  const batches = { immediate: new ImmediateBatch(), turns: new UploadTurns(budget) }
  const { uws, version, corkBytes } = loadUws()
  const shared = { budget, log, timing, clock, corkBytes, ...batches, open: [], draining: false }
  const context: ServerContext = { ...shared, accepted: 0, router, chunked, observe, shaped }
  const { connectionsMax: most = Number.POSITIVE_INFINITY } = options
  const apps = new Apps(uws, { most, onRefused: refusalLog(most, log, clock) })
  apps.register(await routing(uws, routes, context, tls?.files))
  const { plain, secure } = await listenOnAll(apps, { host, port, shared: options.shared ?? false }, tls)
  if (options.receiveBuffers !== 'system') capReceiveBuffers(log)
  const sweeper = clock.every(timing.sweepMs, () => {
    const nowMs = clock.now()
    for (const exchange of [...context.open]) exchange.sweep(nowMs)
  })
  sweeper.unref()
  return {
    port: plain.port,
    tlsPort: secure?.port,
    uws: version,
    get inFlight() {
      return context.open.length
    },
    get accepted() {
      return context.accepted
    },
    get connections() {
      return apps.connections
    },
    renewCertificate() {
      if (tls !== undefined) secure?.renew(tls.files)
    },
    closeConnections() {
      context.draining = true
    },
    refuse() {
      for (const exchange of [...context.open]) exchange.replyError(new GatewayError('OVERLOADED'))
    },
    stopListening() {
      context.draining = true
      plain.stop()
      secure?.stop()
    },
    close() {
      context.draining = true
      sweeper.close()
      apps.close()
    },
  }
}

/** A line of the log a minute at most tells how many connections were refused. */
function refusalLog(most: number, log: Logger, clock: Clock): () => void {
  let count = 0
  let nextMs = 0
  return () => {
    count += 1
    if (clock.now() < nextMs) return
    log.warn(
      { count },
      `connections are refused: ${most} are open, half of the files that this process may have`,
    )
    nextMs = clock.now() + REFUSAL_LINE_MS
    count = 0
  }
}

/** @throws Error when an address cannot be listened on, or uWS cannot use the certificate; then nothing listens */
async function listenOnAll(
  apps: Apps,
  address: { readonly host: string; readonly port: number; readonly shared: boolean },
  tls: EdgeOptions['tls'],
) {
  const plain = await apps.listen(address)
  if (tls === undefined) return { plain, secure: null }
  try {
    const { host, port, files } = tls
    const secure: TlsListener = await apps.listenTls({ host, port, shared: address.shared }, files)
    return { plain, secure }
  } catch (error) {
    apps.close()
    throw error
  }
}

/** Makes an app answer every request, whatever its method. @param files undefined: no app has TLS */
async function routing(
  uws: Uws,
  routes: readonly EdgeRoute[],
  context: ServerContext,
  files: CertificateFiles | undefined,
): Promise<Registration> {
  const plain: Way = { encrypted: false, window: await openWindow(uws, context.log) }
  const secure: Way | null =
    files === undefined ? null : { encrypted: true, window: await openWindow(uws, context.log, files) }
  return (app, encrypted, left) => {
    const way = encrypted && secure !== null ? secure : plain
    for (const { path, socket } of routes) {
      if (socket === undefined) continue
      const take: Parameters<typeof socketBehavior>[1] = (res, request, handshake) =>
        accept(res, request, 'GET', way, context, handshake)
      app.ws(path, socketBehavior(socket, take, left))
    }
    for (const [register, method] of METHODS) {
      app[register]('/*', (res, request) => accept(res, request, method, way, context))
    }
    // To any other uWS would give its own 404, in HTML.
    app.any('/*', (res, request) => accept(res, request, otherMethod(request), way, context))
  }
}

async function openWindow(uws: Uws, log: Logger, files?: CertificateFiles): Promise<HeadWindow | null> {
  const received = await openReceiveWindow(uws, files)
  if (received === null) log.warn('bytes over 0x7f at the ends of header values are not seen')
  return received && new HeadWindow(received)
}

/** One request, in uWS's callback. Whatever happens in here, `onAborted` is set: without it uWS ends the process. */
function accept(
  res: HttpResponse,
  request: HttpRequest,
  method: string,
  way: Way,
  context: ServerContext,
  handshake?: us_socket_context_t,
): void {
  let exchange: NativeExchange | null = null
  res.onAborted(() => exchange?.left())
  try {
    const head = readHead(request, method, way.window)
    const { framing, chunks } = framingOf(head, way, context.chunked)
    const found = context.router.find(method, head.path)
    const fault = headFault(head, framing, found)
    const refusal =
      requestRefusal(head, framing, found) ??
      unknownPath(found, head.path, context) ??
      (found.route?.refusesHeads === true ? null : fault)
    if (found.route?.probe !== true) context.accepted += 1
    const accepted = new NativeExchange(res, head, requestFacts(framing, found, fault, way), context)
    exchange = accepted
    if (handshake !== undefined && fault === null) accepted.offer(handshake)
    if (fault?.code === 'LENGTH_REQUIRED') accepted.stopReading()
    // uWS would hand out an empty last chunk, a turn of the native code later than it is known.
    else if (isBodiless(framing)) {
      leaveNext(0, accepted, head, way)
      accepted.receiveNothing()
    } else res.onData(receiver(accepted, head, chunks, way))
    context.observe(accepted, refusal?.code ?? null)
    if (refusal !== null) refuse(accepted, refusal, context)
    else runHandler(found.route!, accepted)
    if (handshake !== undefined) accepted.offer(null)
  } catch (error) {
    if (exchange === null) {
      context.log.error({ method, stack: stackOf(error) }, 'a request could not be accepted')
      res.close()
    } else exchange.fail(error)
  }
}

function framingOf(head: RequestHead, { window }: Way, chunked: ChunkedBodies) {
  const framing = judgeFraming(head)
  if (framing instanceof GatewayError || !framing.chunked) return { framing, chunks: null }
  if (chunked === 'refuse') {
    const message = 'send Content-Length: this node takes no chunked bodies'
    return { framing: new GatewayError('LENGTH_REQUIRED', message), chunks: null }
  }
  const isStrict = chunked === 'strict'
  if (window === null) return { framing: isStrict ? malformedChunks() : framing, chunks: null }
  const chunks = new ChunkFraming(window.segment, head.length, isStrict)
  return { framing: chunks.begins() ? framing : malformedChunks(), chunks }
}

/**
 * Where another request follows in the segment, has the parser not read it, and the connection closed with the answer
 * to this one: a parser that finds a second request before that answer cuts both.
 */
function leaveNext(length: number, exchange: NativeExchange, head: RequestHead, { window }: Way): void {
  if (window === null) return
  const places = head.length === null ? window.segment.headEnds() : [head.length]
  for (const place of places) leaveRequest(place + length, exchange, window.segment)
}

function leaveRequest(start: number, exchange: NativeExchange, segment: SegmentView): void {
  if (!segment.beginsRequest(start)) return
  segment.silence(start)
  exchange.closeAfter()
}

/** Takes the pieces of a body from uWS. */
function receiver(exchange: NativeExchange, head: RequestHead, chunks: ChunkFraming | null, way: Way) {
  return (chunk: ArrayBuffer, last: boolean): void => {
    const bytes = new Uint8Array(chunk)
    if (chunks !== null) {
      const isSound = (bytes.length === 0 || chunks.data(bytes)) && (!last || chunks.end())
      if (!isSound) {
        exchange.receiveFault(malformedChunks())
        return
      }
    } else if (last && way.window !== null) {
      if (way.window.segment.holds(bytes, 0)) leaveRequest(bytes.length, exchange, way.window.segment)
      else leaveNext(bytes.length, exchange, head, way)
    }
    exchange.receive(chunk, last)
  }
}

/** Why a request to a path for WebSockets gets none, if so. */
function socketRefusal(
  head: RequestHead,
  { route }: Found<EdgeRoute>,
  framing: Framing | GatewayError,
): GatewayError | null {
  if (route?.socket === undefined) return null
  const fault = handshakeFault(head)
  if (fault !== null || isBodiless(framing)) return fault
  return new GatewayError('INVALID_REQUEST', 'a handshake has no body')
}

function isBodiless(framing: Framing | GatewayError): boolean {
  return !(framing instanceof GatewayError) && !framing.chunked && (framing.contentLength ?? 0) === 0
}

/** An unknown path is 404 for all callers, before any key is looked at. One without its beginning is completed. */
function unknownPath(found: Found<EdgeRoute>, path: string, { router }: ServerContext): GatewayError | null {
  if (found.route !== null) return null
  const whole = router.completed(path)
  if (whole === null) return new GatewayError('NOT_FOUND')
  return new GatewayError('NOT_FOUND', `${ERRORS.NOT_FOUND.message}; did you mean \`${whole}\`?`)
}

/** The fault of a head whose request can be told from others, and has a route; null: none. */
function headFault(
  head: RequestHead,
  framing: Framing | GatewayError,
  found: Found<EdgeRoute>,
): GatewayError | null {
  if (framing instanceof GatewayError || found.route === null) return null
  const { method } = head
  const lengthless = framing.contentLength === null && !framing.chunked
  if (lengthless && (method === 'POST' || method === 'PUT')) return new GatewayError('LENGTH_REQUIRED')
  return judgeHeaderBytes(head, SELECTORS) ?? socketRefusal(head, found, framing)
}

/** Why no route may have the request, whatever its path, if so. */
function requestRefusal(
  head: RequestHead,
  framing: Framing | GatewayError,
  found: Found<EdgeRoute>,
): GatewayError | null {
  if (framing instanceof GatewayError) return framing
  if (found.route === null) {
    if (found.allow === '') return null
    return new GatewayError('METHOD_NOT_ALLOWED', undefined, { headers: { allow: found.allow } })
  }
  return judgeHeaderBytes(head, CREDENTIALS)
}

function requestFacts(
  framing: Framing | GatewayError,
  found: Found<EdgeRoute>,
  headFault: GatewayError | null,
  { encrypted }: Way,
): RequestFacts {
  const params = found.route === null ? NO_PARAMS : found.params
  const pattern = found.route?.path ?? null
  if (framing instanceof GatewayError)
    return { contentLength: null, params, pattern, closes: true, encrypted, headFault }
  const closes = framing.chunked || headFault?.code === 'LENGTH_REQUIRED'
  return { contentLength: framing.contentLength, params, pattern, closes, encrypted, headFault }
}

/** No route sees the request, so that its line is written here. */
function refuse(exchange: NativeExchange, refusal: GatewayError, { log, shaped }: ServerContext): void {
  exchange.onFinished(() => log.info({ ...edgeFacts(exchange), error: refusal.code }, 'request'))
  const isPathless = refusal.code === 'NOT_FOUND' || refusal.code === 'METHOD_NOT_ALLOWED'
  const reply = isPathless ? shaped(exchange, refusal) : null
  if (reply === null) exchange.replyError(refusal)
  else exchange.reply(reply)
}

function runHandler(route: EdgeRoute, exchange: NativeExchange): void {
  const pending = route.handle(exchange)
  if (pending === undefined) return
  pending.then(
    () => {
      if (!exchange.settled) exchange.fail(new Error('the handler ended without an answer'))
    },
    (error: unknown) => exchange.fail(error),
  )
}
