import type { JobAnswer } from '../../../api/answers.ts'
import { queryOf } from '../../paths.ts'

/** Most jobs that are shown at first, and most that the API lists. */
export const FIRST_JOBS = 50
export const MOST_JOBS = 200

export const STATUSES = ['queued', 'processing', 'succeeded', 'failed', 'cancelled'] as const
export const KINDS = ['transcription', 'queue'] as const

/** An empty text stands for all. */
export interface JobFilter {
  readonly kind: string
  readonly status: string
}

export function readJobFilter(query: URLSearchParams): JobFilter {
  const kind = query.get('kind') ?? ''
  const status = query.get('status') ?? ''
  return {
    kind: KINDS.some((known) => known === kind) ? kind : '',
    status: STATUSES.some((known) => known === status) ? status : '',
  }
}

export function jobsQuery({ kind, status }: JobFilter, limit: number): string {
  return queryOf({ kind, status, limit })
}

export function hasEnded({ status }: Pick<JobAnswer, 'status'>): boolean {
  return status === 'succeeded' || status === 'failed' || status === 'cancelled'
}

/** Ending it can still be asked for. */
export function canCancel(job: Pick<JobAnswer, 'status' | 'cancel_requested'>): boolean {
  return !hasEnded(job) && !job.cancel_requested
}

/** Where a job stands, in one line. */
export function standing(job: JobAnswer): string {
  const { status, attempts, cancel_requested: cancelling } = job
  const times = attempts === 1 ? '1 attempt' : `${attempts} attempts`
  if (cancelling && !hasEnded(job)) return 'Cancelling. The job ends as soon as its worker sees this.'
  if (status === 'queued') {
    return attempts === 0 ? 'Waiting for a worker.' : `Re-queued after ${times}.`
  }
  if (status === 'processing') return `Processing, attempt ${attempts}.`
  if (status === 'failed' && job.can_retry) return `Failed after ${times}. You can retry it.`
  if (status === 'failed') return `Failed after ${times}. Resubmit to retry.`
  return status === 'succeeded' ? `Done after ${times}.` : 'Cancelled.'
}
