import { isDeepStrictEqual } from 'node:util'
import type { Feature, Hint, LiveTerms, SpeechCall, TranscriptionOptions } from '../../../contracts/calls.ts'
import type { Principal } from '../../../contracts/catalog.ts'
import { countCharacters } from '../../../contracts/characters.ts'
import { type ChatCall, isAnyObject } from '../../../contracts/chat.ts'
import { IMAGE_WORDS } from '../../../contracts/generation.ts'
import type { Calls, OperationName } from '../../../contracts/operations.ts'
import type { RecordedCall, Sample } from '../../../contracts/sample.ts'
import { speechForm } from '../../media/speech-form.ts'
import { languageCode } from '../../providers/language.ts'
import { requiredFeatures } from '../../providers/transcript-needs.ts'
import type { Call } from '../facts/call.ts'

/** One minute of WAV, 1,000 characters, and no options. */
export const PLAIN_SAMPLE: Sample = {
  purpose: null,
  responseProfile: null,
  features: [],
  hints: [],
  language: null,
  audio: { format: 'wav', bytes: 1_920_044, seconds: 60, channels: 1 },
  characters: 1000,
  voice: null,
  speed: null,
  responseFormat: null,
  images: false,
  tools: false,
  spoken: false,
  size: null,
  durationSeconds: null,
  count: 1,
  dimensions: null,
}

/** Builds a call that selection treats as the sample. Its audio and texts are blank: it is never sent. */
export function sampleCall<K extends OperationName>(operation: K, sample: Sample): Call<K> {
  const { purpose, responseProfile } = sample
  return {
    operation,
    payload: PAYLOADS[operation](sample),
    selectors: { purpose: purpose === null ? null : { label: purpose, source: 'body' }, responseProfile },
    warnings: [],
  }
}

const SAMPLING = { max_tokens: null, temperature: null, top_p: null, stop: [], seed: null }

const PAYLOADS: { readonly [K in OperationName]: (sample: Sample) => Calls[K] } = {
  transcription: transcriptionPayload,
  translation: transcriptionPayload,
  speech: ({ characters, voice, speed, responseFormat }) => ({
    input: 'a'.repeat(characters),
    voice,
    speed,
    response_format: responseFormat,
    seed: null,
  }),
  chat: (sample) => chatPayload(sample, sample.images),
  vision: (sample) => chatPayload(sample, true),
  complete: ({ characters }) => ({ ...SAMPLING, prompt: 'a'.repeat(characters) }),
  embeddings: ({ characters, count, dimensions }) => ({
    input: Array<string>(count).fill('a'.repeat(characters)),
    dimensions,
  }),
  image: ({ characters, count, size, responseFormat }) => ({
    prompt: 'a'.repeat(characters),
    n: count,
    size,
    quality: null,
    output_format: responseFormat,
    seed: null,
  }),
  video: ({ characters, durationSeconds, size }) => ({
    prompt: 'a'.repeat(characters),
    duration_seconds: durationSeconds,
    size,
    seed: null,
  }),
}

const LIVE_SAMPLE: LiveTerms = {
  audio: { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 },
  interim: true,
  endpointingMs: null,
  commit: 'auto',
}

function transcriptionPayload({ audio, features, hints, language }: Sample): Calls['transcription'] {
  const has = (name: Feature | Hint) =>
    features.some((one) => one === name) || hints.some((one) => one === name)
  const words = has('word_timestamps')
  const segments = has('segment_timestamps')
  const options: TranscriptionOptions = {
    language,
    prompt: has('prompt') ? 'a' : null,
    response_format: 'json',
    mode: has('realtime') ? 'realtime' : 'batch',
    diarization: has('diarization'),
    speaker_count_hint: has('speaker_count_hint') ? 2 : null,
    timestamps: words && segments ? 'both' : words ? 'word' : segments ? 'segment' : null,
    keyterms: has('keyterms') ? ['Larkway'] : [],
    smart_formatting: has('smart_formatting'),
    detect_language: has('detect_language'),
    profanity_filter: has('profanity_filter'),
    multichannel: has('multichannel'),
    redaction: has('redaction') ? ['pii'] : [],
    seed: null,
    ...(has('audio_events') ? { audio_events: true } : {}),
  }
  const { format, bytes, seconds, channels } = audio
  return {
    ...(has('realtime') ? { live: LIVE_SAMPLE } : {}),
    audio: {
      source: { kind: 'memory', blocks: [] },
      offset: 0,
      length: bytes,
      encoding: 'identity',
      decodedBytes: bytes,
      canonical: true,
      mediaType: null,
      filename: null,
      format,
      durationSeconds: seconds,
      channels,
    },
    options,
  }
}

function chatPayload({ characters, tools, spoken }: Sample, images: boolean): ChatCall {
  const text = { type: 'text', text: 'a'.repeat(characters) } as const
  const image = {
    type: 'image',
    source: { kind: 'url', url: 'https://example.com/a.png' },
    detail: null,
  } as const
  return {
    ...SAMPLING,
    messages: [{ role: 'user', parts: images ? [text, image] : [text] }],
    tools: tools ? [{ name: 'tool', description: null, parameters: null }] : [],
    tool_choice: null,
    modalities: spoken ? ['text', 'audio'] : ['text'],
    audio: null,
    response_schema: null,
  }
}

