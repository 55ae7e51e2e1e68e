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
  const times = attempts === 1 ? 'once' : `${attempts} times`
  if (cancelling && !hasEnded(job)) return 'Cancelling: it ends as soon as its worker sees it.'
  if (status === 'queued') {
    return attempts === 0 ? 'Waits for a worker.' : `Was taken up ${times}, and waits to be tried again.`
  }
  if (status === 'processing') return `A worker has it; it was taken up ${times}.`
  if (status === 'failed' && job.can_retry) return `Failed; it was taken up ${times}. It can be tried again.`
  if (status === 'failed') return `Failed; it was taken up ${times}. Submit it anew to try again.`
  return status === 'succeeded' ? `Done; it was taken up ${times}.` : 'Cancelled; nothing goes on.'
}
