import type { PermitLimit } from '../../../contracts/permits.ts'
import type { Clock, Timer } from '../../../contracts/time.ts'

/** How long a node keeps permits at least without having heard from Redis that no one waits. */
const KEPT_MS = 25
/** Calls that wait for less than so many times that would be refused while another node keeps a permit. */
const PATIENCE = 4
/** A name with fewer permits keeps none: each is too large a part of them. Names of one permit are without number. */
const LEAST = 4

/**
 * The calls that wait for permits of a name, as Redis said it: some on another node; none there; or none anywhere,
 * while a quarter of the permits is free.
 */
export type Contention = 'others' | 'none' | 'calm'

/** The permits of one name that may be kept until its time is over. */
interface Kept {
  readonly limit: PermitLimit
  readonly tokens: string[]
  readonly untilMs: number
  readonly timer: Timer
}

/**
 * Permits that calls gave back and whose leases this node keeps for its next calls, which so need no trip to Redis. It
 * does so for a moment after Redis has said that a name is calm: no call waits for one of its permits, and many are
 * free. A call that comes to wait on another node during that moment is served at its end at the latest, when
 * everything that is kept goes back. A node that is killed loses what it keeps with its lease, like what it holds.
 *
 * Where a trip takes longer than that moment, giving a permit back and asking for it again would leave it unused for as
 * long. There a node keeps permits for the length of a trip, be they many or few, and gives one directly to a call that
 * waits here, unless a call waits on another node.
 */
export class KeptPermits {
  readonly #names = new Map<string, Kept>()
  /** Until when permits of a name may go to those who wait here. */
  readonly #handedOnUntilMs = new Map<string, number>()
  readonly #giveBack: (limit: PermitLimit, tokens: readonly string[]) => void
  readonly #clock: Clock
  #tripMs = 0
  #isClosed = false

  /** @param giveBack gives permits back to Redis that are kept no longer; not called without any */
  constructor(giveBack: (limit: PermitLimit, tokens: readonly string[]) => void, clock: Clock) {
    this.#giveBack = giveBack
    this.#clock = clock
  }

  get #keptMs(): number {
    return Math.max(KEPT_MS, this.#tripMs)
  }

  /** Whether a permit may be kept when it is given back, if its call would have waited for so long. */
  mayServe({ most }: PermitLimit, waitMs: number): boolean {
    return most >= LEAST && waitMs >= PATIENCE * this.#keptMs
  }

  /**
   * Notes Redis's answer about a name. Nothing is kept for longer because Redis repeats it.
   *
   * @param tripMs  how long it took to ask
   * @param mayKeep false: the call that asked would have waited for too short a time
   */
  learn(limit: PermitLimit, contention: Contention, tripMs: number, mayKeep: boolean): void {
    const { name, most } = limit
    this.#tripMs = tripMs
    const isFar = tripMs > KEPT_MS
    const keeps = contention === 'calm' || (isFar && contention === 'none')
    if (isFar && contention !== 'others' && most >= LEAST)
      this.#handedOnUntilMs.set(name, this.#clock.now() + 2 * tripMs)
    else this.#handedOnUntilMs.delete(name)
    const kept = this.#names.get(name)
    if (kept !== undefined && (!keeps || kept.limit.most !== most)) this.#end(kept)
    if (!keeps || !mayKeep || this.#isClosed || this.#names.has(name)) return
    const timer = this.#clock.after(this.#keptMs, () => this.#end(begun)).unref()
    const begun: Kept = { limit, tokens: [], untilMs: this.#clock.now() + this.#keptMs, timer }
    this.#names.set(name, begun)
  }

  /** Whether a permit that is given back may go to whoever waits here. */
  mayHandOn({ name }: PermitLimit): boolean {
    return this.#clock.now() < (this.#handedOnUntilMs.get(name) ?? 0)
  }

  /** Keeps a permit for the next call. False: it has to go back. */
  keep(limit: PermitLimit, token: string): boolean {
    const kept = this.#keptOf(limit)
    kept?.tokens.push(token)
    return kept !== null
  }

  /** The token of a permit that is kept; undefined: there is none. */
  take(limit: PermitLimit): string | undefined {
    return this.#keptOf(limit)?.tokens.pop()
  }

  /** Gives everything back, and keeps nothing any more. */
  close(): void {
    this.#isClosed = true
    for (const kept of this.#names.values()) this.#end(kept)
  }

  /** Null: nothing may be kept, or its time is over. A process that was stopped may find that before its timer does. */
  #keptOf({ name, most }: PermitLimit): Kept | null {
    const kept = this.#names.get(name)
    return kept?.limit.most === most && this.#clock.now() < kept.untilMs ? kept : null
  }

  #end(kept: Kept): void {
    kept.timer.close()
    this.#names.delete(kept.limit.name)
    if (kept.tokens.length > 0) this.#giveBack(kept.limit, kept.tokens)
  }
}
