import { admit } from './admit.ts'
import { attempt } from './attempt.ts'
import type { CallRequest, OperationName, Services } from './gateway.ts'
import { select } from './select.ts'
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
  const snapshot = services.snapshot()
  const principal = await admit(services, snapshot, request)

  const call = await request.read(principal, snapshot)
  const deadlineAtMs = performance.now() + snapshot.deadlineMs

  const selection = select({ operation: request.operation, principal, call, ...services })
  const attempted = await attempt(services, request, call, selection, deadlineAtMs)
  return settle(request, call, selection, attempted)
}
