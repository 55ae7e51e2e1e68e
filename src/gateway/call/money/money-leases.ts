import type { Principal } from '../../../contracts/catalog.ts'
import { newId } from '../../../contracts/ids.ts'
import type { CallLedger, Charge, LeaseCharge, Leasing, ReservationTerms } from '../../../contracts/ledger.ts'
import type { Logger } from '../../../contracts/log.ts'
import type { HeldEntry, MoneySource, UsageKeeper } from '../../../contracts/recorder.ts'
import type { Clock, Timer } from '../../../contracts/time.ts'
import type { UsageBuffer } from './accounts.ts'
import { LeaseBalance, LeaseEntry } from './lease-balance.ts'

/*
 * Leases of money. A node reserves money for calls in advance and hands it out in memory, so that a call needs no trip
 * to the state. A key with a budget has its own lease; all others of a workspace share one, since most keys call too
 * seldom for a lease to pay. The rules, which make it as exact as a reservation for each call:
 *
 * 1. A lease is an ordinary reservation of the ledger. A renewal charges what its calls came to, holds on what calls
 *    under way have been handed out and what is left, and adds some: one atomic step from one token to the next, so
 *    that it can be sent again. Sums are exact after each; a purse or a budget is never overdrawn by more than before.
 * 2. The state adds at most a hundredth of what is left of purse and budgets. A call that a lease does not cover is
 *    reserved by itself, so that the last credits can be spent; then the node gives back what was not handed out.
 * 3. Each call takes its estimate out of the lease and gives back what it did not cost. What it costs above that is
 *    overage, as without a lease.
 * 4. Renewed within a second, and ended in the second in which no call came: figures lag by that at most.
 * 5. A lease whose node died is settled by the records of the node. Without them it expires: it is charged what calls
 *    under way had of it when it was renewed last, and the rest goes back. A node that lives all the same settles it.
 * 6. A lease counts as spending of the key that began it. What calls of other keys cost is moved to them with the next
 *    batch of usage, so that what each key has spent lags by a second; not once the month of the lease is over.
 * 7. Nothing is handed out past `useMs`: the month and the trial of a call are those in which it began, and a node that
 *    cannot reach the state refuses again soon.
 */

/** Longest time until the charges of calls are reported. A tick comes in between: few of many leases are due at one. */
const REPORT_MS = 750
const TICK_MS = 50
/** How long money may be handed out since it was set aside: longer than a report takes to come. */
const USE_MS = 1_500
/** How long calls are reserved one by one after a lease did not cover one: trips for nothing are few then. */
const SCARCE_MS = 1_000
/** Shortest pause between renewals that no call waits for. */
const REFILL_MS = 25
/** After so long another lease takes over: what was lost track of expires with the old one. */
const LEASE_AGE_MS = 60_000
/** A lease aims at this many calls at once, at the spending of this time, and at no more than that much. */
const CALLS_AHEAD = 8
const AHEAD_MS = 2_000
const MOST_MICROS = 5_000_000

/** Money that one call takes out of a lease. */
export interface LeasedMoney {
  /** Charges the call, once; waits for nothing. */
  settle(charge: Charge): void
  /** Tells what the call cost so far: if this node dies, that is charged in place of the estimate. */
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
   * Reports what calls of the workspace cost, and gives back what was not handed out.
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
export interface LeaseDependencies {
  readonly ledger: Pick<CallLedger, 'lease' | 'recover'>
  /** Takes back a beginning whose answer was lost. */
  readonly settlements: {
    cancel(cancellation: { token: string; workspace: string; slotId: null }, forMs: number): void
  }
  readonly usage: Pick<UsageBuffer, 'move'>
  readonly log: Logger
  readonly clock: Clock
  /** Absent: no record is kept of what calls came to. */
  readonly usageKeeper?: Pick<UsageKeeper, 'keepMoney' | 'beforeReport'> | undefined
}

export function createMoneyLeases(deps: LeaseDependencies): MoneyLeases {
  return new NodeLeases(deps)
}

class NodeLeases implements MoneyLeases, MoneySource {
  readonly #deps: LeaseDependencies
  /**
   * By the principal of a key with a budget, or by the workspace of all others: both change with their terms, and begin
   * anew then. Calls without platform money need no purse.
   */
  readonly #platform = new WeakMap<object, MoneyPool>()
  readonly #own = new WeakMap<object, MoneyPool>()
  /** By workspace: every lease that is not over. */
  readonly #leases = new Map<string, Set<MoneyLease>>()
  #timer: Timer | null = null
  /** Leases that may have changed since the journal was told last: there are thousands that have not. */
  #changed: MoneyLease[] = []
  /** Leases that are over, since then. */
  #over: string[] = []

