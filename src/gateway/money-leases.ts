import type { Principal } from '../contracts/catalog.ts'
import type {
  CallLedger,
  Charge,
  HeldMoney,
  LeaseCharge,
  Leasing,
  ReservationTerms,
} from '../contracts/ledger.ts'
import type { HeldEntry, MoneySource, UsageKeeper } from '../contracts/recorder.ts'
import { newId } from '../ids.ts'
import type { Logger } from '../log.ts'
import { type Clock, systemClock, type Timer } from '../time.ts'

/*
 * Leases of money. A node reserves money for the calls of a key in advance and hands it out in memory, so that a call
 * needs no trip to the state. The rules, which make it as exact as a reservation for each call:
 *
 * 1. A lease is an ordinary reservation of the ledger. A renewal charges what its calls came to, holds on what calls
 *    under way have been handed out and what is left, and adds some: one atomic step from one token to the next, so
 *    that it can be sent again. Sums are exact after each; a purse or a budget is never overdrawn by more than before.
 * 2. The state adds at most a hundredth of what is left of purse and budgets. A call that a lease does not cover is
 *    reserved by itself, so that the last credits can be spent; then the node gives back what nobody was handed.
 * 3. Each call takes its estimate out of the lease and gives back what it did not cost. What it costs above that is
 *    overage, as without a lease.
 * 4. Renewed within a second, and ended in the second in which no call came: figures lag by that at most.
 * 5. A lease whose node died is settled by the records of the node. Without them it expires: it is charged what calls
 *    under way had of it when it was renewed last, and the rest goes back. A node that lives all the same settles it.
 * 6. Nothing is handed out past `useMs`: the month and the trial of a call are those in which it began, and a node that
 *    cannot reach the state refuses again soon.
 */

/** Longest time until the charges of calls are reported. A tick comes in between. */
const REPORT_MS = 750
const TICK_MS = 250
/** How long money may be handed out since it was set aside: longer than a report takes to come. */
const USE_MS = 1_500
/** How long calls are reserved one by one after a lease did not cover one: trips for nothing are few then. */
const SCARCE_MS = 1_000
/** Shortest pause between renewals that nobody waits for. */
const REFILL_MS = 25
/** After so long another lease takes over: what was lost track of expires with the old one. */
const LEASE_AGE_MS = 60_000
/** A lease aims at this many calls at once, at the spending of this time, and at no more than that much. */
const CALLS_AHEAD = 8
const AHEAD_MS = 2_000
const MOST_MICROS = 5_000_000

/** Money that one call takes out of a lease. */
export interface LeasedMoney {
  /** Charges the call, once: now nobody has to be waited for. */
  settle(charge: Charge): void
  /** Says what the call came to so far: that is charged if this node dies, and not the estimate. */
  accrue(charge: Charge): void
}

export interface MoneyLeases {
  /**
   * Takes money for a call of the principal.
   *
   * @returns null: it has to be reserved in the state
   */
  take(principal: Principal, money: ReservationTerms): LeasedMoney | null | Promise<LeasedMoney | null>
  /**
   * Reports what calls of the workspace came to, and gives back what none was handed.
   *
   * @param keyId only of this key
   * @returns null when there is nothing; else, once that is done, whether anything was given back
   */
  giveBack(workspace: string, keyId?: string): Promise<boolean> | null
  /**
   * For a node that stops: reports at once what calls came to.
   *
   * @returns how many leases the state has not taken that of yet
   */
  report(): number
  /** Reports and gives back everything. Resolves also when the state does not take it, which is logged. */
  close(): Promise<void>
}

/** The parts of the gateway that leases are made with. */
export interface LeaseParts {
  readonly ledger: Pick<CallLedger, 'lease' | 'recover'>
  /** Takes back a beginning whose answer was lost. */
  readonly settlements: { cancel(cancellation: { token: string; workspace: string; slotId: null }): void }
  readonly log: Logger
  readonly clock: Clock
  /** Absent: no record is kept of what calls came to. */
  readonly usageKeeper?: UsageKeeper | undefined
}

