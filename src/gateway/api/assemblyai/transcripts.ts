import { Type } from 'typebox'
import { limitsOf } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { newJobId } from '../../../contracts/ids.ts'
import type { Job } from '../../../contracts/jobs.ts'
import { uploadIdIn } from '../../../contracts/uploads.ts'
import type { CallContext } from '../../call/context/call-context.ts'
import type { ReceivedAudio } from '../../edge/body.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { readJson } from '../../edge/json-body.ts'
import { invalidField } from '../../edge/refusals.ts'
import { eraseJob } from '../../jobs/erase.ts'
import { openResult } from '../../jobs/results.ts'
import { submitJob } from '../../jobs/submit.ts'
import { type CallbackForm, openCallback } from '../../webhooks/callbacks.ts'
import { acceptCallback, isClientError } from '../callbacks.ts'
import type { Admitted, Dependencies } from '../endpoint.ts'
import { checkIdempotencyKey, endpoint, idempotencyKeyOf } from '../endpoint.ts'
import { warningHeaders } from '../fact-headers.ts'
import { jsonReply } from '../json-reply.ts'
import { jobIdOf, ownJob } from '../native/transcription-jobs.ts'
import { AssemblyAiTranscript } from '../openapi/assemblyai-answers.ts'
import { type Answer, JOB_ERRORS, json } from '../openapi/operation.ts'
import { ASSEMBLYAI } from './door.ts'
import { jobStatus, type KeptTranscript, transcriptView } from './transcript.ts'
import { readTranscriptOptions, TRANSCRIPT_OPTIONS } from './transcript-options.ts'
import { isUploadUrl, openUpload, uploadIn } from './upload-url.ts'

export const PATH = '/assemblyai/v2/transcript'

const TRANSCRIPT: Answer = {
  status: 200,
  description: 'the transcript as it stands',
  contents: [json(AssemblyAiTranscript)],
  headers: ['X-LK-Warnings'],
}

/** The options as members of JSON: what each may be is told in AssemblyAI's reference. */
const Body = Type.Object({
  ...Object.fromEntries(
    Object.entries(TRANSCRIPT_OPTIONS)
      .filter(([, { fate }]) => fate !== 'refused')
      .map(([name, { note }]) => [name, Type.Optional(Type.Unknown({ description: note }))]),
  ),
  audio_url: Type.String({ description: TRANSCRIPT_OPTIONS.audio_url?.note ?? '' }),
})

/** No more than that it has ended (https://www.assemblyai.com/docs/pre-recorded-audio/webhooks). */
const CALLBACK: CallbackForm = {
  render: (job) => ({ headers: {}, body: JSON.stringify({ transcript_id: job.id, status: jobStatus(job) }) }),
  isFinal: isClientError,
}

export const submitTranscript = endpoint({
  ...ASSEMBLYAI,
  method: 'POST',
  path: PATH,
  kind: 'call',
  id: 'assemblyaiSubmit',
  summary: 'Submit a transcript',
  description: 'A durable job, as of `POST /v1/transcription/jobs`.',
  idempotent: true,
  body: {
    contents: [json(Body)],
    parameters: ['Purpose', 'Require'],
    receive: ({ exchange, context, deps: { services } }: Admitted) =>
      readJson(
        exchange,
        {
          budget: services.budget,
          maxBytes: limitsOf(context.principal, services.snapshot()).max_request_body_bytes,
          workspace: context.principal.workspace.id,
        },
        (value) => readTranscriptOptions(exchange, value, context.principal),
      ),
  },
  answers: [TRANSCRIPT],
  errors: [...JOB_ERRORS, 'IDEMPOTENCY_KEY_REUSED', 'JOB_NOT_FOUND'],
  callback: CALLBACK,
  async handle({ exchange, context, deps, body: { request, door, callback: asked } }) {
    const key = idempotencyKeyOf(exchange)
    if (key !== undefined) checkIdempotencyKey(key)
    const workspace = context.principal.workspace.id
    const id = newJobId('tj', workspace)
    const body = audioAt(door.audioUrl, workspace, deps)
    const callback = asked && { callback: await acceptCallback(asked, workspace, deps) }
    const submitted = submitJob({ id, body, request, key, door, ...callback }, context, deps)
    const { job } = await submitted.catch((error: unknown) => blameUpload(error, body, deps))
    const reply = await transcriptReply(ownJob(job, context.principal), exchange, context, deps)
    return { ...reply, headers: { ...reply.headers, ...warningHeaders(request.warnings) } }
  },
})

