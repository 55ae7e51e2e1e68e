import { formOptions } from '../door-options.ts'
import { endpoint } from '../endpoint.ts'
import { viewedAnswer } from '../heard.ts'
import {
  answerTranscription,
  type TranscriptionRun,
  type TranscriptionShape,
  transcriptionBody,
} from '../native/transcription.ts'
import { ElevenLabsTranscript } from '../openapi/elevenlabs-answers.ts'
import { TRANSCRIPT_FACTS } from '../openapi/headers.ts'
import { json, LEDGER_ERRORS, TRANSCRIPTION_ERRORS } from '../openapi/operation.ts'
import { demandedBy, ELEVENLABS, elevenlabsAnswer } from './door.ts'
import { readScribeOptions, SCRIBE_OPTIONS } from './scribe-options.ts'
import { type ScribeView, scribeResponse } from './transcript.ts'

const answerOf = (view: ScribeView) => viewedAnswer('elevenlabs', view, scribeResponse)

const SHAPE: TranscriptionShape = {
  ...answerOf({ timed: true, channels: 'one' }),
  read(exchange, fields, _definition, principal) {
    const { view, ...request } = readScribeOptions(exchange, fields, principal)
    return { ...request, answer: answerOf(view) }
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
  answers: [elevenlabsAnswer([json(ElevenLabsTranscript)], ['X-LK-Idempotent-Replay', ...TRANSCRIPT_FACTS])],
  errors: [...TRANSCRIPTION_ERRORS, ...LEDGER_ERRORS],
  handle: (request) => answerTranscription(SCRIBE, request),
})
