import type { GatewayError } from '../../contracts/errors.ts'
import type { EnvelopeHead } from '../call/attempt/outcome.ts'
import type { LiveMessage } from './messages.ts'

/** The messages of a session that speaks to its caller beside the audio, in wire names. */
export type SpeechMessage =
  /** The session is admitted; text that comes before it is kept. */
  | ({
      readonly type: 'ready'
      readonly response_format: string | null
      readonly warnings: readonly string[]
      readonly limits: Readonly<Record<string, number | null>>
    } & EnvelopeHead)
  /** All audio of a sentence has been sent before this. */
  | {
      readonly type: 'spoken'
      readonly seq: number
      readonly text: string
      readonly characters: number
      readonly audio_bytes: number
      readonly provider: string
      readonly model: string
      readonly cost_usd: number | null
    }
  /** All text that came before the message `flush` with that id is spoken. */
  | { readonly type: 'flushed'; readonly id: string | null }
  | {
      readonly type: 'usage'
      readonly audio_output_characters: number
      readonly cost_usd: number | null
    }
  | Extract<LiveMessage, { readonly type: 'going_away' }>
  /** The envelope of `POST /v1/speech`, without the audio. */
  | ({ readonly type: 'done' } & object)

/** Where a session's messages and its audio go. */
export interface SpeechSink {
  send(message: SpeechMessage): void
  audio(bytes: Uint8Array): void
  /** Bytes that wait for the caller. */
  readonly bufferedBytes: number
  /**
   * The session is over, and nothing follows.
   *
   * @param error null: after `done`
   */
  end(error: GatewayError | null): void
}
