import type { Entry } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { type Reservation, reserve } from '../call/context/reservation.ts'
import type { ActiveCall } from '../call/context/services.ts'
import type { CallOf } from '../call/facts/call.ts'
import { priceFor } from '../call/facts/facts-for.ts'
import { meter, NOTHING_REPORTED } from '../call/facts/meter.ts'
import { microsOf, usdOf } from '../call/facts/price.ts'
import { type Selection, without } from '../call/select/selection.ts'

/** Seconds of audio that money is set aside for at a time. */
export const SLICE_SECONDS = 60
/** How long the audio of a slice may take; a reservation that outlives its deadline would be charged as it is. */
const SLICE_MS = 120_000
/** When the next slice is asked for, of either. */
const RENEWED_AT = 0.5
/** How often a node notes what a slice came to, for the case that it dies. */
const ACCRUED_MS = 1_000
/** Credits that were refused may have come meanwhile. */
const ASKED_AGAIN_MS = 5_000

/** The call of a session, for a number of seconds. */
export function sliceOf(call: CallOf<'transcription'>, seconds: number): CallOf<'transcription'> {
  const { payload } = call
  return { ...call, payload: { ...payload, audio: { ...payload.audio, durationSeconds: seconds } } }
}

interface Slice {
  readonly reservation: Reservation
  readonly sinceMs: number
  /** The entry that it is spent at; null: at none yet. */
  entry: Entry | null
  /** Seconds of it that each entry was paid. */
  readonly used: Map<Entry, number>
  usedSeconds: number
  accruedMs: number
}

/** Charges of a session. */
export interface Spent {
  readonly billableSeconds: number
  /** Null: a price is not known. */
  readonly costUsd: number | null
}

export const NOTHING_SPENT: Spent = Object.freeze({ billableSeconds: 0, costUsd: 0 })

/** @param sign -1: what is left of `a` without `b` */
export function addSpent(a: Spent, b: Spent, sign: 1 | -1 = 1): Spent {
  const isKnown = a.costUsd !== null && b.costUsd !== null
  return {
    billableSeconds: a.billableSeconds + sign * b.billableSeconds,
    costUsd: isKnown ? usdOf(microsOf(a.costUsd) + sign * microsOf(b.costUsd)) : null,
  }
}

/**
 * The money of a session, in slices: the next one is reserved when half of the last is used, and each is settled once,
 * at what was used of it. A node that dies is charged what was used by then, to a second or two.
 */
export class SessionMoney {
  /** A call of one slice under the session's own signal. */
  readonly #active: ActiveCall<'transcription'>
  #slice: Slice | null = null
  #next: Slice | null = null
  #asking: Promise<unknown> | null = null
  #refusal: GatewayError | null = null
  /** Seconds that each entry was paid of slices that are settled. */
  readonly #paid = new Map<Entry, number>()
  #billableSeconds = 0
  #micros: number | null = 0
  #refusedMs = 0
  #isOver = false

  constructor(active: Omit<ActiveCall<'transcription'>, 'deadlineMs' | 'deadlineAtMs' | 'job'>) {
    const call = sliceOf(active.call as CallOf<'transcription'>, SLICE_SECONDS)
    this.#active = { ...active, call, job: null, deadlineMs: SLICE_MS, deadlineAtMs: 0 }
  }

  /** Why there is no next slice; null: there is one, or it is not asked for yet. */
  get refusal(): GatewayError | null {
    return this.#refusal
  }

