import type { Entry } from '../../../contracts/catalog.ts'
import { type ErrorCode, GatewayError } from '../../../contracts/errors.ts'
import { newId } from '../../../contracts/ids.ts'
import type {
  Begun,
  Charge,
  HeldMoney,
  JobClaim,
  ReservationTerms,
  Settled,
  Shortage,
  SlotEnd,
  StoredResult,
} from '../../../contracts/ledger.ts'
import { TimeoutError, within } from '../../../contracts/time.ts'
import { Interrupted } from '../facts/call.ts'
import { highestCost } from '../facts/meter.ts'
import { microsOf } from '../facts/price.ts'
import type { TakenUnits } from '../facts/units.ts'
import type { LeasedMoney } from '../money/money-leases.ts'
import { type Selection, without } from '../select/selection.ts'
import type { AdmittedContext, CallContext } from './call-context.ts'
import type { ActiveCall } from './services.ts'
import { takeUnits } from './unit-limits.ts'
import { isUnknown, outcomeUnknown } from './upstream-errors.ts'

/** How long a slot and a reservation outlast the deadline of their call, whose end may have to wait for the state. */
const SLOT_GRACE_MS = 30_000
const RESERVATION_GRACE_MS = 60_000
/**
 * Amount for a call at a platform provider whose price is for a quantity that is not known, such as the provider's own
 * credits before the answer: about the cost of a video. Without it such a call would be free.
 */
const UNKNOWN_MICROS = 1_000_000

/** An idempotency slot as a call claims it. */
export interface SlotUse {
  readonly id: string
  readonly fingerprint: string
  /** How long an answer is kept for replay, and a burned slot is remembered. */
  readonly ttlMs: number
}

/** A slot that is not free. */
export type SlotInUse = Extract<Begun, { readonly state: 'running' | 'burned' | 'stored' }>

/**
 * Counts a call for the rate limits of what it holds, reserves money for it, where it costs credits or counts against a
 * budget, and claims the slot of its idempotency key. The state does not know of a call that needs neither: it has its
 * reservation at once, and its cost is counted afterwards. A call whose credits do not cover the platform's entries
 * keeps the customer's own.
 *
 * @returns the reservation with the entries that may be tried, or the slot when it is in use
 * @throws  GatewayError RATE_LIMITED, INSUFFICIENT_CREDITS, TRIAL_EXHAUSTED, BUDGET_EXCEEDED, DEPENDENCY_UNAVAILABLE
 */
export function reserve(active: ActiveCall, selection: Selection): Reservation | Promise<Reservation>
export function reserve(
  active: ActiveCall,
  selection: Selection,
  slot: SlotUse | null,
): Reservation | Promise<Reservation | SlotInUse>
export function reserve(
  active: ActiveCall,
  selection: Selection,
  slot: SlotUse | null = null,
): Reservation | Promise<Reservation | SlotInUse> {
  const units = takeUnits(active)
  return units === null
    ? reserveMoney(active, selection, slot)
    : reserveCounted(units, active, selection, slot)
}

/** Gives the units back where there is no reservation. */
async function reserveCounted(
  taking: TakenUnits | Promise<TakenUnits>,
  active: ActiveCall,
  selection: Selection,
  slot: SlotUse | null,
): Promise<Reservation | SlotInUse> {
  const units = await taking
  let reserved: Reservation | SlotInUse | null = null
  try {
    reserved = await reserveMoney({ ...active, units }, selection, slot)
    return reserved
  } finally {
    if (!(reserved instanceof Reservation)) units.settle(null)
  }
}

function reserveMoney(
  active: ActiveCall,
  selection: Selection,
  slot: SlotUse | null,
): Reservation | Promise<Reservation | SlotInUse> {
  const money = moneyFor(active, selection)
  if (money === null && slot === null) return new Reservation(active, selection, NO_CLAIM)
  const { context, services } = active
  context.trace?.begin('reserve')
  const claiming = () => claim(active, selection, { ...tokenFor(active), slot, reservation: money })
  // A slot and its money are one step, the money of a job goes from worker to worker, and that of an end user counts
  // for its budget on all nodes.
  if (money === null || slot !== null || active.job !== null || money.endUser !== undefined) return claiming()
  const taken = services.moneyLeases.take(context.principal, money)
  const reserved = (leased: LeasedMoney | null) => {
    if (leased === null) return claiming()
    context.trace?.end()
    return new Reservation(active, selection, NO_CLAIM, leased)
  }
  return taken instanceof Promise ? services.settlements.during(taken).then(reserved) : reserved(taken)
}

/** A job is charged once, however many workers take it up; every other call has a token of its own. */
function tokenFor({ job }: ActiveCall) {
  return job === null ? { token: newId('call') } : { token: job.id, claim: { number: job.claim } }
}

