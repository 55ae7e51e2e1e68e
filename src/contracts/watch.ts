import type { AcceptRule, Entry } from './catalog.ts'
import type { LiveEntry, SessionEnd, SessionKind } from './live.ts'
import type { OperationName } from './operations.ts'
import type { FailureKind } from './upstream.ts'

/** How an attempt ended; `abandoned`: the caller left, or this node could not go on. */
export type AttemptOutcome = 'ok' | FailureKind | 'abandoned'

/** Outcome of a transcript that breaks a rule; `shadow`, `last_resort`: it was the answer all the same. */
export type DoubtOutcome = 'refused' | 'shadow' | 'last_resort'

/** An attempt that is over. */
export interface WatchedAttempt {
  readonly entry: Entry
  readonly operation: OperationName
  readonly outcome: AttemptOutcome
  /** From its beginning to its end: of a streamed answer, to its last piece. */
  readonly milliseconds: number
  /** Until the first piece of a streamed answer was here; null: it was not streamed, or none came. */
  readonly firstDeltaMs: number | null
  /** It followed one that had failed. */
  readonly failover: boolean
}

/** Is told what becomes of calls, whichever door they came in by. Nothing of it throws. */
export interface CallWatch {
  attempted(attempt: WatchedAttempt): void
  /** A call waited for a permit of the entry's account, whether it got one or not. */
  waited(entry: Entry, milliseconds: number): void
  /** Reports a transcript that breaks a rule of its entry, once for each rule. */
  doubted(entry: Entry, operation: OperationName, rule: AcceptRule, how: DoubtOutcome): void
  /** Reports the metered usage of an answer, in wire names. */
  metered(entry: Entry, operation: OperationName, usage: Readonly<Record<string, number | null>>): void
  /** Reports the cost of a call at an entry, answered or not. */
  charged(entry: Entry, spendMicros: number): void
}

/** Why a connection of a live session was given up: its failure, or `rotation` before its provider would end it. */
export type SwitchReason = FailureKind | 'rotation'

export type LiveText = 'partial' | 'final'

/** Is told what becomes of live sessions. Nothing of it throws. */
export interface LiveWatch {
  /** A connection takes audio. @param seconds since it was begun */
  connected(entry: Entry, seconds: number): void
  /** A session was connected to the entry for so long, since the last time that this was told. */
  open(entry: Entry, seconds: number): void
  switched(from: Entry, reason: SwitchReason): void
  /** Audio is sent to the entry that another connection was sent before. */
  replayed(entry: Entry, seconds: number): void
  /** Audio can be sent to the entry no more. */
  lost(entry: Entry, seconds: number): void
  /**
   * Text has come that says up to where it is of the audio; partials of some providers do not.
   *
   * @param seconds age of the audio there: since it came from the caller, as long as that sends in real time. It is
   *        reckoned as the length of the audio that came after it, and the time since the last of that came.
   */
  heard(entry: Entry, text: LiveText, seconds: number): void
  ended(kind: SessionKind, how: SessionEnd): void
  /**
   * An entry has spoken a sentence.
   *
   * @param firstAudioSeconds from asking for it until its first audio was here, entries that failed it included
   */
  spoke(entry: LiveEntry, characters: number, firstAudioSeconds: number): void
  /** Another entry than `from`, which spoke the sentence before, has spoken the next. */
  revoiced(from: LiveEntry): void
}
