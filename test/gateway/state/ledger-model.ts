import type {
  AccountTerms,
  Beginning,
  Begun,
  Cancellation,
  Charge,
  CreditsAdded,
  JobClaim,
  LeaseCharge,
  Leased,
  Leasing,
  ReservationTerms,
  Settlement,
  SlotClaim,
  SlotEnd,
  SlotView,
  UsageBatch,
} from '../../../src/contracts/ledger.ts'
import type { figuresOf } from '../../support/state-under-test.ts'

const KNOWN_AS_CANCELLED_MS = 120_000
const KNOWN_AS_CHARGED_MS = 30 * 86_400_000

/** A call that holds, or held, money. What follows from it is computed anew each time that it is asked for. */
interface ModelCall {
  readonly token: string
  readonly reservation: ReservationTerms
  readonly purse: 'trial' | 'credits' | 'none'
  readonly begunAtMs: number
  /** Of a job, whose claims pass it on; 0 for a token that is used once. */
  claim: number
  leaseUntilMs: number
  /** What calls under way have of a lease; null: it is none. */
  readonly used: Charge | null
  settled: { readonly charge: Charge & Partial<LeaseCharge>; readonly atMs: number } | null
}

interface ModelSlot {
  readonly token: string
  readonly claim: SlotClaim
  readonly begunAtMs: number
  ended: { readonly end: SlotEnd; readonly atMs: number } | null
}

interface ModelWorkspace {
  calls: ModelCall[]
  readonly slots: Map<string, ModelSlot>
  readonly cancelledAtMs: Map<string, number>
  readonly grants: { readonly id: string; readonly micros: number }[]
  readonly usage: Map<string, { readonly batch: UsageBatch; readonly atMs: number }>
}

/**
 * What a ledger and its accounts are to do, told by the history of every call instead of by sums that are kept: slow,
 * and so different from a ledger that the two hardly make the same mistake.
 */
export class LedgerModel {
  nowMs: number
  readonly #workspaces = new Map<string, ModelWorkspace>()

  constructor(nowMs: number) {
    this.nowMs = nowMs
  }

  begin({ token, workspace, slot, reservation, claim }: Beginning): Begun {
    const all = this.#of(workspace)
    if (slot) {
      const mine = all.slots.get(slot.id)
      const view = this.look(workspace, slot.id)
      if (view.state === 'running' && mine?.token === token) return { state: 'begun' }
      if (view.state !== 'free') return view
    }
    const cancelledAtMs = all.cancelledAtMs.get(withdrawn(token, claim))
    if (cancelledAtMs !== undefined && this.nowMs - cancelledAtMs < KNOWN_AS_CANCELLED_MS)
      return { state: 'refused', why: 'voided' }
    const answer = reservation && this.#setAside(all, token, reservation, claim?.number ?? 0)
    if (answer?.state === 'refused') return answer
    if (slot) all.slots.set(slot.id, { token, claim: slot, begunAtMs: this.nowMs, ended: null })
    return { state: 'begun' }
  }

