import { newId } from '../../../contracts/ids.ts'
import type { Charge, HeldMoney, LeaseCharge, Leasing } from '../../../contracts/ledger.ts'
import type { HeldEntry } from '../../../contracts/recorder.ts'

interface Sum {
  platformMicros: number
  spendMicros: number
}

/** The money of one lease, in micro-USD: handed out to calls, free for others, and charged since the last report. */
export class LeaseBalance {
  /** Handed out to calls under way. */
  readonly out: Sum = { platformMicros: 0, spendMicros: 0 }
  /** Not handed out yet. */
  readonly free: Sum = { platformMicros: 0, spendMicros: 0 }
  /** Cost of the calls that have ended since the last report. */
  charge = { platformMicros: 0, spendMicros: 0, overageMicros: 0 }
  /** Cost so far of calls under way that tell it, and what was handed to them. */
  readonly #accrued: Sum = { platformMicros: 0, spendMicros: 0 }
  readonly #accruedOut: Sum = { platformMicros: 0, spendMicros: 0 }
  readonly #entry: Pick<LeaseEntry, 'change'>

  constructor(entry: Pick<LeaseEntry, 'change'>) {
    this.#entry = entry
  }

  get isUsed(): boolean {
    return this.out.platformMicros > 0 || this.out.spendMicros > 0
  }

  get hasFree(): boolean {
    return this.free.platformMicros > 0 || this.free.spendMicros > 0
  }

  get hasCharges(): boolean {
    const { spendMicros, platformMicros, overageMicros } = this.charge
    return spendMicros > 0 || platformMicros > 0 || overageMicros > 0
  }

  covers({ platformMicros, spendMicros }: Charge): boolean {
    return this.free.platformMicros >= platformMicros && this.free.spendMicros >= spendMicros
  }

  /** Moves money from what is free to what calls have; negative: back. */
  hand(platformMicros: number, spendMicros: number): void {
    this.free.platformMicros -= platformMicros
    this.free.spendMicros -= spendMicros
    this.out.platformMicros += platformMicros
    this.out.spendMicros += spendMicros
    this.#entry.change()
  }

  /** Takes back what a call was handed, and charges what it cost. */
  settle(handed: Charge, charge: Charge): void {
    const paidMicros = Math.min(handed.platformMicros, charge.platformMicros)
    this.hand(-handed.platformMicros, -handed.spendMicros)
    this.free.platformMicros -= paidMicros
    this.free.spendMicros -= charge.spendMicros
    this.charge.platformMicros += paidMicros
    this.charge.spendMicros += charge.spendMicros
    this.charge.overageMicros += charge.platformMicros - paidMicros
  }

  /** Changes what a call under way came to so far. */
  accrue(handed: Charge, charge: Charge, sign: 1 | -1): void {
    this.#accrued.platformMicros += sign * Math.min(handed.platformMicros, charge.platformMicros)
    this.#accrued.spendMicros += sign * charge.spendMicros
    this.#accruedOut.platformMicros += sign * handed.platformMicros
    this.#accruedOut.spendMicros += sign * handed.spendMicros
    this.#entry.change()
  }

  /** Lowers what is free to `aim`. @returns what it lacks of that */
  trim(aim: Charge): Charge {
    this.free.platformMicros = Math.min(this.free.platformMicros, aim.platformMicros)
    // Costs above the estimates may have used up more than there was.
    this.free.spendMicros = Math.max(0, Math.min(this.free.spendMicros, aim.spendMicros))
    return {
      platformMicros: aim.platformMicros - this.free.platformMicros,
      spendMicros: aim.spendMicros - this.free.spendMicros,
    }
  }

  add({ platformMicros, spendMicros }: Charge): void {
    this.free.platformMicros += platformMicros
    this.free.spendMicros += spendMicros
  }

  clearFree(): void {
    this.free.platformMicros = 0
    this.free.spendMicros = 0
  }

  /** The charges to report, which are counted anew from now on. */
  takeCharge(): LeaseCharge {
    const { charge } = this
    this.charge = { platformMicros: 0, spendMicros: 0, overageMicros: 0 }
    return charge
  }

  putBack(charge: LeaseCharge): void {
    this.charge = plus(this.charge, charge)
  }

  /** The charge and the estimate with which the lease is settled if this process dies now. */
  ifLost(): { readonly charge: LeaseCharge; readonly estimate: Charge } {
    return {
      charge: plus(this.charge, { ...this.#accrued, overageMicros: 0 }),
      estimate: {
        platformMicros: Math.max(0, this.out.platformMicros - this.#accruedOut.platformMicros),
        spendMicros: Math.max(0, this.out.spendMicros - this.#accruedOut.spendMicros),
      },
    }
  }

  /** Changes with every figure of `ifLost`. */
  get mark(): string {
    const { platformMicros, spendMicros, overageMicros } = this.charge
    return [
      platformMicros,
      spendMicros,
      overageMicros,
      this.out.spendMicros,
      this.#accrued.spendMicros,
      this.#accruedOut.spendMicros,
    ].join()
  }
}

/** The entry of a lease in the node's journal: what the state is to settle if this process dies. */
export class LeaseEntry {
  readonly key = newId('call')
  readonly #workspace: string
  /** Mark of what the journal was told last. */
  #reportedState = ''
  /** Whether it may be another than when it was read last. */
  #isChanged = false
  readonly #onChange: () => void

  /** @param onChange called once until the entry is read */
  constructor(workspace: string, onChange: () => void) {
    this.#workspace = workspace
    this.#onChange = onChange
  }

  change(): void {
    if (this.#isChanged) return
    this.#isChanged = true
    this.#onChange()
  }

  /**
   * @param token the reservation that is in force; null: there is none yet
   * @param sent  a renewal that is under way, or in doubt
   * @param isAll also what was told before
   */
  entries(token: string | null, sent: Leasing | null, balance: LeaseBalance, isAll: boolean): HeldEntry[] {
    this.#isChanged = false
    const next = sent?.token ?? null
    const mark = `${token},${next},${balance.mark}`
    if (!isAll && mark === this.#reportedState) return []
    this.#reportedState = mark
    const { charge, estimate } = balance.ifLost()
    const held = { workspace: this.#workspace, charge, estimate }
    const from = sent?.from ?? null
    const money: HeldMoney[] = []
    // The older one first: a renewal that comes only then finds nothing.
    if (token !== null)
      money.push({ ...held, token, charge: from === null ? charge : plus(charge, from.charge) })
    if (next !== null) money.push({ ...held, token: next })
    return [{ key: this.key, money }]
  }
}

function plus(one: LeaseCharge, other: LeaseCharge): LeaseCharge & { overageMicros: number } {
  return {
    platformMicros: one.platformMicros + other.platformMicros,
    spendMicros: one.spendMicros + other.spendMicros,
    overageMicros: one.overageMicros + other.overageMicros,
  }
}
