import type { CancelSignal } from './cancellation.ts'
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
  /** No part of the call may outlive it. */
  'retention',
  /** The breaker of the shadow is open, or its provider asked for a pause. */
  'health',
  /** The audio is in no body that can be kept. */
  'audio',
  /** The text is too long to be compared. */
  'text',
] as const
export type ShadowSkip = (typeof SHADOW_SKIPS)[number]

/** The entry that answered a call, and the one that was asked beside. */
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

/** Both answers to a call against what was really said. */
export interface ShadowReference {
  readonly pair: ShadowPair
  /** Words of the reference. */
  readonly words: number
  /** Words that have to be put in, left out or changed to make each answer of the reference. */
  readonly errors: BothSides
}

/** Is told what becomes of the calls of shadows. Nothing of it throws. */
export interface ShadowWatch {
  skipped(reason: ShadowSkip): void
  ended(end: ShadowEnd): void
  referred(found: ShadowReference): void
}

/** A call by the id that its caller knows: that of the answer, or that of the job. */
export interface PairOwner {
  readonly workspace: string
  readonly callId: string
}

/** Both answers to a call, until its caller brings a reference. */
export interface KeptPair {
  readonly pair: ShadowPair
  readonly texts: Readonly<Record<'entry' | 'shadow', string>>
}

/** Record of a compared call. */
export type FoundPair =
  | {
      readonly kept: KeptPair
      /** Notes that a reference of so many words was taken, and then removes the texts. */
      settle(words: number): Promise<void>
    }
  /** A reference of so many words was taken before. */
  | { readonly takenWords: number }

/**
 * Keeps both answers of compared calls in the object store, for all nodes: encrypted, and each for its time.
 *
 * Every method throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails.
 */
export interface KeptPairs {
  keep(owner: PairOwner, kept: KeptPair, ttlSeconds: number, signal: AbortSignal): Promise<void>
  /** `several`: callers choose ids of requests, and this one was given to more than one. Null: there is nothing. */
  find(owner: PairOwner): Promise<FoundPair | 'several' | null>
  /** Removes all that is kept of the call. */
  forget(owner: PairOwner): Promise<void>
}

/** Compares both answers to a call with what was really said. */
export interface References extends Pick<KeptPairs, 'keep' | 'forget'> {
  /**
   * Takes a reference. A second one of the same call counts no more, and is answered as the first one was.
   *
   * @returns words of the reference that counts
   * @throws  GatewayError NOT_FOUND where nothing is kept of the call (yet, or any more), CONFLICT where several calls
   *          have its id, INVALID_REQUEST for a text that cannot be compared, DEPENDENCY_UNAVAILABLE
   */
  take(owner: PairOwner, text: string, signal: CancelSignal): Promise<number>
}
