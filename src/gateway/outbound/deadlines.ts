import type { Clock, Timer } from '../../contracts/time.ts'

/** Something that is given up at its deadline. */
export abstract class Perishable {
  // The keeper's own: the slot of its deadline, below 0 without one, and its neighbours in the list of that slot.
  slot = -1
  listedBefore: Perishable | null = null
  listedAfter: Perishable | null = null

  abstract expire(): void
}

/** Width of a slot: a deadline is noticed up to this much late. */
const SLOT_MS = 16
/** Slots that are so far apart share a list. */
const LISTS = 1_024

/**
 * Deadlines of requests under way, with one timer for all of them. A timer of its own for each request costs as much as
 * the rest of its clock: Node keeps a list for every duration, and no two requests have the same time left.
 *
 * A deadline allocates nothing. V8 made the table of a map of slots anew every few requests, in the old generation:
 * the collector's threads took two thirds more CPU at 5,000 requests a second.
 */
export class Deadlines {
  readonly clock: Clock
  /** First ones of lists. */
  readonly #lists: (Perishable | null)[] = Array.from({ length: LISTS }, () => null)
  #timer: Timer | undefined
  /** Slot that the timer is set to; Infinity: it is not set. */
  #next = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** @param atMs on the clock's `now`, or Infinity; it takes the place of an earlier one */
  add(one: Perishable, atMs: number): void {
    this.remove(one)
    if (atMs === Number.POSITIVE_INFINITY) return
    const slot = Math.ceil(atMs / SLOT_MS)
    const list = slot % LISTS
    const first = this.#lists[list]!
    one.slot = slot
    one.listedAfter = first
    if (first !== null) first.listedBefore = one
    this.#lists[list] = one
    if (slot < this.#next) this.#set(slot)
  }

  /** Forgets a deadline that was kept. Idempotent. */
  remove(one: Perishable): void {
    const { slot, listedBefore: before, listedAfter: after } = one
    if (slot < 0) return
    if (before === null) this.#lists[slot % LISTS] = after
    else before.listedAfter = after
    if (after !== null) after.listedBefore = before
    one.slot = -1
    one.listedBefore = null
    one.listedAfter = null
  }

  #set(slot: number): void {
    this.#timer?.close()
    this.#next = slot
    const { clock } = this
    this.#timer = clock.after(Math.max(1, slot * SLOT_MS - clock.now()), () => this.#expire())
    // The sockets of requests under way keep the process alive, their deadlines do not.
    this.#timer.unref()
  }

  #expire(): void {
    this.#next = Number.POSITIVE_INFINITY
    const now = this.clock.now() / SLOT_MS
    const due: Perishable[] = []
    let next = Number.POSITIVE_INFINITY
    for (const first of this.#lists) {
      for (let one = first; one !== null; one = one.listedAfter) {
        if (one.slot <= now) due.push(one)
        else if (one.slot < next) next = one.slot
      }
    }
    for (const one of due) {
      // Expiring one may have removed another, or given it a later deadline.
      if (one.slot < 0 || one.slot > now) continue
      this.remove(one)
      one.expire()
    }
    if (next < this.#next) this.#set(next)
  }
}
