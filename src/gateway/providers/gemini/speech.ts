import type { SpeechCall, SpeechResult } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Operation, Step, Target, Unsupported } from '../../../contracts/provider.ts'
import type { UpstreamReply, UpstreamRequest } from '../../../contracts/upstream.ts'
import type { TokenUsage } from '../../../contracts/usage.ts'
import { type Made, readEnding } from '../answer.ts'
import { noAudio } from '../audio-answer.ts'
import { base64Bytes } from '../base64-bytes.ts'
import { unusable } from '../failure.ts'
import { asObject } from '../json.ts'
import { unsent, unsupportedField } from '../unsupported.ts'
import { type GeminiAnswer, refusedContent, wholeEnding } from './answer.ts'
import { deadEndOf, interactionUrl, readInteraction } from './interactions.ts'
import { l16Rate, type Pcm, pcmOf, wavOf } from './pcm.ts'
import { methodUrl, postJson } from './wire.ts'

/** One of 30, https://ai.google.dev/gemini-api/docs/speech-generation#voices */
const DEFAULT_VOICE = 'Kore'
const DEFAULT_FORMAT = 'wav'

/** `generateContent` makes samples, bare or as a WAV file. */
const SAMPLED: ReadonlyMap<string, string> = new Map([
  ['wav', 'audio/wav'],
  ['pcm', 'audio/pcm'],
])

/** Only interactions encode: Gemini's type of each format, and ours. */
const ENCODED: ReadonlyMap<string, { readonly mimeType: string; readonly mediaType: string }> = new Map([
  ['mp3', { mimeType: 'audio/mp3', mediaType: 'audio/mpeg' }],
  ['opus', { mimeType: 'audio/ogg_opus', mediaType: 'audio/ogg' }],
])

/** Sample rate of `pcm`, the same for every provider. */
const PCM_SAMPLE_RATE = 24_000

interface Clip {
  readonly mimeType: string
  readonly bytes: Buffer
}

/** Text to speech. There is no parameter for the speed. */
export const geminiSpeech: Operation<SpeechCall, SpeechResult> = {
  unsupported,
  start(call, target): Step<SpeechResult> {
    const issue = unsupported(call)
    if (issue !== null) return unsent(issue)
    const encoded = ENCODED.get(speechFormat(call))
    const request =
      encoded === undefined ? sampledRequest(call, target) : encodedRequest(call, target, encoded.mimeType)
    return { kind: 'send', request, state: null }
  },
  next(_state, reply, call) {
    const format = speechFormat(call)
    const encoded = ENCODED.get(format)
    return encoded === undefined
      ? wholeEnding(reply, (answer) => readSampled(answer, reply, format))
      : readEnding(reply, (body) => readEncoded(body, reply, encoded.mediaType))
  },
}

function unsupported(call: SpeechCall): Unsupported | null {
  const format = speechFormat(call)
  if (!SAMPLED.has(format) && !ENCODED.has(format)) {
    const formats = [...SAMPLED.keys(), ...ENCODED.keys()].join(', ')
    return unsupportedField('response_format', `the provider makes ${formats}`)
  }
  if (call.speed === null || call.speed === 1) return null
  return unsupportedField('speed', 'the provider has one only')
}

function speechFormat({ response_format: format }: SpeechCall): string {
  return format ?? DEFAULT_FORMAT
}