/** Terms under which a call is claimed in the state. */
interface ClaimTerms {
  /** Null: the state does not know of the call. */
  readonly token: string | null
  readonly claim?: JobClaim
  readonly slot: SlotUse | null
  readonly reservation: ReservationTerms | null
}

const NO_CLAIM: ClaimTerms = Object.freeze({ token: null, slot: null, reservation: null })

async function claim(
  active: ActiveCall,
  selection: Selection,
  asked: ClaimTerms & { readonly token: string },
): Promise<Reservation | SlotInUse> {
  const { services, context, deadlineMs } = active
  const { slot, reservation, ...named } = asked
  const { settlements, state, timing } = services
  const workspace = context.principal.workspace.id
  const graceMs = timing?.slotGraceMs ?? SLOT_GRACE_MS
  const claimed = slot === null ? null : { ...slot, leaseMs: deadlineMs + graceMs }
  const begin = () =>
    settlements
      .during(within(deadlineMs, state.ledger.begin({ ...named, workspace, slot: claimed, reservation })))
      .catch((error: unknown) => {
        // The state may have taken it all the same, and would hold the key until its lease is over.
        const lastsMs = Math.max(claimed?.leaseMs ?? 0, reservation?.leaseMs ?? 0)
        settlements.cancel({ ...named, workspace, slotId: slot?.id ?? null, ...accountOf(context) }, lastsMs)
        if (error instanceof TimeoutError)
          throw new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause: error })
        throw error
      })
  let begun = await begin()
  if (begun.state === 'refused' && begun.why !== 'voided' && begun.why !== 'end_user_budget') {
    // The last money may be what this node has leased: of the key, or of the whole workspace.
    const keyId = begun.why === 'key_budget' ? context.principal.key.id : undefined
    if (await services.moneyLeases.giveBack(workspace, keyId)) begun = await begin()
  }
  context.trace?.end()
  if (begun.state === 'begun') return new Reservation(active, selection, asked)
  if (begun.state !== 'refused') return begun
  if (begun.why === 'end_user_budget' && reservation?.endUser !== undefined)
    services.endUserWatch?.refused(context, reservation.endUser)
  const own = withoutPlatform(selection)
  const short = begun.why === 'credits' || begun.why === 'trial'
  if (!short || own === null) throw shortage(begun.why)
  return reserveMoney(active, own, slot)
}

/** Drops the platform's entries; null when that leaves nothing, or changes nothing. */
function withoutPlatform(selection: Selection): Selection | null {
  const own = without(selection, ({ entry }) => isPlatform(entry))
  if (own === null || own.candidates.length === selection.candidates.length) return null
  return { ...own, warnings: [...selection.warnings, PLATFORM_LEFT_OUT] }
}

const PLATFORM_LEFT_OUT = 'credits: they do not cover the providers of the platform, which were left out'

/**
 * The highest cost of the call at any of its candidates; null when it costs no credits and counts against no budget.
 */
function moneyFor(active: ActiveCall, { candidates, cut }: Selection): ReservationTerms | null {
  const { context, call } = active
  const { key, workspace } = context.principal
  const { terms } = workspace
  const paid = candidates.some(({ entry }) => isPlatform(entry))
  const { endUser } = context
  const ofEndUser = endUser?.terms.budgetMicros ?? null
  const capped = terms.budgetMicros !== null || key.budgetMicros !== null || ofEndUser !== null
  if (!paid && !capped) return null
  let platformMicros = 0
  let spendMicros = 0
  const wallMs = active.services.clock.wallNow()
  for (const { entry } of candidates) {
    const micros = chargeable(entry, highestCost(entry, call, wallMs, cut?.count ?? 1))
    spendMicros = Math.max(spendMicros, micros)
    if (isPlatform(entry)) platformMicros = Math.max(platformMicros, micros)
  }
  const { id: keyId, budgetMicros: keyBudgetMicros } = key
  const leaseMs = reservationMs(active)
  const reservation = { keyId, terms, keyBudgetMicros, platformMicros, spendMicros, leaseMs }
  if (endUser === null || ofEndUser === null) return reservation
  return { ...reservation, endUser: { account: endUser.account, budgetMicros: ofEndUser } }
}

/** How long a reservation of the call is held at most. */
function reservationMs({ deadlineMs, services }: ActiveCall): number {
  return deadlineMs + (services.timing?.reservationGraceMs ?? RESERVATION_GRACE_MS)
}

/** The account that a reservation may have counted for: the terms may have changed since another claim of the job. */
function accountOf({ endUser }: AdmittedContext) {
  return endUser === null ? {} : { endUser: endUser.account }
}

