import { Type } from 'typebox'
import { endpoint } from '../endpoint.ts'
import { optional } from '../json-request.ts'
import { readSpeech, SpeechBody, streamSpeech } from '../native/speech.ts'
import { SPEECH_FACTS } from '../openapi/headers.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { MODEL_FIELD, OPENAI, openaiAnswer, openaiRequest, VOICE_FIELD, voiceOf } from './door.ts'

const OpenAiSpeechBody = Type.Object({
  model: MODEL_FIELD,
  ...SpeechBody.properties,
  voice: VOICE_FIELD,
  stream_format: optional(Type.Literal('audio'), 'the body is the audio; there are no events'),
})

const openaiSpeechRequest = openaiRequest(
  'speech',
  OpenAiSpeechBody,
  (body) => readSpeech({ ...body, voice: voiceOf(body.voice) }),
  ['instructions'],
)

/** Answers with the audio as the body, whatever the `Accept` header says. */
export const audioSpeech = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/audio/speech',
  id: 'openaiSpeech',
  summary: 'Text to speech',
  body: openaiSpeechRequest,
  answers: [openaiAnswer([{ type: 'audio/*', schema: { type: 'string', format: 'binary' } }], SPEECH_FACTS)],
  errors: CALL_ERRORS,
  handle: (request) => streamSpeech(request.body.call, request),
})
