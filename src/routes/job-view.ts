import { errorReply, GatewayError } from '../errors.ts'
import { notePolicyVersion } from '../gateway/admit.ts'
import type { Trail } from '../gateway/gateway.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { Job, JobError, KeptText } from '../schema/jobs.ts'
import type { Doors } from './endpoint.ts'
import { jsonReply, Large } from './json-reply.ts'
import { timestamp } from './timestamp.ts'

/** Largest result that stands in the job object, bytes; a larger one has a URL. */
const INLINE_BYTES = 256 * 1024
/** How long a URL opens a result at most, in seconds; every look at the job makes a new one. */
const LINK_SECONDS = 900
/** How long an answer may wait for memory, in ms. */
const MEMORY_WAIT_MS = 5_000
/** When a caller should look again at a job that has not ended, in seconds. */
const POLL_SECONDS = 2

export const JOBS_PATH = '/v1/transcription/jobs'

/** What of a job is told to who hands it in. */
export function submissionView(id: string, job: Job | null) {
  return {
    job_id: id,
    status: job?.status ?? null,
    poll_url: pollUrl(id),
    created_at: timestamp(job?.createdAtMs ?? null),
  }
}

export function pollUrl(id: string): string {
  return `${JOBS_PATH}/${id}`
}

/** Headers of an answer about a job: when to look again, as long as there is something to come. */
export function pollHeaders(job: Pick<Job, 'endedAtMs'> | null): Readonly<Record<string, string>> {
  return job === null || job.endedAtMs !== null ? {} : { 'retry-after': String(POLL_SECONDS) }
}

/**
 * The job object. A result stands in it, or behind a URL when it is large.
 *
 * @param trail of a caller to whom the job belongs
 * @throws GatewayError OVERLOADED, DEPENDENCY_UNAVAILABLE; JOB_NOT_FOUND when its time is over meanwhile
 */
export async function jobReply(job: Job, exchange: Exchange, trail: Trail, doors: Doors): Promise<Reply> {
  const { selectors, facts, error } = job
  const version = facts?.policy_version_id ?? null
  if (version !== null) notePolicyVersion(trail, version)
  const reply = await jsonReply({
    ...submissionView(job.id, job),
    started_at: timestamp(job.startedAtMs),
    completed_at: timestamp(job.endedAtMs),
    expires_at: timestamp(job.expiresAtMs),
    cancel_requested: job.cancelRequested,
    attempts: job.fence,
    error: error === null ? null : errorView(error, job.requestId),
    ...(await resultView(job, exchange, doors)),
    lk_requested_purpose: selectors.purpose?.label ?? null,
    lk_applied_purpose: facts?.lk_applied_purpose ?? null,
    lk_purpose_source: facts?.lk_purpose_source ?? null,
    policy_version_id: version,
  })
  return { ...reply, headers: { ...reply.headers, ...pollHeaders(job) } }
}

/** As the envelope of an error has it inside. */
function errorView({ code, message, param, details }: JobError, requestId: string): object {
  const error = new GatewayError(code, message, { details, ...(param === null ? {} : { param }) })
  return errorReply(error, requestId).body.error
}

async function resultView(job: Job, exchange: Exchange, doors: Doors) {
  const { result } = job
  const none = { result: null, result_url: null, result_url_expires_at: null }
  if (result === null) return none
  if ('text' in result || result.bytes <= INLINE_BYTES) {
    const text = await openResult(job, result, exchange, doors)
    return { ...none, result: new Large(() => [text]) }
  }
  const { object: key, bytes } = result
  const endsAtSeconds = linkEndOf(job, Date.now())
  const url = await doors.jobs.links.sign({ key, bytes, mediaType: 'application/json' }, endsAtSeconds)
  return { ...none, result_url: url, result_url_expires_at: timestamp(endsAtSeconds * 1000) }
}

/**
 * Until when a URL of the job's result holds, in epoch seconds: never longer than there is the job. Stores count in
 * whole seconds.
 *
 * @throws GatewayError JOB_NOT_FOUND within the job's last second, which no URL could be of
 */
export function linkEndOf({ expiresAtMs }: Pick<Job, 'expiresAtMs'>, nowMs: number): number {
  const nowSeconds = Math.floor(nowMs / 1000)
  const goneSeconds = Math.floor((expiresAtMs ?? Number.POSITIVE_INFINITY) / 1000)
  if (goneSeconds <= nowSeconds) throw new GatewayError('JOB_NOT_FOUND')
  return Math.min(nowSeconds + LINK_SECONDS, goneSeconds)
}

/** What the results of jobs are opened with. */
export interface ResultDoors {
  readonly services: Pick<Doors['services'], 'budget' | 'state'>
  readonly jobs: Pick<Doors['jobs'], 'objects'>
}

/**
 * The stored JSON, which goes out as it is. Charged to the budget until the answer is out.
 *
 * @throws GatewayError OVERLOADED, DEPENDENCY_UNAVAILABLE; JOB_NOT_FOUND when it is purged meanwhile
 */
export async function openResult(
  job: Job,
  result: KeptText,
  exchange: Pick<Exchange, 'signal' | 'onFinished'>,
  { services, jobs }: ResultDoors,
): Promise<string> {
  if ('text' in result) return result.text
  const { budget, state } = services
  const { workspace } = job
  // The text, and its bytes while they go out.
  const bytes = 2 * result.bytes
  const options = { workspace, waitMs: MEMORY_WAIT_MS, signal: exchange.signal }
  const granted = (await budget.reserve?.(bytes, options)) ?? budget.tryReserve(bytes, workspace)
  if (granted) exchange.onFinished(() => budget.refund(bytes, workspace))
  exchange.signal.throwIfAborted()
  if (!granted) throw new GatewayError('OVERLOADED', 'this node has no memory left for the result now')
  const text = await jobs.objects.open(result)
  if (text !== null) return text
  if ((await state.jobs.get(job.id)) === null) throw new GatewayError('JOB_NOT_FOUND')
  throw new Error(`the result of ${job.id} is not in the store`)
}
