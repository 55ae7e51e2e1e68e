import type { JobStatus } from '../../../contracts/jobs.ts'
import type { RequestAnswer } from './requests.ts'

// Answers about jobs, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /workspaces/:workspace/jobs → {jobs}, newest first */
export interface JobAnswer {
  readonly id: string
  readonly kind: 'transcription' | 'queue'
  readonly endpoint: string
  readonly mode: string
  readonly app: string
  readonly key_id: string
  readonly status: JobStatus
  readonly cancel_requested: boolean
  readonly created_at: string
  readonly started_at: string | null
  readonly completed_at: string | null
  readonly expires_at: string | null
  /** Times that it was taken up. */
  readonly attempts: number
  readonly error: { readonly code: string; readonly message: string } | null
  readonly policy_version_id: string | null
  /** It failed in the queue: it may be tried again. */
  readonly can_retry: boolean
  readonly has_result: boolean
}

/** GET /workspaces/:workspace/jobs/:job */
export interface JobDetailAnswer extends JobAnswer {
  /** Null: the key is not known any more. */
  readonly key_name: string | null
  readonly request_id: string
  readonly history: readonly { readonly at: string; readonly status: JobStatus; readonly claim: number }[]
  /** Its runs, newest first, with what was tried in each. */
  readonly runs: readonly RequestAnswer[]
}
