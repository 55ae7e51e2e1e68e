import type { Entry } from '../../../contracts/catalog.ts'
import type { Metered, Usage } from '../facts/meter.ts'

/** The consumption of a call, and the course of its reservations. Those of a part count for the whole call, too. */
export class CallMoney {
  readonly #whole: CallMoney | null
  usage: Usage | null = null
  costUsd: number | null = null
  /**
   * Estimated cost of the attempt that is under way, or that ended without its answer being seen; null: there is none.
   * Computed when it is asked for, since most calls end well.
   */
  estimate: { readonly entry: Entry; metered(): Metered } | null = null
  /** Sum at which its reservations were settled so far, micro-USD. */
  chargedMicros = 0
  accruedMicros = 0
  /** See `OpenCall`. */
  chargedAt = -1
  usagePlace: object | null = null
  #unsettled = 0
  #onSettled: (() => void) | null = null

  /** @param whole of the call that this one is a part of; null: it is none */
  constructor(whole: CallMoney | null) {
    this.#whole = whole
  }

  /** Where nothing was measured: estimated for the attempt without a known end; null: there is none. */
  get estimated(): Metered | null {
    return this.usage === null && this.estimate !== null ? this.estimate.metered() : null
  }

  /** Measured, or else estimated; null: there is neither. */
  get spent(): Pick<Metered, 'usage' | 'costUsd'> | null {
    return this.usage === null ? this.estimated : { usage: this.usage, costUsd: this.costUsd }
  }

  /** True when every reservation of the call is settled. */
  get isSettled(): boolean {
    return this.#unsettled === 0
  }

  /** Money may be charged from now on, until `settled` is called as often. */
  reserved(): void {
    this.#unsettled += 1
    this.#whole?.reserved()
  }

  /** Notes the cost so far of a part that is not settled. */
  accrued(micros: number): void {
    this.accruedMicros = micros
    this.#whole?.accrued(micros)
  }

  /** @param micros that a reservation is settled at, micro-USD */
  charged(micros: number): void {
    this.chargedMicros += micros
    this.accruedMicros = 0
    this.#whole?.charged(micros)
  }

  /** A reservation has come to its end. */
  settled(): void {
    this.#unsettled -= 1
    if (this.#unsettled === 0 && this.#onSettled !== null) this.#onSettled()
    this.#whole?.settled()
  }

  /** @param listener called when the last reservation is settled, as often as that happens */
  onSettled(listener: (() => void) | null): void {
    this.#onSettled = listener
  }
}