  /** Undefined: the contract leaves open what is answered. */
  settle({ token, workspace, slot, charge, claim }: Settlement): boolean | undefined {
    const all = this.#of(workspace)
    const call = all.calls.find((one) => this.#holds(one, token, claim))
    if (charge && call) call.settled = { charge, atMs: this.nowMs }
    if (!slot) return false
    const view = this.look(workspace, slot.id)
    const held = all.slots.get(slot.id)
    const mine = view.state !== 'free' && held?.token === token
    if (slot.end.state === 'released' && !(mine && held.ended === null)) return mine ? false : undefined
    if (!mine) return false
    if (held.ended) return held.ended.end.state === slot.end.state
    if (view.state === 'burned') return false
    if (slot.end.state === 'released') all.slots.delete(slot.id)
    else held.ended = { end: slot.end, atMs: this.nowMs }
    return true
  }

  cancel({ token, workspace, slotId, claim }: Cancellation): void {
    const all = this.#of(workspace)
    all.cancelledAtMs.set(withdrawn(token, claim), this.nowMs)
    all.calls = all.calls.filter((call) => !this.#holds(call, token, claim))
    if (slotId === null || all.slots.get(slotId)?.token !== token) return
    if (this.look(workspace, slotId).state === 'running') all.slots.delete(slotId)
  }

  lease(leasing: Leasing): Leased {
    const { token, workspace, from, held, used, more } = leasing
    const all = this.#of(workspace)
    const cancelledAtMs = all.cancelledAtMs.get(withdrawn(token, undefined))
    if (cancelledAtMs !== undefined && this.nowMs - cancelledAtMs < KNOWN_AS_CANCELLED_MS)
      return { state: 'over' }
    const known = all.calls.find((call) => this.#holds(call, token, undefined))
    if (known) {
      const more = minus(known.reservation, held)
      return { state: 'leased', more, useMs: 0, month: monthOf(known.begunAtMs) }
    }
    const old = from === null ? null : all.calls.find((call) => this.#holds(call, from.token, undefined))
    if (old === undefined) return { state: 'over' }
    if (held.terms.grant) this.#book(all, held.terms.grant)
    if (old && from) old.settled = { charge: from.charge, atMs: this.nowMs }
    const unused = old && from ? Math.max(0, old.reservation.platformMicros - from.charge.platformMicros) : 0
    const inTrial = this.#trialLeft(all, held.terms) > 0
    const next: ModelCall = {
      token,
      reservation: {
        ...held,
        platformMicros: Math.min(held.platformMicros, unused),
        spendMicros: old ? held.spendMicros : 0,
      },
      purse: old ? old.purse : more.platformMicros === 0 ? 'none' : inTrial ? 'trial' : 'credits',
      // The money of a lease is of the month in which it began.
      begunAtMs: old?.begunAtMs ?? this.nowMs,
      claim: 0,
      leaseUntilMs: this.nowMs + held.leaseMs,
      used,
      settled: null,
    }
    all.calls.push(next)
    const added = this.#addable(all, next, leasing)
    all.calls.pop()
    const reservation = {
      ...next.reservation,
      platformMicros: next.reservation.platformMicros + added.platformMicros,
      spendMicros: next.reservation.spendMicros + added.spendMicros,
    }
    if (reservation.platformMicros + reservation.spendMicros > 0) all.calls.push({ ...next, reservation })
    const { trial } = held.terms
    const endsMs = [monthEnd(this.nowMs), next.purse === 'trial' && trial ? trial.expiresAtMs : Infinity]
    const isOfNow = monthOf(next.begunAtMs) === monthOf(this.nowMs)
    const useMs = !isOfNow
      ? 0
      : Math.max(0, Math.min(leasing.useMs, ...endsMs.map((endMs) => endMs - this.nowMs)))
    return { state: 'leased', more: added, useMs, month: monthOf(next.begunAtMs) }
  }

  /** A hundredth of what is left, of each amount; of the spending no larger part than of the purse. */
  #addable(
    all: ModelWorkspace,
    { purse, begunAtMs, reservation: kept }: ModelCall,
    leasing: Leasing,
  ): Charge {
    const { held, more } = leasing
    if (monthOf(begunAtMs) !== monthOf(this.nowMs)) return { platformMicros: 0, spendMicros: 0 }
    const spent = this.#spent(all)
    const trial = this.#trialLeft(all, held.terms)
    const left = { none: 0, trial, credits: trial > 0 ? 0 : this.#credits(all) }[purse]
    const { keyBudgetMicros, terms } = held
    const budgets = [
      keyBudgetMicros === null ? Infinity : keyBudgetMicros - (spent.get(held.keyId) ?? 0),
      terms.budgetMicros === null ? Infinity : terms.budgetMicros - sum([...spent.values()]),
    ]
    const part = (micros: number) => Math.max(0, Math.floor(micros / 100))
    const platformMicros = Math.min(more.platformMicros, part(left))
    const wanted = held.platformMicros + more.platformMicros
    const share = purse === 'none' || wanted === 0 ? 1 : (kept.platformMicros + platformMicros) / wanted
    const paid = Math.floor((held.spendMicros + more.spendMicros) * share) - kept.spendMicros
    const most = share === 1 ? more.spendMicros : Math.max(0, paid)
    return { platformMicros, spendMicros: Math.min(more.spendMicros, most, ...budgets.map(part)) }
  }

  #trialLeft(all: ModelWorkspace, { trial }: AccountTerms): number {
    if (trial === null || this.nowMs >= trial.expiresAtMs) return 0
    return trial.allowanceMicros - sum(all.calls.map((call) => this.#taken(call, 'trial')))
  }

  look(workspace: string, slotId: string): SlotView {
    const slot = this.#of(workspace).slots.get(slotId)
    if (!slot) return { state: 'free' }
    const burnsAtMs = slot.begunAtMs + slot.claim.leaseMs
    const { end, atMs } = slot.ended ?? { end: null, atMs: burnsAtMs }
    const ttlMs = end && end.state !== 'released' ? end.ttlMs : slot.claim.ttlMs
    if (this.nowMs >= atMs + ttlMs) return { state: 'free' }
    if (end?.state === 'stored')
      return { state: 'stored', fingerprint: slot.claim.fingerprint, result: end.result }
    return { state: end || this.nowMs >= burnsAtMs ? 'burned' : 'running' }
  }

  addCredits(workspace: string, grant: { readonly id: string; readonly micros: number }): CreditsAdded {
    const booked = this.#book(this.#of(workspace), grant)
    return { booked, creditsMicros: this.#credits(this.#of(workspace)) }
  }

  addUsage(batch: UsageBatch): void {
    const { usage } = this.#of(batch.workspace)
    if (!usage.has(batch.token)) usage.set(batch.token, { batch, atMs: this.nowMs })
  }

  figures(workspace: string, { grant }: AccountTerms): ReturnType<typeof figuresOf> {
    const all = this.#of(workspace)
    if (grant) this.#book(all, grant)
    const lost = all.calls.filter((call) => !call.settled && !this.#isOpen(call))
    const open = all.calls.filter((call) => this.#isOpen(call))
    const spent = this.#spent(all)
    return {
      creditsMicros: this.#credits(all),
      grants: [...all.grants].sort((a, b) => (a.id < b.id ? -1 : 1)),
      trialSpentMicros: sum(all.calls.map((call) => this.#taken(call, 'trial'))),
      overageMicros: sum(
        all.calls.map(({ settled, reservation }) =>
          settled
            ? Math.max(0, settled.charge.platformMicros - reservation.platformMicros) +
              (settled.charge.overageMicros ?? 0)
            : 0,
        ),
      ),
      reservedMicros: sum(open.map(({ reservation }) => reservation.platformMicros)),
      expired: {
        count: lost.filter((call) => this.#cost(call).platformMicros + this.#cost(call).spendMicros > 0)
          .length,
        micros: sum(
          lost.map((call) => Math.min(call.reservation.platformMicros, this.#cost(call).platformMicros)),
        ),
      },
      bookedMicros: sum([
        ...all.calls.filter((call) => !this.#isOpen(call)).map((call) => this.#cost(call).spendMicros),
        ...[...all.usage.values()].flatMap(({ batch }) => Object.values(batch.spentMicros)),
      ]),
      month: monthOf(this.nowMs),
      spentMicros: sum([...spent.values()]),
      spentByKey: Object.fromEntries(
        [...spent].filter(([, micros]) => micros !== 0).sort(([a], [b]) => (a < b ? -1 : 1)),
      ),
    }
  }

  /** What a call has been charged, or has set aside. */
  #cost(call: ModelCall): Charge {
    const { settled, reservation, used } = call
    if (settled) return settled.charge
    return this.#isOpen(call) || used === null ? reservation : used
  }

  /** What a purse has given for a call. */
  #taken(call: ModelCall, asked: ModelCall['purse']): number {
    if (call.purse !== asked) return 0
    return Math.min(call.reservation.platformMicros, this.#cost(call).platformMicros)
  }

  #of(workspace: string): ModelWorkspace {
    const known = this.#workspaces.get(workspace)
    if (known) return known
    const made = { calls: [], slots: new Map(), cancelledAtMs: new Map(), grants: [], usage: new Map() }
    this.#workspaces.set(workspace, made)
    return made
  }

  #setAside(all: ModelWorkspace, token: string, reservation: ReservationTerms, claim: number): Begun {
    const earlier = all.calls.filter((call) => call.token === token)
    if (claim === 0)
      return earlier.length > 0 ? { state: 'begun' } : this.#reserve(all, token, reservation, 0)
    const open = earlier.find((call) => this.#isOpen(call))
    if (open === undefined)
      return earlier.some((call) => this.#isPaid(call))
        ? { state: 'begun' }
        : this.#reserve(all, token, reservation, claim)
    if (open.claim > claim) return { state: 'refused', why: 'voided' }
    open.claim = claim
    open.leaseUntilMs = Math.max(open.leaseUntilMs, this.nowMs + reservation.leaseMs)
    return { state: 'begun' }
  }

  #reserve(all: ModelWorkspace, token: string, reservation: ReservationTerms, claim: number): Begun {
    const { terms, platformMicros, spendMicros, keyId, keyBudgetMicros } = reservation
    const { trial, grant, budgetMicros } = terms
    if (grant) this.#book(all, grant)
    const trialSpentMicros = sum(all.calls.map((call) => this.#taken(call, 'trial')))
    const inTrial = trial && this.nowMs < trial.expiresAtMs
    let purse: ModelCall['purse'] = 'credits'
    if (platformMicros === 0) purse = 'none'
    else if (inTrial && trialSpentMicros + platformMicros <= trial.allowanceMicros) purse = 'trial'
    else if (this.#credits(all) < platformMicros)
      return { state: 'refused', why: trial && all.grants.length === 0 ? 'trial' : 'credits' }

    const spent = this.#spent(all)
    if (keyBudgetMicros !== null && (spent.get(keyId) ?? 0) + spendMicros > keyBudgetMicros)
      return { state: 'refused', why: 'key_budget' }
    if (budgetMicros !== null && sum([...spent.values()]) + spendMicros > budgetMicros)
      return { state: 'refused', why: 'workspace_budget' }
    const { endUser } = reservation
    if (endUser && this.#spentByEndUser(all, endUser.account) + spendMicros > endUser.budgetMicros)
      return { state: 'refused', why: 'end_user_budget' }
    const leaseUntilMs = this.nowMs + reservation.leaseMs
    const begun = { token, reservation, purse, begunAtMs: this.nowMs, claim, leaseUntilMs }
    all.calls.push({ ...begun, used: null, settled: null })
    return { state: 'begun' }
  }

  endUsersSpent(workspace: string, accounts: readonly string[]): number[] {
    return accounts.map((account) => this.#spentByEndUser(this.#of(workspace), account))
  }

  /** Whether a reservation of the token is under way. */
  isOpen(workspace: string, token: string): boolean {
    return this.#of(workspace).calls.some((call) => call.token === token && this.#isOpen(call))
  }

  #isOpen({ settled, leaseUntilMs }: ModelCall): boolean {
    return !settled && this.nowMs < leaseUntilMs
  }

  #holds(call: ModelCall, token: string, claim: JobClaim | undefined): boolean {
    return call.token === token && call.claim === (claim?.number ?? 0) && this.#isOpen(call)
  }

  /** Of a job's call that is not open: whether the customer has been charged for it, as far as that is remembered. */
  #isPaid({ settled, leaseUntilMs }: ModelCall): boolean {
    if (!settled) return this.nowMs < leaseUntilMs + KNOWN_AS_CHARGED_MS
    const { charge, atMs } = settled
    return charge.platformMicros + charge.spendMicros > 0 && this.nowMs < atMs + KNOWN_AS_CHARGED_MS
  }

  #book(all: ModelWorkspace, { id, micros }: { readonly id: string; readonly micros: number }): boolean {
    if (all.grants.some((grant) => grant.id === id)) return false
    all.grants.push({ id, micros: Math.max(micros, -this.#credits(all)) })
    return true
  }

  #credits({ grants, calls }: ModelWorkspace): number {
    return sum(grants.map(({ micros }) => micros)) - sum(calls.map((call) => this.#taken(call, 'credits')))
  }

  /** In the month that it is. */
  #spentByEndUser({ calls }: ModelWorkspace, account: string): number {
    const counted = calls.filter(
      ({ begunAtMs, reservation }) =>
        monthOf(begunAtMs) === monthOf(this.nowMs) && reservation.endUser?.account === account,
    )
    return sum(counted.map((call) => this.#cost(call).spendMicros))
  }

  /** By key, in the month that it is. */
  #spent({ calls, usage }: ModelWorkspace): Map<string, number> {
    const month = monthOf(this.nowMs)
    const spent = new Map<string, number>()
    const add = (keyId: string, micros: number) => spent.set(keyId, (spent.get(keyId) ?? 0) + micros)
    for (const call of calls)
      if (monthOf(call.begunAtMs) === month) add(call.reservation.keyId, this.#cost(call).spendMicros)
    for (const { batch, atMs } of usage.values()) {
      if (monthOf(atMs) !== month) continue
      for (const [keyId, micros] of Object.entries(batch.spentMicros)) add(keyId, micros)
    }
    return spent
  }
}

/** A token that was cancelled, or that one claim of it was. */
function withdrawn(token: string, claim: JobClaim | undefined): string {
  return JSON.stringify([token, claim?.number ?? null])
}

function minus(from: Charge, { platformMicros, spendMicros }: Charge): Charge {
  return {
    platformMicros: Math.max(0, from.platformMicros - platformMicros),
    spendMicros: Math.max(0, from.spendMicros - spendMicros),
  }
}

function monthEnd(ms: number): number {
  const date = new Date(ms)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}

function sum(amounts: readonly number[]): number {
  return amounts.reduce((total, amount) => total + amount, 0)
}

function monthOf(ms: number): string {
  const date = new Date(ms)
  return `${date.getUTCFullYear()}-${String(date.getUTCMonth() + 1).padStart(2, '0')}`
}
