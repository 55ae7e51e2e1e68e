import { ERRORS, errorReply, toGatewayError } from '../errors.ts'
import { newTrail, type Services, type Trail } from '../gateway/gateway.ts'
import { edgeFacts } from '../inbound/edge-facts.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { EdgeRoute } from '../inbound/server.ts'
import type { Logger } from '../log.ts'
import type { RequestMetrics } from '../metrics/request-metrics.ts'
import type { JobObjects } from '../schema/job-objects.ts'
import type { Links, Results } from '../schema/links.ts'
import type { AudioDigester, MediaProbe } from '../schema/media.ts'
import type { RemoteAudio } from '../schema/remote-audio.ts'
import type { Spool } from '../schema/spool.ts'
import type { Tracing } from '../schema/tracing.ts'
import type { Recorder, Seen } from './console/watch/recorder.ts'
import type { JobSignals } from './jobs/signals.ts'
import { errorOf, loggedFacts } from './logged-facts.ts'
import { requestEnd } from './traced-facts.ts'

/** What the endpoints work with. */
export interface Doors {
  readonly services: Services
  readonly spool: Spool
  /** For a body whose answer is there already: it is read and kept nowhere. */
  readonly discard: Spool
  readonly probe: MediaProbe
  readonly digester: AudioDigester
  readonly remoteAudio: RemoteAudio
  readonly results: Results
  readonly jobs: JobDesk
  readonly log: Logger
  /** Null: it is off. */
  readonly tracing: Tracing | null
  /** Null: nobody counts. */
  readonly metrics?: { readonly requests: RequestMetrics } | null
  /** Absent: nothing is shown in the console. */
  readonly recorder?: Recorder
}

/** What is told of every request when it is over. */
type Watchers = Pick<Doors, 'log' | 'metrics'>

/** What the endpoints of jobs work with, besides the state. */
export interface JobDesk {
  readonly objects: JobObjects
  /** Opens large results. */
  readonly links: Links
  readonly signals: JobSignals
}

/** A `/v1` endpoint: reads the exchange, gives the answer, throws GatewayError. */
export type Handle = (exchange: Exchange, trail: Trail, doors: Doors) => Reply | Promise<Reply>

export interface EndpointOptions {
  /** It honours `Idempotency-Key`. */
  readonly idempotent?: boolean
}

/** Paths whose requests the console shows. */
const CALLED = /^(?:\/openai)?\/v1\//

/** Binds an endpoint to the edge: one answer, the headers that became due on the way, one log line. */
export function endpoint(
  doors: Doors,
  method: EdgeRoute['method'],
  path: string,
  handle: Handle,
  { idempotent = false }: EndpointOptions = {},
): EdgeRoute {
  // What the console itself asks for is not what it shows.
  const recorder = CALLED.test(path) ? doors.recorder : undefined
  return {
    method,
    path,
    handle(exchange) {
      const trail = newTrail()
      let seen: Seen = null
      trail.trace = doors.tracing?.request(exchange, path) ?? null
      // Said plainly, so that nobody counts on a key that protects nothing.
      if (!idempotent && exchange.headers['idempotency-key'] !== undefined) {
        trail.headers['x-lk-idempotency'] = 'ignored'
      }
      exchange.onFinished(() => {
        noteEnd(doors, exchange, trail)
        recorder?.ended(exchange, trail, seen)
      })
      const answer = (reply: Reply): void => {
        doors.metrics?.requests.answered(exchange, trail.elsewhereMs)
        seen = recorder?.answered(exchange, trail, reply.status) ?? null
        const headers = { ...trail.headers, ...reply.headers }
        exchange.reply({ ...reply, headers }, trail.principal?.workspace.id)
        if (!wentOn(exchange, trail)) return
        logRequest(doors.log, exchange, trail, 'request went on')
        recorder?.wentOn(exchange, trail)
      }
      const refuse = (thrown: unknown): void => {
        const failure = toGatewayError(thrown)
        trail.failure = failure
        trail.trace?.failed(failure.code)
        const { status, headers, body } = errorReply(failure, exchange.requestId)
        answer({ status, headers, body: JSON.stringify(body) })
      }
      try {
        const reply = handle(exchange, trail, doors)
        if (reply instanceof Promise) return reply.then(answer, refuse)
        answer(reply)
      } catch (thrown) {
        refuse(thrown)
      }
    },
  }
}

/** Gives a path that takes no API key its line in the log: of its requests no more is known than what the edge sees. */
export function keyless(doors: Watchers, route: EdgeRoute): EdgeRoute {
  return {
    ...route,
    async handle(exchange) {
      const trail = newTrail()
      exchange.onFinished(() => noteEnd(doors, exchange, trail))
      try {
        await route.handle(exchange)
      } catch (thrown) {
        trail.failure = toGatewayError(thrown)
        exchange.replyError(trail.failure)
      }
    },
  }
}

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/

/** What the gateway is told of the caller of an exchange. */
export function callerOf({ requestId, headers, signal }: Exchange) {
  const { authorization, traceparent } = headers
  const traced = traceparent !== undefined && TRACEPARENT.test(traceparent)
  return { id: requestId, authorization, traceparent: traced ? traceparent : undefined, signal }
}

/** Whether a call with an idempotency key has ended now, and its caller had left before. */
function wentOn({ status }: Exchange, { slot, failure }: Trail): boolean {
  return slot !== null && status === ERRORS.CLIENT_CLOSED.status && failure?.code !== 'CLIENT_CLOSED'
}

function noteEnd({ log, metrics }: Watchers, exchange: Exchange, trail: Trail): void {
  logRequest(log, exchange, trail)
  const error = errorOf(exchange, trail)
  if (error !== undefined) metrics?.requests.failed(error)
}

/**
 * One line per request, when its answer is out, streamed ones too: facts by name, never a header, a body or a
 * provider's text at the caller's disposal. A call that goes on without its caller has a second one, when it has ended.
 */
function logRequest(log: Logger, exchange: Exchange, trail: Trail, message = 'request'): void {
  const { failure } = trail
  trail.trace?.finish(requestEnd(exchange, trail))
  if (failure?.code !== 'INTERNAL' && !log.isLevelEnabled('info')) return
  const line = {
    ...edgeFacts(exchange),
    trace_id: trail.trace?.traceId,
    ...loggedFacts(trail),
    job_id: trail.jobId ?? undefined,
    replayed: trail.replayed ? true : undefined,
    error: errorOf(exchange, trail),
  }
  if (failure?.code === 'INTERNAL') log.error({ ...line, err: failure.cause }, message)
  else log.info(line, message)
}
