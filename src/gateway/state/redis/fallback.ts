import { errorMessage, type Logger } from '../../../contracts/log.ts'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import type { RedisConnection } from './connect.ts'
import { OutageLog, type OutageTiming } from './outage-log.ts'

/** While Redis is away one request, or one question, in this time asks it; everything else is decided at once. */
export const TRIAL_MS = 250

/**
 * Whether requests go to Redis, or the node decides alone because Redis does not answer or refuses. Bounds what an
 * outage costs: neither waiting callers nor commands pile up.
 */
export class Fallback {
  readonly #redis: RedisConnection
  readonly #outage: OutageLog
  readonly #clock: Clock
  #away = false
  #nextTrialMs = 0

  /** @param words what the log says when it goes and when it is back */
  constructor(
    redis: RedisConnection,
    log: Logger,
    words: { readonly away: string; readonly back: string },
    timing: OutageTiming = {},
  ) {
    this.#redis = redis
    this.#clock = timing.clock ?? systemClock
    this.#outage = new OutageLog(log, words, timing)
  }

  get isAway(): boolean {
    return this.#away || this.#redis.status !== 'ready'
  }

  /** Whether this request goes to Redis. */
  mayAsk(): boolean {
    if (this.#redis.status !== 'ready') {
      this.went(new Error(`the connection is ${this.#redis.status}`))
      return false
    }
    if (!this.#away) return true
    const nowMs = this.#clock.now()
    if (nowMs < this.#nextTrialMs) return false
    this.#nextTrialMs = nowMs + TRIAL_MS
    return true
  }

  /** Notes that there was no answer, or a refusal. */
  went(error: unknown): void {
    this.#outage.began({ reason: errorMessage(error) })
    if (this.#away) return
    this.#away = true
    this.#nextTrialMs = this.#clock.now() + TRIAL_MS
  }

  /** Notes an answer. */
  came(): void {
    if (!this.#away) return
    this.#away = false
    this.#outage.ended()
  }
}
