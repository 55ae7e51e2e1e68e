import type { Principal, Snapshot } from '../schema/catalog.ts'
import type { OperationName } from '../schema/operations.ts'
import { admit, noteRoute } from './admit.ts'
import { attempt } from './attempt.ts'
import { book } from './booking.ts'
import type { CallRequest, Services } from './gateway.ts'
import { consider, type Selection } from './select.ts'
import { type Outcome, settle } from './settle.ts'

/**
 * The way of every call, whichever door it came in by: admit, select, attempt, settle.
 *
 * @returns the result and its envelope; `release` gives the answer's memory back
 * @throws  GatewayError with a code of `errors.ts`; `request.trail` holds what was known by then
 */
export async function run<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
): Promise<Outcome<K>> {
  const prepared = await prepare(services, request)
  const booking = await book(services, request, prepared)
  try {
    const attempted = await attempt(services, request, booking.selection, prepared.deadlineAtMs)
    const outcome = settle(services, request, booking.selection, attempted)
    await booking.succeeded(attempted.candidate.entry)
    return outcome
  } catch (thrown) {
    throw await booking.failed(thrown)
  }
}

export interface Prepared {
  readonly principal: Principal
  readonly selection: Selection
  /** How long the call may take from now on. */
  readonly deadlineMs: number
  /** When the answer has to be whole, on the clock of `performance.now()`. */
  readonly deadlineAtMs: number
}

/** The first two steps, which a streamed answer has in common with a whole one. */
export async function prepare<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
): Promise<Prepared> {
  const { operation, call, trail } = request
  const snapshot = services.snapshot()
  const principal = await admit(services, request)
  const nowMs = performance.now()
  const { selection, refusal, assigned, purpose } = consider({
    operation,
    principal,
    call,
    ...services,
    nowMs,
  })
  noteRoute(trail, assigned)
  trail.purpose = purpose
  if (selection === null) throw refusal
  const deadlineMs = request.job?.deadlineMs ?? deadlineMsOf(operation, snapshot)
  return { principal, selection, deadlineMs, deadlineAtMs: nowMs + deadlineMs }
}

function deadlineMsOf(operation: OperationName, { deadlineMs, videoDeadlineMs }: Snapshot): number {
  return operation === 'video' ? videoDeadlineMs : deadlineMs
}
