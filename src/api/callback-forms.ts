import type { CallbackVendor, Job } from '../contracts/jobs.ts'
import { errorReply, GatewayError } from '../errors.ts'
import type { CallbackForm } from '../webhooks/callbacks.ts'
import { statusOf } from './assemblyai/transcript.ts'
import { DEEPGRAM } from './deepgram/door.ts'
import { type ListenView, listenResponse } from './deepgram/transcript.ts'
import { ELEVENLABS } from './elevenlabs/door.ts'
import { type ScribeEventView, scribeResponse } from './elevenlabs/transcript.ts'
import type { Door } from './endpoint.ts'
import { factHeaders } from './fact-headers.ts'
import { heardInJob, type KeptResult } from './heard.ts'
import { jsonText } from './json-reply.ts'
import { shapedError } from './openapi/operation.ts'

/** Too slow, and too many at once: another attempt may well be taken. */
const PASSING_STATUSES = [408, 429]

function isClientError(status: number): boolean {
  return status >= 400 && status <= 499 && !PASSING_STATUSES.includes(status)
}

/**
 * The transcript itself, as the synchronous answer has it
 * (https://developers.deepgram.com/docs/callback); of a failed job, what the synchronous answer would have been.
 */
const deepgram: CallbackForm = {
  async render(job, result, view) {
    // Deepgram sends the id of the key that asked; receivers compare it.
    const token = { 'dg-token': job.keyId }
    if (result === null) return { headers: token, body: JSON.stringify(failureOf(job, DEEPGRAM.door)) }
    const kept = JSON.parse(result) as KeptResult
    const response = listenResponse(heardInJob(job, kept), view as ListenView)
    return { headers: { ...token, ...factHeaders(kept) }, body: await jsonText(response) }
  },
  isFinal: () => false,
}

/**
 * An event with the transcript as the synchronous answer has it
 * (https://elevenlabs.io/docs/eleven-api/guides/how-to/speech-to-text/batch/webhooks). They publish none for a failure:
 * receivers who go by the type of an event see that this one has no transcript.
 */
const elevenlabs: CallbackForm = {
  async render(job, result, given) {
    const { metadata, ...view } = given as ScribeEventView
    const kept = result === null ? null : (JSON.parse(result) as KeptResult)
    const content =
      kept === null
        ? failureOf(job, ELEVENLABS.door)
        : { transcription: scribeResponse(heardInJob(job, kept), view) }
    const event = {
      type: `speech_to_text_transcription${kept === null ? '_failed' : ''}`,
      event_timestamp: Math.floor((job.endedAtMs ?? 0) / 1000),
      data: { request_id: job.requestId, ...content, webhook_metadata: metadata },
    }
    return { headers: kept === null ? {} : factHeaders(kept), body: await jsonText(event) }
  },
  signature: (timestamp, signature) => ({ 'elevenlabs-signature': `t=${timestamp},v0=${signature}` }),
  isFinal: isClientError,
}

/** No more than that it has ended (https://www.assemblyai.com/docs/pre-recorded-audio/webhooks). */
const assemblyai: CallbackForm = {
  render: (job) => ({ headers: {}, body: JSON.stringify({ transcript_id: job.id, status: statusOf(job) }) }),
  isFinal: isClientError,
}

/** How the end of a job is told to its callback, by whose door it came. */
export const CALLBACK_FORMS: Readonly<Record<CallbackVendor, CallbackForm>> = {
  assemblyai,
  deepgram,
  elevenlabs,
}

/** The body of a refusal, as the door would have answered with it. */
function failureOf({ error, requestId }: Job, door: Door): object {
  const { code, message, param, details } = error ?? CANCELLED
  const failure = new GatewayError(code, message, { details, ...(param === null ? {} : { param }) })
  const translated = door.translateError(failure, { headers: {} })
  return shapedError(door.errorShape, translated, requestId, errorReply(translated, requestId).body)
}

const CANCELLED = {
  code: 'JOB_NOT_FOUND',
  message: 'the job was cancelled',
  param: null,
  details: {},
} as const
