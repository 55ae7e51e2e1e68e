import { type Static, Type } from 'typebox'
import { GatewayError, toGatewayError } from '../errors.ts'
import type { Call, Services, Trail } from '../gateway/gateway.ts'
import { run } from '../gateway/run.ts'
import { runStreamed } from '../gateway/stream.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { SpeechCall } from '../schema/calls.ts'
import type { Deltas } from '../schema/operations.ts'
import { acceptedAudio } from './accept.ts'
import { callerOf, type Handle } from './endpoint.ts'
import { streamFacts } from './fact-headers.ts'
import { jsonReply, largeBase64 } from './json-reply.ts'
import { jsonRequest, optional, receiveJson, SEED_FIELD } from './json-request.ts'
import { inAcceptedFormat } from './speech-format.ts'

export const SpeechBody = Type.Object({
  input: Type.String({ minLength: 1, maxLength: 100_000, description: 'text to synthesize' }),
  voice: optional(
    Type.String({ minLength: 1, maxLength: 256 }),
    'voice name or id of the provider; each provider has its own default',
  ),
  response_format: optional(
    Type.String({ minLength: 1, maxLength: 64 }),
    'output format of the provider; never substituted',
  ),
  speed: optional(Type.Number({ exclusiveMinimum: 0 }), 'speed of the voice, 1 is normal'),
  seed: SEED_FIELD,
})

export const speechRequest = jsonRequest('speech', SpeechBody, readSpeech)

export function readSpeech(body: Static<typeof SpeechBody>): SpeechCall {
  return {
    input: body.input,
    voice: body.voice ?? null,
    response_format: body.response_format ?? null,
    speed: body.speed ?? null,
    seed: body.seed ?? null,
  }
}

/** POST /v1/speech */
export const speech: Handle = async (exchange, trail, { services }) => {
  const { call } = await receiveJson(speechRequest, exchange, trail, services)
  return answerSpeech(call, exchange, trail, services)
}

/**
 * The audio as base64 in `content_blocks`, which leaves in slices and never as one string. To a caller that
 * asks for audio by its `Accept` header it streams as the body, in a format of the types that it names.
 */
export async function answerSpeech(
  call: Call<'speech'>,
  exchange: Exchange,
  trail: Trail,
  services: Services,
): Promise<Reply> {
  const accepted = acceptedAudio(exchange.headers.accept)
  if (accepted !== null) {
    const formatted = inAcceptedFormat(call, accepted, { trail, services })
    return streamSpeech(formatted, exchange, trail, services)
  }
  const outcome = await run(services, { ...callerOf(exchange), operation: 'speech', trail, call })
  exchange.onFinished(outcome.release)
  const { audio, mediaType } = outcome.result
  const block = { type: 'output_audio', base64: largeBase64(audio), media_type: mediaType }
  return jsonReply({ ...outcome.envelope, content_blocks: [block] })
}

/** The audio as the body, while it is made; the envelope's facts, as far as they are known before, in headers. */
export async function streamSpeech(
  call: Call<'speech'>,
  exchange: Exchange,
  trail: Trail,
  services: Services,
): Promise<Reply> {
  const request = { ...callerOf(exchange), operation: 'speech' as const, trail, call }
  const streaming = await runStreamed(services, request)
  const { deltas, outcome } = streaming
  exchange.onFinished(() => void deltas.return().catch(() => {}))
  const ended = () => exchange.onFinished(outcome().release)
  const first = await deltas.next()
  if (first.done === true) {
    ended()
    throw new GatewayError('UPSTREAM_ERROR', 'the provider sent no audio')
  }
  const headers = { 'content-type': first.value.mediaType, ...streamFacts(streaming, call) }
  return { status: 200, headers, body: { stream: bytesOf(first.value, deltas, trail, ended) } }
}

/** What breaks off here can no longer become a status: it cuts the connection, and is noted for the log. */
async function* bytesOf(
  first: Deltas['speech'],
  deltas: AsyncIterable<Deltas['speech']>,
  trail: Trail,
  ended: () => void,
): AsyncGenerator<Uint8Array, void> {
  // Stays when the caller leaves: then nothing behind the `yield` is run.
  trail.failure = new GatewayError('CLIENT_CLOSED')
  try {
    yield first.bytes
    for await (const { bytes } of deltas) yield bytes
    ended()
    trail.failure = null
  } catch (thrown) {
    trail.failure = toGatewayError(thrown)
    throw thrown
  }
}
