import type { Job, JobOwner } from '../schema/jobs.ts'
import type { Doors } from './endpoint.ts'
import { retentionOf } from './jobs/retention.ts'

/** What it takes to cancel a job. */
export interface Cancelling {
  readonly services: Pick<Doors['services'], 'state' | 'snapshot'>
  readonly jobs: Pick<Doors['jobs'], 'objects' | 'signals'>
}

/**
 * Cancels a job that is queued, asks for it when it is processing; one that has ended stays as it is.
 *
 * @returns the job after that; null when there is none, or it is not the owner's
 * @throws  GatewayError DEPENDENCY_UNAVAILABLE
 */
export async function cancelJob(
  id: string,
  owner: JobOwner,
  { services, jobs: { objects, signals } }: Cancelling,
): Promise<Job | null> {
  const keep = retentionOf(services.snapshot().limits)
  const job = await services.state.jobs.cancel(id, owner, keep)
  if (job === null) return null
  signals.changed(id)
  if (job.status === 'cancelled') {
    signals.ended()
    // Nobody runs it, so that nobody else would.
    void objects.removeInput(job)
  }
  return job
}
