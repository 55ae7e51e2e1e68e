import type { AudioFormat } from '../../../../../schema/audio.ts'
import type { Capability, Feature, Hint } from '../../../../../schema/calls.ts'
import type { Profile, Strategy } from '../../../../../schema/catalog.ts'
import type { OperationName } from '../../../../../schema/operations.ts'

// Each list names every member of its type: one that is added there and not here does not compile.

export const STRATEGY_WORDS: Readonly<Record<Strategy, { readonly name: string; readonly means: string }>> = {
  priority: { name: 'Priority', means: 'Try in order.' },
  weighted: { name: 'Weighted', means: 'Split traffic by weight.' },
  lowest_latency: {
    name: 'Lowest latency',
    means: 'Fastest recently, first.',
  },
  lowest_cost: { name: 'Lowest cost', means: 'Cheapest for this request, first.' },
}

export const PROFILE_WORDS: Readonly<Record<Profile, string>> = {
  fast: 'Fast',
  balanced: 'Balanced',
  thinking: 'Thinking',
}

export const CAPABILITY_NAMES: Readonly<Record<Capability, string>> = {
  audio_input: 'Speech-to-text',
  audio_output: 'Text-to-speech',
  text: 'Chat',
  completion: 'Completion',
  embeddings: 'Embeddings',
  image: 'Images',
  vision: 'Vision',
  video_generation: 'Video',
  function_calling: 'Tools',
}

export const FEATURE_WORDS: Readonly<Record<Feature, string>> = {
  diarization: 'Diarization',
  word_timestamps: 'Word timestamps',
  segment_timestamps: 'Segment timestamps',
  redaction: 'Redaction',
  keyterms: 'Keyterms',
  multichannel: 'Multichannel',
  realtime: 'Realtime mode',
}

export const HINT_WORDS: Readonly<Record<Hint, string>> = {
  language: 'Language',
  prompt: 'Prompt',
  speaker_count_hint: 'Speaker count',
  smart_formatting: 'Smart formatting',
  profanity_filter: 'Profanity filter',
  detect_language: 'Detect language',
}

export const ENDPOINT_WORDS: Readonly<Record<OperationName, string>> = {
  transcription: 'Transcription',
  translation: 'Translation',
  speech: 'Speech',
  chat: 'Chat',
  complete: 'Completion',
  embeddings: 'Embeddings',
  image: 'Image',
  vision: 'Vision',
  video: 'Video',
}

export const FORMAT_WORDS: Readonly<Record<AudioFormat, string>> = {
  wav: 'wav',
  mp3: 'mp3',
  mp4: 'mp4, m4a',
  webm: 'webm',
  ogg: 'ogg',
  flac: 'flac',
}

/** The members of a list of words, in its order. */
export function members<Name extends string>(words: Readonly<Record<Name, unknown>>): readonly Name[] {
  return Object.keys(words) as Name[]
}

/** The word for a name; the name itself when there is none, as in a draft that has faults. */
export function wordFor(words: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(words, name) ? (words[name] ?? name) : name
}
