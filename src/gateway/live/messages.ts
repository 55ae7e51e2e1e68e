import type { Segment, Word } from '../../contracts/calls.ts'
import type { GatewayError } from '../../contracts/errors.ts'
import type { LiveEntry } from '../../contracts/live.ts'
import type { EnvelopeHead } from '../call/attempt/outcome.ts'

/** The messages of a session to its caller, in wire names. Seconds count from the first byte of the caller's audio. */
export type LiveMessage =
  /** The session is admitted; audio that comes before its provider is connected is kept. */
  | ({
      readonly type: 'ready'
      readonly warnings: readonly string[]
      readonly limits: Readonly<Record<string, number | null>>
    } & EnvelopeHead)
  /** Replaces the partial of that channel that came before; an empty text takes it back. */
  | {
      readonly type: 'partial'
      readonly seq: number
      readonly channel: number
      readonly start: number
      readonly text: string
      readonly speaker?: string
    }
  /** Never changes. All audio before `settled_seconds` has been transcribed for good. */
  | {
      readonly type: 'final'
      readonly seq: number
      readonly channel: number
      readonly segment: Segment
      readonly words?: readonly Word[]
      readonly language?: string
      readonly settled_seconds: number
    }
  | {
      readonly type: 'speech_started' | 'utterance_end'
      readonly channel: number
      readonly at_seconds: number
    }
  /** All that was sent before the message `finalize` with that id is settled. */
  | { readonly type: 'finalized'; readonly id: string | null; readonly settled_seconds: number }
  /** Another entry transcribes from `at_seconds` on. */
  | {
      readonly type: 'switched'
      readonly from: LiveEntry
      readonly to: LiveEntry
      readonly at_seconds: number
      readonly replayed_seconds: number
      readonly lost_seconds: number
      readonly warnings: readonly string[]
    }
  | {
      readonly type: 'usage'
      readonly audio_seconds: number
      readonly billable_audio_seconds: number | null
      readonly cost_usd: number | null
    }
  /** The session will end; what is sent until then is transcribed. */
  | {
      readonly type: 'going_away'
      readonly seconds: number
      readonly reason: GoingAwayReason
    }
  /** The whole, in the envelope of `POST /v1/transcription`. */
  | ({ readonly type: 'done' } & object)

/** `operator`: an operator ends the session in the console. */
export type GoingAwayReason = 'drain' | 'session_limit' | 'credits' | 'operator'

/** Where a session's messages go: a door in the wire format of its callers. */
export interface LiveSink {
  send(message: LiveMessage): void
  /**
   * The session is over, and nothing follows.
   *
   * @param error null: after `done`
   */
  end(error: GatewayError | null): void
}
