/** Something that is given up at its deadline. */
export abstract class Perishable {
  // The keeper's own: the slot of its deadline, below 0 without one, and its neighbours in the list of that.
  slot = -1
  listedBefore: Perishable | null = null
  listedBehind: Perishable | null = null

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
 * Nothing is made for a deadline. V8 made the table of a map of slots anew every few requests, in the old generation:
 * the collector's threads took two thirds more CPU at 5,000 requests a second.
 */
export class Deadlines {
  /** First ones of lists. */
  readonly #lists: (Perishable | null)[] = Array.from({ length: LISTS }, () => null)
  #timer: NodeJS.Timeout | undefined
  /** Slot that the timer is set to; Infinity: it is not set. */
  #next = Number.POSITIVE_INFINITY

  /** @param atMs on the clock of `performance.now()`, or Infinity; it takes the place of an earlier one */
  add(one: Perishable, atMs: number): void {
    this.remove(one)
    if (atMs === Number.POSITIVE_INFINITY) return
    const slot = Math.ceil(atMs / SLOT_MS)
    const list = slot % LISTS
    const first = this.#lists[list]!
    one.slot = slot
    one.listedBehind = first
    if (first !== null) first.listedBefore = one
    this.#lists[list] = one
    if (slot < this.#next) this.#set(slot)
  }

  /** Forgets a deadline that was kept. Idempotent. */
  remove(one: Perishable): void {
    const { slot, listedBefore: before, listedBehind: behind } = one
    if (slot < 0) return
    if (before === null) this.#lists[slot % LISTS] = behind
    else before.listedBehind = behind
    if (behind !== null) behind.listedBefore = before
    one.slot = -1
    one.listedBefore = null
    one.listedBehind = null
  }

  #set(slot: number): void {
    clearTimeout(this.#timer)
    this.#next = slot
    this.#timer = setTimeout(() => this.#expire(), Math.max(1, slot * SLOT_MS - performance.now()))
    // The sockets of requests under way keep the process alive, their deadlines do not.
    this.#timer.unref()
  }

  #expire(): void {
    this.#next = Number.POSITIVE_INFINITY
    const now = performance.now() / SLOT_MS
    const due: Perishable[] = []
    let next = Number.POSITIVE_INFINITY
    for (const first of this.#lists) {
      for (let one = first; one !== null; one = one.listedBehind) {
        if (one.slot <= now) due.push(one)
        else if (one.slot < next) next = one.slot
      }
    }
    for (const one of due) {
      // One that is given up may have taken another with it, or given it another deadline.
      if (one.slot < 0 || one.slot > now) continue
      this.remove(one)
      one.expire()
    }
    if (next < this.#next) this.#set(next)
  }
}
