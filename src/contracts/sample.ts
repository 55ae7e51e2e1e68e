import type { AudioFormat } from './audio.ts'
import type { Feature, Hint } from './calls.ts'
import type { Profile } from './catalog.ts'
import type { OperationName } from './operations.ts'

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

/**
 * Facts of a call that selection looked at, so that another version of its route can be asked the same later. Numbers,
 * and words of closed lists and of the configuration; never content, and no word that only the caller knows.
 */
export interface RecordedCall {
  readonly operation: OperationName
  /** As far as it differs from a plain sample. */
  readonly sample: Partial<Sample>
  /** Fields of the call that selection looks at and that are not recorded. Absent: none. */
  readonly unrecorded?: readonly string[]
}
