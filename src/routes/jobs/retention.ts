import type { Limits } from '../../limits.ts'
import type { Retention } from '../../schema/jobs.ts'

const HOUR_MS = 3_600_000

/** How long jobs are kept after their end, by the limits in force. */
export function retentionOf({ stt_job_result_ttl_seconds: seconds }: Limits): Retention {
  return {
    transcriptionMs: seconds * 1_000,
    // As long as an idempotency key is remembered that enqueued it.
    queueMs: 24 * HOUR_MS,
    // People look through the dead list, and not on weekends.
    deadMs: 7 * 24 * HOUR_MS,
  }
}
