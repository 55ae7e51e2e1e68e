import type { ByteBudget } from '../contracts/budget.ts'
import { ERRORS, type ErrorCode, GatewayError } from '../errors.ts'
import { type Logger, stackOf } from '../log.ts'
import { type Exchange, edgeFacts } from './exchange.ts'
import { type EdgeContext, ImmediateBatch, NativeExchange, type RequestFacts } from './native-exchange.ts'
import { openReceiveWindow } from './receive-window.ts'
import {
  type Framing,
  HeadWindow,
  judgeFraming,
  judgeHeaderBytes,
  otherMethod,
  type RequestHead,
  readHead,
} from './request-head.ts'

import { type Found, NO_PARAMS, Router } from './router.ts'
import { EDGE_TIMING, type EdgeTiming } from './timing.ts'
import {
  type HttpRequest,
  type HttpResponse,
  loadUws,
  type TemplatedApp,
  type us_listen_socket,
} from './uws.ts'

export interface EdgeRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** `/v1/transcription`, `/v1/jobs/:id`, or `/docs/*` for everything below. A GET route serves HEAD too. */
  readonly path: string
  /** A probe of balancers and monitors: its requests do not count as callers. */
  readonly probe?: true
  /**
   * Answers the exchange, at once or later. What it throws or rejects with becomes the answer. A promise
   * that is fulfilled while nobody has answered becomes a 500, for nobody would: so await the body before
   * returning.
   */
  handle(exchange: Exchange): void | Promise<void>
}

export interface EdgeOptions {
  readonly routes: readonly EdgeRoute[]
  readonly host: string
  /** 0 picks a free one. */
  readonly port: number
  /**
   * Whether other processes may listen on the same address and share its connections; else that is an
   * error.
   */
  readonly shared?: boolean
  /** Charged for what arrives before a route reads it. */
  readonly budget: ByteBudget
  readonly log: Logger
  /**
   * Sees every exchange before it is answered, also those that no route gets: for metrics. `refusal` is why none gets
   * it; null: one does.
   */
  readonly observe?: (exchange: Exchange, refusal: ErrorCode | null) => void
  /** Only tests give others than `EDGE_TIMING`. */
  readonly timing?: Partial<EdgeTiming>
}

export interface EdgeServer {
  readonly port: number
  /** The native build in use, e.g. `20.51.4 (glibc 2.27 build)`. */
  readonly uws: string
  /** Requests that are neither answered nor left by their client. */
  readonly inFlight: number
  /** Requests that were ever accepted, without those to probes. */
  readonly accepted: number
  /** Open connections, with and without a request. */
  readonly connections: number
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
  readonly router: Router<EdgeRoute>
  /** Null: bytes that the parser cuts off stay unseen. */
  readonly window: HeadWindow | null
  accepted: number
  connections: number
  observe(exchange: Exchange, refusal: ErrorCode | null): void
}

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
  const { routes, host, port, budget, log, observe = () => {} } = options
  const router = new Router(routes)
  const timing = { ...EDGE_TIMING, ...options.timing }
  const shared = { budget, log, timing, immediate: new ImmediateBatch(), open: [] }
  const { uws, version } = loadUws()
  const received = await openReceiveWindow(uws)
  if (received === null) log.warn('bytes over 0x7f at the ends of header values are not seen')
  const window = received && new HeadWindow(received)
  const counts = { draining: false, accepted: 0, connections: 0 }
  const context: ServerContext = { ...shared, ...counts, router, window, observe }
  const app = uws.App()
  for (const [register, method] of METHODS) {
    app[register]('/*', (res, request) => accept(res, request, method, context))
  }
  // To any other uWS would give its own 404, in HTML.
  app.any('/*', (res, request) => accept(res, request, otherMethod(request), context))
  const count = (_: HttpResponse, change: number): void => {
    context.connections += change
  }
  app.filter(count as Parameters<TemplatedApp['filter']>[0])

  const listening = await listen(app, host, port, options.shared ? LISTEN_SHARED : LISTEN_EXCLUSIVE)
  const sweeper = setInterval(() => {
    const nowMs = performance.now()
    for (const exchange of [...context.open]) exchange.sweep(nowMs)
  }, timing.sweepMs)
  sweeper.unref()
  let listener: us_listen_socket | null = listening
  return {
    port: uws.us_socket_local_port(listening),
    uws: version,
    get inFlight() {
      return context.open.length
    },
    get accepted() {
      return context.accepted
    },
    get connections() {
      return context.connections
    },
    closeConnections() {
      context.draining = true
    },
    refuse() {
      for (const exchange of [...context.open]) exchange.replyError(new GatewayError('OVERLOADED'))
    },
    stopListening() {
      context.draining = true
      if (listener !== null) uws.us_listen_socket_close(listener)
      listener = null
    },
    close() {
      context.draining = true
      listener = null
      clearInterval(sweeper)
      app.close()
    },
  }
}

