import { type ErrorCode, GatewayError } from '../errors.ts'
import { newId } from '../ids.ts'
import type { Entry } from '../schema/catalog.ts'
import type {
  Begun,
  Charge,
  JobClaim,
  Reservation,
  Settled,
  Shortage,
  SlotEnd,
  StoredResult,
} from '../schema/ledger.ts'
import type { OperationName } from '../schema/operations.ts'
import { highestCost } from './estimate.ts'
import { type CallRequest, Interrupted, type Services, type Trail } from './gateway.ts'
import { microsOf } from './micros.ts'
import type { Prepared } from './run.ts'
import type { Selection } from './select.ts'
import { isUnknown, outcomeUnknown } from './upstream-errors.ts'

/** What a slot and a reservation outlast the call's deadline by: its end may have to wait for the state. */
const SLOT_GRACE_MS = 30_000
const RESERVATION_GRACE_MS = 60_000
/**
 * What a call at a provider of the platform is taken for where the price is for something that nobody knows, such as a
 * provider's own credits before the answer: about what a video costs. Taken for nothing it would be free to anyone.
 */
const UNKNOWN_MICROS = 1_000_000

/** An idempotency slot as a call claims it. */
export interface SlotUse {
  readonly id: string
  readonly fingerprint: string
  /** How long an answer is kept for replay, and a burned slot remembered. */
  readonly ttlMs: number
}

/** What the slot held instead of being free. */
export type Taken = Extract<Begun, { readonly state: 'running' | 'burned' | 'stored' }>

/** What a booking is made from. */
type Basis = Pick<Prepared, 'principal' | 'selection' | 'deadlineMs'>

type Uses<K extends OperationName> = readonly [services: Services, request: CallRequest<K>, basis: Basis]

/**
 * Sets money aside for a call, where it costs credits or counts against a budget. A call that does neither is not
 * known to the state, and is booked at once; what it comes to is counted afterwards.
 *
 * @throws GatewayError INSUFFICIENT_CREDITS, TRIAL_EXHAUSTED, BUDGET_EXCEEDED, DEPENDENCY_UNAVAILABLE
 */
export function book<K extends OperationName>(...uses: Uses<K>): Booking | Promise<Booking> {
  const [services, request, basis] = uses
  const reservation = reservationOf(request, basis)
  if (reservation === null) return new Booking(services, request.trail, basis, NOTHING_ASKED)
  // Without a slot none can be taken.
  return claim(uses, { ...tokenOf(request), slot: null, reservation }) as Promise<Booking>
}

/**
 * The same for a call with an idempotency key: claims its slot, too.
 *
 * @throws GatewayError as `book`
 */
export function bookOnce<K extends OperationName>(slot: SlotUse, ...uses: Uses<K>): Promise<Booking | Taken> {
  const [, request, basis] = uses
  return claim(uses, { ...tokenOf(request), slot, reservation: reservationOf(request, basis) })
}

/** A job costs once, whoever takes it up; every other call is one of its own. */
function tokenOf({ job }: Pick<CallRequest<OperationName>, 'job'>) {
  return job === undefined ? { token: newId('call') } : { token: job.id, claim: { number: job.claim } }
}

/** What is asked of the state for a call. */
interface Asked {
  /** Null: nothing is, and the state knows nothing of the call. */
  readonly token: string | null
  readonly claim?: JobClaim
  readonly slot: SlotUse | null
  readonly reservation: Reservation | null
}

const NOTHING_ASKED: Asked = Object.freeze({ token: null, slot: null, reservation: null })

