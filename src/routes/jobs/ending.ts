import { type ErrorCode, type GatewayError, toGatewayError } from '../../errors.ts'
import type { Job, JobEnding, JobError, JobFacts, JobKind } from '../../schema/jobs.ts'
import { doubled, type JobTiming, spread } from './timing.ts'

/** How often a job is tried again because providers failed. */
const RETRIES_MAX: Readonly<Record<JobKind, number>> = { transcription: 2, queue: 3 }
/** How often a job is put back with no provider asked (a store, this node, providers that cool down): over an hour. */
const RETURNS_MAX = 70
/** A provider that wants to be left alone for longer is asked all the same. */
const LONGEST_PAUSE_MS = 15 * 60_000

const OF_PROVIDERS: ReadonlySet<ErrorCode> = new Set(['UPSTREAM_ERROR', 'UPSTREAM_TIMEOUT'])
/** Nobody was asked, so that nobody failed. */
const UNASKED: ReadonlySet<ErrorCode> = new Set([
  'DEPENDENCY_UNAVAILABLE',
  'OVERLOADED',
  'PROVIDERS_COOLING_DOWN',
])

/** How a claim ends whose work failed: what may have passed by the next time is tried again, so many times. */
export function endingOf(thrown: unknown, job: Job, facts: JobFacts, timing: JobTiming): JobEnding {
  const failure = toGatewayError(thrown)
  const { kind, retries, returns } = job
  const { retryAfterMs } = failure.extra
  if (OF_PROVIDERS.has(failure.code) && retries < RETRIES_MAX[kind]) {
    const pauseMs = spread(timing.retryMs[retries] ?? LONGEST_PAUSE_MS)
    return { state: 'queued', delayMs: notBefore(retryAfterMs, pauseMs), counts: 'retry' }
  }
  if (UNASKED.has(failure.code) && returns < RETURNS_MAX) {
    const pauseMs = doubled(timing.returnMs, returns)
    return { state: 'queued', delayMs: notBefore(retryAfterMs, pauseMs), counts: 'return' }
  }
  return { state: 'failed', error: jobErrorOf(failure), facts }
}

/** At the time that is asked for, spread behind it: all that waited for it would come at once. */
function notBefore(retryAfterMs: number | undefined, pauseMs: number): number {
  if (retryAfterMs === undefined) return pauseMs
  const asked = Math.ceil(retryAfterMs * (1 + 0.2 * Math.random()))
  return Math.max(pauseMs, Math.min(LONGEST_PAUSE_MS, asked))
}

/** What the caller is told: never the cause. */
function jobErrorOf({ code, message, extra }: GatewayError): JobError {
  return { code, message, param: extra.param ?? null, details: extra.details ?? {} }
}