export function createMoneyLeases({
  clock = systemClock,
  ...parts
}: Omit<LeaseParts, 'clock'> & { readonly clock?: Clock }): MoneyLeases {
  return new NodeLeases({ ...parts, clock })
}

class NodeLeases implements MoneyLeases, MoneySource {
  readonly #parts: LeaseParts
  /** A principal changes with its terms, and begins anew then. */
  readonly #keys = new WeakMap<Principal, Record<'platform' | 'own', KeyMoney>>()
  /** By workspace: every lease that is not over. */
  readonly #leases = new Map<string, Set<MoneyLease>>()
  #timer: Timer | null = null
  /** Leases that are over, since the journal was told last. */
  #over: string[] = []

  constructor(parts: LeaseParts) {
    this.#parts = parts
    parts.usageKeeper?.keepMoney(this)
  }

  entries(isAll: boolean): HeldEntry[] {
    const over = this.#over.map((key) => ({ key }))
    this.#over = []
    const held = this.#all().flatMap((lease) => lease.entries(isAll))
    return isAll ? held : [...over, ...held]
  }

  take(principal: Principal, money: ReservationTerms) {
    let key = this.#keys.get(principal)
    if (key === undefined) {
      const begin = (terms: ReservationTerms) => this.#begin(principal.workspace.id, terms)
      const { clock } = this.#parts
      key = { platform: new KeyMoney(begin, clock), own: new KeyMoney(begin, clock) }
      this.#keys.set(principal, key)
    }
    // Calls without platform money need no purse, and a lease has one purse.
    return money.platformMicros > 0 ? key.platform.take(money) : key.own.take(money)
  }

