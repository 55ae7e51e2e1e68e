import type { Logger } from '../../contracts/log.ts'
import { type Clock, sleep } from '../../contracts/time.ts'
import type { EdgeServer } from '../edge/server.ts'

/** Durations of a node's leaving, in ms. */
export interface DrainTimes {
  /** How long it keeps listening at least; 0: not at all. */
  readonly listenMs: number
  /**
   * Without a new request for so long, nothing is on its way any more: longer than a balancer takes to connect, shorter
   * than it leaves out a node that has said 503.
   */
  readonly quietMs: number
  /** How much longer it listens for that moment while requests keep coming. */
  readonly extraMs: number
  /** How long answers may take once it does not listen any more. */
  readonly answerMs: number
  /** How long a connection without a request may stay open, which its other end should be the first to close. */
  readonly idleMs: number
}

/**
 * An idle connection is closed by the proxy in front (nginx.conf: after 5 s) or by uWebSockets.js (after 8 to 12 s).
 * Without a balancer that wait is skipped; answers that are still being delivered get a moment all the same.
 */
const IDLE_MS = { patient: 13_000, hurried: 1_000 }

/** Until those that were refused at the very end have their answer, as `EDGE_TIMING` discards and lingers. */
const REFUSED_MS = 4_000

const LOOK_MS = 50
/** A node that looks later than that did not see what came meanwhile. */
const MOST_LOOK_MS = 2 * LOOK_MS

/** @param listenMs as configured; 0 for a node without a balancer, or one that a person waits for */
export function drainTimes(listenMs: number, answerMs: number): DrainTimes {
  const idleMs = listenMs > 0 ? IDLE_MS.patient : IDLE_MS.hurried
  return { listenMs, quietMs: 3_000, extraMs: 10_000, answerMs, idleMs }
}

/**
 * Takes a server out of service without an error for anybody who asks it. It keeps listening while balancers learn
 * from `/readyz` that it leaves, and every answer closes its connection. It stops listening in a moment without new
 * connections: connections the kernel has accepted by then but the server has not would be reset, and a proxy may
 * not repeat a POST that it has sent. Then what is in flight is answered, and the last connections run out.
 *
 * @param pending calls that go on without their caller
 */
export async function drain(
  server: EdgeServer,
  pending: () => number,
  times: DrainTimes,
  { log, clock }: { readonly log: Logger; readonly clock: Clock },
): Promise<void> {
  server.closeConnections()
  if (times.listenMs > 0) await quiet(server, times, clock)
  server.stopListening()
  log.info({ in_flight: server.inFlight, connections: server.connections }, 'not listening')
  if (await runOut(server, pending, times, clock)) return
  server.refuse()
  const refused = () => server.inFlight + server.connections === 0
  await drained(refused, REFUSED_MS, clock)
}

/** Resolves when `isOver` says so, at the latest after `ms`. */
export async function drained(isOver: () => boolean, ms: number, clock: Clock): Promise<boolean> {
  const untilMs = clock.now() + ms
  while (!isOver()) {
    if (clock.now() >= untilMs) return false
    await sleep(clock, LOOK_MS)
  }
  return true
}

/**
 * Resolves when no request has come for a while, not before the time to listen is over. What comes while the node
 * stands still waits in the kernel and is read after the look that is then due, so between two looks only a moment
 * counts.
 */
async function quiet(
  server: EdgeServer,
  { listenMs, quietMs, extraMs }: DrainTimes,
  clock: Clock,
): Promise<void> {
  const startMs = clock.now()
  let accepted = server.accepted
  let lookedMs = startMs
  let passedMs = 0
  const isQuiet = () => {
    const nowMs = clock.now()
    passedMs += Math.min(nowMs - lookedMs, MOST_LOOK_MS)
    lookedMs = nowMs
    const seen = server.accepted
    if (seen !== accepted) passedMs = 0
    accepted = seen
    return nowMs - startMs >= listenMs && passedMs >= quietMs
  }
  await drained(isQuiet, listenMs + extraMs, clock)
}

/** Resolves to whether everything is answered, and no connection is left that may still be used. */
function runOut(
  server: EdgeServer,
  pending: () => number,
  { answerMs, idleMs }: DrainTimes,
  clock: Clock,
): Promise<boolean> {
  let busyMs = clock.now()
  const isOver = () => {
    const nowMs = clock.now()
    if (server.inFlight + pending() > 0) busyMs = nowMs
    else if (server.connections === 0) return true
    return nowMs - busyMs >= idleMs
  }
  return drained(isOver, answerMs, clock)
}
