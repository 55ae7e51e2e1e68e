import { type TSchema, Type } from 'typebox'
import type { ErrorCode } from '../../errors.ts'
import { TASKS } from '../audio.ts'
import { optional } from '../json-request.ts'
import { SELECTOR_FIELDS } from '../selectors.ts'
import { speechRequest } from '../speech.ts'
import { TRANSCRIPTION_FIELDS } from '../transcription-fields.ts'
import { SubmittedJob } from './account-answers.ts'
import { Speech, Transcript, TranscriptEvent } from './answers.ts'
import { SPEECH_FACTS, TRANSCRIPT_FACTS } from './headers.ts'
import { type Answer, CALL_ERRORS, type Content, events, json, type Operation } from './operation.ts'
import { type Json, PlainSchemas, withoutNull } from './plain-schema.ts'

type Fields = Readonly<Record<string, TSchema>>

const MediaType = optional(
  Type.String({ maxLength: 128 }),
  'declared type; the format is detected from the bytes',
)
const Base64 = optional(Type.String({ contentEncoding: 'base64' }), 'the audio')

/** One of the sources; the scanner of the body finds it while it streams past. */
const AUDIO_FIELDS = {
  audio: Type.Optional(
    Type.Union(
      [
        Type.Object({
          base64: Base64,
          data: optional(Type.String(), 'the audio, base64 or a `data:` URL'),
          url: optional(Type.String({ format: 'uri', maxLength: 2_048 }), 'https, at an allowed host'),
          media_type: MediaType,
          filename: optional(Type.String(), 'passed on to the provider'),
        }),
        Type.String({ contentEncoding: 'base64', description: 'the audio' }),
        Type.Null(),
      ],
      { description: 'the audio: exactly one of `base64`, `data` and `url`, or the base64 text itself' },
    ),
  ),
  audio_base64: optional(Type.String({ contentEncoding: 'base64' }), 'shorthand for `audio.base64`'),
}

const AUDIO_FILE = {
  type: 'string',
  format: 'binary',
  contentMediaType: 'application/octet-stream',
  description:
    'the audio: mp3, mp4, m4a, wav, webm, ogg or flac, detected from its bytes; `audio` is accepted as a name, too',
}

/** Fields as forms and queries have them, where a field that is not there is null, and one that is refused is not. */
function formFields(fields: Fields): Json {
  const schemas = new PlainSchemas()
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, schema]) => !Type.IsNull(schema))
      .map(([name, schema]) => [name, withoutNull(schemas.of(schema))]),
  )
}

/** @param required whether there is always audio */
export function hearingBody(fields: Fields, required = true): readonly Content[] {
  const audio = { type: 'string', format: 'binary', contentMediaType: 'application/octet-stream' }
  const form = { file: AUDIO_FILE, ...formFields(fields) }
  return [
    {
      type: 'multipart/form-data',
      schema: { type: 'object', properties: form, ...(required ? { required: ['file'] } : {}) },
    },
    json(Type.Object({ ...AUDIO_FIELDS, ...fields })),
    { type: 'audio/*', schema: audio },
    { type: 'application/octet-stream', schema: audio },
  ]
}

function queryFields(fields: Fields): Json {
  return {
    name: 'options',
    in: 'query',
    description: 'the fields as query parameters, when the body is the audio itself',
    style: 'form',
    explode: true,
    schema: { type: 'object', properties: formFields(fields) },
    // Pages that send calls fill a form with this, instead of a value for every field.
    example: {},
  }
}

const { stream: _, ...STREAMLESS } = TRANSCRIPTION_FIELDS
const HEARING_FIELDS = { ...TRANSCRIPTION_FIELDS, ...SELECTOR_FIELDS }
export const TRANSLATION_FIELDS = { ...STREAMLESS, ...SELECTOR_FIELDS }
const JOB_FIELDS = TRANSLATION_FIELDS
const { properties: SPEECH_FIELDS } = speechRequest.schema
const ANY_FIELDS = {
  task: optional(Type.Enum([...TASKS]), 'default: transcription'),
  ...Object.fromEntries(Object.entries(SPEECH_FIELDS).map(([name, schema]) => [name, Type.Optional(schema)])),
  ...HEARING_FIELDS,
  response_format: optional(Type.String({ maxLength: 64 }), 'of the transcript, or of the audio'),
}

/** What audio may be refused for before any provider is asked. */
export const AUDIO_ERRORS: readonly ErrorCode[] = [
  'ROUTE_CONTROL_NOT_ALLOWED',
  'AUDIO_URL_REJECTED',
  'AUDIO_TOO_LARGE',
  'AUDIO_TOO_LONG',
  'UNSUPPORTED_AUDIO_FORMAT',
  'REQUIRED_FEATURE_UNAVAILABLE',
]

