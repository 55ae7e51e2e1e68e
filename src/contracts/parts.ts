import type { Audio } from './audio.ts'
import type { TranscriptionResult } from './calls.ts'
import type { Charge } from './ledger.ts'

/** Limits that each part of some audio has to keep to; null: none. */
export interface PartLimits {
  readonly maxBytes: number | null
  readonly maxSeconds: number | null
}

/** How audio is cut into parts. */
export interface CutPlan {
  readonly targetSeconds: number
  /** A part may be so much longer or shorter. */
  readonly windowSeconds: number
  /** Length that two parts have in common at a cut within sound, on each side of it. */
  readonly overlapSeconds: number
  /** Infinity: no limit, here and below. */
  readonly maxSeconds: number
  readonly maxBytes: number
  /** How many parts there will be, about; null: the length of the audio is not known. */
  readonly count: number | null
  /** Null: it is not known. */
  readonly durationSeconds: number | null
  /** Long silence is left out of the parts. */
  readonly skipsSilence: boolean
  /** Entries take the audio as it is: where it cannot be cut, they get it so. */
  readonly isOptional: boolean
  /** It is transcoded first; absent: it stays as it is. */
  readonly transcoding?: Transcoding
}

/** Formats that audio is transcoded to: Opus in Ogg, and 16-bit samples. */
export const TRANSCODED_FORMATS = ['ogg', 'wav'] as const

export interface Transcoding {
  readonly format: (typeof TRANSCODED_FORMATS)[number]
  /** How many are kept apart; 1: all are mixed. */
  readonly channels: number
  /** Limits of the entries that get it, one for all. */
  readonly limits: PartLimits
}

/** Makes audio of any format into one that an entry takes. */
export interface AudioTranscoder {
  /** Whether this node can, now. */
  readonly isAvailable: boolean
  /**
   * @param limitMs how long it may take
   * @returns the whole as one file in the object store, which `AudioCutter.drop` deletes
   * @throws GatewayError UNSUPPORTED_AUDIO_FORMAT when it is no audio that can be read; UPSTREAM_TIMEOUT after the
   *         limit; DEPENDENCY_UNAVAILABLE when the store fails; the signal's reason when aborted. It leaves nothing
   */
  transcode(
    audio: Audio,
    to: Transcoding,
    owner: PartOwner,
    limitMs: number,
    signal: AbortSignal,
  ): Promise<Audio>
}

/** A stretch of audio as a file of its own. Plain data. */
export interface AudioPart {
  readonly audio: Audio
  /** Where its sound begins in the whole, and where it ends; seconds. It may overlap with its neighbours. */
  readonly startSeconds: number
  readonly endSeconds: number
  /** The stretch that is its own, up to where the next one's begins. */
  readonly fromSeconds: number
  readonly toSeconds: number
  /** Where its clock stands at a moment of the whole, from each silence on that was left out; absent: none was. */
  readonly stretches?: readonly Stretch[]
  /** It was cut from the next one in silence, so that they have no sound in common. */
  readonly endsQuietly: boolean
  /** It is the audio itself, which cannot be cut. */
  readonly isWhole?: true
}

/** From here on, in seconds of the part, its sound is that from `startSeconds` on of the whole. */
export interface Stretch {
  readonly atSeconds: number
  readonly startSeconds: number
}

/** The call that parts belong to. Parts of a job are there for whoever takes it over; any others go with their call. */
export interface PartOwner {
  readonly workspace: string
  readonly id: string
  readonly isJob: boolean
}

/** Cuts audio into files that are kept in the object store. */
export interface AudioCutter {
  /**
   * @throws GatewayError INVALID_REQUEST when the file cannot be cut; DEPENDENCY_UNAVAILABLE when the store fails; the
   *         signal's reason when aborted. Nothing is left of it then
   */
  cut(audio: Audio, plan: CutPlan, owner: PartOwner, signal: AbortSignal): Promise<readonly AudioPart[]>
  /** Deletes audio of a part. Never rejects: what is left goes with the sweep. */
  drop(audio: Audio): Promise<void>
}

/** The transcript of a part, with its cost. Plain data. */
export interface HeardPart {
  readonly result: TranscriptionResult
  readonly provider: string
  readonly model: string
  /** Version of the route that served it. */
  readonly version: string
  readonly forPurpose: boolean
  readonly usage: Readonly<Record<string, number | null>>
  readonly costUsd: number | null
  readonly charge: Charge
  readonly warnings: readonly string[]
  /** How many entries were asked, one after the other. */
  readonly attempts: number
}