/** Work that was done for a call in parts that failed. */
export interface PartsDone {
  readonly charge: Charge
  /** A provider has done some of the work, or may have. */
  readonly isBegun: boolean
}

/** Computes what an answer of an entry is charged at. @param costUsd null: not known; the estimate is charged */
export function chargeOf(entry: Entry, costUsd: number | null, { money: { estimate } }: CallContext): Charge {
  const micros = chargeable(entry, costUsd ?? estimate?.metered().costUsd ?? null)
  return { spendMicros: micros, platformMicros: isPlatform(entry) ? micros : 0 }
}

function chargeable(entry: Entry, usd: number | null): number {
  if (usd !== null) return microsOf(usd)
  return isPlatform(entry) ? UNKNOWN_MICROS : 0
}

function isPlatform({ provider }: Entry): boolean {
  return provider.access === 'platform'
}

type Budget = 'key' | 'workspace' | 'end_user'

const SHORTAGES: Readonly<Record<Shortage, readonly [code: ErrorCode, budget?: Budget]>> = {
  credits: ['INSUFFICIENT_CREDITS'],
  trial: ['TRIAL_EXHAUSTED'],
  key_budget: ['BUDGET_EXCEEDED', 'key'],
  workspace_budget: ['BUDGET_EXCEEDED', 'workspace'],
  end_user_budget: ['BUDGET_EXCEEDED', 'end_user'],
}

function shortage(why: Shortage | 'voided'): GatewayError {
  if (why === 'voided') return new GatewayError('DEPENDENCY_UNAVAILABLE')
  const [code, budget] = SHORTAGES[why]
  return new GatewayError(code, undefined, budget === undefined ? {} : { details: { budget } })
}

/**
 * The hold of a call on money, and on the slot of its idempotency key. Settled once, by one of its methods, none of
 * which ever fails.
 */
export class Reservation {
  /** Entries that the call may be sent to. */
  readonly selection: Selection
  readonly #active: ActiveCall
  readonly #asked: ClaimTerms
  readonly #leased: LeasedMoney | null

  /** @param leased money of this node's own lease; null: the claim has it */
  constructor(
    active: ActiveCall,
    selection: Selection,
    asked: ClaimTerms,
    leased: LeasedMoney | null = null,
  ) {
    this.#active = active
    this.#asked = asked
    this.#leased = leased
    this.selection = selection
    active.context.money.reserved()
  }

  /**
   * Charges the cost of an entry's answer.
   *
   * @param costUsd null: not known, so that the estimate is charged
   * @returns null when there is nothing to wait for
   */
  settle(entry: Entry, costUsd: number | null): Promise<unknown> | null {
    return this.#end(entry, this.#charge(entry, costUsd), null)
  }

  /** Charges the answers of several entries, each of which was counted before. */
  settleSum(charge: Charge): Promise<unknown> | null {
    return this.#end(null, charge, null)
  }

  /**
   * Charges an answer, and stores it in the slot of the call.
   *
   * @param charged the entry that answered, at the cost of its context; or the sum of several, as of `settleSum`
   * @param result  the answer that is replayed from now on; null: it could not be kept, and the slot is burned
   * @returns false when the slot did not belong to this call any more: its answer is not replayed
   */
  async settleSlot(charged: Entry | Charge, result: StoredResult | null): Promise<boolean> {
    const ttlMs = this.#asked.slot?.ttlMs ?? 0
    const end: SlotEnd = result === null ? { state: 'burned', ttlMs } : { state: 'stored', result, ttlMs }
    const settled =
      'spendMicros' in charged
        ? await this.#end(null, charged, end)
        : await this.#end(charged, this.#charge(charged, this.#active.context.money.costUsd), end)
    return settled?.slotHeld !== false
  }

  /**
   * Ends a call that no entry answered, or whose caller left: charges the attempt whose end is unknown, frees
   * the rest. A slot is free again when it is certain that nothing was executed.
   *
   * @param parts what was done by then of a call in parts; absent: it is none
   * @returns what the caller is told
   */
  async settleFailed(thrown: unknown, parts?: PartsDone): Promise<unknown> {
    // The reservation of a job goes to whoever takes the job over.
    if (thrown instanceof Interrupted) return thrown
    const { slot } = this.#asked
    const { context, job } = this.#active
    const entry = context.money.estimate?.entry ?? null
    // The next try of a job has the parts that were heard, and pays for them.
    const isLater = parts !== undefined && job?.isRetried?.(thrown) === true
    // A provider may have done the work, or it is tried again.
    if (entry !== null || parts?.isBegun === true || job?.isRetried?.(thrown) === true)
      this.#active.units?.keep()
    const ofEntry = entry === null ? NOTHING : this.#charge(entry, context.money.costUsd)
    const charge = isLater ? NOTHING : (parts?.charge ?? ofEntry)
    if (slot === null) {
      await this.#end(entry, charge, null)
      return thrown
    }
    const burns = isUnknown(context) || parts?.isBegun === true
    const end: SlotEnd = burns ? { state: 'burned', ttlMs: slot.ttlMs } : { state: 'released' }
    await this.#end(entry, charge, end)
    // A fault of the gateway's own is answered as such, and logged.
    if (!burns || !(thrown instanceof GatewayError)) return thrown
    return outcomeUnknown(context, context.routing.attempts.at(-1)?.failure ?? null)
  }