const HEARING_ERRORS: readonly ErrorCode[] = [...CALL_ERRORS, ...AUDIO_ERRORS, 'AUDIO_URL_FETCH_FAILED']
export const KEYED_HEARING_ERRORS: readonly ErrorCode[] = [
  ...HEARING_ERRORS,
  'IDEMPOTENCY_REPLAY_IN_PROGRESS',
  'IDEMPOTENCY_KEY_REUSED',
  'IDEMPOTENT_RESULT_UNAVAILABLE',
  'UPSTREAM_OUTCOME_UNKNOWN',
]

const plain = (description: string): Json => ({ type: 'string', description })
const RENDERED: readonly Content[] = [
  { type: 'text/plain', schema: plain('`response_format: text`') },
  { type: 'application/x-subrip', schema: plain('`response_format: srt`') },
  { type: 'text/vtt', schema: plain('`response_format: vtt`') },
]

const EVENTS = events(
  TranscriptEvent,
  'With `stream: true`: one object per event, in `data:`, the last with the full transcript. A failure ' +
    'after the first chunk is sent as an `error` event with the error envelope, and nothing follows it.',
)

function heard(contents: readonly Content[], headers: Answer['headers'] = []): Answer {
  return {
    status: 200,
    description: 'the transcript; for text formats the envelope’s metadata is in the headers',
    contents: [json(Transcript), ...RENDERED, ...contents],
    headers: ['X-LK-Idempotent-Replay', ...TRANSCRIPT_FACTS, ...headers],
  }
}

const AUDIO_BODY: Content = {
  type: 'audio/*',
  schema: {
    type: 'string',
    format: 'binary',
    description: 'for `Accept: audio/…`: the audio, streamed',
  },
}

const COMMON = { method: 'POST', tag: 'Speech', scope: 'inference', limited: true, routed: true } as const

/** The body of a submission, which is that of a transcription. */
export const SUBMISSION = { body: hearingBody(JOB_FIELDS), query: queryFields(JOB_FIELDS) }

/** What is said of a job that was just taken on. */
export const TAKEN_ON: Answer = {
  status: 202,
  description: 'the job is stored durably',
  contents: [json(SubmittedJob)],
  headers: ['Location', 'Retry-After'],
}

export const HEARING: readonly Operation[] = [
  {
    ...COMMON,
    path: '/v1/transcription',
    id: 'transcription',
    summary: 'Transcribe audio',
    description:
      'Required features (diarization, timestamps, redaction, keyterms, multichannel) are guaranteed: without ' +
      'a model that supports them the request is refused. Unsupported hints are dropped, with a line in ' +
      '`warnings`. `mode: async` turns the request into a job.',
    parameters: ['Purpose', 'IdempotencyKey', queryFields(HEARING_FIELDS)],
    body: hearingBody(HEARING_FIELDS),
    answers: [heard([EVENTS], ['X-LK-Idempotency']), TAKEN_ON],
    errors: KEYED_HEARING_ERRORS,
  },
  {
    ...COMMON,
    path: '/v1/translation',
    id: 'translation',
    summary: 'Translate audio into English',
    parameters: ['Purpose', 'IdempotencyKey', queryFields(TRANSLATION_FIELDS)],
    body: hearingBody(TRANSLATION_FIELDS),
    answers: [heard([])],
    errors: KEYED_HEARING_ERRORS,
  },
  {
    ...COMMON,
    path: '/v1/speech',
    id: 'speech',
    summary: 'Text to speech',
    description: 'The audio is base64 in `content_blocks`; with `Accept: audio/…` it is the response body.',
    parameters: ['Purpose'],
    body: [json(speechRequest.schema)],
    answers: [
      {
        status: 200,
        description: 'the audio',
        contents: [json(Speech), AUDIO_BODY],
        headers: ['X-LK-Idempotency', ...SPEECH_FACTS],
      },
    ],
    errors: CALL_ERRORS,
  },
  {
    ...COMMON,
    path: '/v1/audio',
    id: 'audio',
    summary: 'Transcribe, translate or speak',
    description: 'Selected by the field `task`, with the fields and the answer of that endpoint.',
    parameters: ['Purpose', queryFields(ANY_FIELDS)],
    body: hearingBody(ANY_FIELDS, false),
    answers: [
      {
        status: 200,
        description: 'as the endpoint of the task',
        contents: [json({ anyOf: [Transcript, Speech] }), ...RENDERED, EVENTS, AUDIO_BODY],
        headers: ['X-LK-Idempotency', ...TRANSCRIPT_FACTS, 'X-LK-Usage-Audio-Output-Characters'],
      },
    ],
    errors: HEARING_ERRORS,
  },
]
