import type { Actor } from '../schema/catalog-store.ts'
import type { Job } from '../schema/jobs.ts'
import type { NotedChange } from './audit-note.ts'

type NotedJob = Pick<Job, 'id' | 'workspace' | 'status'>

/** How the audit list tells of a job that somebody else than its app cancels. */
export function jobCancellation(job: NotedJob, by: Actor): NotedChange {
  const { status } = job
  return { ...noteOf('job.cancel', job, by), before: { status }, detail: `it was ${status}` }
}

/** Of one that is queued again. */
export function jobRetry(job: NotedJob, by: Actor): NotedChange {
  return { ...noteOf('job.retry', job, by), before: { status: job.status } }
}

/** Of one whose end is announced again. */
export function jobRedelivery(job: NotedJob, by: Actor): NotedChange {
  return noteOf('webhook.redeliver', job, by)
}

function noteOf(action: string, { id, workspace }: NotedJob, by: Actor): NotedChange {
  return { action, workspace, target: `job/${id}`, by }
}
