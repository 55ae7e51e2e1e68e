import { type ErrorCode, GatewayError } from '../errors.ts'
import { newId } from '../ids.ts'
import type { Entry, Principal } from '../schema/catalog.ts'
import type { Begun, Charge, Reservation, Shortage, SlotEnd, StoredResult } from '../schema/ledger.ts'
import type { OperationName } from '../schema/operations.ts'
import { estimateOf } from './estimate.ts'
import type { CallRequest, Services, Trail } from './gateway.ts'
import { microsOf } from './micros.ts'
import type { Prepared } from './run.ts'
import type { Candidate, Selection } from './select.ts'
import { isUnknown, outcomeUnknown } from './upstream-errors.ts'

/** What a slot and a reservation outlast the call's deadline by: its end may have to wait for the state. */
const SLOT_GRACE_MS = 30_000
const RESERVATION_GRACE_MS = 60_000

/** An idempotency slot as a call claims it. */
export interface SlotUse {
  readonly id: string
  readonly fingerprint: string
  /** How long an answer is kept for replay, and a burned slot remembered. */
  readonly ttlMs: number
}

/** What the slot held instead of being free. */
export type Taken = Extract<Begun, { readonly state: 'running' | 'burned' | 'stored' }>

type Uses<K extends OperationName> = readonly [
  services: Services,
  request: CallRequest<K>,
  prepared: Pick<Prepared, 'principal' | 'selection' | 'deadlineMs'>,
]

/**
 * Sets money aside for a call, where it costs credits or counts against a budget. A call that does neither is not
 * known to the state; what it comes to is counted afterwards.
 *
 * @throws GatewayError INSUFFICIENT_CREDITS, TRIAL_EXHAUSTED, BUDGET_EXCEEDED, DEPENDENCY_UNAVAILABLE
 */
export async function book<K extends OperationName>(...uses: Uses<K>): Promise<Booking> {
  const booked = await claim(...uses, null)
  if (booked instanceof Booking) return booked
  throw new Error('a slot that nobody asked for is taken')
}

/**
 * The same for a call with an idempotency key: claims its slot, too.
 *
 * @throws GatewayError as `book`
 */
export function bookOnce<K extends OperationName>(slot: SlotUse, ...uses: Uses<K>): Promise<Booking | Taken> {
  return claim(...uses, slot)
}

async function claim<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
  prepared: Uses<K>[2],
  slot: SlotUse | null,
): Promise<Booking | Taken> {
  const { principal, selection, deadlineMs } = prepared
  const reservation = reservationOf(request, principal, selection.candidates, deadlineMs)
  const token = reservation === null && slot === null ? null : newId('call')
  const reserved = reservation !== null
  const held = { principal, selection, token, slot, reserved, deadlineMs }
  const booking = new Booking(services, request.trail, held)
  if (token === null) return booking

  const workspace = principal.workspace.id
  const claimed = slot === null ? null : { ...slot, leaseMs: deadlineMs + SLOT_GRACE_MS }
  const beginning = { token, workspace, slot: claimed, reservation }
  const begun = await services.state.ledger.begin(beginning).catch((error: unknown) => {
    // It may have been taken all the same, and would hold the key until its lease is over.
    services.settlements.cancel({ token, workspace, slotId: slot?.id ?? null })
    throw error
  })
  if (begun.state === 'begun') return booking
  if (begun.state !== 'refused') return begun
  const own = withoutPlatform(selection)
  const short = begun.why === 'credits' || begun.why === 'trial'
  if (short && own !== null) return claim(services, request, { ...prepared, selection: own }, slot)
  throw shortage(begun.why)
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
  { workspace: { terms }, key }: Principal,
  candidates: readonly Candidate[],
  deadlineMs: number,
): Reservation | null {
  const paid = candidates.some(({ entry }) => isPlatform(entry))
  const capped = terms.budgetMicros !== null || key.budgetMicros !== null
  if (!paid && !capped) return null
  let platformMicros = 0
  let spendMicros = 0
  for (const { entry } of candidates) {
    const micros = microsOf(estimateOf(entry, operation, call.payload).costUsd ?? 0)
    spendMicros = Math.max(spendMicros, micros)
    if (isPlatform(entry)) platformMicros = Math.max(platformMicros, micros)
  }
  const { id: keyId, budgetMicros: keyBudgetMicros } = key
  const leaseMs = deadlineMs + RESERVATION_GRACE_MS
  return { keyId, terms, keyBudgetMicros, platformMicros, spendMicros, leaseMs }
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

interface Held {
  readonly principal: Principal
  readonly selection: Selection
  /** Null: the state knows nothing of the call. */
  readonly token: string | null
  readonly slot: SlotUse | null
  /** Money is set aside. */
  readonly reserved: boolean
  readonly deadlineMs: number
}

/** What a call holds in the state while it runs. Ended once, by one of its methods, none of which ever rejects. */
export class Booking {
  /** Whom the call may be sent to. */
  readonly selection: Selection
  readonly #services: Services
  readonly #trail: Trail
  readonly #held: Held

  constructor(services: Services, trail: Trail, held: Held) {
    this.#services = services
    this.#trail = trail
    this.#held = held
    this.selection = held.selection
  }

  /** An entry answered; what it came to is on the trail. */
  async succeeded(entry: Entry): Promise<void> {
    await this.#end(this.#chargeOf(entry), null)
  }

  /**
   * The same for a call with a slot.
   *
   * @param result what is replayed from now on; null: it could not be kept, and the slot is burned
   * @returns false when the slot was no longer this call's: its answer is not replayed
   */
  async stored(entry: Entry, result: StoredResult | null): Promise<boolean> {
    const ttlMs = this.#held.slot?.ttlMs ?? 0
    const end: SlotEnd = result === null ? { state: 'burned', ttlMs } : { state: 'stored', result, ttlMs }
    const settled = await this.#end(this.#chargeOf(entry), end)
    return settled?.slotHeld !== false
  }

  /**
   * No entry answered, or the caller left. A slot is free again when it is certain that nothing was executed.
   *
   * @returns what the caller is told
   */
  async failed(thrown: unknown): Promise<unknown> {
    const { slot } = this.#held
    const trail = this.#trail
    const charge = trail.estimate === null ? NOTHING : this.#chargeOf(trail.estimate.entry)
    if (slot === null) {
      await this.#end(charge, null)
      return thrown
    }
    const burns = isUnknown(trail, thrown)
    await this.#end(charge, burns ? { state: 'burned', ttlMs: slot.ttlMs } : { state: 'released' })
    return burns ? outcomeUnknown(trail, trail.attempts.at(-1)?.failure ?? null, thrown) : thrown
  }

  #chargeOf(entry: Entry): Charge {
    const { costUsd, estimate } = this.#trail
    const micros = microsOf(costUsd ?? estimate?.metered().costUsd ?? 0)
    return { spendMicros: micros, platformMicros: isPlatform(entry) ? micros : 0 }
  }

  async #end(charge: Charge, end: SlotEnd | null) {
    const { principal, token, slot, reserved, deadlineMs } = this.#held
    const { settlements, usage } = this.#services
    const workspace = principal.workspace.id
    if (!reserved) usage.note(workspace, principal.key.id, charge.spendMicros)
    if (token === null) return null
    const ended = slot === null || end === null ? null : { id: slot.id, end }
    const settlement = { token, workspace, slot: ended, charge: reserved ? charge : null }
    return settlements.settle(settlement, deadlineMs + SLOT_GRACE_MS)
  }
}

const NOTHING: Charge = Object.freeze({ platformMicros: 0, spendMicros: 0 })
