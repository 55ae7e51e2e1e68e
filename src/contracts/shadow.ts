import type { TranscriptionTask } from './operations.ts'
import type { AttemptOutcome } from './watch.ts'

/** Why a call that was drawn is not sent to the shadow of its route. */
export const SHADOW_SKIPS = [
  /** As many are under way or wait as may. */
  'busy',
  /** The body is in memory, of which shadows hold their share, or which is short. */
  'memory',
  /** The entry cannot serve the call. */
  'entry',
  /** Nothing of the call may outlive it. */
  'retention',
  /** The breaker of the shadow is open, or its provider asked for a pause. */
  'health',
  /** The audio is in no body that can be kept. */
  'audio',
  /** The text is too long to be compared. */
  'text',
] as const
export type ShadowSkip = (typeof SHADOW_SKIPS)[number]

/** Who answered a call, and who was asked beside. */
export interface ShadowPair {
  readonly workspace: string
  readonly route: string
  readonly operation: TranscriptionTask
  readonly provider: string
  readonly model: string
  readonly shadowProvider: string
  readonly shadowModel: string
}

/** A figure of the entry that answered, and the same of the shadow. */
export interface BothSides {
  readonly entry: number
  readonly shadow: number
}

/** Two answers to the same call. */
export interface ShadowComparison {
  /** Words of the answer. */
  readonly words: number
  /** Words that have to be put in, left out or changed to make the answer of the shadow's text. */
  readonly errors: number
  /** From the beginning of the attempt to the end of the answer; null: they were not asked in the same way. */
  readonly milliseconds: BothSides | null
  /** By the prices of the entries; null: one of them is not known. */
  readonly costUsd: BothSides | null
}

/** A call of a shadow that is over. */
export interface ShadowEnd {
  readonly pair: ShadowPair
  readonly outcome: AttemptOutcome
  /** Null: there was no answer, or none that can be compared. */
  readonly comparison: ShadowComparison | null
}

/** Is told what becomes of the calls of shadows. Nothing of it throws. */
export interface ShadowWatch {
  skipped(reason: ShadowSkip): void
  ended(end: ShadowEnd): void
}
