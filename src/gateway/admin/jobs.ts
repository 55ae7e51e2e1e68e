import { GatewayError } from '../../contracts/errors.ts'
import type { Job } from '../../contracts/jobs.ts'
import { invalid } from '../edge/refusals.ts'
import { cancelJob } from '../jobs/cancel.ts'
import type { AdminActor, AdminContext } from './actor.ts'
import { type AuditedChange, audit } from './audit.ts'

/** A job by its id. */
export interface JobName {
  readonly id: string
  /** The workspace that it is looked for in; null: whichever it belongs to. */
  readonly workspace: string | null
}

type JobContext = Pick<AdminContext, 'state' | 'signals'>

/**
 * Cancels a job on behalf of its app: at once while it is queued, as soon as its worker can while it is processing. A
 * job that has ended stays as it is.
 *
 * @returns the job before and after
 * @throws GatewayError JOB_NOT_FOUND, DEPENDENCY_UNAVAILABLE
 */
export async function cancelForApp(
  actor: AdminActor,
  name: JobName,
  context: JobContext & Pick<AdminContext, 'catalog' | 'objects'>,
): Promise<{ readonly before: Job; readonly after: Job }> {
  const before = await jobOf(actor, name, context)
  if (before.endedAtMs !== null) return { before, after: before }
  const { state, signals, objects } = context
  const { limits } = (await context.catalog()).current()
  const { id, status } = before
  const change = { ...jobChange('job.cancel', before), before: { status }, detail: `it was ${status}` }
  await audit(state.catalog, actor, change)
  const after = await cancelJob(id, before, { jobs: state.jobs, limits, objects, signals })
  if (after === null) throw new GatewayError('JOB_NOT_FOUND')
  return { before, after }
}

/**
 * Queues a failed job of the queue again, with all its tries.
 *
 * @returns the job after that; not queued when someone else was quicker
 * @throws GatewayError JOB_NOT_FOUND, INVALID_REQUEST for any other job, DEPENDENCY_UNAVAILABLE
 */
export async function retryJob(actor: AdminActor, name: JobName, context: JobContext): Promise<Job> {
  const job = await jobOf(actor, name, context)
  const { id, kind, status } = job
  if (kind !== 'queue')
    throw invalid(
      'a transcription job cannot be retried: its app was told that it ended, and submits a new one',
    )
  if (status !== 'failed') throw invalid(`the job is ${status}: only a failed job can be retried`)
  const { state, signals } = context
  await audit(state.catalog, actor, { ...jobChange('job.retry', job), before: { status } })
  if (await state.jobs.retry(id)) signals.queued()
  return jobOf(actor, name, context)
}

/**
 * A job that an actor may see.
 *
 * @throws GatewayError JOB_NOT_FOUND, also for a job of another workspace and for what is not the id of a job
 */
export async function jobOf(
  actor: AdminActor,
  { id, workspace }: JobName,
  { state }: Pick<AdminContext, 'state'>,
): Promise<Job> {
  const job = await state.jobs.get(id)
  const isSeen = actor.role === 'operator' || job?.workspace === actor.workspace
  if (job !== null && isSeen && (workspace === null || job.workspace === workspace)) return job
  throw new GatewayError('JOB_NOT_FOUND')
}

export function jobChange(action: string, { id, workspace }: Pick<Job, 'id' | 'workspace'>): AuditedChange {
  return { action, workspace, target: `job/${id}` }
}
