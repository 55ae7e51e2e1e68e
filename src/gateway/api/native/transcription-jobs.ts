import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { limitsOf, type Principal } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { jobPartition, newJobId } from '../../../contracts/ids.ts'
import type { Job } from '../../../contracts/jobs.ts'
import type { CallContext } from '../../call/context/call-context.ts'
import { type ReceivedAudio, receiveAudio } from '../../edge/body.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { invalidField } from '../../edge/refusals.ts'
import { cancelJob } from '../../jobs/cancel.ts'
import { submitJob } from '../../jobs/submit.ts'
import type { JobWatch } from '../../jobs/watch.ts'
import type { Admitted, Dependencies, EndpointCall } from '../endpoint.ts'
import { checkIdempotencyKey, endpoint, idempotencyKeyOf } from '../endpoint.ts'
import { isKeptFromStore } from '../fields.ts'
import { SubmittedJob, TranscriptionJob } from '../openapi/answers.ts'
import { JOB_ERRORS, json } from '../openapi/operation.ts'

import { JOB_ACCEPTED, JOBS_PATH, jobReply, type ResultPage, submittedReply } from './job-view.ts'
import {
  audioContents,
  queryFields,
  readTranscriptionRequest,
  type TranscriptionRequest,
  UNSTREAMED_FIELDS,
} from './transcription-request.ts'

/** Longest `wait`, seconds: below what proxies and clients take for a dead connection. */
const WAIT_SECONDS_MAX = 30

/** Endpoints of jobs wait for changes with it. */
export interface JobNeeds extends Dependencies {
  readonly watch: JobWatch
}

const ONE = { path: `${JOBS_PATH}/:job_id`, kind: 'none', tag: 'Jobs', scope: 'jobs' } as const

export const submitTranscriptionJob = endpoint({
  method: 'POST',
  path: JOBS_PATH,
  kind: 'call',
  id: 'submitJob',
  tag: 'Jobs',
  summary: 'Submit a transcription job',
  description:
    'Accepts what `POST /v1/transcription` accepts, and answers once the job and its audio are stored for good.',
  scope: 'jobs',
  idempotent: true,
  body: {
    contents: audioContents(UNSTREAMED_FIELDS),
    parameters: ['Purpose', 'Require', queryFields(UNSTREAMED_FIELDS)],
    receive: receiveSubmission,
  },
  answers: [
    JOB_ACCEPTED,
    {
      status: 200,
      description: 'the idempotency key was used before: the first job in its current state',
      contents: [json(SubmittedJob)],
      headers: ['Location', 'Retry-After', 'X-LK-Idempotent-Replay'],
    },
  ],
  errors: [...JOB_ERRORS, 'IDEMPOTENCY_KEY_REUSED'],
  async handle({ exchange, context, deps, body: { id, key, audio } }) {
    const request = readSubmission(exchange, audio)
    // From here on the audio belongs to the job: one that the state may have taken keeps it.
    return submittedReply(await submitJob({ id, body: audio, request, key }, context, deps))
  },
})

const PAGE_PARAMETERS = ['from', 'to'].map((name) => ({
  name,
  in: 'query',
  description:
    name === 'from'
      ? 'seconds of the audio: the result has the segments and words that begin from there on, and their text'
      : 'seconds of the audio: and those that begin before',
  schema: { type: 'number', minimum: 0 },
}))

/** Shows a job to keys of its own app, by whichever of them it was submitted. */
export const showTranscriptionJob = endpoint({
  ...ONE,
  method: 'GET',
  id: 'showJob',
  summary: 'Get a job and its result',
  parameters: [
    {
      name: 'wait',
      in: 'query',
      description: 'seconds to wait for the status, or the progress, to change',
      schema: { type: 'integer', minimum: 1, maximum: WAIT_SECONDS_MAX },
    },
    ...PAGE_PARAMETERS,
  ],
  answers: [
    {
      status: 200,
      description: 'the job; with `Retry-After` until it ends',
      contents: [json(TranscriptionJob)],
      headers: ['Retry-After'],
    },
  ],
  errors: ['JOB_NOT_FOUND', 'OVERLOADED'],
  async handle({ exchange, context, deps }: EndpointCall<undefined, JobNeeds>) {
    const { services, watch } = deps
    const { principal } = context
    const waitMs = waitMsOf(exchange)
    const page = pageOf(exchange)
    const id = jobIdOf(exchange, context)
    const job = visibleJob(await services.state.jobs.get(id), principal)
    if (waitMs === null || job.endedAtMs !== null) return jobReply(job, exchange, context, deps, page)
    const later = await context.externalWait(
      watch.changed(job, waitMs, toAbortSignal(exchange.signal)),
      deps.services.clock,
    )
    return jobReply(visibleJob(later, principal), exchange, context, deps, page)
  },
})

