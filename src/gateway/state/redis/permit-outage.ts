import type { Logger } from '../../../contracts/log.ts'
import type { PermitLimit } from '../../../contracts/permits.ts'
import { type Clock, systemClock, type Timer } from '../../../contracts/time.ts'
import type { RedisConnection } from './connect.ts'
import { Fallback, TRIAL_MS } from './fallback.ts'
import type { OutageTiming } from './outage-log.ts'

/**
 * Tells Redis what this node holds and what it does not hold any more.
 *
 * @param limits of the names of which Redis may have tokens of this node that hold nothing
 * @param isFirst false: it was told so already since it is back
 */
export type TellRedis = (limits: readonly PermitLimit[], isFirst: boolean) => Promise<void>

/**
 * Whether Redis is away for permits, or refuses. While it is, it is told a few times a second what this node holds;
 * once it takes that, it is back. Commands that were on their way when a connection broke may be executed after that,
 * so that it is told once more.
 */
export class PermitOutage {
  readonly #redis: RedisConnection
  readonly #fallback: Fallback
  readonly #tell: TellRedis
  readonly #astray = new Map<string, PermitLimit>()
  readonly #clock: Clock
  #trying: Timer | null = null
  #isTrying = false
  #isClosed = false

  constructor(redis: RedisConnection, log: Logger, tell: TellRedis, timing: OutageTiming = {}) {
    this.#redis = redis
    this.#tell = tell
    const words = {
      away: 'Redis gives no permits: this node counts permits alone',
      back: 'Redis gives permits again: the nodes share their permits',
    }
    this.#fallback = new Fallback(redis, log, words, timing)
    this.#clock = timing.clock ?? systemClock
  }

  /** Whether this node counts alone. */
  get isAlone(): boolean {
    if (this.#redis.status !== 'ready') this.went(new Error(`the connection is ${this.#redis.status}`), [])
    return this.#fallback.isAway
  }

  /** Notes that Redis did not answer, or refused. @param limits of what it may have done or not */
  went(error: unknown, limits: readonly PermitLimit[]): void {
    for (const limit of limits) this.#astray.set(limit.name, limit)
    this.#fallback.went(error)
    if (!this.#isClosed) this.#trying ??= this.#clock.every(TRIAL_MS, this.#try).unref()
  }

  /** Tells Redis nothing any more. */
  close(): void {
    this.#isClosed = true
    this.#stop()
  }

  readonly #try = async (): Promise<void> => {
    if (this.#redis.status !== 'ready' || this.#isTrying) return
    this.#isTrying = true
    const isFirst = this.#fallback.isAway
    try {
      await this.#tell([...this.#astray.values()], isFirst)
      if (isFirst) this.#fallback.came()
      else if (!this.#fallback.isAway) this.#stop()
    } catch (error) {
      this.went(error, [])
    } finally {
      this.#isTrying = false
    }
  }

  #stop(): void {
    this.#astray.clear()
    this.#trying?.close()
    this.#trying = null
  }
}
