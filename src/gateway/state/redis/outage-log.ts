import type { Logger } from '../../../contracts/log.ts'
import { type Clock, systemClock, type Timer } from '../../../contracts/time.ts'

/** How long nothing may fail until an outage counts as over: one that comes and goes is one outage. */
const CALM_MS = 5_000

/** Durations of the state in Redis that tests change. */
export interface RedisTiming {
  readonly calmMs: number
  /** How often is looked whether Redis has lost what it held. */
  readonly lookMs: number
}

/** The clock of a log of outages, and how long it waits. */
export interface OutageTiming {
  readonly calmMs?: number | undefined
  readonly clock?: Clock
}

/** One line when an outage begins and one when it is over, however often it comes and goes in between. */
export class OutageLog {
  readonly #log: Logger
  /** The lines of its beginning and its end. */
  readonly #words: { readonly away: string; readonly back: string }
  readonly #calmMs: number
  readonly #clock: Clock
  #sinceMs: number | null = null
  #calm: Timer | null = null

  constructor(
    log: Logger,
    words: { readonly away: string; readonly back: string },
    { calmMs = CALM_MS, clock = systemClock }: OutageTiming = {},
  ) {
    this.#clock = clock
    this.#log = log
    this.#words = words
    this.#calmMs = calmMs
  }

  /** Notes that something failed. @param fields of the line, should this be the beginning */
  began(fields: { readonly reason: string; readonly connection?: string }): void {
    this.#calm?.close()
    this.#calm = null
    if (this.#sinceMs !== null) return
    this.#sinceMs = this.#clock.now()
    this.#log.warn(fields, this.#words.away)
  }

  /** Notes that everything works; the line comes once it has for long enough, with how long it did not. */
  ended(): void {
    if (this.#sinceMs === null || this.#calm !== null) return
    const milliseconds = Math.round(this.#clock.now() - this.#sinceMs)
    this.#calm = this.#clock
      .after(this.#calmMs, () => {
        this.#calm = null
        this.#sinceMs = null
        this.#log.info({ milliseconds }, this.#words.back)
      })
      .unref()
  }
}
