import { hash } from 'node:crypto'
import type { StoredBody } from '../../../contracts/audio.ts'
import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { limitsOf, type Selectors, uploadUser } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { newId } from '../../../contracts/ids.ts'
import type { FiledJob } from '../../../contracts/job-objects.ts'
import type { JobSubmission, JobWork } from '../../../contracts/jobs.ts'
import { canonicalJson } from '../../../contracts/json.ts'
import type { Calls, OperationName, TranscriptionTask } from '../../../contracts/operations.ts'
import { fingerprintOf } from '../../call/context/idempotency.ts'
import type { Call } from '../../call/facts/call.ts'
import { run } from '../../call/pipeline.ts'
import { noAudioField } from '../../edge/body.ts'
import { FieldReader } from '../../edge/form.ts'
import { JsonAudioScanner } from '../../edge/json-audio.ts'
import { isObject, parseJson } from '../../edge/json-body.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { ScannedAudio, ScannedBody } from '../../edge/scanner.ts'
import { keepInput } from '../../jobs/inputs.ts'
import { preflightTranscription } from '../../jobs/preflight-transcription.ts'
import { checkDuration } from '../../media/measure.ts'
import { checkAudioUrl, urlIdentity } from '../../storage/remote-audio.ts'
import type { Admitted } from '../endpoint.ts'
import { isKeptFromStore } from '../fields.ts'
import type { JsonRequest } from '../json-request.ts'
import { speechFields, TASKS, withoutTask } from './audio.ts'
import { chatRequest, completeRequest, visionRequest } from './chat.ts'
import { embeddingsRequest } from './embeddings.ts'
import { imageRequest } from './image.ts'
import { speechRequest } from './speech.ts'
import type { RequestAudio } from './transcription.ts'
import { readTranscriptionRequest, type TranscriptionRequest } from './transcription-request.ts'
import { videoRequest } from './video.ts'

/** The work of a job with what its submission brings of it. */
export interface KeptWork extends Pick<JobSubmission, 'input'> {
  readonly work: JobWork
}

/** A payload that was read as its endpoint reads it, and that could be served as things are. */
export interface QueuedCall extends Pick<Call<OperationName>, 'selectors' | 'warnings'> {
  /** Digest that the same work in other words has, too. Lower-case hex. */
  fingerprint(): Promise<string>
  /** Brings it to where a worker finds it. @throws GatewayError DEPENDENCY_UNAVAILABLE */
  keep(job: FiledJob): Promise<KeptWork>
  /** Gives back what it holds beside the body. Idempotent. */
  release(): void
}

/**
 * The call that a payload of JSON asks for.
 *
 * @param bytes of the payload
 * @throws GatewayError INVALID_REQUEST naming the field at fault, or as `run` refuses a preview
 */
async function readGeneration<K extends Generation>(
  operation: K,
  payload: unknown,
  bytes: number,
  asker: Admitted,
): Promise<QueuedCall> {
  const request: JsonRequest<K> = GENERATIONS[operation]
  const { exchange, context, deps } = asker
  const call = request.read(payload, exchange, bytes)
  await run(deps.services, context, { mode: 'preview', asJob: true, call })
  const { selectors, warnings } = call
  return {
    selectors,
    warnings,
    fingerprint: async () => callFingerprint(operation, call.payload, selectors),
    async keep(job) {
      const json = JSON.stringify(call.payload)
      return { work: { operation, payload: await deps.jobs.objects.keepPayload(json, job) } }
    },
    release() {},
  }
}

/**
 * Fingerprint of a call without audio: equal for two calls whose payload after defaults and whose selectors in effect
 * are equal, in whatever order the members came and wherever the purpose stood.
 *
 * @returns lower-case hex
 */
function callFingerprint<K extends OperationName>(
  operation: K,
  payload: Calls[K],
  { purpose, responseProfile, require }: Selectors,
): string {
  const parts = [operation, payload, purpose?.label ?? null, responseProfile]
  return hash('sha256', canonicalJson(require === undefined ? parts : [...parts, require]))
}

