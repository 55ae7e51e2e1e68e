import { FieldReader } from '../inbound/form.ts'
import { parseJson } from '../inbound/json-body.ts'
import { isObject } from '../inbound/json-source.ts'
import { invalidField, MUST } from '../inbound/refusals.ts'
import type { OperationName } from '../schema/operations.ts'
import { speechFields, TASKS, withoutTask } from './audio.ts'
import { chatRequest } from './chat.ts'
import { completeRequest } from './complete.ts'
import { embeddingsRequest } from './embeddings.ts'
import { imageRequest } from './image.ts'
import type { JsonRequest } from './json-request.ts'
import { readHearing, scanAudio } from './queue-audio.ts'
import { type Asker, type QueuedCall, readGeneration } from './queue-call.ts'
import { inPayload } from './queue-fault.ts'
import { speechRequest } from './speech.ts'
import type { HearingTask } from './transcription-request.ts'
import { videoRequest } from './video.ts'
import { visionRequest } from './vision.ts'

type Generation = Exclude<OperationName, HearingTask>

/** The endpoints whose payload is described, by the operation that each stands for. */
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
export type QueuedEndpoint = Generation | HearingTask | 'audio'

/**
 * The call that the payload of a job stands for, read as the endpoint reads its own request.
 *
 * @throws GatewayError as the endpoint before it calls a provider, with `payload.` before the name of the field at
 *         fault; INVALID_REQUEST for what waits for an answer: `stream`, and `mode: async`
 */
export async function readPayload(
  endpoint: QueuedEndpoint,
  payload: Buffer,
  asker: Asker,
): Promise<QueuedCall> {
  try {
    return await readAs(endpoint, payload, asker)
  } catch (thrown) {
    throw inPayload(thrown)
  }
}

function readAs(endpoint: QueuedEndpoint, payload: Buffer, asker: Asker): QueuedCall | Promise<QueuedCall> {
  if (endpoint === 'transcription' || endpoint === 'translation')
    return readHearing(endpoint, payload, scanAudio(payload, asker), asker)
  if (endpoint === 'audio') return readAudio(payload, asker)
  const value = parseJson(payload)
  refuseWaiting(value)
  return generation(endpoint, value, asker)
}

/** As `task` says. */
function readAudio(payload: Buffer, asker: Asker): QueuedCall | Promise<QueuedCall> {
  const scanned = scanAudio(payload, asker)
  const task = new FieldReader(scanned.fields).string('task', { oneOf: TASKS }) ?? 'transcription'
  const body = { ...scanned, fields: withoutTask(scanned.fields) }
  if (task !== 'speech') return readHearing(task, payload, body, asker)
  const fields = speechFields(body)
  refuseWaiting(fields)
  return generation('speech', fields, asker)
}

function generation<K extends Generation>(operation: K, value: unknown, asker: Asker): QueuedCall {
  return readGeneration<K>(GENERATIONS[operation], value, asker)
}

/** Nobody is there to read a stream, and a job is no other job. */
function refuseWaiting(payload: unknown): void {
  if (!isObject(payload)) return
  if (payload.stream === true)
    throw invalidField('stream', MUST.beLeftOut('the answer of a job is not streamed'))
  if (payload.mode === 'async')
    throw invalidField('mode', MUST.beLeftOut('a job of the queue is no other job'))
}
