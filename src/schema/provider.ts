import type { TSchema } from 'typebox'
import type { AudioFormat } from './audio.ts'
import type {
  Capability,
  Feature,
  Hint,
  SpeechCall,
  SpeechResult,
  TranscriptionCall,
  TranscriptionResult,
} from './calls.ts'
import type { Failure, UpstreamReply, UpstreamRequest } from './upstream.ts'

/** Where and as whom an attempt goes. */
export interface Target {
  readonly model: string
  /** Without a trailing slash, e.g. `https://api.openai.com/v1`. */
  readonly baseUrl: string
  /** The provider's key; null for providers that take none. */
  readonly credential: string | null
  /** The route entry's `options`, checked against the provider's own schema when the file was read. */
  readonly options: Readonly<Record<string, unknown>>
}

/** What an operation wants next. `state` is plain JSON, so that a job can persist it and go on elsewhere. */
export type Step<Result> =
  | { readonly kind: 'send'; readonly request: UpstreamRequest; readonly state: unknown }
  | {
      readonly kind: 'wait'
      readonly waitMs: number
      readonly then: UpstreamRequest
      readonly state: unknown
    }
  | { readonly kind: 'done'; readonly result: Result }
  | { readonly kind: 'failed'; readonly failure: Failure }

/**
 * One thing that a provider does, as a pure stepper: no client, no clock, no environment, no retries.
 * The gateway sends what `start` asks for and hands each answer to `next`, until `done` or `failed`.
 */
export interface Operation<Call, Result> {
  start(call: Call, target: Target): Step<Result>
  next(state: unknown, reply: UpstreamReply, call: Call, target: Target): Step<Result>
}

/** An upstream protocol. What it cannot do is an absent property; selection reads capability from the value. */
export interface Provider {
  /** As the configuration names it. */
  readonly kind: string
  /** Null: the configuration must give a `base_url`. */
  readonly baseUrl: string | null
  readonly needsCredential: boolean
  /** What a route entry's `options` may hold; absent: the protocol takes none. */
  readonly optionsSchema?: TSchema
  readonly transcription?: Operation<TranscriptionCall, TranscriptionResult>
  readonly translation?: Operation<TranscriptionCall, TranscriptionResult>
  readonly speech?: Operation<SpeechCall, SpeechResult>
}

/** What a call costs at the provider. Absent parts are not charged. */
export interface Price {
  readonly per_hour_usd?: number
  /** Shortest audio charged. */
  readonly minimum_seconds?: number
  readonly per_1k_characters_usd?: number
}

/** Dated facts of one model: what it can do, within which limits, at what price. */
export interface ModelFacts {
  readonly capabilities: readonly Capability[]
  readonly features: readonly Feature[]
  /** What it keeps when it translates; absent: the same as `features`. */
  readonly translation_features?: readonly Feature[]
  readonly hints: readonly Hint[]
  readonly limits: {
    readonly max_audio_bytes?: number
    readonly max_audio_seconds?: number
    readonly audio_formats?: readonly AudioFormat[]
    readonly max_input_characters?: number
    readonly speech_formats?: readonly string[]
    readonly speed?: { readonly min: number; readonly max: number }
    readonly voices?: readonly string[]
  }
  /** Null: unknown. */
  readonly price: Price | null
  /** True when the provider translates with this model; transcription follows from `audio_input`. */
  readonly translates: boolean
}
