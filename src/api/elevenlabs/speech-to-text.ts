import { submissionHeaders } from '../callbacks.ts'
import { formOptions } from '../door-options.ts'
import { endpoint } from '../endpoint.ts'
import { warningHeaders } from '../fact-headers.ts'
import { viewedAnswer } from '../heard.ts'
import {
  answerTranscription,
  type TranscriptionRun,
  type TranscriptionShape,
  transcriptionBody,
} from '../native/transcription.ts'
import { ElevenLabsAccepted, ElevenLabsTranscript } from '../openapi/elevenlabs-answers.ts'
import { TRANSCRIPT_FACTS } from '../openapi/headers.ts'
import { json, LEDGER_ERRORS, TRANSCRIPTION_ERRORS } from '../openapi/operation.ts'
import { demandedBy, ELEVENLABS, elevenlabsAnswer } from './door.ts'
import { readScribeOptions, SCRIBE_OPTIONS } from './scribe-options.ts'
import { type ScribeView, scribeResponse } from './transcript.ts'

/** The answer to a view. */
export const answerOf = (view: ScribeView) => viewedAnswer('elevenlabs', view, scribeResponse)

const ACCEPTED = 'the transcript will be sent to the webhook of the workspace'

const SHAPE: TranscriptionShape = {
  ...answerOf({ timed: true, channels: 'one' }),
  read(exchange, fields, _definition, principal) {
    const { view, ...request } = readScribeOptions(exchange, fields, principal)
    return { ...request, answer: answerOf(view) }
  },
  submitted(submitted, { warnings }, requestId) {
    const id = submitted.job?.requestId ?? requestId
    const body = { message: ACCEPTED, request_id: id, transcription_id: id }
    const headers = { ...submissionHeaders(submitted), ...warningHeaders(warnings) }
    return { status: 202, headers, body: JSON.stringify(body) }
  },
}

const SCRIBE: TranscriptionRun = {
  task: 'transcription',
  offers: { stream: false, jobs: false },
  shape: SHAPE,
  demandedBy,
  layout: {
    form: 'form',
    urlFields: ['source_url', 'cloud_storage_url'],
    missing: 'send the audio as `file`, or its URL as `source_url` or `cloud_storage_url`',
  },
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
  handle: (request) => answerTranscription(SCRIBE, request),
})
