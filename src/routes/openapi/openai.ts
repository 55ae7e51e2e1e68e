import { openaiChatRequest } from '../openai/chat-completions.ts'
import { openaiCompletionRequest } from '../openai/completions.ts'
import { openaiEmbeddingsRequest } from '../openai/embeddings.ts'
import { OPENAI_HEARING_FIELDS } from '../openai/hearing-request.ts'
import { openaiImageRequest } from '../openai/images.ts'
import { openaiSpeechRequest } from '../openai/speech.ts'
import { TRANSCRIPTION_FIELDS } from '../transcription-fields.ts'
import { IMAGE_FACTS, SPEECH_FACTS, TOKEN_FACTS, TRANSCRIPT_FACTS } from './headers.ts'
import { hearingBody, KEYED_HEARING_ERRORS, TRANSLATION_FIELDS } from './hearing.ts'
import {
  OpenAiChat,
  OpenAiChatEvent,
  OpenAiCompletion,
  OpenAiCompletionEvent,
  OpenAiEmbeddings,
  OpenAiImages,
  OpenAiModel,
  OpenAiModels,
  OpenAiTranscript,
  OpenAiTranscriptEvent,
} from './openai-answers.ts'
import {
  type Answer,
  CALL_ERRORS,
  type Content,
  events,
  json,
  KEY_ERRORS,
  type Operation,
} from './operation.ts'

const COMMON = { tag: 'OpenAI', scope: 'inference', routed: true } as const
const CALL = {
  ...COMMON,
  method: 'POST',
  limited: true,
  parameters: ['Purpose'],
  errors: CALL_ERRORS,
} as const

const STREAMED = 'With `stream: true`: one chunk per event, in `data:`, ending with `data: [DONE]`.'

const HEARING_FIELDS = { ...TRANSLATION_FIELDS, ...OPENAI_HEARING_FIELDS }

/** SubRip is plain text at OpenAI. */
const RENDERED: readonly Content[] = [
  { type: 'text/plain', schema: { type: 'string', description: '`response_format: text` or `srt`' } },
  { type: 'text/vtt', schema: { type: 'string', description: '`response_format: vtt`' } },
]

const MODEL_ERRORS = KEY_ERRORS.filter((code) => code !== 'RATE_LIMITED')

function answer(contents: readonly Content[], headers: Answer['headers'] = []): readonly Answer[] {
  return [
    {
      status: 200,
      description: "OpenAI's answer",
      contents,
      headers: ['X-LK-Idempotency', 'x-request-id', ...headers],
    },
  ]
}

function heard(contents: readonly Content[]): readonly Answer[] {
  return answer(
    [json(OpenAiTranscript), ...RENDERED, ...contents],
    ['X-LK-Idempotent-Replay', ...TRANSCRIPT_FACTS],
  )
}

export const OPENAI: readonly Operation[] = [
  {
    ...CALL,
    path: '/openai/v1/audio/transcriptions',
    id: 'openaiTranscription',
    summary: 'Transcribe audio',
    description:
      "`model` is read as a purpose where it names one, and ignored otherwise, here as at all of OpenAI's paths.",
    parameters: ['Purpose', 'IdempotencyKey'],
    body: hearingBody({ ...HEARING_FIELDS, stream: TRANSCRIPTION_FIELDS.stream }),
    answers: heard([events(OpenAiTranscriptEvent, 'With `stream: true`: one object per event, in `data:`.')]),
    errors: KEYED_HEARING_ERRORS,
  },
  {
    ...CALL,
    path: '/openai/v1/audio/translations',
    id: 'openaiTranslation',
    summary: 'Translate audio into English',
    parameters: ['Purpose', 'IdempotencyKey'],
    body: hearingBody(HEARING_FIELDS),
    answers: heard([]),
    errors: KEYED_HEARING_ERRORS,
  },
  {
    ...CALL,
    path: '/openai/v1/audio/speech',
    id: 'openaiSpeech',
    summary: 'Text to speech',
    body: [json(openaiSpeechRequest.schema)],
    answers: answer([{ type: 'audio/*', schema: { type: 'string', format: 'binary' } }], SPEECH_FACTS),
  },
  {
    ...CALL,
    path: '/openai/v1/chat/completions',
    id: 'openaiChat',
    summary: 'Chat',
    body: [json(openaiChatRequest.schema)],
    answers: answer([json(OpenAiChat), events(OpenAiChatEvent, STREAMED)], TOKEN_FACTS),
  },
  {
    ...CALL,
    path: '/openai/v1/completions',
    id: 'openaiCompletion',
    summary: 'Text completion',
    body: [json(openaiCompletionRequest.schema)],
    answers: answer([json(OpenAiCompletion), events(OpenAiCompletionEvent, STREAMED)], TOKEN_FACTS),
  },
  {
    ...CALL,
    path: '/openai/v1/embeddings',
    id: 'openaiEmbeddings',
    summary: 'Embeddings',
    body: [json(openaiEmbeddingsRequest.schema)],
    answers: answer([json(OpenAiEmbeddings)], TOKEN_FACTS),
  },
  {
    ...CALL,
    path: '/openai/v1/images/generations',
    id: 'openaiImages',
    summary: 'Generate images',
    body: [json(openaiImageRequest.schema)],
    answers: answer([json(OpenAiImages)], IMAGE_FACTS),
  },
  {
    ...COMMON,
    method: 'GET',
    path: '/openai/v1/models',
    id: 'openaiModels',
    summary: 'List models',
    answers: answer([json(OpenAiModels)]),
    errors: MODEL_ERRORS,
  },
  {
    ...COMMON,
    method: 'GET',
    path: '/openai/v1/models/:model',
    id: 'openaiModel',
    summary: 'Get a model',
    parameters: [{ name: 'model', in: 'path', required: true, schema: { type: 'string' } }],
    answers: answer([json(OpenAiModel)]),
    errors: [...MODEL_ERRORS, 'NOT_FOUND'],
  },
]
