import { type Static, Type } from 'typebox'
import type { SpeechCall, SpeechResult } from '../../../contracts/calls.ts'
import { GatewayError, toGatewayError } from '../../../contracts/errors.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import { holdsNothing } from '../../call/attempt/outcome.ts'
import type { Streaming } from '../../call/attempt/stream.ts'
import type { AdmittedContext, CallContext } from '../../call/context/call-context.ts'
import type { Services } from '../../call/context/services.ts'
import type { Call, CallOf } from '../../call/facts/call.ts'
import { run } from '../../call/pipeline.ts'
import type { Exchange, Reply } from '../../edge/exchange.ts'
import { invalid, invalidField } from '../../edge/refusals.ts'
import { type AcceptedAudio, acceptedAudio } from '../accept.ts'
import { type Admitted, endpoint } from '../endpoint.ts'
import { factHeaders, keptHeaders, streamFacts } from '../fact-headers.ts'
import { jsonReply, largeBase64 } from '../json-reply.ts'
import { jsonRequest, optional, SEED_FIELD } from '../json-request.ts'
import { Speech } from '../openapi/answers.ts'
import { SPEECH_FACTS } from '../openapi/headers.ts'
import { CALL_ERRORS, type Content, json } from '../openapi/operation.ts'
import { CALLER_LEFT } from '../sse.ts'

/** The names that providers give the formats of a media type, the usual one first. */
const FORMATS: ReadonlyMap<string, readonly string[]> = new Map([
  ['audio/mpeg', ['mp3']],
  ['audio/mp3', ['mp3']],
  ['audio/wav', ['wav', 'wav_24000']],
  ['audio/x-wav', ['wav', 'wav_24000']],
  ['audio/wave', ['wav', 'wav_24000']],
  ['audio/vnd.wave', ['wav', 'wav_24000']],
  ['audio/ogg', ['opus', 'opus_48000_96']],
  ['audio/opus', ['opus', 'opus_48000_96']],
  ['audio/flac', ['flac']],
  ['audio/x-flac', ['flac']],
  ['audio/aac', ['aac']],
  ['audio/pcm', ['pcm']],
  ['audio/basic', ['ulaw_8000']],
])

/** Context of a speech call beside its payload. */
interface SpeechContext {
  readonly context: AdmittedContext
  readonly services: Services
}

/**
 * The call in a format of the media types that its caller accepts. Where no entry makes one of them, any other format
 * does if the header has a range for it, with a warning.
 *
 * @throws GatewayError INVALID_REQUEST that names what can be made
 */
async function inAcceptedFormat(
  call: Call<'speech'>,
  { types, others }: AcceptedAudio,
  asked: SpeechContext,
): Promise<Call<'speech'>> {
  if (types.length === 0) return call
  const { response_format: given } = call.payload
  if (given !== null) {
    if (others || types.some((type) => isFormatOf(given, type))) return call
    const rule = `must be a format of ${types.join(' or ')}, which the header Accept asks for`
    throw invalidField('response_format', rule)
  }
  const made = await inFirstFormat(
    call,
    types.flatMap((type) => FORMATS.get(type) ?? []),
    asked,
  )
  if (!(made instanceof GatewayError) && made !== null) return made
  const named = types.join(' or ')
  if (others) {
    const line = `accept: no entry makes ${named}; this is another format`
    return { ...call, warnings: [...call.warnings, line] }
  }
  const refusal = made ?? (await speechRefusal(withFormat(call, types[0]!), asked))
  const makes = refusal?.message ?? `speech is made as ${[...new Set(FORMATS.keys())].join(', ')}`
  throw invalid(`Accept: ${named} cannot be made here: ${makes}`, 'Accept')
}

/**
 * The call in the first of these formats that a provider makes, or that is made here, or why none makes the first;
 * null: there are none.
 */
async function inFirstFormat(
  call: Call<'speech'>,
  formats: readonly string[],
  asked: SpeechContext,
): Promise<Call<'speech'> | GatewayError | null> {
  let refusal: GatewayError | null = null
  for (const { tried, made } of inFormats(call, formats)) {
    const refused = await speechRefusal(tried, asked)
    if (refused === null) return made
    if (tried === made) refusal ??= refused
  }
  return refusal
}

/**
 * A call in each of these formats: first as providers make them, then as they are made here.
 *
 * @returns `tried` says whether that can be, `made` is the call for it, at every entry that serves the format
 */
export function inFormats(
  call: CallOf<'speech'>,
  formats: readonly string[],
): readonly { readonly tried: CallOf<'speech'>; readonly made: CallOf<'speech'> }[] {
  const calls = formats.map((format) => withFormat(call, format))
  const unencoded = true
  return [
    ...calls.map((made) => ({ tried: { ...made, payload: { ...made.payload, unencoded } as const }, made })),
    ...calls.map((made) => ({ tried: made, made })),
  ]
}

/** `wav_24000` is a format of `audio/wav`. */
function isFormatOf(format: string, type: string): boolean {
  const codec = (name: string) => name.split('_')[0]
  return (FORMATS.get(type) ?? []).some((name) => codec(name) === codec(format))
}

function withFormat(call: CallOf<'speech'>, format: string): CallOf<'speech'> {
  return { ...call, payload: { ...call.payload, response_format: format } }
}

