import type { AudioFormat } from '../contracts/audio.ts'
import type { Feature, Hint, LiveTerms, TranscriptionOptions } from '../contracts/calls.ts'
import type { Profile } from '../contracts/catalog.ts'
import type { ChatCall } from '../contracts/chat.ts'
import type { Calls, OperationName } from '../contracts/operations.ts'
import type { Call } from './call.ts'

/** Properties of a request that selection looks at, for explaining how a route would serve it. */
export interface Sample {
  readonly purpose: string | null
  readonly responseProfile: Profile | null
  readonly features: readonly Feature[]
  readonly hints: readonly Hint[]
  readonly language: string | null
  readonly audio: {
    readonly format: AudioFormat
    readonly bytes: number
    readonly seconds: number | null
    readonly channels: number | null
  }
  /** Length of the text that is spoken or answered, characters. */
  readonly characters: number
  readonly voice: string | null
  readonly speed: number | null
  readonly responseFormat: string | null
  /** Content of a chat beside text. */
  readonly images: boolean
  readonly tools: boolean
  readonly spoken: boolean
  readonly size: string | null
  readonly durationSeconds: number | null
  readonly count: number
  readonly dimensions: number | null
}

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