async function claim<K extends OperationName>(
  uses: Uses<K>,
  asked: Asked & { readonly token: string },
): Promise<Booking | Taken> {
  const [services, request, basis] = uses
  const { principal, selection, deadlineMs } = basis
  const { slot, reservation, ...named } = asked
  const { settlements, state } = services
  const workspace = principal.workspace.id
  const claimed = slot === null ? null : { ...slot, leaseMs: deadlineMs + SLOT_GRACE_MS }
  request.trail.trace?.begin('reserve')
  const beginning = state.ledger.begin({ ...named, workspace, slot: claimed, reservation })
  const begun = await settlements.during(beginning).catch((error: unknown) => {
    // It may have been taken all the same, and would hold the key until its lease is over.
    settlements.cancel({ ...named, workspace, slotId: slot?.id ?? null })
    throw error
  })
  request.trail.trace?.end()
  if (begun.state === 'begun') return new Booking(services, request.trail, basis, asked)
  if (begun.state !== 'refused') return begun
  const own = withoutPlatform(selection)
  const short = begun.why === 'credits' || begun.why === 'trial'
  if (!short || own === null) throw shortage(begun.why)
  const ownUses: Uses<K> = [services, request, { ...basis, selection: own }]
  return slot === null ? book(...ownUses) : bookOnce(slot, ...ownUses)
}

/** The customer's own providers, when there are others, too, that the customer cannot pay for. */
function withoutPlatform(selection: Selection): Selection | null {
  const candidates = selection.candidates.filter((candidate) => !isPlatform(candidate.entry))
  if (candidates.length === 0 || candidates.length === selection.candidates.length) return null
  return { ...selection, candidates, warnings: [...selection.warnings, PLATFORM_LEFT_OUT] }
}

const PLATFORM_LEFT_OUT = 'credits: they do not cover the providers of the platform, which were left out'

/** The most that the call may come to at any of its candidates; null when nobody asks. */
function reservationOf<K extends OperationName>(
  { operation, call }: CallRequest<K>,
  { principal, selection: { candidates }, deadlineMs }: Basis,
): Reservation | null {
  const { key } = principal
  const { terms } = principal.workspace
  const paid = candidates.some(({ entry }) => isPlatform(entry))
  const capped = terms.budgetMicros !== null || key.budgetMicros !== null
  if (!paid && !capped) return null
  let platformMicros = 0
  let spendMicros = 0
  for (const { entry } of candidates) {
    const micros = chargeable(entry, highestCost(entry, operation, call.payload))
    spendMicros = Math.max(spendMicros, micros)
    if (isPlatform(entry)) platformMicros = Math.max(platformMicros, micros)
  }
  const { id: keyId, budgetMicros: keyBudgetMicros } = key
  const leaseMs = deadlineMs + RESERVATION_GRACE_MS
  return { keyId, terms, keyBudgetMicros, platformMicros, spendMicros, leaseMs }
}

function chargeable(entry: Entry, usd: number | null): number {
  if (usd !== null) return microsOf(usd)
  return isPlatform(entry) ? UNKNOWN_MICROS : 0
}

function isPlatform({ provider }: Entry): boolean {
  return provider.access === 'platform'
}

const SHORTAGES: Readonly<Record<Shortage, readonly [code: ErrorCode, budget?: 'key' | 'workspace']>> = {
  credits: ['INSUFFICIENT_CREDITS'],
  trial: ['TRIAL_EXHAUSTED'],
  key_budget: ['BUDGET_EXCEEDED', 'key'],
  workspace_budget: ['BUDGET_EXCEEDED', 'workspace'],
}

function shortage(why: Shortage | 'voided'): GatewayError {
  if (why === 'voided') return new GatewayError('DEPENDENCY_UNAVAILABLE')
  const [code, budget] = SHORTAGES[why]
  return new GatewayError(code, undefined, budget === undefined ? {} : { details: { budget } })
}

/** What a call holds in the state while it runs. Ended once, by one of its methods, none of which ever fails. */
export class Booking {
  /** Whom the call may be sent to. */
  readonly selection: Selection
  readonly #services: Services
  readonly #trail: Trail
  readonly #basis: Basis
  readonly #asked: Asked