/** A job is neither streamed nor another job. */
const OFFERS = { stream: false, jobs: false }

/**
 * The fields and the audio in a payload of an audio endpoint.
 *
 * @throws GatewayError INVALID_REQUEST naming the field, AUDIO_TOO_LARGE
 */
function scanAudio(payload: Buffer, { context, deps }: Admitted): ScannedBody {
  const scanner = new JsonAudioScanner(limitsOf(context.principal, deps.services.snapshot()))
  scanner.scan(payload)
  return scanner.finish()
}

/**
 * The transcription or translation that a payload asks for. Audio that came with it is looked at; audio by URL is
 * left to the worker but for its URL.
 *
 * @throws GatewayError as the endpoint of the task before it calls a provider; as `run` refuses a preview
 */
async function readHearing(
  task: TranscriptionTask,
  payload: Buffer,
  { fields, source }: ScannedBody,
  asker: Admitted,
): Promise<QueuedCall> {
  const request = readTranscriptionRequest(asker.exchange, fields, task, OFFERS)
  if (source.kind === 'none') throw noAudioField(fields)
  if (source.kind === 'url') return readRemote(task, request, source.url, asker)
  const { offset, length } = source.audio
  return readInline(task, request, payload.subarray(offset, offset + length), source.audio, asker)
}

async function readRemote(
  task: TranscriptionTask,
  request: TranscriptionRequest,
  url: string,
  asker: Admitted,
): Promise<QueuedCall> {
  const { exchange, context, deps } = asker
  const { services, uploads } = deps
  const { options, selectors, warnings } = request
  const identity = async () => urlIdentity(url)
  const user = uploadUser(context.principal, services.snapshot())
  const uploaded = await uploads.at(url, user, toAbortSignal(exchange.signal))
  if (uploaded !== null) return queueAudio(task, request, { audio: uploaded, identity, release() {} }, asker)
  await checkAudioUrl(url, context.principal.workspace.id, services)
  await preflightTranscription(services, context, task, { ...request, audio: null })
  return {
    selectors,
    warnings,
    fingerprint: async () => fingerprintOf(task, options, selectors, await identity()),
    keep: async () => ({ work: { operation: task, options, audio: { url } } }),
    release() {},
  }
}

/** @param text the audio as the payload has it */
async function readInline(
  task: TranscriptionTask,
  request: TranscriptionRequest,
  text: Buffer,
  scanned: ScannedAudio,
  asker: Admitted,
): Promise<QueuedCall> {
  const body = await spooled(text, asker)
  const { digester } = asker.deps
  const signal = toAbortSignal(asker.exchange.signal)
  const audio = { ...scanned, source: body.source, offset: 0 }
  const given = { audio, identity: () => digester.digest(audio, signal), release: () => body.release() }
  return queueAudio(task, request, given, asker).catch((error: unknown) => {
    body.release()
    throw error
  })
}

async function queueAudio(
  task: TranscriptionTask,
  request: TranscriptionRequest,
  { audio: given, identity, release }: RequestAudio,
  { exchange, context, deps: { services, probe, jobs } }: Admitted,
): Promise<QueuedCall> {
  const { options, selectors, warnings } = request
  const signal = toAbortSignal(exchange.signal)
  const audio = await probe.probe(given, signal)
  checkDuration(audio, limitsOf(context.principal, services.snapshot()))
  await preflightTranscription(services, context, task, { ...request, audio })
  return {
    selectors,
    warnings,
    fingerprint: async () => fingerprintOf(task, options, selectors, await identity()),
    async keep(job) {
      const kept = await keepInput(audio, job, signal, { objects: jobs.objects, state: services.state })
      return { work: { operation: task, options, audio: kept.audio }, input: kept.input }
    },
    release,
  }
}

