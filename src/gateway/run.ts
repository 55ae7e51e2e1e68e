import type { Snapshot } from '../schema/catalog.ts'
import type { OperationName } from '../schema/operations.ts'
import { admit } from './admit.ts'
import { attempt } from './attempt.ts'
import type { Call, CallRequest, Services } from './gateway.ts'
import { type Selection, select } from './select.ts'
import { type Outcome, settle } from './settle.ts'

/**
 * The way of every call, whichever door it came in by: admit, read, select, attempt, settle.
 *
 * @returns the result and its envelope; `release` gives the answer's memory back
 * @throws  GatewayError with a code of `errors.ts`; `request.trail` holds what was known by then
 */
export async function run<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
): Promise<Outcome<K>> {
  const { call, selection, deadlineAtMs } = await prepare(services, request)
  const attempted = await attempt(services, request, call, selection, deadlineAtMs)
  return settle(services, request, call, selection, attempted)
}

export interface Prepared<K extends OperationName> {
  readonly call: Call<K>
  readonly selection: Selection
  /** When the answer has to be whole, on the clock of `performance.now()`. */
  readonly deadlineAtMs: number
}

/** The first three steps, which a streamed answer has in common with a whole one. */
export async function prepare<K extends OperationName>(
  services: Services,
  request: CallRequest<K>,
): Promise<Prepared<K>> {
  const { operation } = request
  const snapshot = services.snapshot()
  const principal = await admit(services, snapshot, request)
  const call = await request.read(principal, snapshot)
  const nowMs = performance.now()
  const selection = select({ operation, principal, call, ...services, nowMs })
  return { call, selection, deadlineAtMs: nowMs + deadlineMsOf(operation, snapshot) }
}

function deadlineMsOf(operation: OperationName, { deadlineMs, videoDeadlineMs }: Snapshot): number {
  return operation === 'video' ? videoDeadlineMs : deadlineMs
}
