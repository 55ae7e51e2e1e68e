import { errorReply, GatewayError } from '../../../contracts/errors.ts'
import type { Job, JobError } from '../../../contracts/jobs.ts'
import type { CallContext } from '../../call/context/call-context.ts'
import type { Exchange, Reply } from '../../edge/exchange.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import { linkEndOf, openResult } from '../../jobs/results.ts'
import type { SubmittedJob } from '../../jobs/submit.ts'
import type { Dependencies } from '../endpoint.ts'
import { jsonReply, Large, timestamp } from '../json-reply.ts'
import { SubmittedJob as SubmittedJobShape } from '../openapi/answers.ts'
import { type Answer, json } from '../openapi/operation.ts'

/** Largest result within the job object, bytes; a larger one has a URL. */
const INLINE_BYTES = 256 * 1024
/** Pause after which a caller should poll a job that has not ended, in seconds. */
const POLL_SECONDS = 2

export const JOBS_PATH = '/v1/transcription/jobs'

export const JOB_ACCEPTED: Answer = {
  status: 202,
  description: 'the job is stored durably',
  contents: [json(SubmittedJobShape)],
  headers: ['Location', 'Retry-After'],
}

/** The part of a job object that answers its submission. */
function submissionView(id: string, job: Job | null) {
  return {
    job_id: id,
    status: job?.status ?? null,
    poll_url: pollUrl(id),
    created_at: timestamp(job?.createdAtMs ?? null),
  }
}

function pollUrl(id: string): string {
  return `${JOBS_PATH}/${id}`
}

/** Headers of an answer about a job: when to poll again, as long as it has not ended. */
function pollHeaders(job: Pick<Job, 'endedAtMs'> | null): Readonly<Record<string, string>> {
  return job === null || job.endedAtMs !== null ? {} : { 'retry-after': String(POLL_SECONDS) }
}

/** Answers a submission: 202 with a new job, 200 with the one that was submitted with the same key before. */
export function submittedReply({ id, job, isNew }: SubmittedJob): Reply {
  return {
    status: isNew ? 202 : 200,
    headers: {
      location: pollUrl(id),
      ...pollHeaders(job),
      ...(isNew ? {} : { 'x-lk-idempotent-replay': 'true' }),
    },
    body: JSON.stringify(submissionView(id, job)),
  }
}

/**
 * The job object. It has the result, or a URL of one that is large.
 *
 * @param context of a caller to whom the job belongs
 * @param page   of the transcript that is wanted; null: all of it
 * @throws GatewayError OVERLOADED, DEPENDENCY_UNAVAILABLE; JOB_NOT_FOUND when its time is over meanwhile;
 *         INVALID_REQUEST for a page of a transcript without times
 */
export async function jobReply(
  job: Job,
  exchange: Exchange,
  context: CallContext,
  deps: Dependencies,
  page: ResultPage | null = null,
): Promise<Reply> {
  const { selectors, facts, error } = job
  const version = facts?.policy_version_id ?? null
  if (version !== null) context.routing.policyVersionId = version
  const reply = await jsonReply({
    ...submissionView(job.id, job),
    started_at: timestamp(job.startedAtMs),
    completed_at: timestamp(job.endedAtMs),
    expires_at: timestamp(job.expiresAtMs),
    cancel_requested: job.cancelRequested,
    attempts: job.fence,
    progress: job.parts ?? null,
    error: error === null ? null : errorView(error, job.requestId),
    ...(await resultView(job, exchange, deps, page)),
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

/** A part of a transcript: what begins from the first moment on, and before the second; seconds. */
export interface ResultPage {
  readonly from: number
  readonly to: number
}

interface Timed {
  readonly start: number
}

/** @throws GatewayError INVALID_REQUEST for a transcript without times */
function pageOf(text: string, { from, to }: ResultPage): object {
  const result = JSON.parse(text) as {
    readonly content: string
    readonly segments: readonly (Timed & { readonly text: string })[]
    readonly words: readonly (Timed & { readonly word: string })[]
  }
  if (result.segments.length + result.words.length === 0 && result.content !== '')
    throw invalidField('from', MUST.beLeftOut('the job was submitted without `timestamps`'))
  const isOnPage = ({ start }: Timed) => start >= from && start < to
  const segments = result.segments.filter(isOnPage)
  const words = result.words.filter(isOnPage)
  const texts =
    result.segments.length > 0 ? segments.map(({ text }) => text.trim()) : words.map(({ word }) => word)
  return { ...result, content: texts.join(' '), segments, words }
}

async function resultView(job: Job, exchange: Exchange, deps: Dependencies, page: ResultPage | null) {
  const { result } = job
  const none = { result: null, result_url: null, result_url_expires_at: null }
  if (result === null) return none
  if ('text' in result || result.bytes <= INLINE_BYTES || page !== null) {
    const text = await openResult(job, result, exchange, {
      budget: deps.services.budget,
      state: deps.services.state,
      objects: deps.jobs.objects,
    })
    return { ...none, result: page === null ? new Large(() => [text]) : pageOf(text, page) }
  }
  const { object: key, bytes } = result
  const endsAtSeconds = linkEndOf(job, deps.services.clock.wallNow())
  const url = await deps.jobs.links.sign({ key, bytes, mediaType: 'application/json' }, endsAtSeconds)
  return { ...none, result_url: url, result_url_expires_at: timestamp(endsAtSeconds * 1000) }
}
