import type { Audio } from './audio.ts'
import type { WithExtras } from './extras.ts'
import type { SpokenLogprob } from './logprobs.ts'
import type { TokenUsage } from './usage.ts'

export const CAPABILITIES = [
  'text',
  'completion',
  'embeddings',
  'image',
  'vision',
  'audio_input',
  'audio_output',
  'video_generation',
  'function_calling',
] as const

/** An ability of a model that an endpoint needs. */
export type Capability = (typeof CAPABILITIES)[number]

export const TRANSCRIPT_FORMATS = ['json', 'verbose_json', 'diarized_json', 'text', 'srt', 'vtt'] as const
export type TranscriptFormat = (typeof TRANSCRIPT_FORMATS)[number]

export const REDACTIONS = ['pii', 'phi', 'pci', 'numbers'] as const
export type Redaction = (typeof REDACTIONS)[number]

/** Rules for the subtitles of a transcript. */
export interface SubtitleRules {
  /** Longest line, in characters. */
  readonly lineLength: number
  /** Most lines. */
  readonly lines: number
  /** Fastest reading that a viewer is to be asked for, where the speech leaves room. */
  readonly charactersPerSecond: number
}

/** The options of a transcription or translation after defaults, in wire names. */
export interface TranscriptionOptions extends WithExtras {
  readonly language: string | null
  readonly prompt: string | null
  readonly response_format: TranscriptFormat
  readonly mode: 'batch' | 'async' | 'realtime'
  readonly diarization: boolean
  readonly speaker_count_hint: number | null
  readonly timestamps: 'word' | 'segment' | 'both' | null
  /** `keyterms` and `custom_vocabulary` united. */
  readonly keyterms: readonly string[]
  readonly smart_formatting: boolean
  readonly detect_language: boolean
  readonly profanity_filter: boolean
  readonly multichannel: boolean
  readonly redaction: readonly Redaction[]
  readonly seed: number | null
  /** The provider is to cut the audio into pieces as it thinks best; absent: nothing was said of it. */
  readonly chunking_strategy?: 'auto'
  /** Sounds that are not speech are to be told, as words of the kind `event`; absent: they are not asked for. */
  readonly audio_events?: boolean
  /** The times of the characters of words are required; absent: they are not. */
  readonly character_times?: true
  /** How `srt` and `vtt` are cut; absent: each segment is a subtitle. */
  readonly subtitles?: SubtitleRules
  /** Long silence is left out before a provider hears it; absent: as the route says. */
  readonly skip_silence?: boolean
  /** Most that it may cost; absent: whatever it costs. */
  readonly max_cost_usd?: number
}

/** Options that an entry may lack without harm: dropped, with a warning that names them. */
export const HINTS = [
  'language',
  'prompt',
  'speaker_count_hint',
  'smart_formatting',
  'profanity_filter',
  'detect_language',
  'audio_events',
] as const
export type Hint = (typeof HINTS)[number]

/** Features that a transcription may require; an entry keeps all that are asked for, or is not eligible. */
export const FEATURES = [
  'word_timestamps',
  'segment_timestamps',
  'diarization',
  'redaction',
  'keyterms',
  'multichannel',
  'realtime',
] as const
export type Feature = (typeof FEATURES)[number]

/**
 * Features that speech, a transcript, or a live session may require. Whether an entry keeps them is a matter of its
 * protocol, not of its model's facts.
 */
export const PROTOCOL_FEATURES = ['character_timestamps', 'turns'] as const
export type ProtocolFeature = (typeof PROTOCOL_FEATURES)[number]

export interface TranscriptionCall {
  readonly audio: Audio
  readonly options: TranscriptionOptions
  /** Facts of audio that is still coming; absent: it is here. */
  readonly live?: LiveTerms
}

export const LIVE_ENCODINGS = ['pcm_s16le', 'mulaw', 'alaw'] as const
export type LiveEncoding = (typeof LIVE_ENCODINGS)[number]

/** Format of live audio: raw samples, whose bytes therefore tell the time. Channels are interleaved. */
export interface LiveAudio {
  readonly encoding: LiveEncoding
  /** Hz. */
  readonly sampleRate: number
  readonly channels: number
}

/** Requests of a caller for a live session, beside the options of a transcription. */
export interface LiveTerms {
  /** As the caller sends it. */
  readonly audio: LiveAudio
  /** The caller reads unfinished text. */
  readonly interim: boolean
  /** Silence that ends an utterance, ms; null: the provider's default. */
  readonly endpointingMs: number | null
  /** `manual`: an utterance ends only where the caller says `finalize`, as far as the provider can be told so. */
  readonly commit: 'auto' | 'manual'
  /** The caller relies on the ends of turns as `utterance_end`. Absent: it does not. */
  readonly turns?: true
}

