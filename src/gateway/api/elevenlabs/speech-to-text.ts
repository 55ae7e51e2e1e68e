import type { CallbackForm } from '../../webhooks/callbacks.ts'
import { callbackFailure, isClientError, submissionHeaders } from '../callbacks.ts'
import { formOptions } from '../door-options.ts'
import { viewedTranscription } from '../door-transcription.ts'
import { endpoint } from '../endpoint.ts'
import { factHeaders, warningHeaders } from '../fact-headers.ts'
import { heardInJob, type KeptResult } from '../heard.ts'
import { jsonText } from '../json-reply.ts'
import { answerTranscription, transcriptionBody } from '../native/transcription.ts'
import { ElevenLabsAccepted, ElevenLabsTranscript } from '../openapi/elevenlabs-answers.ts'
import { TRANSCRIPT_FACTS } from '../openapi/headers.ts'
import { json, LEDGER_ERRORS, TRANSCRIPTION_ERRORS } from '../openapi/operation.ts'
import { ELEVENLABS, elevenlabsAnswer, LOGGING } from './door.ts'
import { readScribeOptions, SCRIBE_OPTIONS } from './scribe-options.ts'
import { type ScribeEventView, type ScribeView, scribeResponse } from './transcript.ts'

const ACCEPTED = 'the transcript will be sent to the webhook of the workspace'

const SCRIBE = viewedTranscription<ScribeView>({
  door: ELEVENLABS.door,
  plain: { timed: true, channels: 'one' },
  response: scribeResponse,
  read: readScribeOptions,
  submitted(submitted, { warnings }, requestId) {
    const id = submitted.job?.requestId ?? requestId
    const body = { message: ACCEPTED, request_id: id, transcription_id: id }
    const headers = { ...submissionHeaders(submitted), ...warningHeaders(warnings) }
    return { status: 202, headers, body: JSON.stringify(body) }
  },
  flag: LOGGING,
  layout: {
    form: 'form',
    urlFields: ['source_url', 'cloud_storage_url'],
    missing: 'send the audio as `file`, or its URL as `source_url` or `cloud_storage_url`',
  },
})

/**
 * An event with the transcript as the synchronous answer has it
 * (https://elevenlabs.io/docs/eleven-api/guides/how-to/speech-to-text/batch/webhooks). They publish none for a failure:
 * receivers who go by the type of an event see that this one has no transcript.
 */
const CALLBACK: CallbackForm = {
  async render(job, result, given) {
    const { metadata, ...view } = given as ScribeEventView
    const kept = result === null ? null : (JSON.parse(result) as KeptResult)
    const content =
      kept === null
        ? callbackFailure(job, ELEVENLABS.door)
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

const FORM = {
  type: 'object',
  properties: {
    file: { type: 'string', format: 'binary', contentMediaType: 'application/octet-stream' },
    source_url: { type: 'string', format: 'uri', description: 'https, at an allowed host' },
    cloud_storage_url: { type: 'string', format: 'uri', description: 'the same' },
    ...formOptions(SCRIBE_OPTIONS),
  },
  required: ['model_id'],
}

export const speechToText = endpoint({
  ...ELEVENLABS,
  method: 'POST',
  path: '/elevenlabs/v1/speech-to-text',
  kind: 'call',
  id: 'elevenlabsSpeechToText',
  summary: 'Transcribe audio',
  idempotent: 'transcription',
  body: {
    ...transcriptionBody(SCRIBE, {}),
    contents: [{ type: 'multipart/form-data', schema: FORM }],
    parameters: ['Purpose'],
  },
  answers: [
    elevenlabsAnswer([json(ElevenLabsTranscript)], ['X-LK-Idempotent-Replay', ...TRANSCRIPT_FACTS]),
    {
      status: 202,
      description:
        'with `webhook: true`: a durable job, whose transcript goes to the webhook of the workspace',
      contents: [json(ElevenLabsAccepted)],
      headers: ['Location', 'X-LK-Idempotent-Replay', 'X-LK-Warnings'],
    },
  ],
  errors: [...TRANSCRIPTION_ERRORS, ...LEDGER_ERRORS],
  callback: CALLBACK,
  handle: (request) => answerTranscription(SCRIBE, request),
})