  giveBack(workspace: string, keyId?: string): Promise<boolean> | null {
    const all = [...(this.#leases.get(workspace) ?? [])]
    const leases = keyId === undefined ? all : all.filter((lease) => lease.keyId === keyId)
    if (leases.length === 0) return null
    return Promise.all(leases.map((lease) => lease.giveBack())).then((given) => given.includes(true))
  }

  report(): number {
    const nowMs = this.#parts.clock.now()
    const unreported = this.#all().filter(({ isReported }) => !isReported)
    for (const lease of unreported) lease.report(nowMs)
    return unreported.length
  }

  async close(): Promise<void> {
    this.#timer?.close()
    this.#timer = null
    await Promise.all([...this.#leases.keys()].map((workspace) => this.giveBack(workspace)))
    if (this.#all().some(({ hasCharges }) => hasCharges))
      this.#parts.log.error('the state did not take the charges of the last calls: their leases expire')
  }

  #all(): readonly MoneyLease[] {
    return [...this.#leases.values()].flatMap((leases) => [...leases])
  }

  #begin(workspace: string, terms: ReservationTerms): MoneyLease {
    const leases = this.#leases.get(workspace) ?? new Set()
    this.#leases.set(workspace, leases)
    const lease = new MoneyLease(this.#parts, workspace, terms, () => {
      leases.delete(lease)
      if (this.#parts.usageKeeper !== undefined) this.#over.push(lease.key)
      if (leases.size === 0 && this.#leases.get(workspace) === leases) this.#leases.delete(workspace)
    })
    leases.add(lease)
    this.#timer ??= this.#parts.clock.every(TICK_MS, () => this.#tick()).unref()
    return lease
  }

  #tick(): void {
    const nowMs = this.#parts.clock.now()
    for (const lease of this.#all()) lease.tick(nowMs)
    if (this.#leases.size > 0 || this.#timer === null) return
    this.#timer.close()
    this.#timer = null
  }
}

/** Leased money of a key: the lease that is handed out, one after the other. */
class KeyMoney {
  readonly #begin: (terms: ReservationTerms) => MoneyLease
  readonly #clock: Clock
  #lease: MoneyLease | null = null
  #scarceUntilMs = 0
  /** Sums of what calls wait for. */
  #platformWaited = 0
  #spendWaited = 0

  constructor(begin: (terms: ReservationTerms) => MoneyLease, clock: Clock) {
    this.#begin = begin
    this.#clock = clock
  }

  take(money: ReservationTerms): LeasedMoney | null | Promise<LeasedMoney | null> {
    // A call whose cost nobody knows before would be no part of a lease.
    if (money.spendMicros === 0) return null
    const nowMs = this.#clock.now()
    const taken = this.#lease?.take(money, nowMs) ?? null
    if (taken !== null) return taken
    // One that would take most of the largest lease is better off by itself.
    const isLarge = Math.max(money.platformMicros, money.spendMicros) > MOST_MICROS / CALLS_AHEAD
    if (isLarge || nowMs < this.#scarceUntilMs) return null
    return this.#wait(money)
  }

  async #wait(money: ReservationTerms): Promise<LeasedMoney | null> {
    this.#platformWaited += money.platformMicros
    this.#spendWaited += money.spendMicros
    try {
      // The first renewal may have been sent before this call came, and another call may be faster.
      for (let tries = 0; tries < 3; tries++) {
        if (this.#clock.now() < this.#scarceUntilMs) return null
        const lease = this.#usable(money)
        if (lease === null) return null
        const filled = await lease.fill(money, this.#platformWaited, this.#spendWaited)
        const taken = lease.take(money, this.#clock.now())
        if (taken !== null) return taken
        if (filled === 'failed') throw lease.failure
        if (filled === 'scarce') await this.#giveUp(lease)
      }
      return null
    } finally {
      this.#platformWaited -= money.platformMicros
      this.#spendWaited -= money.spendMicros
    }
  }

  /** The lease of now, or another one. Null: this one ends too early for the call. */
  #usable(money: ReservationTerms): MoneyLease | null {
    if (this.#lease?.isOpen !== true) this.#lease = this.#begin(money)
    return this.#lease.lasts(money) ? this.#lease : null
  }

  async #giveUp(lease: MoneyLease): Promise<void> {
    this.#scarceUntilMs = this.#clock.now() + SCARCE_MS
    await lease.giveBack()
  }
}

/** How a renewal went for those who wait for money. */
type Filled = 'filled' | 'scarce' | 'failed'

/** A reservation that goes from token to token. */
class MoneyLease {
  readonly #parts: LeaseParts
  readonly #workspace: string
  readonly #terms: ReservationTerms
  readonly #onOver: () => void
  readonly #bornMs: number
  /** Null until the lease has begun. */
  #token: string | null = null
  #state: 'open' | 'draining' | 'over' = 'open'
  /** Handed out to calls under way. */
  readonly #out = { platformMicros: 0, spendMicros: 0 }
  /** Can be handed out until `#useUntilMs`. */
  readonly #free = { platformMicros: 0, spendMicros: 0 }
  #useUntilMs = 0
  /** What ended calls came to, since the last report. */
  #charge = { platformMicros: 0, spendMicros: 0, overageMicros: 0 }
  /** Calls since then. */
  #taken = 0
  readonly key = newId('call')
  /** What calls came to so far that are under way, and what they were handed. */
  readonly #accrued = { platformMicros: 0, spendMicros: 0 }
  readonly #accruedOut = { platformMicros: 0, spendMicros: 0 }
  /** What the journal was told last. */
  #told = ''
  /** A renewal that is under way, or in doubt. */
  #sent: Leasing | null = null
  /** A renewal that the state may have taken: it is sent again unchanged. */
  #unsure: Leasing | null = null
  #renewing: Promise<Filled> | null = null
  /** The reservation that expired before it was renewed; null: none has. */
  #expired: string | null = null
  #failure: unknown = null
  #renewedMs: number

  constructor(parts: LeaseParts, workspace: string, terms: ReservationTerms, onOver: () => void) {
    this.#parts = parts
    this.#workspace = workspace
    this.#terms = terms
    this.#onOver = onOver
    this.#bornMs = parts.clock.now()
    this.#renewedMs = this.#bornMs
  }

  get keyId(): string {
    return this.#terms.keyId
  }

  /** Whether it takes calls. */
  get isOpen(): boolean {
    return this.#state === 'open'
  }

  get #isOver(): boolean {
    return this.#state === 'over'
  }

  get isReported(): boolean {
    return this.#renewing === null && !this.hasCharges
  }

  /** Whether there is something to report, or to report again. */
  get hasCharges(): boolean {
    const { spendMicros, platformMicros, overageMicros } = this.#charge
    return this.#unsure !== null || spendMicros > 0 || platformMicros > 0 || overageMicros > 0
  }

  /** Why the last renewal failed. */
  get failure(): unknown {
    return this.#failure
  }

  /** A renewal may be as old as this when a call begins. */
  get #leaseMs(): number {
    return this.#terms.leaseMs + USE_MS
  }

  /** Whether its reservation is certain to outlast the call. */
  lasts({ leaseMs }: ReservationTerms): boolean {
    return leaseMs <= this.#terms.leaseMs
  }

  /** @returns null: it does not cover the call, or not any more */
  take(money: ReservationTerms, nowMs: number): LeasedMoney | null {
    const { platformMicros, spendMicros } = money
    const free = this.#free
    const covers = free.platformMicros >= platformMicros && free.spendMicros >= spendMicros
    if (!covers || nowMs >= this.#useUntilMs || this.#state !== 'open' || !this.lasts(money)) return null
    this.#move(platformMicros, spendMicros)
    this.#taken += 1
    const aimMicros = Math.max(platformMicros, spendMicros) * (CALLS_AHEAD / 2)
    const isLow = free.spendMicros < aimMicros && nowMs - this.#renewedMs >= REFILL_MS
    if (isLow && this.#renewing === null) void this.#renew(this.#aim(money))
    return new CallMoney(this, platformMicros, spendMicros)
  }

  /** What the state is to settle if this process dies now, if that has changed. */
  entries(isAll: boolean): HeldEntry[] {
    const { platformMicros, spendMicros } = this.#out
    const { from = null, token: next = null } = this.#sent ?? {}
    const current = this.#expired ?? this.#token
    const now = this.#charge
    const told = [current, next, now.platformMicros, now.spendMicros, now.overageMicros, spendMicros]
    const text = [...told, this.#accrued.spendMicros].join()
    if (!isAll && text === this.#told) return []
    this.#told = text
    const charge = plus(now, { ...this.#accrued, overageMicros: 0 })
    const estimate = {
      platformMicros: Math.max(0, platformMicros - this.#accruedOut.platformMicros),
      spendMicros: Math.max(0, spendMicros - this.#accruedOut.spendMicros),
    }
    const held = { workspace: this.#workspace, charge, estimate }
    const money: HeldMoney[] = []
    // The older one first: a renewal that comes only then finds nothing.
    if (current !== null)
      money.push({ ...held, token: current, charge: from === null ? charge : plus(charge, from.charge) })
    if (next !== null) money.push({ ...held, token: next })
    return [{ key: this.key, money }]
  }

  /** Changes what a call under way came to so far. */
  accrue(handed: Charge, charge: Charge, sign: 1 | -1): void {
    this.#accrued.platformMicros += sign * Math.min(handed.platformMicros, charge.platformMicros)
    this.#accrued.spendMicros += sign * charge.spendMicros
    this.#accruedOut.platformMicros += sign * handed.platformMicros
    this.#accruedOut.spendMicros += sign * handed.spendMicros
  }

  /** Moves money from what is free to what calls have. */
  #move(platformMicros: number, spendMicros: number): void {
    this.#free.platformMicros -= platformMicros
    this.#free.spendMicros -= spendMicros
    this.#out.platformMicros += platformMicros
    this.#out.spendMicros += spendMicros
  }

  settle({ platformMicros, spendMicros }: Charge, charge: Charge): void {
    const paidMicros = Math.min(platformMicros, charge.platformMicros)
    this.#move(-platformMicros, -spendMicros)
    this.#free.platformMicros -= paidMicros
    this.#free.spendMicros -= charge.spendMicros
    this.#charge.platformMicros += paidMicros
    this.#charge.spendMicros += charge.spendMicros
    this.#charge.overageMicros += charge.platformMicros - paidMicros
    // The last call of a lease that takes no more.
    if (this.#state === 'draining' && this.#out.spendMicros === 0) void this.#renew(NOTHING)
  }

  /** Renews the lease for calls that wait for so much. */
  async fill(money: ReservationTerms, platformMicros: number, spendMicros: number): Promise<Filled> {
    // Sent before this call came: it tries again, with all that wait by then.
    if (this.#renewing !== null) return (await this.#renewing) === 'failed' ? 'failed' : 'filled'
    const aim = this.#aim(money)
    return this.#renew({
      platformMicros: Math.max(aim.platformMicros, platformMicros),
      spendMicros: Math.max(aim.spendMicros, spendMicros),
    })
  }

  /** @returns whether anything was given back */
  async giveBack(): Promise<boolean> {
    if (this.#state === 'open') this.#state = 'draining'
    await this.#renewing
    if (this.#isOver) return false
    const gives = this.#free.platformMicros > 0 || this.#free.spendMicros > 0
    if (this.#isDue()) await this.#renew(NOTHING)
    // One that was in doubt was sent again instead, and only now the rest can follow.
    if (!this.#isOver && this.#unsure === null && this.#isDue()) await this.#renew(NOTHING)
    return gives
  }

  /** Reports what calls came to before it is due; what is in doubt not more often than that. */
  report(nowMs: number): void {
    const isEarly = this.#unsure !== null && nowMs - this.#renewedMs < REPORT_MS
    if (this.#renewing === null && !isEarly) void this.giveBack()
  }

  tick(nowMs: number): void {
    const sinceMs = nowMs - this.#renewedMs
    if (this.#renewing !== null || sinceMs < REPORT_MS) return
    const isIdle = this.#taken === 0 || nowMs - this.#bornMs > LEASE_AGE_MS
    if (isIdle && this.#state === 'open') this.#state = 'draining'
    if (this.#state === 'open') void this.#renew(this.#aim(null))
    else if (this.#isDue()) void this.#renew(NOTHING)
    // Calls that never end keep nothing: their reservation has expired.
    else if (sinceMs > this.#leaseMs) void this.#giveUp()
  }

  /** Whether the state has anything to be told of a lease that takes no calls any more. */
  #isDue(): boolean {
    const { platformMicros, spendMicros } = this.#out
    const isUsed = platformMicros > 0 || spendMicros > 0
    if (this.#expired !== null) return !isUsed
    return !isUsed || this.hasCharges || this.#free.platformMicros > 0 || this.#free.spendMicros > 0
  }

  /** How much the lease should have free: for some calls at once, and for what was spent of late. */
  #aim(money: ReservationTerms | null): Charge {
    const sinceMs = Math.max(REFILL_MS, this.#parts.clock.now() - this.#renewedMs)
    const { platformMicros, spendMicros } = money ?? this.#terms
    const most = (spentMicros: number, callMicros: number) =>
      Math.ceil(Math.min(MOST_MICROS, Math.max(CALLS_AHEAD * callMicros, (spentMicros * AHEAD_MS) / sinceMs)))
    return {
      platformMicros: most(this.#charge.platformMicros, platformMicros),
      spendMicros: most(this.#charge.spendMicros, spendMicros),
    }
  }

  /** @param aim what should be free afterwards; nothing: what is free is given back */
  #renew(aim: Charge): Promise<Filled> {
    const exchange = () =>
      this.#expired === null ? this.#exchange(this.#unsure ?? this.#next(aim)) : this.#recover()
    this.#renewing ??= exchange().finally(() => {
      this.#renewing = null
    })
    return this.#renewing
  }

  /** Settles a lease that has expired, at what its calls came to. */
  async #recover(): Promise<Filled> {
    this.#renewedMs = this.#parts.clock.now()
    this.#parts.usageKeeper?.beforeReport()
    const [workspace, token, charge] = [this.#workspace, this.#expired ?? '', { ...this.#charge }]
    try {
      await this.#parts.ledger.recover({ workspace, token, charge, estimate: NOTHING })
      this.#end()
      return 'scarce'
    } catch (error) {
      this.#failure = error
      return 'failed'
    }
  }

  #giveUp(): Promise<unknown> | null {
    if (this.#expired !== null) return this.#renew(NOTHING)
    this.#end()
    return null
  }

  #next(aim: Charge): Leasing {
    const free = this.#free
    free.platformMicros = Math.min(free.platformMicros, aim.platformMicros)
    // Costs above the estimates may have used up more than there was.
    free.spendMicros = Math.max(0, Math.min(free.spendMicros, aim.spendMicros))
    const charge = this.#charge
    this.#charge = { platformMicros: 0, spendMicros: 0, overageMicros: 0 }
    const held = {
      ...this.#terms,
      leaseMs: this.#leaseMs,
      platformMicros: this.#out.platformMicros + free.platformMicros,
      spendMicros: this.#out.spendMicros + free.spendMicros,
    }
    return {
      ...{ token: newId('call'), workspace: this.#workspace, held, useMs: USE_MS, used: { ...this.#out } },
      from: this.#token === null ? null : { token: this.#token, charge },
      more: {
        platformMicros: aim.platformMicros - free.platformMicros,
        spendMicros: aim.spendMicros - free.spendMicros,
      },
    }
  }

  async #exchange(leasing: Leasing): Promise<Filled> {
    const { ledger, settlements, usageKeeper, clock } = this.#parts
    const { token, workspace, from, held, more } = leasing
    const sentMs = clock.now()
    this.#renewedMs = sentMs
    this.#taken = 0
    this.#sent = leasing
    usageKeeper?.beforeReport()
    try {
      const leased = await ledger.lease(leasing)
      this.#unsure = null
      this.#sent = null
      if (leased.state === 'over') {
        if (from === null) this.#end()
        else this.#expire(from)
        return 'scarce'
      }
      this.#token = token
      this.#useUntilMs = sentMs + leased.useMs
      if (leased.useMs === 0 && this.isOpen) this.#state = 'draining'
      this.#free.platformMicros += leased.more.platformMicros
      this.#free.spendMicros += leased.more.spendMicros
      const isEmpty = leased.more.platformMicros === 0 && leased.more.spendMicros === 0
      if (isEmpty && held.platformMicros === 0 && held.spendMicros === 0) this.#end()
      const isWhole = leased.more.platformMicros === more.platformMicros
      return isWhole && leased.more.spendMicros === more.spendMicros ? 'filled' : 'scarce'
    } catch (error) {
      this.#failure = error
      if (from !== null) this.#unsure = leasing
      else {
        settlements.cancel({ token, workspace, slotId: null })
        this.#sent = null
        this.#end()
      }
      return 'failed'
    }
  }

  /** The state has charged it by guess: it is settled once its last call is over. */
  #expire({ token, charge }: NonNullable<Leasing['from']>): void {
    this.#parts.log.error({ workspace: this.#workspace }, 'a lease of money was not renewed in time')
    this.#expired = token
    this.#sent = null
    this.#state = 'draining'
    this.#free.platformMicros = 0
    this.#free.spendMicros = 0
    this.#charge = plus(this.#charge, charge)
  }

  #end(): void {
    this.#state = 'over'
    this.#onOver()
  }
}

/** Money that one call has of a lease. */
class CallMoney implements LeasedMoney, Charge {
  readonly #lease: MoneyLease
  readonly platformMicros: number
  readonly spendMicros: number
  #accrued: Charge | null = null

  constructor(lease: MoneyLease, platformMicros: number, spendMicros: number) {
    this.#lease = lease
    this.platformMicros = platformMicros
    this.spendMicros = spendMicros
  }

  accrue(charge: Charge): void {
    if (this.#accrued !== null) this.#lease.accrue(this, this.#accrued, -1)
    this.#accrued = charge
    this.#lease.accrue(this, charge, 1)
  }

  settle(charge: Charge): void {
    if (this.#accrued !== null) this.#lease.accrue(this, this.#accrued, -1)
    this.#accrued = null
    this.#lease.settle(this, charge)
  }
}

function plus(one: LeaseCharge, other: LeaseCharge): LeaseCharge {
  return {
    platformMicros: one.platformMicros + other.platformMicros,
    spendMicros: one.spendMicros + other.spendMicros,
    overageMicros: one.overageMicros + other.overageMicros,
  }
}

const NOTHING: Charge = Object.freeze({ platformMicros: 0, spendMicros: 0 })
