import type { EventEnding } from '../../contracts/outbox.ts'
import type { Posted } from '../../contracts/webhooks.ts'

const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS

/** Pauses after the first attempt, the second, and so on. */
const PAUSES_MS = [
  5 * SECOND_MS,
  30 * SECOND_MS,
  2 * MINUTE_MS,
  10 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  6 * HOUR_MS,
]

/** Share by which a pause is longer or shorter, so that deliveries that failed together are not retried together. */
const JITTER = 0.2

/** Longest pause that a target's `Retry-After` can cause. */
const RETRY_AFTER_MAX_MS = HOUR_MS

/** Time that an abandoned event is kept for operators. */
export const GIVEN_UP_KEEP_MS = 7 * 24 * HOUR_MS

const GONE = 410
const TOO_MANY_REQUESTS = 429

/** Schedule of attempts; tests shorten it. */
export interface Schedule {
  readonly pausesMs: readonly number[]
  readonly retryAfterMaxMs: number
}

export const SCHEDULE: Schedule = { pausesMs: PAUSES_MS, retryAfterMaxMs: RETRY_AFTER_MAX_MS }

/**
 * Decides the outcome of an attempt. 2xx delivers the event; 410, a final answer and an address that webhooks may not
 * go to end it; it is retried after anything else, until the schedule is exhausted.
 *
 * An event whose senders died may have had more attempts than the schedule has: the last one may never have begun, so
 * it gets another one without a pause after it.
 *
 * @param attempts that were begun, this one included
 * @param random   from 0 to 1
 */
export function eventEnding(
  posted: Posted,
  attempts: number,
  random: number,
  { pausesMs, retryAfterMaxMs }: Schedule = SCHEDULE,
): EventEnding {
  if (posted.kind === 'answered' && posted.status >= 200 && posted.status <= 299)
    return { state: 'delivered' }
  const reason = deliveryReason(posted)
  const pauseMs = pausesMs[attempts - 1]
  if (posted.kind === 'refused' || endsIt(posted) || pauseMs === undefined)
    return { state: 'given_up', reason, keepMs: GIVEN_UP_KEEP_MS }
  const spreadMs = Math.round(pauseMs * (1 - JITTER + 2 * JITTER * random))
  return { state: 'retry', delayMs: Math.max(spreadMs, Math.min(askedMs(posted), retryAfterMaxMs)), reason }
}

export function deliveryReason(posted: Posted): string {
  return posted.kind === 'answered' ? `status ${posted.status}` : posted.reason
}

function endsIt(posted: Posted): boolean {
  return posted.kind === 'answered' && (posted.status === GONE || posted.isFinal === true)
}

function askedMs(posted: Posted): number {
  return posted.kind === 'answered' && posted.status === TOO_MANY_REQUESTS ? (posted.retryAfterMs ?? 0) : 0
}
