import type { SlotLimit } from '../../contracts/slots.ts'

/** How long a node keeps slots without having heard from Redis that nobody waits. */
const KEPT_MS = 25
/** What waits for less would be refused while another node keeps a slot, so that such calls' slots are not kept. */
const PATIENT_MS = 4 * KEPT_MS
/** Of a name with fewer slots none are kept: with one of them taken there is no quarter left. */
const LEAST = 4

/** The slots of one name that may be kept until its time is over. */
interface Kept {
  readonly limit: SlotLimit
  readonly tokens: string[]
  readonly timer: NodeJS.Timeout
}

/**
 * Slots that calls gave back and whose leases this node keeps for its next calls, which so need no trip to Redis. It
 * does so for a moment after Redis has said that a name is calm: nobody waits for one of its slots, and many are free.
 * Whoever waits for a slot on another node, since that was said, is served by what goes back to Redis at the latest
 * then. A node that is killed loses what it keeps with its lease, like what it holds.
 */
export class KeptSlots {
  readonly #names = new Map<string, Kept>()
  readonly #giveBack: (limit: SlotLimit, tokens: readonly string[]) => void
  #isClosed = false

  /** @param giveBack gives slots back to Redis that are kept no longer; not called without any */
  constructor(giveBack: (limit: SlotLimit, tokens: readonly string[]) => void) {
    this.#giveBack = giveBack
  }

  /** Whether what is given back by somebody who waited for so long at most may be kept. */
  static mayServe({ most }: SlotLimit, waitMs: number): boolean {
    return most >= LEAST && waitMs >= PATIENT_MS
  }

  /** Notes what Redis has said of a name. That it is calm still makes nothing be kept for longer. */
  learn(limit: SlotLimit, isCalm: boolean): void {
    const { name, most } = limit
    const kept = this.#names.get(name)
    if (kept !== undefined && (!isCalm || kept.limit.most !== most)) this.#end(kept)
    if (!isCalm || this.#isClosed || this.#names.has(name)) return
    const begun: Kept = { limit, tokens: [], timer: setTimeout(() => this.#end(begun), KEPT_MS) }
    begun.timer.unref()
    this.#names.set(name, begun)
  }

  /** Keeps a slot for the next call. False: it has to go back. */
  keep({ name, most }: SlotLimit, token: string): boolean {
    const kept = this.#names.get(name)
    if (kept === undefined || kept.limit.most !== most) return false
    kept.tokens.push(token)
    return true
  }

  /** The token of a slot that is kept; undefined: there is none. */
  take({ name, most }: SlotLimit): string | undefined {
    const kept = this.#names.get(name)
    return kept?.limit.most === most ? kept.tokens.pop() : undefined
  }

  /** Gives everything back, and keeps nothing any more. */
  close(): void {
    this.#isClosed = true
    for (const kept of this.#names.values()) this.#end(kept)
  }

  #end(kept: Kept): void {
    clearTimeout(kept.timer)
    this.#names.delete(kept.limit.name)
    if (kept.tokens.length > 0) this.#giveBack(kept.limit, kept.tokens)
  }
}
