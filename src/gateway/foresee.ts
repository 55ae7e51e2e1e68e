import type { Principal } from '../schema/catalog.ts'
import type { OperationName } from '../schema/operations.ts'
import type { Call, Services } from './gateway.ts'
import { consider } from './select.ts'

/** What keeps an entry from being tried now may be over by the time of the call. */
const WELL = { view: () => ({ state: 'closed', untilMs: null, openedAtMs: null }) as const }

/**
 * Whether a call that is made later could be served, by what the configuration says now: purpose, capability, plan,
 * features and limits. Health and money are for then. Nothing is asked of anybody.
 *
 * @returns the version of the route that serves it, as of now
 * @throws  GatewayError as `consider` refuses
 */
export function foresee<K extends OperationName>(
  services: Services,
  { operation, principal, call }: { operation: K; principal: Principal; call: Call<K> },
): string {
  const nowMs = performance.now()
  const { selection, refusal, assigned } = consider({
    ...services,
    operation,
    principal,
    call,
    nowMs,
    health: WELL,
  })
  if (selection === null) throw refusal
  return assigned.version
}
