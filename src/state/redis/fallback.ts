import { type Logger, messageOf } from '../../log.ts'
import type { RedisConnection } from './connect.ts'

/** While Redis does not answer, one request in this time asks it; all others are decided at once. */
const TRIAL_MS = 250

/**
 * Whether requests go to Redis, or the node decides alone because Redis does not answer. Bounds what an outage costs:
 * neither waiting callers nor commands pile up.
 */
export class Fallback {
  readonly #redis: RedisConnection
  readonly #log: Logger
  /** What the log says when it goes and when it is back. */
  readonly #words: { readonly away: string; readonly back: string }
  #away = false
  #nextTrialMs = 0

  constructor(redis: RedisConnection, log: Logger, words: { readonly away: string; readonly back: string }) {
    this.#redis = redis
    this.#log = log
    this.#words = words
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
    const nowMs = performance.now()
    if (nowMs < this.#nextTrialMs) return false
    this.#nextTrialMs = nowMs + TRIAL_MS
    return true
  }

  /** Notes that there was no answer. */
  went(error: unknown): void {
    if (this.#away) return
    this.#away = true
    this.#nextTrialMs = performance.now() + TRIAL_MS
    this.#log.warn({ reason: messageOf(error) }, this.#words.away)
  }

  /** Notes an answer. */
  came(): void {
    if (!this.#away) return
    this.#away = false
    this.#log.info(this.#words.back)
  }
}