/**
 * One request, in uWS's callback. Whatever happens in here, `onAborted` is set: without it uWS ends the
 * process.
 */
function accept(res: HttpResponse, request: HttpRequest, method: string, context: ServerContext): void {
  let exchange: NativeExchange | null = null
  res.onAborted(() => exchange?.left())
  try {
    const head = readHead(request, method, context.window)
    const framing = judgeFraming(head)
    const found = context.router.find(method, head.path)
    const refusal = refusalOf(head, framing, found) ?? unknownPath(found, head.path, context)
    if (found.route?.probe !== true) context.accepted += 1
    const accepted = new NativeExchange(res, head, factsOf(framing, found, refusal), context)
    exchange = accepted
    if (refusal?.code === 'LENGTH_REQUIRED') accepted.stopReading()
    // uWS would hand out an empty last chunk, a turn of the native code later than it is known.
    else if (isBodiless(framing)) accepted.receiveNothing()
    else res.onData((chunk, last) => accepted.receive(chunk, last))
    context.observe(accepted, refusal?.code ?? null)
    if (refusal !== null) refuse(accepted, refusal, context)
    else run(found.route!, accepted)
  } catch (error) {
    if (exchange === null) {
      context.log.error({ method, stack: stackOf(error) }, 'a request could not be accepted')
      res.close()
    } else exchange.fail(error)
  }
}

function isBodiless(framing: Framing | GatewayError): boolean {
  return !(framing instanceof GatewayError) && !framing.chunked && (framing.contentLength ?? 0) === 0
}

/** An unknown path is 404 for everybody, before any key is looked at. Who left its beginning out is told the whole. */
function unknownPath(found: Found<EdgeRoute>, path: string, { router }: ServerContext): GatewayError | null {
  if (found.route !== null) return null
  const whole = router.completed(path)
  if (whole === null) return new GatewayError('NOT_FOUND')
  return new GatewayError('NOT_FOUND', `${ERRORS.NOT_FOUND.message}; did you mean \`${whole}\`?`)
}

/** Why no route may have the request, whatever its path, if so. */
function refusalOf(
  head: RequestHead,
  framing: Framing | GatewayError,
  found: Found<EdgeRoute>,
): GatewayError | null {
  if (framing instanceof GatewayError) return framing
  if (found.route === null) {
    if (found.allow === '') return null
    return new GatewayError('METHOD_NOT_ALLOWED', undefined, { headers: { allow: found.allow } })
  }
  const { method } = head
  const lengthless = framing.contentLength === null && !framing.chunked
  if (lengthless && (method === 'POST' || method === 'PUT')) return new GatewayError('LENGTH_REQUIRED')
  return judgeHeaderBytes(head)
}

function factsOf(
  framing: Framing | GatewayError,
  found: Found<EdgeRoute>,
  refusal: GatewayError | null,
): RequestFacts {
  const params = found.route === null ? NO_PARAMS : found.params
  const pattern = found.route?.path ?? null
  if (framing instanceof GatewayError) return { contentLength: null, params, pattern, closes: true }
  const closes = framing.chunked || refusal?.code === 'LENGTH_REQUIRED'
  return { contentLength: framing.contentLength, params, pattern, closes }
}

/** No route sees the request, so that its line is written here. */
function refuse(exchange: NativeExchange, refusal: GatewayError, { log }: ServerContext): void {
  exchange.onFinished(() => log.info({ ...edgeFacts(exchange), error: refusal.code }, 'request'))
  exchange.replyError(refusal)
}

function run(route: EdgeRoute, exchange: NativeExchange): void {
  const pending = route.handle(exchange)
  if (pending === undefined) return
  pending.then(
    () => {
      if (!exchange.settled) exchange.fail(new Error('the handler ended without an answer'))
    },
    (error: unknown) => exchange.fail(error),
  )
}

/** uWS's listen options: with SO_REUSEPORT (which a free port never gets), or without. */
const LISTEN_SHARED = 0
const LISTEN_EXCLUSIVE = 1

function listen(app: TemplatedApp, host: string, port: number, option: number): Promise<us_listen_socket> {
  return new Promise((resolve, reject) => {
    // The declarations lack this form, which both builds have: host, port, option, callback.
    const listenOn = app.listen.bind(app) as unknown as (
      host: string,
      port: number,
      option: number,
      done: (socket: us_listen_socket | false) => void,
    ) => void
    listenOn(host, port, option, (socket) => {
      if (socket) resolve(socket)
      else reject(new Error(`cannot listen on ${host}:${port}`))
    })
  })
}