/** Why no entry makes the format; null when one does, or when it is something else that the call will tell. */
async function speechRefusal(
  call: Call<'speech'>,
  { context, services }: SpeechContext,
): Promise<GatewayError | null> {
  try {
    await run(services, context, { mode: 'preview', call })
    return null
  } catch (thrown) {
    const isFormat = thrown instanceof GatewayError && thrown.extra.param === 'response_format'
    return isFormat ? thrown : null
  }
}

/** Longest text of a call, UTF-16 units. */
export const SPEECH_CHARACTERS_MAX = 100_000

export const SpeechBody = Type.Object({
  input: Type.String({ minLength: 1, maxLength: SPEECH_CHARACTERS_MAX, description: 'text to synthesize' }),
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

export const AUDIO_BODY: Content = {
  type: 'audio/*',
  schema: { type: 'string', format: 'binary', description: 'for `Accept: audio/…`: the audio, streamed' },
}

export const speech = endpoint({
  method: 'POST',
  path: '/v1/speech',
  kind: 'call',
  id: 'speech',
  tag: 'Speech',
  summary: 'Text to speech',
  description: 'The audio is base64 in `content_blocks`; with `Accept: audio/…` it is the response body.',
  scope: 'inference',
  body: speechRequest,
  answers: [
    { status: 200, description: 'the audio', contents: [json(Speech), AUDIO_BODY], headers: SPEECH_FACTS },
  ],
  errors: CALL_ERRORS,
  handle: (request) => answerSpeech(request.body.call, request),
})

/**
 * Answers with the audio as base64 in `content_blocks`, which leaves in slices and never as one string. To a caller
 * that asks for audio by its `Accept` header it streams as the body, in a format of the types that it names.
 */
export async function answerSpeech(call: Call<'speech'>, request: Admitted): Promise<Reply> {
  const { exchange, context, deps } = request
  const { services } = deps
  const accepted = acceptedAudio(exchange.headers.accept)
  if (accepted !== null) {
    const formatted = await inAcceptedFormat(call, accepted, { context, services })
    return streamSpeech(formatted, request)
  }
  const outcome = await run(services, context, { mode: 'whole', call, cached: true })
  exchange.onFinished(outcome.release)
  const { audio, mediaType } = outcome.result
  const block = { type: 'output_audio', base64: largeBase64(audio), media_type: mediaType }
  return jsonReply({ ...outcome.envelope, content_blocks: [block] })
}

/** How pieces of speech are written into a body. */
interface SpeechForm {
  contentType(first: Deltas['speech']): string
  write(piece: Deltas['speech']): Uint8Array | string
}

const AS_AUDIO: SpeechForm = { contentType: ({ mediaType }) => mediaType, write: ({ bytes }) => bytes }

/** Streams the audio as the body while it is made; facts of the envelope that are known so far are in headers. */
export function streamSpeech(call: Call<'speech'>, request: Admitted): Reply | Promise<Reply> {
  const { exchange, context, deps } = request
  const answer = (streaming: Streaming<'speech'>) =>
    streaming.whole === undefined
      ? streamPieces(streaming, request, AS_AUDIO)
      : wholeAudio(streaming, streaming.whole, exchange)
  const streaming = run(deps.services, context, { mode: 'streamed', call, cached: true })
  return streaming instanceof Promise ? streaming.then(answer) : answer(streaming)
}

/** The same of speech that is on its way, as a form writes its pieces. */
export async function streamPieces(
  streaming: Streaming<'speech'>,
  { exchange, context }: Admitted,
  form: SpeechForm,
): Promise<Reply> {
  const { deltas, outcome } = streaming
  exchange.onFinished(() => void deltas.return().catch(() => {}))
  const ended = () => exchange.onFinished(outcome().release)
  const first = await deltas.next()
  if (first.done === true) {
    ended()
    throw new GatewayError('UPSTREAM_ERROR', 'the provider sent no audio')
  }
  const headers = { 'content-type': form.contentType(first.value), ...streamFacts(streaming) }
  return { status: 200, headers, body: { stream: writtenSpeech(form, first.value, deltas, context, ended) } }
}

/** Audio that is here as a whole, so that its length is known. */
function wholeAudio(
  streaming: Streaming<'speech'>,
  { audio, mediaType }: SpeechResult,
  exchange: Exchange,
): Reply {
  const { envelope, release } = streaming.outcome()
  if (release !== holdsNothing) exchange.onFinished(release)
  const [first] = audio
  // One run of bytes goes out as it is.
  if (audio.length === 1 && first !== undefined)
    return { status: 200, common: keptHeaders(first, mediaType, envelope), body: first }
  return { status: 200, headers: { 'content-type': mediaType, ...factHeaders(envelope) }, body: audio }
}

/** The pieces. A failure can no longer become a status: it cuts the connection, and is noted for the log. */
async function* writtenSpeech(
  form: SpeechForm,
  first: Deltas['speech'],
  deltas: AsyncIterable<Deltas['speech']>,
  context: CallContext,
  ended: () => void,
): AsyncGenerator<Uint8Array | string, void> {
  context.failure = CALLER_LEFT
  try {
    yield form.write(first)
    for await (const piece of deltas) yield form.write(piece)
    ended()
    context.failure = null
  } catch (thrown) {
    context.failure = toGatewayError(thrown)
    throw thrown
  }
}
