import { Type } from 'typebox'
import type { Handle } from '../endpoint.ts'
import { optional } from '../json-request.ts'
import { readSpeech, SpeechBody, streamSpeech } from '../speech.ts'
import { MODEL_FIELD, openaiRequest, VOICE_FIELD, voiceOf } from './request.ts'

const OpenAiSpeechBody = Type.Object({
  model: MODEL_FIELD,
  ...SpeechBody.properties,
  voice: VOICE_FIELD,
  stream_format: optional(Type.Literal('audio'), 'the body is the audio; there are no events'),
})

export const openaiSpeechRequest = openaiRequest(
  'speech',
  OpenAiSpeechBody,
  (body) => readSpeech({ ...body, voice: voiceOf(body.voice) }),
  ['instructions'],
)

/** POST /openai/v1/audio/speech: the audio as the body, whatever the `Accept` header says. */
export const audioSpeech: Handle = async (exchange, trail, { services }) => {
  const { call } = await openaiSpeechRequest.receive(exchange, trail, services)
  return streamSpeech(call, exchange, trail, services)
}