export const showTranscript = endpoint({
  ...ASSEMBLYAI,
  method: 'GET',
  path: `${PATH}/:job_id`,
  kind: 'none',
  id: 'assemblyaiTranscript',
  summary: 'Get a transcript',
  answers: [TRANSCRIPT],
  errors: ['JOB_NOT_FOUND', 'OVERLOADED'],
  async handle({ exchange, context, deps }) {
    const id = jobIdOf(exchange, context)
    const job = ownJob(await deps.services.state.jobs.get(id), context.principal)
    return transcriptReply(job, exchange, context, deps)
  },
})

export const deleteTranscript = endpoint({
  ...ASSEMBLYAI,
  method: 'DELETE',
  path: `${PATH}/:job_id`,
  kind: 'none',
  id: 'assemblyaiDelete',
  summary: 'Delete a transcript',
  description:
    'What was sent and heard is deleted for good, the upload too; what is left tells that until it expires. A ' +
    'transcript that is not completed yet is cancelled.',
  answers: [TRANSCRIPT],
  errors: ['JOB_NOT_FOUND'],
  async handle({ exchange, context, deps }) {
    const { services, jobs, secretKeys, uploads } = deps
    const { principal } = context
    const id = jobIdOf(exchange, context)
    const job = ownJob(await services.state.jobs.get(id), principal)
    const url = job.door?.audioUrl ?? ''
    const upload = uploadIn(url, principal.workspace.id, secretKeys)
    const resumable = uploadIdIn(url)
    const owner = { workspace: principal.workspace.id, app: principal.app.id }
    if (resumable !== null) await uploads.alone(resumable, () => uploads.remove(resumable, owner))
    const { limits } = services.snapshot()
    const erased = await eraseJob(job, upload, { ...jobs, jobs: services.state.jobs, limits })
    await services.references?.forget({ workspace: principal.workspace.id, callId: id })
    return transcriptReply(ownJob(erased, principal), exchange, context, deps)
  },
})

/**
 * Audio that is in the store, or at a host. The upload stays where it is: others may be made of it.
 *
 * @throws GatewayError INVALID_REQUEST as `openUpload`
 */
function audioAt(
  url: string,
  workspace: string,
  { secretKeys, services }: Pick<Dependencies, 'secretKeys' | 'services'>,
): ReceivedAudio {
  const source = isUploadUrl(url)
    ? ({ kind: 'audio', audio: openUpload(url, workspace, secretKeys, services.clock.wallNow()) } as const)
    : ({ kind: 'url', url } as const)
  return { fields: { kind: 'json', value: {} }, source, body: null, kept: true, release() {} }
}

/** A store without the upload has not failed: the upload was deleted with another transcript of it. */
async function blameUpload(
  error: unknown,
  { source }: ReceivedAudio,
  { jobs: { objects } }: Dependencies,
): Promise<never> {
  const isAway = error instanceof GatewayError && error.code === 'DEPENDENCY_UNAVAILABLE'
  if (isAway && source.kind === 'audio' && !(await objects.holds(source.audio)))
    throw invalidField('audio_url', 'must be of an upload that was not deleted')
  throw error
}

async function transcriptReply(job: Job, exchange: Exchange, context: CallContext, deps: Dependencies) {
  const kept = await keptTranscript(job, exchange, deps)
  const version = job.facts?.policy_version_id ?? null
  if (version !== null) context.routing.policyVersionId = version
  const reply = await jsonReply(transcriptView(job, kept, openCallback(job, deps.secretKeys)))
  return { ...reply, headers: { ...reply.headers, ...warningHeaders(kept?.warnings ?? []) } }
}

/** Null: there is none, or not yet. */
export async function keptTranscript(
  job: Job,
  exchange: Exchange,
  { services: { budget, state }, jobs: { objects } }: Dependencies,
): Promise<KeptTranscript | null> {
  if (job.result === null) return null
  return JSON.parse(await openResult(job, job.result, exchange, { budget, state, objects })) as KeptTranscript
}
