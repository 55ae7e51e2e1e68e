import type { JobObjects } from '../../contracts/job-objects.ts'
import type { Job, JobOwner, Jobs } from '../../contracts/jobs.ts'
import type { Limits } from '../../contracts/limits.ts'
import { retentionOf } from './retention.ts'
import type { JobSignals } from './watch.ts'

/** The stores and the hints that cancelling a job involves. */
export interface CancelContext {
  readonly jobs: Pick<Jobs, 'cancel'>
  readonly limits: Limits
  readonly objects: Pick<JobObjects, 'removeInput'>
  readonly signals: Pick<JobSignals, 'changed' | 'ended'>
}

/**
 * Cancels a job that is queued, and requests it for one that is processing; a job that has ended stays as it is.
 *
 * @returns the job after that; null when there is none, or it belongs to another app
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
export async function cancelJob(
  id: string,
  { workspace, app }: JobOwner,
  { jobs, limits, objects, signals }: CancelContext,
): Promise<Job | null> {
  const job = await jobs.cancel(id, { workspace, app }, retentionOf(limits))
  if (job === null) return null
  signals.changed(id)
  if (job.status === 'cancelled') {
    signals.ended()
    // No worker will run it, so none would remove its audio.
    void objects.removeInput(job)
  }
  return job
}
