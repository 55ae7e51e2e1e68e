import type { BooksGap } from '../../contracts/ledger.ts'
import { type Charged, type ChargesPlace, chargesOf, recordedFor } from './books.ts'
import type { UsageAdminContext } from './usage.ts'

/** Between two comparisons: one reads the sums of every file since bookings began. */
const EVERY_MS = 30 * 60_000
/** After one that the state or the store did not answer. */
const AGAIN_MS = 60_000
/** Spending without a reservation is charged in batches of a second, after its records may be there. */
const BATCH_MS = 2_000

interface WatchDependencies {
  readonly usage: UsageAdminContext
  readonly accounts: ChargesPlace['accounts']
  readonly catalog: () => ChargesPlace['catalog']
}

/**
 * Compares books while the result is being looked at, at most every half hour, and keeps no caller waiting. Charges
 * are read first, and the records once all of that time are in the store, so that calls under way make no difference:
 * earlier charges have to be in the records, and the records have to be charged by a later reading.
 */
export class BooksWatch {
  readonly #deps: WatchDependencies
  #gaps: readonly BooksGap[] | null = null
  /** Charges until `#readMs`; null: they are still to be read. */
  #charges: readonly Charged[] | null = null
  #readMs = 0
  /** Records beside these charges, and when they were read; null: they are still to be read. */
  #recorded: { readonly micros: readonly number[]; readonly atMs: number } | null = null
  #nextMs = 0
  #isBusy = false

  constructor(deps: WatchDependencies) {
    this.#deps = deps
  }

  /** The gaps that the last comparison found; null: none has come to its end, or the last one failed. */
  look(): readonly BooksGap[] | null {
    if (!this.#isBusy && this.#deps.usage.nowMs() >= this.#nextMs) {
      this.#isBusy = true
      void this.#step().finally(() => {
        this.#isBusy = false
      })
    }
    return this.#gaps
  }

  /** Never rejects. */
  async #step(): Promise<void> {
    const { usage } = this.#deps
    try {
      if (this.#charges === null) {
        this.#charges = await this.#read([...this.#deps.catalog().current().apps.keys()])
        this.#readMs = usage.nowMs()
      } else if (this.#recorded === null) {
        if ((await usage.completeUntilMs()) < this.#readMs) return
        const micros = await recordedFor(this.#charges, usage)
        this.#recorded = { micros, atMs: usage.nowMs() }
      } else if (usage.nowMs() - this.#recorded.atMs >= BATCH_MS) {
        this.#gaps = await this.#compare(this.#charges, this.#recorded.micros)
        this.#charges = null
        this.#recorded = null
        this.#nextMs = usage.nowMs() + EVERY_MS
      }
    } catch {
      this.#charges = null
      this.#recorded = null
      this.#gaps = null
      this.#nextMs = usage.nowMs() + AGAIN_MS
    }
  }

  #read(workspaces: readonly string[]): Promise<Charged[]> {
    const { usage, accounts, catalog } = this.#deps
    return chargesOf(workspaces, usage, { accounts, catalog: catalog() })
  }

  async #compare(before: readonly Charged[], recorded: readonly number[]): Promise<BooksGap[]> {
    const now = await this.#read(before.map(({ workspace }) => workspace))
    return before.map(({ workspace, sinceMs, bookedMicros }, at) => {
      // A month whose records have gone meanwhile is left for the next comparison.
      const isSame = now[at]!.sinceMs === sinceMs
      return {
        workspace,
        unrecordedMicros: isSame ? Math.max(0, bookedMicros - recorded[at]!) : 0,
        unchargedMicros: isSame ? Math.max(0, recorded[at]! - now[at]!.bookedMicros) : 0,
      }
    })
  }
}