  /**
   * Says what the call has come to so far: that is charged if this node dies, and not the estimate.
   *
   * @param entry null: nothing yet
   */
  accrue(entry: Entry | null, costUsd: number | null): void {
    const { context, services, job } = this.#active
    const charge = entry === null ? NOTHING : this.#charge(entry, costUsd)
    if (this.#leased !== null) this.#leased.accrue(charge)
    else {
      const held = job === null ? this.#heldFor(charge) : null
      // Without a reservation the state cannot be told.
      if (held === null) return
      services.usageKeeper?.holds(held)
    }
    if (entry !== null) context.money.accrued(charge.spendMicros)
  }

  /** The money that the state settles if this node dies now; null: it knows of no money of the call. */
  #heldFor(charge: Charge): HeldMoney | null {
    const { token, reservation } = this.#asked
    const { context, services } = this.#active
    if (token === null || reservation === null || services.usageKeeper === undefined) return null
    const workspace = context.principal.workspace.id
    return {
      workspace,
      token,
      charge: { ...charge, overageMicros: 0 },
      estimate: NOTHING,
      ...accountOf(context),
    }
  }

  /** @param entry that is counted with the charge; null: none */
  #end(entry: Entry | null, charge: Charge, end: SlotEnd | null) {
    const { token, reservation } = this.#asked
    const { services, context, job } = this.#active
    const { settlements, usage } = services
    this.#active.units?.settle(context.money.usage)
    const { workspace, key } = context.principal
    const reserved = reservation !== null
    // A job is charged once, however often it runs: the state says by which run.
    const isOnce = job !== null && token !== null
    if (!isOnce) context.money.charged(charge.spendMicros)
    const held = job === null ? this.#heldFor(charge) : null
    if (charge.spendMicros > 0) services.usageKeeper?.charged(context.whole, reserved, held)
    else if (held !== null) services.usageKeeper?.holds(held)
    if (this.#leased !== null) {
      this.#leased.settle(charge)
      this.#count(entry, charge, null)
    } else if (!reserved) {
      usage.note(workspace.id, key.id, charge.spendMicros)
      this.#count(entry, charge, null)
    }
    if (!isOnce) context.money.settled()
    if (token === null) {
      context.trace?.settling(null)
      return null
    }
    const { token: _token, slot, reservation: _money, ...named } = this.#asked
    const ended = slot === null || end === null ? null : { id: slot.id, end }
    const settlement = {
      ...named,
      token,
      workspace: workspace.id,
      slot: ended,
      charge: reserved ? charge : null,
      ...accountOf(context),
    }
    // The longer of the two: when the slot's lease is over the money can still be settled.
    const settled = settlements.settle(settlement, reservationMs(this.#active))
    context.trace?.settling(settled)
    if (held !== null)
      void settled.then((taken) => taken !== null && services.usageKeeper?.released(held.token))
    if (reserved) this.#count(entry, charge, settled)
    if (reservation?.endUser !== undefined)
      services.endUserWatch?.charged(context, reservation.endUser, settled)
    if (isOnce) void settled.then((taken) => endCharge(context, charge, taken))
    return settled
  }

  #charge(entry: Entry, costUsd: number | null): Charge {
    return chargeOf(entry, costUsd, this.#active.context)
  }

  /**
   * Reports the charge to the watch; not one that the state refused, since a job is charged once however often it runs.
   *
   * @param settled null: the state is not asked
   */
  #count(entry: Entry | null, { spendMicros }: Charge, settled: Promise<Settled | null> | null): void {
    const { watch } = this.#active.services
    if (watch === undefined || entry === null) return
    if (settled === null) watch.charged(entry, spendMicros)
    // An end whose fate is not known yet is retried until the state takes it.
    else void settled.then((taken) => taken?.charged !== false && watch.charged(entry, spendMicros))
  }
}

/** @param taken null: the state has not said yet */
function endCharge(context: CallContext, { spendMicros }: Charge, taken: Settled | null): void {
  if (taken === null || taken.charged) context.money.charged(spendMicros)
  context.money.settled()
}

export const NOTHING: Charge = Object.freeze({ platformMicros: 0, spendMicros: 0 })
