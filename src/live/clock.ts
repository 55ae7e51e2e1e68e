/** How often what waits to be sent is looked at, ms. */
const TICK_MS = 100
/** Ticks in which every session is looked at once. */
const SLOTS = 10

export interface Ticking {
  /** Once a second. @param nowMs on the clock of `performance.now()` */
  tick(nowMs: number): void
  /** After about 100 ms, where it was asked for. */
  pump(nowMs: number): void
}

/** One timer for all sessions of a process, instead of several for each. It runs as long as there is a session. */
export class LiveClock {
  readonly #slots: readonly Set<Ticking>[] = Array.from({ length: SLOTS }, () => new Set())
  #hurried = new Set<Ticking>()
  #timer: NodeJS.Timeout | null = null
  #turn = 0
  #count = 0

  /** @returns takes it out again */
  add(session: Ticking): () => void {
    const slot = this.#slots[this.#count % SLOTS]!
    this.#count += 1
    slot.add(session)
    this.#timer ??= setInterval(() => this.#tick(), TICK_MS)
    return () => {
      slot.delete(session)
      this.#hurried.delete(session)
    }
  }

  /** Has a session looked at in the next tick. */
  hurry(session: Ticking): void {
    this.#hurried.add(session)
  }

  #tick(): void {
    const nowMs = performance.now()
    const hurried = this.#hurried
    this.#hurried = new Set()
    for (const session of hurried) session.pump(nowMs)
    this.#turn = (this.#turn + 1) % SLOTS
    for (const session of this.#slots[this.#turn]!) session.tick(nowMs)
    if (this.#turn !== 0 || this.#timer === null || this.#slots.some(({ size }) => size > 0)) return
    clearInterval(this.#timer)
    this.#timer = null
  }
}
