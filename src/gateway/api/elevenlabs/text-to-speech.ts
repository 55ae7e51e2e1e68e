import { type Static, Type } from 'typebox'
import type { CharacterTimes, SpeechTimes } from '../../../contracts/calls.ts'
import type { Principal } from '../../../contracts/catalog.ts'
import type { Deltas } from '../../../contracts/operations.ts'
import type { CallOf } from '../../call/facts/call.ts'
import { run } from '../../call/pipeline.ts'
import type { Exchange, Reply } from '../../edge/exchange.ts'
import { queryValues } from '../../edge/form.ts'
import {
  type DoorOptions,
  doorSelectors,
  JsonOptions,
  kept,
  OptionReader,
  optionsParameter,
  refused,
  warned,
} from '../door-options.ts'
import { type EndpointCall, endpoint } from '../endpoint.ts'
import { factHeaders } from '../fact-headers.ts'
import { EMPTY_LIST } from '../json-fault.ts'
import { jsonReply, type Large, largeBase64 } from '../json-reply.ts'
import { jsonRequest, optional, type ReceivedJson } from '../json-request.ts'
import { readSpeech, SpeechBody, streamPieces, streamSpeech } from '../native/speech.ts'
import { ElevenLabsTimedSpeech } from '../openapi/elevenlabs-answers.ts'
import { SPEECH_FACTS } from '../openapi/headers.ts'
import { CALL_ERRORS, json } from '../openapi/operation.ts'
import { ELEVENLABS, elevenlabsAnswer, LOGGING } from './door.ts'

/** Describes the streamed answer with times. */
const LINES = 'objects of this shape, one a line, each with a piece of the audio'

const BY_ENTRY = 'the entry decides'

/** Parameters of the query of `POST /v1/text-to-speech/{voice_id}`. */
export const SPEECH_QUERY: DoorOptions = {
  enable_logging: LOGGING.option,
  optimize_streaming_latency: warned(BY_ENTRY),
  output_format: kept(
    'default: `mp3_44100_128`; at others that is `mp3`, `opus_48000_96` is `opus`, `pcm_24000` is `pcm`, ' +
      '`wav_24000` is `wav`',
  ),
}

/** Members of its body beside `text`, in the order of ElevenLabs' reference. */
export const SPEECH_OPTIONS: DoorOptions = {
  model_id: kept('names a purpose of the workspace; any other name is ignored'),
  language_code: warned('the language is that of the text'),
  voice_settings: kept('of which `speed`; a warning names the others'),
  pronunciation_dictionary_locators: refused('there are no dictionaries here', { shape: EMPTY_LIST }),
  seed: kept('as `seed` at `/v1/speech`'),
  previous_text: warned('not passed on'),
  next_text: warned('not passed on'),
  previous_request_ids: warned('not passed on'),
  next_request_ids: warned('not passed on'),
  use_pvc_as_ivc: warned(BY_ENTRY),
  apply_text_normalization: warned(BY_ENTRY),
  apply_language_text_normalization: warned(BY_ENTRY),
  audio_effects: refused('audio is as the provider makes it'),
}

const bodyOptions = new JsonOptions(SPEECH_OPTIONS)

const VoiceSettings = Type.Object({
  speed: optional(Type.Number({ exclusiveMinimum: 0 }), 'of the voice; 1 is normal'),
})

const Body = Type.Object({
  text: SpeechBody.properties.input,
  model_id: optional(Type.String(), SPEECH_OPTIONS.model_id!.note),
  voice_settings: optional(VoiceSettings, SPEECH_OPTIONS.voice_settings!.note),
  seed: SpeechBody.properties.seed,
  ...bodyOptions.members,
})

export const speechRequest = jsonRequest(
  'speech',
  Body,
  ({ text, seed, voice_settings: settings, ...body }, warn) => {
    bodyOptions.warn(body, warn)
    for (const name of Object.keys(settings ?? {}))
      if (name !== 'speed') warn(`voice_settings.${name.slice(0, 64).toWellFormed()}: not passed on`)
    return readSpeech({ input: text, seed: seed ?? null, speed: settings?.speed ?? null })
  },
)

type SpeechRequest = EndpointCall<ReceivedJson<'speech'>>

const SPEAK = {
  ...ELEVENLABS,
  method: 'POST',
  kind: 'call',
  body: { ...speechRequest, parameters: ['Purpose', optionsParameter(SPEECH_QUERY)] },
  answers: [
    elevenlabsAnswer(
      [{ type: 'audio/*', schema: { type: 'string', format: 'binary' } }],
      ['x-character-count', ...SPEECH_FACTS],
    ),
  ],
  errors: CALL_ERRORS,
  handle: speak,
} as const

export const textToSpeech = endpoint({
  ...SPEAK,
  path: '/elevenlabs/v1/text-to-speech/:voice_id',
  id: 'elevenlabsTextToSpeech',
  summary: 'Text to speech',
})