/** Brings the audio to where readers of audio find it. */
async function spooled(text: Buffer, { exchange, context, deps }: Admitted): Promise<StoredBody> {
  const { workspace } = context.principal
  const id = newId('req')
  const sealed = isKeptFromStore(exchange, context.principal)
  const writer = deps.spool.open({ workspace: workspace.id, id, contentLength: text.length, sealed })
  try {
    await writer.start()
    writer.write(text)
    return await writer.finish()
  } catch (error) {
    // An upload that even abort cannot end is swept later.
    writer.abort().catch(() => {})
    throw error
  }
}

type Generation = Exclude<OperationName, TranscriptionTask>

/** The endpoints whose payload is described, by the operation of each. */
const GENERATIONS: { readonly [K in Generation]: JsonRequest<K> } = {
  chat: chatRequest,
  complete: completeRequest,
  vision: visionRequest,
  embeddings: embeddingsRequest,
  image: imageRequest,
  speech: speechRequest,
  video: videoRequest,
}

/** Endpoints that there are jobs for, `embed` excepted, which is another name of `embeddings`. */
type QueuedEndpoint = Generation | TranscriptionTask | 'audio'

/**
 * The call that the payload of a job asks for, read as the endpoint reads its own request.
 *
 * @throws GatewayError as the endpoint before it calls a provider, with `payload.` before the name of the field at
 *         fault; INVALID_REQUEST for what waits for an answer: `stream`, and `mode: async`
 */
export async function readPayload(
  endpoint: QueuedEndpoint,
  payload: Buffer,
  asker: Admitted,
): Promise<QueuedCall> {
  try {
    return await readAs(endpoint, payload, asker)
  } catch (thrown) {
    throw inPayload(thrown)
  }
}

function readAs(
  endpoint: QueuedEndpoint,
  payload: Buffer,
  asker: Admitted,
): QueuedCall | Promise<QueuedCall> {
  if (endpoint === 'transcription' || endpoint === 'translation')
    return readHearing(endpoint, payload, scanAudio(payload, asker), asker)
  if (endpoint === 'audio') return readAudio(payload, asker)
  const value = parseJson(payload)
  refuseWaiting(value)
  return readGeneration(endpoint, value, payload.length, asker)
}

/** As `task` says. */
function readAudio(payload: Buffer, asker: Admitted): Promise<QueuedCall> {
  const scanned = scanAudio(payload, asker)
  const task = new FieldReader(scanned.fields).string('task', { oneOf: TASKS }) ?? 'transcription'
  const body = { ...scanned, fields: withoutTask(scanned.fields) }
  if (task !== 'speech') return readHearing(task, payload, body, asker)
  const fields = speechFields(body)
  refuseWaiting(fields)
  return readGeneration('speech', fields, payload.length, asker)
}

/** A queued request has no one to read a stream, and cannot itself be a job. */
function refuseWaiting(payload: unknown): void {
  if (!isObject(payload)) return
  if (payload.stream === true)
    throw invalidField('stream', MUST.beLeftOut('the answer of a job is not streamed'))
  if (payload.mode === 'async')
    throw invalidField('mode', MUST.beLeftOut('a queued request cannot itself be a job'))
}

/**
 * Renames the field at fault for callers who sent it as part of a payload: `prompt` is `payload.prompt` to them. An
 * error that is not about a field stays as it is.
 */
function inPayload(thrown: unknown): unknown {
  if (!(thrown instanceof GatewayError)) return thrown
  const { code, message, extra } = thrown
  const { param } = extra
  if (param === undefined && code !== 'INVALID_REQUEST') return thrown
  const named = param !== undefined && message.startsWith(`\`${param}\``)
  return new GatewayError(code, named ? `\`payload.${message.slice(1)}` : `payload: ${message}`, {
    ...extra,
    param: param === undefined ? 'payload' : `payload.${param}`,
  })
}
