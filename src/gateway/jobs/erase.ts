import type { AudioRef } from '../../contracts/audio.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type { Job, JobSpec, Jobs } from '../../contracts/jobs.ts'
import type { CancelContext } from './cancel.ts'
import { retentionOf } from './retention.ts'

/** Stands where the URL of the audio was. */
export const ERASED_URL = 'http://deleted_by_user'

/** The stores and the hints that erasing a job involves. */
export interface EraseContext extends Pick<CancelContext, 'limits' | 'signals'> {
  readonly jobs: Pick<Jobs, 'erase'>
  readonly objects: Pick<JobObjects, 'drop' | 'removeFiled'>
}

/**
 * Deletes what was sent and heard of a transcription job. A queued job is cancelled; one that is processing is asked to
 * be, and its worker deletes the audio with its end. What a crash leaves in the store goes with the sweep, since the
 * record names it no more.
 *
 * @param job    a job of the caller's
 * @param upload where its audio was sent ahead to, which goes first: the record names it no longer than this; null:
 *               nowhere
 * @returns the job after that; null when its time is over meanwhile
 * @throws GatewayError DEPENDENCY_UNAVAILABLE: it may have been done all the same
 */
export async function eraseJob(
  job: Job,
  upload: AudioRef | null,
  { jobs, limits, objects, signals }: EraseContext,
): Promise<Job | null> {
  await objects.drop(upload)
  const erased = await jobs.erase(erasedSpec(job), retentionOf(limits))
  if (erased === null) return null
  signals.changed(job.id)
  if (erased.endedAtMs !== null) {
    if (job.endedAtMs === null) signals.ended()
    await objects.removeFiled(job)
  }
  return erased
}

/** The specification of a job without anything that its caller wrote. */
export function erasedSpec(job: Job): JobSpec {
  const { work, door, ...spec } = specOf(job)
  if (!('options' in work)) throw new Error('only transcription jobs are erased')
  return {
    ...spec,
    warnings: [],
    work: {
      operation: work.operation,
      options: { ...work.options, prompt: null, keyterms: [] },
      audio: { url: ERASED_URL },
    },
    ...(door === undefined ? {} : { door: { ...door, audioUrl: ERASED_URL, models: [] } }),
  }
}

/** The part of a job that was submitted. */
function specOf(job: Job): JobSpec {
  const {
    status,
    createdAtMs,
    startedAtMs,
    endedAtMs,
    expiresAtMs,
    cancelRequested,
    erased,
    fence,
    stalled,
    retries,
    returns,
    result,
    error,
    facts,
    history,
    parts,
    ...spec
  } = job
  return spec
}