  constructor(services: Services, trail: Trail, basis: Basis, asked: Asked) {
    this.#services = services
    this.#trail = trail
    this.#basis = basis
    this.#asked = asked
    this.selection = basis.selection
  }

  /**
   * An entry answered; what it came to is on the trail.
   *
   * @returns null when there is nothing to wait for
   */
  succeeded(entry: Entry): Promise<unknown> | null {
    return this.#end(entry, null)
  }

  /**
   * The same for a call with a slot.
   *
   * @param result what is replayed from now on; null: it could not be kept, and the slot is burned
   * @returns false when the slot was no longer this call's: its answer is not replayed
   */
  async stored(entry: Entry, result: StoredResult | null): Promise<boolean> {
    const ttlMs = this.#asked.slot?.ttlMs ?? 0
    const end: SlotEnd = result === null ? { state: 'burned', ttlMs } : { state: 'stored', result, ttlMs }
    const settled = await this.#end(entry, end)
    return settled?.slotHeld !== false
  }

  /**
   * No entry answered, or the caller left. A slot is free again when it is certain that nothing was executed.
   *
   * @returns what the caller is told
   */
  async failed(thrown: unknown): Promise<unknown> {
    // What is set aside for a job goes with it to whoever takes it over.
    if (thrown instanceof Interrupted) return thrown
    const { slot } = this.#asked
    const trail = this.#trail
    const entry = trail.estimate?.entry ?? null
    if (slot === null) {
      await this.#end(entry, null)
      return thrown
    }
    const burns = isUnknown(trail)
    await this.#end(entry, burns ? { state: 'burned', ttlMs: slot.ttlMs } : { state: 'released' })
    // A fault of the gateway's own is told as such, and logged.
    if (!burns || !(thrown instanceof GatewayError)) return thrown
    return outcomeUnknown(trail, trail.attempts.at(-1)?.failure ?? null)
  }

  /** @param entry whose call it was; null: it comes to nothing */
  #end(entry: Entry | null, end: SlotEnd | null) {
    const { token, slot, reservation, ...named } = this.#asked
    const { settlements, usage } = this.#services
    const { principal, deadlineMs } = this.#basis
    const workspace = principal.workspace.id
    const charge = entry === null ? NOTHING : this.#charge(entry)
    const reserved = reservation !== null
    if (!reserved) {
      usage.note(workspace, principal.key.id, charge.spendMicros)
      this.#count(entry, charge, null)
    }
    if (token === null) {
      this.#trail.trace?.settling(null)
      return null
    }
    const ended = slot === null || end === null ? null : { id: slot.id, end }
    const settlement = { ...named, token, workspace, slot: ended, charge: reserved ? charge : null }
    // The longer of the two: when the slot's lease is over the money can still be settled.
    const settled = settlements.settle(settlement, deadlineMs + RESERVATION_GRACE_MS)
    this.#trail.trace?.settling(settled)
    if (reserved) this.#count(entry, charge, settled)
    return settled
  }

  #charge(entry: Entry): Charge {
    const { costUsd, estimate } = this.#trail
    const micros = chargeable(entry, costUsd ?? estimate?.metered().costUsd ?? null)
    return { spendMicros: micros, platformMicros: isPlatform(entry) ? micros : 0 }
  }

  /**
   * Counts what was spent; not what the state says that it did not take, since a job is charged once however often it
   * runs.
   *
   * @param settled null: the state is not asked
   */
  #count(entry: Entry | null, { spendMicros }: Charge, settled: Promise<Settled | null> | null): void {
    const { watch } = this.#services
    if (watch === undefined || entry === null) return
    if (settled === null) watch.charged(entry, spendMicros)
    // Where nobody knows yet it is sent until it is taken.
    else void settled.then((told) => told?.charged !== false && watch.charged(entry, spendMicros))
  }
}

const NOTHING: Charge = Object.freeze({ platformMicros: 0, spendMicros: 0 })