/**
 * A transcription whose audio is still coming. Its `audio` is a slice of it: `durationSeconds` are the seconds
 * that money is set aside for.
 */
export interface LiveCall extends TranscriptionCall {
  readonly live: LiveTerms
}

export interface SpeechCall extends WithExtras {
  readonly input: string
  /** Null: the provider's default voice. */
  readonly voice: string | null
  /** Null: the provider's default format. */
  readonly response_format: string | null
  readonly speed: number | null
  readonly seed: number | null
  /** The times of its characters are required; absent: they are not. */
  readonly times?: true
  /** Other names of the format, for providers that do not know it by the first; absent: it has one. */
  readonly format_aliases?: readonly string[]
  /** Its provider has to make the format; absent: it may be made here, where the route says so. */
  readonly unencoded?: true
}

/** When each character of a text is spoken. All lists are as long as each other. */
export interface CharacterTimes {
  readonly characters: readonly string[]
  /** Seconds from the beginning of the audio; of a piece, as its provider counts them. */
  readonly starts: readonly number[]
  readonly ends: readonly number[]
}

/** Times of speech, or of a piece of it. */
export interface SpeechTimes {
  /** Times of the text as it was sent; null: the provider tells none. */
  readonly text: CharacterTimes | null
  /** Times of the text as the provider reads it, with numbers in words for one; null: it tells none. */
  readonly normalized: CharacterTimes | null
}

export interface Segment {
  readonly id: number
  /** Seconds from the beginning of the audio. */
  readonly start: number
  readonly end: number
  readonly text: string
  readonly speaker?: string
  readonly channel?: number
  readonly confidence?: number
  /** As of the transcript; absent: that one's. */
  readonly language?: string
}

export interface Word {
  readonly word: string
  /** Seconds from the beginning of the audio. */
  readonly start: number
  readonly end: number
  readonly speaker?: string
  readonly channel?: number
  readonly confidence?: number
  /** A sound that is no speech, as `(laughter)`; absent: it is a word. */
  readonly kind?: 'event'
  /** Only where the call requires them. */
  readonly characters?: CharacterTimes
}

/** Figures that Whisper has of a segment. Each is absent where the provider does not tell it. */
export interface SegmentFigures {
  readonly seek?: number
  readonly tokens?: readonly number[]
  readonly temperature?: number
  readonly avg_logprob?: number
  readonly compression_ratio?: number
  readonly no_speech_prob?: number
}

/** A part in which audio was heard that no provider takes whole, in wire names. */
export interface TranscriptPart {
  /** Seconds of the whole that are its own. */
  readonly start: number
  readonly end: number
  readonly provider: string
  readonly model: string
  readonly cost_usd: number | null
  /** How many entries were asked, one after the other. */
  readonly attempts: number
  /** False: it was cut from the next one within sound, and both were given some seconds of each other. */
  readonly ends_in_silence: boolean
}

export interface TranscriptionResult {
  readonly text: string
  /** ISO 639-1, else 639-3, lower case; null when the provider does not say. */
  readonly language: string | null
  readonly languageConfidence: number | null
  /** As the provider reports it; metering reads the file itself. */
  readonly durationSeconds: number | null
  readonly segments: readonly Segment[]
  readonly words: readonly Word[]
  readonly warnings: readonly string[]
  /** Figures of each segment, in their order; absent: the provider has none. */
  readonly figures?: readonly SegmentFigures[]
  /** Log probabilities of the tokens of the text, where they were asked for. */
  readonly logprobs?: readonly SpokenLogprob[]
  /** Tokens that the provider counted, where it says them. */
  readonly tokens?: TokenUsage
  /** Model that answered, where the provider took another one than it was asked for. */
  readonly model?: string
  /** Absent: it was heard whole. */
  readonly parts?: readonly TranscriptPart[]
  /** Seconds of silence that were left out; absent: that was not asked for. */
  readonly skippedSeconds?: number
}

export interface SpeechResult {
  /** Empty when it was streamed: then the pieces are the audio. */
  readonly audio: readonly Uint8Array[]
  readonly mediaType: string
  /** Where the call requires them, and it was not streamed: then they are with the pieces. */
  readonly times?: SpeechTimes
  /** Tokens that the provider counted, where it says them. */
  readonly usage?: TokenUsage
}