export const cancelTranscriptionJob = endpoint({
  ...ONE,
  method: 'DELETE',
  id: 'cancelJob',
  summary: 'Cancel a job',
  description:
    'A queued job ends immediately. A running job ends as soon as its worker sees the request, and may ' +
    'have finished by then. A job that has ended stays unchanged.',
  answers: [
    { status: 200, description: 'the job', contents: [json(TranscriptionJob)], headers: ['Retry-After'] },
  ],
  errors: ['JOB_NOT_FOUND', 'OVERLOADED'],
  async handle({ exchange, context, deps }) {
    const { principal } = context
    const id = jobIdOf(exchange, context)
    const owner = { workspace: principal.workspace.id, app: principal.app.id }
    const { services, jobs } = deps
    const { limits } = services.snapshot()
    const cancelled = await cancelJob(id, owner, { ...jobs, jobs: services.state.jobs, limits })
    const job = visibleJob(cancelled, principal)
    return jobReply(job, exchange, context, deps)
  },
})

/** Gives the audio back when the fields are refused. @throws GatewayError as `readTranscriptionRequest` */
function readSubmission(exchange: Exchange, audio: ReceivedAudio): TranscriptionRequest {
  try {
    return readTranscriptionRequest(exchange, audio.fields, 'transcription', { stream: false, jobs: true })
  } catch (error) {
    audio.release()
    throw error
  }
}

/** Audio of a job, stored under the id that the job will have. */
async function receiveSubmission({ exchange, context, deps: { services, spool } }: Admitted) {
  const key = idempotencyKeyOf(exchange)
  if (key !== undefined) checkIdempotencyKey(key)
  const workspace = context.principal.workspace.id
  const id = newJobId('tj', workspace)
  const limits = limitsOf(context.principal, services.snapshot())
  const sealed = isKeptFromStore(exchange, context.principal)
  const audio = await receiveAudio(exchange, { spool, limits, workspace, sealed, job: id })
  return { id, key, audio }
}

/** @throws GatewayError JOB_NOT_FOUND for what cannot be the id of a transcription job */
export function jobIdOf({ params: [id = ''] }: Exchange, context: CallContext): string {
  if (!id.startsWith('tj_') || jobPartition(id) === null) throw new GatewayError('JOB_NOT_FOUND')
  context.jobId = id
  return id
}

/** @throws GatewayError JOB_NOT_FOUND for one that is gone, erased or another app's: nothing tells which */
export function visibleJob(job: Job | null, principal: Principal): Job {
  const own = ownJob(job, principal)
  if (own.erased) throw new GatewayError('JOB_NOT_FOUND')
  return own
}

/** The same, but that it shows what is left of an erased job. */
export function ownJob(job: Job | null, { workspace, app }: Principal): Job {
  if (job !== null && job.workspace === workspace.id && job.app === app.id) return job
  throw new GatewayError('JOB_NOT_FOUND')
}

const SECONDS = /^\d{1,9}(?:\.\d{1,6})?$/

/** Null: all of the transcript is wanted. @throws GatewayError INVALID_REQUEST */
function pageOf({ query }: Exchange): ResultPage | null {
  const given = new URLSearchParams(query)
  const secondsOf = (name: string) => {
    const [text = null, ...more] = given.getAll(name)
    if (text === null) return null
    if (more.length > 0 || !SECONDS.test(text)) throw invalidField(name, 'must be a number of seconds')
    return Number(text)
  }
  const [from, to] = [secondsOf('from'), secondsOf('to')]
  if (from === null && to === null) return null
  if (to !== null && to <= (from ?? 0)) throw invalidField('to', 'must be after `from`')
  return { from: from ?? 0, to: to ?? Number.POSITIVE_INFINITY }
}

/** Null: the answer is not held. @throws GatewayError INVALID_REQUEST */
function waitMsOf({ query }: Exchange): number | null {
  const sent = new URLSearchParams(query).getAll('wait')
  if (sent.length === 0) return null
  const [text = ''] = sent
  const seconds = /^\d{1,2}$/.test(text) ? Number(text) : 0
  if (sent.length > 1 || seconds < 1 || seconds > WAIT_SECONDS_MAX)
    throw invalidField('wait', `must be a whole number of seconds from 1 to ${WAIT_SECONDS_MAX}`)
  return seconds * 1000
}