export const textToSpeechStream = endpoint({
  ...SPEAK,
  path: '/elevenlabs/v1/text-to-speech/:voice_id/stream',
  id: 'elevenlabsTextToSpeechStream',
  summary: 'Text to speech, as it is made',
})

const TIMED_FACTS = ['x-character-count', ...SPEECH_FACTS] as const

export const textToSpeechTimed = endpoint({
  ...SPEAK,
  path: '/elevenlabs/v1/text-to-speech/:voice_id/with-timestamps',
  id: 'elevenlabsTimedSpeech',
  summary: 'Text to speech with the times of its characters',
  answers: [elevenlabsAnswer([json(ElevenLabsTimedSpeech)], TIMED_FACTS)],
  handle: speakTimed,
})

export const textToSpeechTimedStream = endpoint({
  ...SPEAK,
  path: '/elevenlabs/v1/text-to-speech/:voice_id/stream/with-timestamps',
  id: 'elevenlabsTimedSpeechStream',
  summary: 'Text to speech with the times of its characters, as it is made',
  answers: [{ ...elevenlabsAnswer([json(ElevenLabsTimedSpeech)], TIMED_FACTS), description: LINES }],
  handle: streamTimed,
})

/** Answers with the audio as the body, as it is made, at either path. */
async function speak(request: SpeechRequest) {
  const call = voicedCall(request)
  return countedCharacters(await streamSpeech(call, request), call)
}

/** Answers with the audio in base64 and the times of its characters, which speech that is kept does not have. */
async function speakTimed(request: SpeechRequest) {
  const { exchange, context, deps } = request
  const call = voicedCall(request, true)
  const { result, envelope, release } = await run(deps.services, context, { mode: 'whole', call })
  exchange.onFinished(release)
  const { audio, times } = result
  const reply = await jsonReply(timedPiece(largeBase64(audio), times))
  return countedCharacters({ ...reply, headers: { ...reply.headers, ...factHeaders(envelope) } }, call)
}

/** The same piece by piece, as it is made, each in a line of its own. */
async function streamTimed(request: SpeechRequest) {
  const { context, deps } = request
  const call = voicedCall(request, true)
  const streaming = await run(deps.services, context, { mode: 'streamed', call })
  const form = {
    contentType: () => 'application/json',
    write: (piece: Deltas['speech']) => speechLine(piece),
  }
  return countedCharacters(await streamPieces(streaming, request, form), call)
}

function speechLine({ bytes, times }: Deltas['speech']): string {
  const audio = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  return `${JSON.stringify(timedPiece(audio, times))}\n`
}

/** Audio with its times in ElevenLabs' shape. @param audio base64 */
export function timedPiece(audio: string | Large, times: SpeechTimes | undefined) {
  const { text = null, normalized = null } = times ?? {}
  return {
    audio_base64: audio,
    alignment: alignmentOf(text),
    normalized_alignment: alignmentOf(normalized),
  }
}

function alignmentOf(times: CharacterTimes | null) {
  if (times === null) return null
  const { characters, starts, ends } = times
  return { characters, character_start_times_seconds: starts, character_end_times_seconds: ends }
}

function countedCharacters(reply: Reply, { payload }: CallOf<'speech'>): Reply {
  return { ...reply, headers: { ...reply.headers, 'x-character-count': String([...payload.input].length) } }
}

function voicedCall({ exchange, context, body }: SpeechRequest, times?: true): CallOf<'speech'> {
  const call = readVoiced(exchange, body, context.principal)
  return times === undefined ? call : { ...call, payload: { ...call.payload, times } }
}

/** The call with the parameters of the query. @throws GatewayError INVALID_REQUEST naming a parameter */
export function readVoiced(
  exchange: Exchange,
  body: Pick<ReceivedJson<'speech'>, 'call' | 'fields'>,
  principal: Principal,
): CallOf<'speech'> {
  const { model_id: model } = body.fields as Static<typeof Body>
  const query = new OptionReader(queryValues(exchange.query), SPEECH_QUERY)
  const unkept = LOGGING.in(query)
  const format = query.text('output_format') ?? DEFAULT_FORMAT
  const [voice = ''] = exchange.params
  const [response_format, ...format_aliases] = namesOf(format)
  return {
    ...body.call,
    payload: { ...body.call.payload, voice, response_format, format_aliases },
    selectors: doorSelectors(body.call.selectors, principal, model ?? null, unkept),
    warnings: [...body.call.warnings, ...query.settleKindly()],
  }
}

/** https://elevenlabs.io/docs/api-reference/text-to-speech/convert */
const DEFAULT_FORMAT = 'mp3_44100_128'

/** Names of the same formats at other providers. */
const SHORT: Readonly<Record<string, string>> = {
  mp3_44100_128: 'mp3',
  opus_48000_96: 'opus',
  pcm_24000: 'pcm',
  wav_24000: 'wav',
}

function namesOf(format: string): readonly [string, ...string[]] {
  const short = Object.hasOwn(SHORT, format) ? SHORT[format] : undefined
  return short === undefined ? [format] : [format, short]
}
