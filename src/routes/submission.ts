import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../errors.ts'
import type { JobSubmission, Jobs, Submitted } from '../schema/jobs.ts'

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
