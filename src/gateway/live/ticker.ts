import type { Clock, Timer } from '../../contracts/time.ts'

/** How often sessions with something left to send are looked at, ms. */
const TICK_MS = 100
/** Ticks in which every session is looked at once. */
const TURNS = 10

export interface Ticking {
  /** Once a second. @param nowMs on the node's clock */
  tick(nowMs: number): void
  /** After about 100 ms, where it was asked for. */
  pump(nowMs: number): void
}

/** One timer for all sessions of a process, instead of several for each. It runs as long as there is a session. */
export class LiveTicker {
  readonly #clock: Clock
  readonly #groups: readonly Set<Ticking>[] = Array.from({ length: TURNS }, () => new Set())
  #hurried = new Set<Ticking>()
  #timer: Timer | null = null
  #turn = 0
  #count = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  add(session: Ticking): void {
    this.#groups[this.#count % TURNS]!.add(session)
    this.#count += 1
    this.#timer ??= this.#clock.every(TICK_MS, () => this.#tick())
  }

  remove(session: Ticking): void {
    for (const group of this.#groups) group.delete(session)
    this.#hurried.delete(session)
  }

  /** Has a session looked at in the next tick. */
  hurry(session: Ticking): void {
    this.#hurried.add(session)
  }

  #tick(): void {
    const nowMs = this.#clock.now()
    const hurried = this.#hurried
    this.#hurried = new Set()
    for (const session of hurried) session.pump(nowMs)
    this.#turn = (this.#turn + 1) % TURNS
    for (const session of this.#groups[this.#turn]!) session.tick(nowMs)
    if (this.#turn !== 0 || this.#timer === null || this.#groups.some(({ size }) => size > 0)) return
    this.#timer.close()
    this.#timer = null
  }
}
