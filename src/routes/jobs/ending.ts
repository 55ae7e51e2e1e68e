import { type ErrorCode, type GatewayError, toGatewayError } from '../../errors.ts'
import type { Job, JobEnding, JobError, JobFacts, JobKind } from '../../schema/jobs.ts'
import { doubled, type JobTiming, spread } from './timing.ts'

/** How often a job is tried again because providers failed. */
const RETRIES_MAX: Readonly<Record<JobKind, number>> = { transcription: 2, queue: 3 }
/** How often a job is put back because a store of ours, or this node, could not go on. */
const RETURNS_MAX = 20
/** A provider that wants to be left alone for longer is asked all the same. */
const LONGEST_PAUSE_MS = 15 * 60_000

const OF_PROVIDERS: ReadonlySet<ErrorCode> = new Set(['UPSTREAM_ERROR', 'UPSTREAM_TIMEOUT'])
const OF_OURS: ReadonlySet<ErrorCode> = new Set(['DEPENDENCY_UNAVAILABLE', 'OVERLOADED'])

/** How a claim ends whose work failed: what may have passed by the next time is tried again, so many times. */
export function endingOf(thrown: unknown, job: Job, facts: JobFacts, timing: JobTiming): JobEnding {
  const failure = toGatewayError(thrown)
  const { kind, retries, returns } = job
  if (isOfProviders(failure) && retries < RETRIES_MAX[kind]) {
    const pauseMs = spread(timing.retryMs[retries] ?? LONGEST_PAUSE_MS)
    const delayMs = Math.min(LONGEST_PAUSE_MS, Math.max(pauseMs, failure.extra.retryAfterMs ?? 0))
    return { state: 'queued', delayMs, counts: 'retry' }
  }
  if (OF_OURS.has(failure.code) && returns < RETURNS_MAX) {
    return { state: 'queued', delayMs: doubled(timing.returnMs, returns), counts: 'return' }
  }
  return { state: 'failed', error: jobErrorOf(failure), facts }
}

/** Without a time to come back at, nothing but another configuration makes a provider healthy. */
function isOfProviders({ code, extra }: GatewayError): boolean {
  return OF_PROVIDERS.has(code) || (code === 'NO_HEALTHY_PROVIDER' && extra.retryAfterMs !== undefined)
}

/** What the caller is told: never the cause. */
function jobErrorOf({ code, message, extra }: GatewayError): JobError {
  return { code, message, param: extra.param ?? null, details: extra.details ?? {} }
}