  constructor(deps: LeaseDependencies) {
    this.#deps = deps
    deps.usageKeeper?.keepMoney(this)
  }

  readonly #begin: Begin = (workspace, terms, forget) => {
    const leases = this.#leases.get(workspace) ?? new Set()
    this.#leases.set(workspace, leases)
    const isKept = this.#deps.usageKeeper !== undefined
    const entry = new LeaseEntry(workspace, () => void (isKept && this.#changed.push(lease)))
    const onOver = () => {
      leases.delete(lease)
      if (isKept) this.#over.push(entry.key)
      if (leases.size === 0 && this.#leases.get(workspace) === leases) this.#leases.delete(workspace)
      forget(lease)
    }
    const lease = new MoneyLease(this.#deps, { workspace, terms, entry, onOver })
    leases.add(lease)
    this.#timer ??= this.#deps.clock.every(TICK_MS, () => this.#tick()).unref()
    return lease
  }

  entries(isAll: boolean): HeldEntry[] {
    const over = this.#over.map((key) => ({ key }))
    this.#over = []
    const leases = isAll ? this.#all() : this.#changed
    this.#changed = []
    const held = leases.flatMap((lease) => lease.entries(isAll))
    return isAll ? held : [...over, ...held]
  }

  take(principal: Principal, money: ReservationTerms) {
    // A lease has one purse.
    const pools = money.platformMicros > 0 ? this.#platform : this.#own
    const owner = money.keyBudgetMicros === null ? principal.workspace : principal
    const pool = pools.get(owner) ?? new MoneyPool(principal.workspace.id, this.#begin, this.#deps.clock)
    pools.set(owner, pool)
    return pool.take(money)
  }

  giveBack(workspace: string, keyId?: string): Promise<boolean> | null {
    const all = [...(this.#leases.get(workspace) ?? [])]
    const leases = keyId === undefined ? all : all.filter((lease) => lease.keyId === keyId)
    if (leases.length === 0) return null
    return Promise.all(leases.map((lease) => lease.giveBack())).then((given) => given.includes(true))
  }

  report(): number {
    const nowMs = this.#deps.clock.now()
    return this.#all().filter((lease) => !lease.report(nowMs)).length
  }

  async close(): Promise<void> {
    this.#timer?.close()
    this.#timer = null
    await Promise.all([...this.#leases.keys()].map((workspace) => this.giveBack(workspace)))
    if (this.#all().some(({ hasCharges }) => hasCharges))
      this.#deps.log.error('the state did not take the charges of the last calls: their leases expire')
  }

  #all(): readonly MoneyLease[] {
    return [...this.#leases.values()].flatMap((leases) => [...leases])
  }

  #tick(): void {
    const nowMs = this.#deps.clock.now()
    for (const lease of this.#all()) lease.tick(nowMs)
    if (this.#leases.size > 0 || this.#timer === null) return
    this.#timer.close()
    this.#timer = null
  }
}

/** @param forget called when the lease is over: most pools are used seldom, and would each keep their last one */
type Begin = (workspace: string, terms: ReservationTerms, forget: (lease: MoneyLease) => void) => MoneyLease

/** Leased money of a key or a workspace: the lease that is handed out, one after the other. */
class MoneyPool {
  readonly #workspace: string
  readonly #begin: Begin
  readonly #clock: Clock
  #lease: MoneyLease | null = null
  #scarceUntilMs = 0
  /** Sums of what calls wait for. */
  #platformWaited = 0
  #spendWaited = 0

  constructor(workspace: string, begin: Begin, clock: Clock) {
    this.#workspace = workspace
    this.#begin = begin
    this.#clock = clock
  }

  take(money: ReservationTerms): LeasedMoney | null | Promise<LeasedMoney | null> {
    // A call of unknown cost cannot take part in a lease.
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
    if (this.#lease?.isOpen === true) return this.#lease.lasts(money) ? this.#lease : null
    this.#lease = this.#begin(this.#workspace, money, (over) => {
      if (this.#lease === over) this.#lease = null
    })
    return this.#lease
  }

  async #giveUp(lease: MoneyLease): Promise<void> {
    this.#scarceUntilMs = this.#clock.now() + SCARCE_MS
    await lease.giveBack()
  }
}

/** How a renewal went for those who wait for money. */
type Filled = 'filled' | 'scarce' | 'failed'

interface LeaseOrigin {
  readonly workspace: string
  /** Terms of its first call. */
  readonly terms: ReservationTerms
  readonly entry: LeaseEntry
  readonly onOver: () => void
}

/** A lease that the state has ended before it was renewed. */
interface Expired {
  readonly workspace: string
  /** As it was when it was last known to be there, with what was charged until it was to be renewed. */
  readonly from: NonNullable<Leasing['from']>
  /** A renewal of it that the state may have had, before its answer was lost; null: it has not. */
  readonly unsure: string | null
}

/** A reservation that goes from token to token. */
class MoneyLease {
  readonly #deps: LeaseDependencies
  readonly #origin: LeaseOrigin
  readonly #bornMs: number
  readonly balance: LeaseBalance
  /** Null until the lease has begun. */
  #token: string | null = null
  #state: 'open' | 'draining' | 'over' = 'open'
  /** Until when free money may be handed out, and the month that it counts in. */
  #use = { untilMs: 0, month: '' }
  /** Calls since the last report. */
  #taken = 0
  /** A renewal that is under way, or in doubt. */
  #sent: Leasing | null = null
  /** A renewal that the state may have taken: it is sent again unchanged. */
  #unsure: Leasing | null = null
  #renewing: Promise<Filled> | null = null
  /** The reservation that expired before it was renewed; null: none has. */
  #expired: Expired | null = null
  #failure: unknown = null
  #renewedMs: number

  constructor(deps: LeaseDependencies, origin: LeaseOrigin) {
    this.#deps = deps
    this.#origin = origin
    this.balance = new LeaseBalance(origin.entry)
    this.#bornMs = deps.clock.now()
    this.#renewedMs = this.#bornMs
  }

  get keyId(): string {
    return this.#origin.terms.keyId
  }

  /** True while it takes calls. */
  get isOpen(): boolean {
    return this.#state === 'open'
  }

  get #isOver(): boolean {
    return this.#state === 'over'
  }

  /** True while something is to be reported, or reported again. */
  get hasCharges(): boolean {
    return this.#unsure !== null || this.balance.hasCharges
  }

  /** Why the last renewal failed. */
  get failure(): unknown {
    return this.#failure
  }

  /** A renewal may be as old as this when a call begins. */
  get #leaseMs(): number {
    return this.#origin.terms.leaseMs + USE_MS
  }

  /** True when its reservation is certain to outlast the call. */
  lasts({ leaseMs }: ReservationTerms): boolean {
    return leaseMs <= this.#origin.terms.leaseMs
  }

  /** @returns null: it does not cover the call, or not any more */
  take(money: ReservationTerms, nowMs: number): LeasedMoney | null {
    const { platformMicros, spendMicros } = money
    const isUsable = nowMs < this.#use.untilMs && this.#state === 'open' && this.lasts(money)
    if (!this.balance.covers(money) || !isUsable) return null
    this.balance.hand(platformMicros, spendMicros)
    this.#taken += 1
    const aimMicros = Math.max(platformMicros, spendMicros) * (CALLS_AHEAD / 2)
    const isLow = this.balance.free.spendMicros < aimMicros && nowMs - this.#renewedMs >= REFILL_MS
    if (isLow && this.#renewing === null) void this.#renew(this.#aim(money))
    return new CallMoney(this, money)
  }

  /** Its entry of the journal, if that has changed. */
  entries(isAll: boolean): HeldEntry[] {
    if (this.#isOver) return []
    return this.#origin.entry.entries(
      this.#expired?.from.token ?? this.#token,
      this.#sent,
      this.balance,
      isAll,
    )
  }

  settle(handed: CallMoney, charge: Charge): void {
    this.balance.settle(handed, charge)
    const { workspace } = this.#origin
    this.#deps.usage.move(workspace, this.#use.month, this.keyId, handed.keyId, charge.spendMicros)
    // The last call of a lease that takes no more.
    if (this.#state === 'draining' && this.balance.out.spendMicros === 0) void this.#renew(NOTHING)
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
    const gives = this.balance.hasFree
    if (this.#isDue()) await this.#renew(NOTHING)
    // One that was in doubt was sent again instead, and only now the rest can follow.
    if (!this.#isOver && this.#unsure === null && this.#isDue()) await this.#renew(NOTHING)
    return gives
  }

  /**
   * Reports what calls came to before it is due; what is in doubt not more often than that.
   *
   * @returns true when all was reported before
   */
  report(nowMs: number): boolean {
    if (this.#renewing === null && !this.hasCharges) return true
    const isEarly = this.#unsure !== null && nowMs - this.#renewedMs < REPORT_MS
    if (this.#renewing === null && !isEarly) void this.giveBack()
    return false
  }

  tick(nowMs: number): void {
    const sinceMs = nowMs - this.#renewedMs
    if (this.#renewing !== null || sinceMs < REPORT_MS) return
    // A second call is not likely soon: what is left would come back with another renewal.
    const isSeldom = this.#taken <= (this.balance.isUsed ? 0 : 1)
    const isIdle = isSeldom || nowMs - this.#bornMs > LEASE_AGE_MS
    if (isIdle && this.#state === 'open') this.#state = 'draining'
    if (this.#state === 'open') void this.#renew(this.#aim(this.#origin.terms))
    else if (this.#isDue()) void this.#renew(NOTHING)
    // Calls that never end keep nothing: their reservation has expired.
    else if (sinceMs > this.#leaseMs && this.#expired === null) this.#end()
    else if (sinceMs > this.#leaseMs) void this.#renew(NOTHING)
  }

  /** True when a lease that takes no more calls has something to report. */
  #isDue(): boolean {
    const { isUsed, hasFree } = this.balance
    if (this.#expired !== null) return !isUsed
    return !isUsed || this.hasCharges || hasFree
  }

  #aim(money: ReservationTerms): Charge {
    return aimOf(this.balance.charge, money, this.#deps.clock.now() - this.#renewedMs)
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
    this.#renewedMs = this.#deps.clock.now()
    this.#deps.usageKeeper?.beforeReport()
    try {
      await settleExpired(this.#deps.ledger, this.#expired!, { ...this.balance.charge })
      this.#end()
      return 'scarce'
    } catch (error) {
      this.#failure = error
      return 'failed'
    }
  }

  #next(aim: Charge): Leasing {
    const { workspace, terms } = this.#origin
    const { free, out } = this.balance
    const more = this.balance.trim(aim)
    const charge = this.balance.takeCharge()
    const held = {
      ...terms,
      leaseMs: this.#leaseMs,
      platformMicros: out.platformMicros + free.platformMicros,
      spendMicros: out.spendMicros + free.spendMicros,
    }
    return {
      ...{ token: newId('call'), workspace, held, useMs: USE_MS, used: { ...out }, more },
      from: this.#token === null ? null : { token: this.#token, charge },
    }
  }

  async #exchange(leasing: Leasing): Promise<Filled> {
    const { ledger, settlements, usageKeeper, clock } = this.#deps
    const { token, workspace, from, held, more } = leasing
    const isAgain = leasing === this.#unsure
    this.#renewedMs = clock.now()
    this.#taken = 0
    this.#sent = leasing
    this.#origin.entry.change()
    if (from !== null) usageKeeper?.beforeReport()
    try {
      const leased = await ledger.lease(leasing)
      this.#unsure = null
      if (leased.state === 'over') {
        if (from === null) this.#end()
        else this.#expire({ workspace, from, unsure: isAgain ? token : null })
        return 'scarce'
      }
      this.#sent = null
      this.#token = token
      this.#use = { untilMs: this.#renewedMs + leased.useMs, month: leased.month }
      if (leased.useMs === 0 && this.isOpen) this.#state = 'draining'
      this.balance.add(leased.more)
      if (isSame(leased.more, NOTHING) && isSame(held, NOTHING)) this.#end()
      return isSame(leased.more, more) ? 'filled' : 'scarce'
    } catch (error) {
      this.#failure = error
      if (from !== null) this.#unsure = leasing
      else {
        settlements.cancel({ token, workspace, slotId: null }, held.leaseMs)
        this.#sent = null
        this.#end()
      }
      return 'failed'
    } finally {
      this.#origin.entry.change()
    }
  }

  /** The state has charged it by guess: it is settled once its last call is over. */
  #expire(expired: Expired): void {
    this.#deps.log.error({ workspace: this.#origin.workspace }, 'a lease of money was not renewed in time')
    this.#expired = expired
    this.#state = 'draining'
    this.balance.clearFree()
    if (expired.unsure !== null) return
    this.#sent = null
    this.balance.putBack(expired.from.charge)
  }

  #end(): void {
    this.#state = 'over'
    this.#origin.onOver()
  }
}

const isSame = (one: Charge, other: Charge) =>
  one.platformMicros === other.platformMicros && one.spendMicros === other.spendMicros

/** Settles an expired lease, by `since` more than it was last known to be charged. */
async function settleExpired(
  ledger: Pick<CallLedger, 'recover'>,
  { workspace, from, unsure }: Expired,
  since: LeaseCharge,
): Promise<void> {
  const settle = (token: string, charge: LeaseCharge) =>
    ledger.recover({ workspace, token, charge, estimate: NOTHING })
  if (unsure === null) return void (await settle(from.token, since))
  // Which of both the state has had tells which of both there is to settle.
  if (await settle(unsure, since)) return
  const charge = {
    platformMicros: since.platformMicros + from.charge.platformMicros,
    spendMicros: since.spendMicros + from.charge.spendMicros,
    overageMicros: since.overageMicros + from.charge.overageMicros,
  }
  await settle(from.token, charge)
}

/**
 * How much a lease should have free: for some calls at once, and for what was spent of late.
 *
 * @param charge spent since the last report, `sinceMs` ago
 */
function aimOf(charge: Charge, call: Charge, sinceMs: number): Charge {
  const perMs = AHEAD_MS / Math.max(REFILL_MS, sinceMs)
  const most = (spentMicros: number, callMicros: number) =>
    Math.ceil(Math.min(MOST_MICROS, Math.max(CALLS_AHEAD * callMicros, spentMicros * perMs)))
  return {
    platformMicros: most(charge.platformMicros, call.platformMicros),
    spendMicros: most(charge.spendMicros, call.spendMicros),
  }
}

/** Money that one call has of a lease. */
class CallMoney implements LeasedMoney, Charge {
  readonly #lease: MoneyLease
  readonly keyId: string
  readonly platformMicros: number
  readonly spendMicros: number
  #accrued: Charge | null = null

  constructor(lease: MoneyLease, { keyId, platformMicros, spendMicros }: ReservationTerms) {
    this.#lease = lease
    this.keyId = keyId
    this.platformMicros = platformMicros
    this.spendMicros = spendMicros
  }

  accrue(charge: Charge): void {
    if (this.#accrued !== null) this.#lease.balance.accrue(this, this.#accrued, -1)
    this.#accrued = charge
    this.#lease.balance.accrue(this, charge, 1)
  }

  settle(charge: Charge): void {
    if (this.#accrued !== null) this.#lease.balance.accrue(this, this.#accrued, -1)
    this.#accrued = null
    this.#lease.settle(this, charge)
  }
}

const NOTHING: Charge = Object.freeze({ platformMicros: 0, spendMicros: 0 })
