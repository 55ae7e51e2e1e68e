import { GatewayError } from '../../contracts/errors.ts'
import type { Limits } from '../../contracts/limits.ts'
import type { SessionEnd } from '../../contracts/live.ts'
import type { Clock } from '../../contracts/time.ts'
import type { GoingAwayReason, LiveMessage } from './messages.ts'

const USAGE_MS = 60_000
/** How long before its end a session is announced to be over. */
const WARNING_SECONDS = 300

/** How long a session of either kind may go on, and what its caller is told of that. */
export class SessionLife {
  readonly startedMs: number
  readonly #clock: Clock
  readonly #tell: (message: LiveMessage & { readonly type: 'going_away' }) => void
  #usageMs: number
  /** When its input is taken to be over; null: not before the longest session. */
  #endByMs: number | null = null
  #isReady = false
  #isWarned = false

  constructor(clock: Clock, tell: (message: LiveMessage & { readonly type: 'going_away' }) => void) {
    this.#clock = clock
    this.startedMs = clock.now()
    this.#usageMs = this.startedMs
    this.#tell = tell
  }

  get isReady(): boolean {
    return this.#isReady
  }

  /** The caller was told `ready`: nothing is said before that. */
  ready(): void {
    this.#isReady = true
    if (this.#endByMs === null) return
    this.goingAway(Math.max(0, Math.ceil((this.#endByMs - this.#clock.now()) / 1000)), 'drain')
  }

  /** The node stops: the caller is to open another session within `seconds`. */
  drain(seconds: number): void {
    this.#endByMs = this.#clock.now() + seconds * 1000
    this.goingAway(seconds, 'drain')
  }

  goingAway(seconds: number, reason: GoingAwayReason): void {
    if (this.#isReady) this.#tell({ type: 'going_away', seconds, reason })
  }

  /**
   * Announces the end when it is near.
   *
   * @param maxSeconds length of the longest session
   * @returns why no more input is to be taken from now on; null: the session continues
   */
  endOf(nowMs: number, maxSeconds: number): 'session_limit' | 'drain' | null {
    const left = maxSeconds - (nowMs - this.startedMs) / 1000
    if (left <= 0) return 'session_limit'
    if (this.#endByMs !== null && nowMs >= this.#endByMs) return 'drain'
    if (left > Math.min(WARNING_SECONDS, maxSeconds / 4) || this.#isWarned || !this.#isReady) return null
    this.#isWarned = true
    this.goingAway(Math.max(1, Math.ceil(left)), 'session_limit')
    return null
  }

  /** It is time to tell the caller its usage; true once in a minute. */
  isUsageDue(nowMs: number): boolean {
    if (!this.#isReady || nowMs - this.#usageMs < USAGE_MS) return false
    this.#usageMs = nowMs
    return true
  }
}

/** Why a session ended. @param cut why no more input was taken of its caller; null: that had sent all */
export function sessionEnd(error: GatewayError | null, cut: SessionEnd | null): SessionEnd {
  if (error === null) return cut ?? 'completed'
  return error.code === 'CLIENT_CLOSED' ? 'client_left' : 'failed'
}

/** The limits that `ready` tells. */
export function liveLimits(limits: Limits): Readonly<Record<string, number | null>> {
  return Object.fromEntries(Object.entries(limits).filter(([name]) => name.startsWith('live_')))
}

/** @param what did not happen, or did, for so long */
export function idleError(what: string, seconds: number): GatewayError {
  const details = { limit: 'live_idle_seconds' }
  return new GatewayError('REQUEST_TIMEOUT', `${what} for ${seconds} s`, { details })
}
