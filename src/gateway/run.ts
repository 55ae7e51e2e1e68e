import type { Snapshot } from '../schema/catalog.ts'
import type { OperationName } from '../schema/operations.ts'
import { admit, notePolicyVersion } from './admit.ts'
import { attempt } from './attempt.ts'
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
  const { selection, deadlineAtMs } = await prepare(services, request)
  const attempted = await attempt(services, request, selection, deadlineAtMs)
  return settle(services, request, selection, attempted)
}

export interface Prepared {
  readonly selection: Selection
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
  const principal = await admit(services, snapshot, request)
  const nowMs = performance.now()
  const { selection, refusal, assigned } = consider({ operation, principal, call, ...services, nowMs })
  notePolicyVersion(trail, assigned.version)
  if (selection === null) throw refusal
  return { selection, deadlineAtMs: nowMs + deadlineMsOf(operation, snapshot) }
}

function deadlineMsOf(operation: OperationName, { deadlineMs, videoDeadlineMs }: Snapshot): number {
  return operation === 'video' ? videoDeadlineMs : deadlineMs
}