/** The sample that was recorded of a call. */
export function recordedSample({ sample }: RecordedCall): Sample {
  return { ...PLAIN_SAMPLE, ...sample }
}

/** A sample with a note of the fields that it cannot express, or that are the caller's own words. */
interface PartialSample {
  readonly sample: Partial<Sample>
  readonly unrecorded: readonly string[]
}

/**
 * The parts of a call that selection looks at, without its content. A label, a voice and a format are told where the
 * configuration or a list of ours has them: any other text is the caller's own.
 */
export function recordedCall(
  call: Call,
  { purposes, route }: Pick<Principal, 'purposes' | 'route'>,
): RecordedCall {
  const { operation, selectors } = call
  const { sample, unrecorded } = callSample(call, route)
  const label = selectors.purpose?.label
  const purpose = purposes.some((one) => one.purpose === label) ? (label ?? null) : null
  const all = { ...sample, purpose, responseProfile: selectors.responseProfile }
  const missing = selectors.require === undefined ? unrecorded : [...unrecorded, 'require']
  return {
    operation,
    sample: Object.fromEntries(Object.entries(all).filter(([name, value]) => !isPlain(name, value))),
    ...(missing.length === 0 ? {} : { unrecorded: missing }),
  }
}

function isPlain(name: string, value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  return value === PLAIN_SAMPLE[name as keyof Sample]
}

function callSample(call: Call, route: Principal['route']): PartialSample {
  switch (call.operation) {
    case 'transcription':
    case 'translation':
      return transcriptionSample(call.payload)
    case 'speech':
      return speechSample(call.payload, route)
    case 'chat':
    case 'vision':
      return chatSample(call.payload)
    case 'complete':
      return partialSample({ characters: call.payload.prompt.length })
    case 'embeddings': {
      const { input, dimensions } = call.payload
      const characters = input.reduce((sum, one) => sum + (typeof one === 'string' ? one.length : 4), 0)
      return partialSample({
        characters: Math.ceil(characters / input.length),
        count: input.length,
        dimensions,
      })
    }
    case 'image': {
      const { prompt, n, size, output_format: format } = call.payload
      const responseFormat = IMAGE_WORDS.output_format.find((one) => one === format) ?? null
      const sample = { characters: prompt.length, count: n, size: measures(size), responseFormat }
      return partialSample(sample, { size: size !== sample.size, output_format: format !== responseFormat })
    }
    case 'video': {
      const { prompt, duration_seconds: durationSeconds, size } = call.payload
      const sample = { characters: prompt.length, durationSeconds, size: measures(size) }
      return partialSample(sample, { size: size !== sample.size })
    }
  }
}

/** @param lacks fields of the call by whether they are missing in the sample */
function partialSample(
  sample: Partial<Sample>,
  lacks: Readonly<Record<string, boolean>> = {},
): PartialSample {
  return { sample, unrecorded: Object.keys(lacks).filter((name) => lacks[name] === true) }
}

/** `1024x1024`; null for any other word. */
function measures(size: string | null): string | null {
  return size !== null && /^\d{1,5}x\d{1,5}$/.test(size) ? size : null
}

function transcriptionSample({ audio, options, live }: Calls['transcription']): PartialSample {
  const { format, decodedBytes: bytes, durationSeconds: seconds, channels } = audio
  const language = options.language === null ? null : languageCode(options.language)
  return partialSample(
    { features: requiredFeatures(options), language, audio: { format, bytes, seconds, channels } },
    {
      keyterms: options.keyterms.length > 0,
      redaction: options.redaction.some((kind) => kind !== 'pii'),
      character_times: options.character_times === true,
      // A sample in realtime is live audio of one kind.
      mode: options.mode === 'realtime' && live === undefined,
      encoding: live !== undefined && !isDeepStrictEqual(live.audio, LIVE_SAMPLE.audio),
    },
  )
}

/** Formats of speech that are words of ours. */
const SPEECH_FORMATS = ['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']

function speechSample(
  { input, voice, speed, response_format, times }: SpeechCall,
  route: Principal['route'],
): PartialSample {
  const limits = route.entries.map(({ facts }) => facts.limits)
  const voices = route.entries.flatMap((entry, at) => [
    ...Object.keys(entry.voices),
    ...(limits[at]?.voices ?? []),
  ])
  const formats = [...SPEECH_FORMATS, ...limits.flatMap(({ speech_formats = [] }) => speech_formats)]
  const named = voices.find((name) => name === voice) ?? null
  const isOurs = response_format !== null && speechForm(response_format) !== null
  const responseFormat = isOurs
    ? response_format
    : (formats.find((format) => format === response_format) ?? null)
  return partialSample(
    { characters: countCharacters(input), voice: named, speed, responseFormat },
    { voice: voice !== named, response_format: response_format !== responseFormat, times: times === true },
  )
}

function chatSample({ messages, tools, modalities, response_schema: schema }: ChatCall): PartialSample {
  const parts = messages.flatMap((message) => message.parts)
  const characters = parts.reduce((sum, part) => sum + (part.type === 'text' ? part.text.length : 0), 0)
  return partialSample(
    {
      characters,
      images: parts.some(({ type }) => type === 'image'),
      tools: tools.length > 0,
      spoken: modalities.includes('audio'),
    },
    {
      audio: parts.some(({ type }) => type === 'audio'),
      response_schema: schema !== null && !isAnyObject(schema),
    },
  )
}