  /** Seconds that may be spent without another slice. */
  get leftSeconds(): number {
    const left = this.#slice === null ? 0 : SLICE_SECONDS - this.#slice.usedSeconds
    return left + (this.#next === null ? 0 : SLICE_SECONDS)
  }

  /**
   * Reserves the first slice.
   *
   * @returns the selection with the entries that it covers
   * @throws  GatewayError as `reserve`
   */
  async begin(selection: Selection): Promise<Selection> {
    const slice = await this.#reserve(selection)
    this.#slice = slice
    if (this.#isOver) await this.end()
    return slice.reservation.selection
  }

  /**
   * Prepares for another entry. The slice under way is good for all, so that a provider's death waits for nothing,
   * unless it was reserved for others, or one is the platform's and another the customer's: those are paid out of
   * different purses. Without money for all, those that the slice is good for may still be tried.
   *
   * @returns the entries of the selection that are covered
   * @throws  GatewayError as `reserve`
   */
  async change(selection: Selection): Promise<Selection> {
    const slice = this.#slice
    const covered = slice === null ? null : without(selection, ({ entry }) => !this.#covers(slice, entry))
    if (covered?.candidates.length === selection.candidates.length) return covered
    await this.#asking
    try {
      return await this.#changeTo(selection)
    } catch (thrown) {
      if (covered === null) throw thrown
      return covered
    }
  }

  async #changeTo(selection: Selection): Promise<Selection> {
    const next = this.#next
    if (next !== null && !selection.candidates.every(({ entry }) => reserves(next, entry))) {
      void this.#settle(next)
      this.#next = null
    }
    this.#next ??= await this.#hold(this.#reserve(selection))
    const { selection: reserved } = this.#next.reservation
    this.#refusal = null
    this.#roll()
    if (this.#isOver) await this.end()
    return reserved
  }

  /** Nothing else is reserved, and nothing is settled for good, before `asking` is over. */
  async #hold<Asked>(asking: Promise<Asked>): Promise<Asked> {
    const over = Promise.allSettled([asking])
    this.#asking = over
    try {
      return await asking
    } finally {
      if (this.#asking === over) this.#asking = null
    }
  }

  #covers(slice: Slice, entry: Entry): boolean {
    const { entry: paid } = slice
    return reserves(slice, entry) && (paid === null || paid.provider.access === entry.provider.access)
  }

  /** Names the entry that the seconds to come are spent at. */
  payTo(entry: Entry): void {
    if (this.#slice !== null) this.#slice.entry = entry
  }

  spend(seconds: number): void {
    const slice = this.#slice
    if (slice === null) return
    slice.usedSeconds += seconds
    if (slice.entry !== null) slice.used.set(slice.entry, (slice.used.get(slice.entry) ?? 0) + seconds)
    if (slice.usedSeconds >= SLICE_SECONDS && this.#next !== null) this.#roll()
  }

  /** Asks for the next slice when it is time to. @param selection for which it is to be good */
  tick(nowMs: number, selection: Selection): void {
    const slice = this.#slice
    if (slice === null || this.#isOver) return
    if (slice.entry !== null && nowMs - slice.accruedMs >= ACCRUED_MS) {
      slice.accruedMs = nowMs
      slice.reservation.accrue(slice.entry, this.#priced(slice).costUsd)
    }
    const ageMs = nowMs - slice.sinceMs
    if (this.#next !== null && ageMs >= SLICE_MS * RENEWED_AT) return void this.#roll()
    if (this.#refusal !== null && nowMs - this.#refusedMs >= ASKED_AGAIN_MS) this.#refusal = null
    const isDue = slice.usedSeconds >= SLICE_SECONDS * RENEWED_AT || ageMs >= SLICE_MS * RENEWED_AT
    if (!isDue || this.#next !== null || this.#asking !== null || this.#refusal !== null) return
    void this.#hold(this.#renew(selection))
  }

  /** Spent so far, with the slice under way. */
  spent(): Spent {
    const under = this.#slice === null ? null : this.#priced(this.#slice)
    return {
      billableSeconds: this.#billableSeconds + (under?.billableSeconds ?? 0),
      costUsd:
        this.#micros === null || under?.costUsd === null
          ? null
          : usdOf(this.#micros + microsOf(under?.costUsd ?? 0)),
    }
  }

  /** Settles what there is. Nothing is spent any more. */
  end(): Promise<void> {
    this.#isOver = true
    return this.pause()
  }

  /** Settles what there is. Nothing is spent until `change` prepares for another entry. */
  async pause(): Promise<void> {
    await this.#asking
    const [slice, next] = [this.#slice, this.#next]
    this.#slice = null
    this.#next = null
    await Promise.all([slice, next].map((one) => (one === null ? null : this.#settle(one))))
  }

  /** @throws GatewayError as `reserve` */
  async #reserve(selection: Selection): Promise<Slice> {
    const reservation = await reserve(this.#active, selection)
    return newSlice(reservation, this.#active.services.clock.now())
  }

  async #renew(selection: Selection): Promise<void> {
    try {
      this.#next = await this.#reserve(selection)
    } catch (thrown) {
      this.#refusedMs = this.#active.services.clock.now()
      this.#refusal =
        thrown instanceof GatewayError ? thrown : new GatewayError('INTERNAL', undefined, { cause: thrown })
    }
  }

  /** Settles the slice under way, and begins the next one. */
  #roll(): void {
    const [slice, next] = [this.#slice, this.#next]
    if (next === null) return
    this.#slice = next
    this.#next = null
    if (slice === null) return
    next.entry = slice.entry
    void this.#settle(slice)
  }

  #settle(slice: Slice): Promise<unknown> | null {
    const { reservation, entry } = slice
    const { billableSeconds, costUsd } = this.#priced(slice)
    for (const [paid, seconds] of slice.used) this.#paid.set(paid, (this.#paid.get(paid) ?? 0) + seconds)
    this.#billableSeconds += billableSeconds
    this.#micros = this.#micros === null || costUsd === null ? null : this.#micros + microsOf(costUsd)
    if (entry !== null && slice.usedSeconds > 0) return reservation.settle(entry, costUsd)
    // No provider has worked on it.
    this.#active.context.money.estimate = null
    return reservation.settleFailed(null)
  }

  /** Cost of a slice at what each entry was paid of it: what it adds to the cost of all, which is rounded up once. */
  #priced({ used }: Slice): Spent {
    const atMs = this.#active.services.clock.wallNow()
    let sum: Spent = NOTHING_SPENT
    for (const [entry, seconds] of used) {
      const before = this.#paid.get(entry) ?? 0
      const earlier = before === 0 ? NOTHING_SPENT : this.#costOf(entry, before, atMs)
      const all = this.#costOf(entry, before + seconds, atMs)
      sum = addSpent(sum, addSpent(all, earlier, -1))
    }
    return sum
  }

  #costOf(entry: Entry, seconds: number, atMs: number): Spent {
    const part = sliceOf(this.#active.call as CallOf<'transcription'>, seconds)
    const { usage, costUsd } = meter(part, NOTHING_REPORTED, priceFor(entry, part), atMs)
    return { billableSeconds: usage.billable_audio_seconds ?? seconds, costUsd }
  }
}

function newSlice(reservation: Reservation, nowMs: number): Slice {
  reservation.accrue(null, null)
  return { reservation, sinceMs: nowMs, entry: null, used: new Map(), usedSeconds: 0, accruedMs: nowMs }
}

/** Whether it is reserved for the entry. */
function reserves({ reservation }: Slice, entry: Entry): boolean {
  return reservation.selection.candidates.some((candidate) => candidate.entry === entry)
}