/** https://ai.google.dev/gemini-api/docs/speech-generation */
function sampledRequest({ input, voice }: SpeechCall, target: Target): UpstreamRequest {
  return postJson(target, methodUrl(target, 'generateContent'), {
    contents: [{ role: 'user', parts: [{ text: input }] }],
    generationConfig: {
      responseModalities: ['AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: voice ?? DEFAULT_VOICE } } },
    },
  })
}

/** An interaction that Google does not keep. */
function encodedRequest({ input, voice }: SpeechCall, target: Target, mimeType: string): UpstreamRequest {
  return postJson(target, interactionUrl(target), {
    model: target.model,
    input,
    store: false,
    response_format: { type: 'audio', mime_type: mimeType, delivery: 'inline' },
    generation_config: { speech_config: [{ voice: voice ?? DEFAULT_VOICE }] },
  })
}

function readSampled(
  { parts, usage }: GeminiAnswer,
  reply: UpstreamReply,
  format: string,
): Made<SpeechResult> {
  const clips = parts.flatMap(({ inlineData }) => {
    const { mimeType, data } = asObject(inlineData) ?? {}
    return clipOf(mimeType, data)
  })
  const [only] = clips
  // A WAV file of Gemini's own making stays as it is.
  if (only !== undefined && clips.length === 1 && format === 'wav' && isWav(only))
    return speechOf([only.bytes], 'audio/wav', usage)
  const pcm = joinedPcm(clips)
  if (pcm === null) return noAudio(reply)
  if (format === 'wav') return speechOf(wavOf(pcm), 'audio/wav', usage)
  return pcm.sampleRate === PCM_SAMPLE_RATE
    ? speechOf([pcm.bytes], 'audio/pcm', usage)
    : unusable(reply, `the samples have a rate of ${pcm.sampleRate} Hz`)
}

function readEncoded(body: JsonObject, reply: UpstreamReply, mediaType: string): Made<SpeechResult> {
  const interaction = readInteraction(body)
  if (interaction === null) return noAudio(reply)
  const failure = deadEndOf(interaction, reply)
  if (failure !== null) return failure
  const { contents, status, usage } = interaction
  const clips = contents
    .filter(({ type }) => type === 'audio')
    .flatMap(({ mime_type: mimeType, data }) => clipOf(mimeType, data))
  const [only] = clips
  // Several files of an encoded format do not make one, and samples are not what was asked for.
  if (status === 'completed' && clips.length === 1 && only !== undefined && isEncoded(only, mediaType))
    return speechOf([only.bytes], mediaType, usage)
  const refusal = contents.length > 0 && contents.every(({ type }) => type === 'text')
  return status === 'completed' && refusal
    ? refusedContent(reply.status, 'the provider answered in text only', null)
    : noAudio(reply)
}

function speechOf(audio: readonly Uint8Array[], mediaType: string, usage: TokenUsage | null) {
  return { result: { audio, mediaType, ...(usage === null ? {} : { usage }) } }
}

function clipOf(mimeType: unknown, data: unknown): Clip[] {
  const bytes = base64Bytes(data)
  return typeof mimeType === 'string' && bytes !== null ? [{ mimeType, bytes }] : []
}

function isWav({ mimeType, bytes }: Clip): boolean {
  return /^audio\/(?:x-)?wav\b/i.test(mimeType) && bytes.toString('latin1', 0, 4) === 'RIFF'
}

/** By what Gemini says it is: `audio/mp3` and `audio/mpeg` are one, as are the words for Opus in Ogg. */
function isEncoded({ mimeType }: Clip, mediaType: string): boolean {
  const said = mimeType.toLowerCase().split(';')[0]?.trim() ?? ''
  return mediaType === 'audio/mpeg'
    ? said === 'audio/mp3' || said === 'audio/mpeg'
    : said === 'audio/ogg_opus' || said === 'audio/ogg' || said === 'audio/opus'
}

/** The samples of all clips in a row; null when there are none, or when they do not fit together. */
function joinedPcm(clips: readonly Clip[]): Pcm | null {
  const parts = clips.map((clip) => {
    if (isWav(clip)) return pcmOf(clip.bytes)
    const sampleRate = l16Rate(clip.mimeType)
    return sampleRate === null ? null : { sampleRate, bytes: clip.bytes }
  })
  const sampleRate = parts[0]?.sampleRate
  if (sampleRate === undefined || parts.some((part) => part?.sampleRate !== sampleRate)) return null
  const bytes = Buffer.concat(parts.map((part) => part?.bytes ?? new Uint8Array()))
  return bytes.length === 0 || bytes.length % 2 === 1 ? null : { sampleRate, bytes }
}
