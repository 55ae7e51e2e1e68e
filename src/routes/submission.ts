import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../errors.ts'
import type { Trail } from '../gateway/gateway.ts'
import type { Exchange } from '../inbound/exchange.ts'
import type { JobSpec, JobSubmission, Jobs, Submitted } from '../schema/jobs.ts'
import { callerOf } from './endpoint.ts'

/** How long an idempotency key is remembered at least, in ms. */
export const KEY_MS = 24 * 3_600_000

/** How long a submission is repeated that the state does not answer, and the pause between two tries, in ms. */
const SUBMIT_MS = 5_000
const PAUSE_MS = 200

/**
 * Repeats what the state may have done or not: with the same id it does it once.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE: the job may be there all the same, so that nothing of it may be deleted
 */
export async function submitSurely(
  submission: JobSubmission,
  jobs: Pick<Jobs, 'submit'>,
): Promise<Submitted> {
  const untilMs = performance.now() + SUBMIT_MS
  for (;;) {
    try {
      return await jobs.submit(submission)
    } catch (error) {
      const isAway = error instanceof GatewayError && error.code === 'DEPENDENCY_UNAVAILABLE'
      if (!isAway || performance.now() + PAUSE_MS > untilMs) throw error
    }
    await sleep(PAUSE_MS)
  }
}

/**
 * By whom, and by which request, a job is handed in.
 *
 * @param trail of a caller who is admitted
 */
export function submitterOf(exchange: Exchange, trail: Trail) {
  const { workspace, app, key } = trail.principal!
  return {
    workspace: workspace.id,
    app: app.id,
    keyId: key.id,
    keyBudgetMicros: key.budgetMicros,
    requestId: exchange.requestId,
    traceparent: trail.trace?.traceparent ?? callerOf(exchange).traceparent ?? null,
  } satisfies Partial<JobSpec>
}
