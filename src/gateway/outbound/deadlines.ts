import type { Clock, Timer } from '../../contracts/time.ts'

/** Something that is given up at its deadline. */
export abstract class Perishable {
  // The keeper's own: the tick of its deadline, below 0 without one, and its neighbours in the list of that tick.
  tick = -1
  listedBefore: Perishable | null = null
  listedAfter: Perishable | null = null

  abstract expire(): void
}

/** Width of a tick: a deadline is noticed up to this much late. */
const TICK_MS = 16
/** Ticks that are so far apart share a list. */
const LISTS = 1_024

/**
 * Deadlines of requests under way, with one timer for all of them. A timer of its own for each request costs as much as
 * the rest of its clock: Node keeps a list for every duration, and no two requests have the same time left.
 *
 * A deadline allocates nothing. V8 made the table of a map of ticks anew every few requests, in the old generation:
 * the collector's threads took two thirds more CPU at 5,000 requests a second.
 */
export class Deadlines {
  readonly clock: Clock
  /** First ones of lists. */
  readonly #lists: (Perishable | null)[] = Array.from({ length: LISTS }, () => null)
  #timer: Timer | undefined
  /** Tick that the timer is set to; Infinity: it is not set. */
  #next = Number.POSITIVE_INFINITY

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** @param atMs on the clock's `now`, or Infinity; it takes the place of an earlier one */
  add(one: Perishable, atMs: number): void {
    this.remove(one)
    if (atMs === Number.POSITIVE_INFINITY) return
    const tick = Math.ceil(atMs / TICK_MS)
    const list = tick % LISTS
    const first = this.#lists[list]!
    one.tick = tick
    one.listedAfter = first
    if (first !== null) first.listedBefore = one
    this.#lists[list] = one
    if (tick < this.#next) this.#set(tick)
  }

  /** Forgets a deadline that was kept. Idempotent. */
  remove(one: Perishable): void {
    const { tick, listedBefore: before, listedAfter: after } = one
    if (tick < 0) return
    if (before === null) this.#lists[tick % LISTS] = after
    else before.listedAfter = after
    if (after !== null) after.listedBefore = before
    one.tick = -1
    one.listedBefore = null
    one.listedAfter = null
  }

  #set(tick: number): void {
    this.#timer?.close()
    this.#next = tick
    const { clock } = this
    this.#timer = clock.after(Math.max(1, tick * TICK_MS - clock.now()), () => this.#expire())
    // The sockets of requests under way keep the process alive, their deadlines do not.
    this.#timer.unref()
  }

  #expire(): void {
    this.#next = Number.POSITIVE_INFINITY
    const now = this.clock.now() / TICK_MS
    const due: Perishable[] = []
    let next = Number.POSITIVE_INFINITY
    for (const first of this.#lists) {
      for (let one = first; one !== null; one = one.listedAfter) {
        if (one.tick <= now) due.push(one)
        else if (one.tick < next) next = one.tick
      }
    }
    for (const one of due) {
      // Expiring one may have removed another, or given it a later deadline.
      if (one.tick < 0 || one.tick > now) continue
      this.remove(one)
      one.expire()
    }
    if (next < this.#next) this.#set(next)
  }
}
