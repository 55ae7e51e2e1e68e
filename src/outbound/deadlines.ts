/** Something that is given up at its deadline. */
export interface Perishable {
  expire(): void
}

/** Width of a slot: a deadline is noticed up to this much late. */
const SLOT_MS = 16

/**
 * Deadlines of requests under way, with one timer for all of them. A timer of its own for each request costs as much as
 * the rest of its clock: Node keeps a list for every duration, and no two requests have the same time left.
 */
export class Deadlines {
  readonly #slots = new Map<number, Set<Perishable>>()
  #timer: NodeJS.Timeout | undefined
  /** Slot that the timer is set to; Infinity: it is not set. */
  #next = Number.POSITIVE_INFINITY

  /**
   * @param atMs on the clock of `performance.now()`
   * @returns the slot to `remove` it from
   */
  add(one: Perishable, atMs: number): number {
    const slot = Math.ceil(atMs / SLOT_MS)
    const others = this.#slots.get(slot)
    if (others === undefined) this.#slots.set(slot, new Set([one]))
    else others.add(one)
    if (slot < this.#next) this.#set(slot)
    return slot
  }

  /** Forgets a deadline that was kept. Idempotent. */
  remove(one: Perishable, slot: number): void {
    const others = this.#slots.get(slot)
    if (others?.delete(one) && others.size === 0) this.#slots.delete(slot)
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
    let next = Number.POSITIVE_INFINITY
    for (const [slot, due] of this.#slots) {
      if (slot <= now) {
        this.#slots.delete(slot)
        for (const one of due) one.expire()
      } else if (slot < next) next = slot
    }
    if (next < this.#next) this.#set(next)
  }
}
