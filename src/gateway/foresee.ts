import type { OperationName } from '../schema/operations.ts'
import { noteRoute } from './admit.ts'
import type { Call, Services, Trail } from './gateway.ts'
import { consider } from './select.ts'

/** What keeps an entry from being tried now may be over by the time of the call. */
const WELL = { view: () => ({ state: 'closed', untilMs: null, openedAtMs: null }) as const }

/**
 * Whether a call that is made later could be served, by what the configuration says now: purpose, capability, plan,
 * features and limits. Health and money are for then. Nothing is asked of anybody. As `prepare` does, it leaves the
 * version of the route on the trail, which is that of a caller who is admitted.
 *
 * @throws GatewayError as `consider` refuses
 */
export function foresee<K extends OperationName>(
  services: Services,
  { operation, trail, call }: { operation: K; trail: Trail; call: Call<K> },
): void {
  const nowMs = performance.now()
  const { selection, refusal, assigned, purpose } = consider({
    ...services,
    operation,
    principal: trail.principal!,
    call,
    nowMs,
    health: WELL,
  })
  noteRoute(trail, assigned)
  trail.purpose = purpose
  if (selection === null) throw refusal
}
