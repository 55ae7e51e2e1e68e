import { Type } from 'typebox'
import type { Deltas } from '../../../contracts/operations.ts'
import type { CallOf } from '../../call/facts/call.ts'
import { run } from '../../call/pipeline.ts'
import type { Reply } from '../../edge/exchange.ts'
import { JsonOptions } from '../door-options.ts'
import { type Admitted, endpoint } from '../endpoint.ts'
import { streamFacts } from '../fact-headers.ts'
import { optional } from '../json-request.ts'
import { readSpeech, SpeechBody, streamSpeech } from '../native/speech.ts'
import { SPEECH_FACTS } from '../openapi/headers.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { type EventStream, eventStreamReply } from '../sse.ts'
import { MODEL_FIELD, OPENAI, openaiAnswer, openaiRequest, VOICE_FIELD, voiceOf, warningsIn } from './door.ts'
import { SPEECH_OPTIONS } from './options.ts'

/** OpenAI's default, whatever the entry makes: https://platform.openai.com/docs/api-reference/audio/createSpeech */
const DEFAULT_FORMAT = 'mp3'

const OpenAiSpeechBody = Type.Object({
  model: MODEL_FIELD,
  ...SpeechBody.properties,
  voice: VOICE_FIELD,
  response_format: Type.With(SpeechBody.properties.response_format, { description: 'default: mp3' }),
  stream_format: optional(
    Type.Enum(['audio', 'sse']),
    'the body is the audio, the default, or events with it',
  ),
})

const openaiSpeechRequest = openaiRequest(
  'speech',
  OpenAiSpeechBody,
  (body) =>
    readSpeech({
      ...body,
      voice: voiceOf(body.voice),
      response_format: body.response_format ?? DEFAULT_FORMAT,
    }),
  new JsonOptions(SPEECH_OPTIONS),
)

const EVENTS =
  'With `stream_format: sse`: `speech.audio.delta` with base64 in `audio`, and `speech.audio.done` with tokens.'

/** Answers with the audio as the body, or in events, whatever the `Accept` header says. */
export const audioSpeech = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/audio/speech',
  kind: 'call',
  id: 'openaiSpeech',
  summary: 'Text to speech',
  body: openaiSpeechRequest,
  answers: [
    openaiAnswer(
      [
        { type: 'audio/*', schema: { type: 'string', format: 'binary' } },
        { type: 'text/event-stream', schema: { type: 'string', description: EVENTS } },
      ],
      SPEECH_FACTS,
    ),
  ],
  errors: CALL_ERRORS,
  handle: ({ body: { call, fields }, ...request }) =>
    fields.stream_format === 'sse' ? speechEvents(call, request) : streamSpeech(call, request),
})

/** The audio piece by piece in events, each of which has whole bytes; kept audio too. */
async function speechEvents(
  call: CallOf<'speech'>,
  { exchange, context, deps: { services } }: Admitted,
): Promise<Reply> {
  const streaming = await run(services, context, { mode: 'streamed', call, cached: true })
  const stream: EventStream<Deltas['speech']> = {
    deltas: streaming.deltas,
    headers: streamFacts(streaming),
    event: ({ bytes }) => ({
      type: 'speech.audio.delta',
      audio: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64'),
    }),
    done() {
      const outcome = streaming.outcome()
      exchange.onFinished(outcome.release)
      const { usage: metered, warnings } = outcome.envelope
      const { input_tokens: input, output_tokens: output } = metered
      // The format has no place for characters, and no way to say that tokens are not known.
      const usage = { input_tokens: input ?? 0, output_tokens: output ?? 0 }
      const total_tokens = usage.input_tokens + usage.output_tokens
      return [{ type: 'speech.audio.done', usage: { ...usage, total_tokens }, ...warningsIn(warnings) }]
    },
    terminator: null,
  }
  return eventStreamReply(stream, exchange, context)
}
