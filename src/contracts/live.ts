import type { LiveAudio, Segment, Word } from './calls.ts'
import type { Failure, UpstreamReply } from './upstream.ts'

/** A frame of a WebSocket: text or bytes. */
export type LiveFrame = string | Uint8Array

/** How a socket to the provider is opened. */
export interface SocketHandshake {
  /** Absolute, `ws:` or `wss:`. */
  readonly url: string
  /** Subprotocols to offer. */
  readonly protocols: readonly string[]
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
}

export interface LiveHandshake extends SocketHandshake {
  /** The format that the audio is turned into before it is handed to the stepper. */
  readonly audio: LiveAudio
}

/**
 * Meaning of a frame of the provider. Times are seconds from the first byte of audio of this connection; the session
 * adds where that lay in the caller's audio.
 */
export type LiveEvent =
  /**
   * The provider takes audio from now on. Every connection says so once, before any other event, but those of
   * protocols that are `readyWhenOpen`.
   */
  | { readonly kind: 'ready' }
  /** Replaces the partial of that channel that came before; an empty text takes it back. */
  | {
      readonly kind: 'partial'
      readonly channel: number
      readonly start: number
      readonly text: string
      readonly speaker?: string
      /** Up to where it is of the audio; absent where the provider does not say. */
      readonly end?: number
    }
  /** Never changes. The words are empty where the provider has no times of words. */
  | {
      readonly kind: 'final'
      readonly channel: number
      readonly segment: Omit<Segment, 'id' | 'channel'>
      readonly words: readonly Omit<Word, 'channel'>[]
      readonly language: string | null
      readonly languageConfidence: number | null
    }
  /** The provider told text of a time that no audio was sent for, which is left out. */
  | { readonly kind: 'misplaced' }
  /** All audio before `seconds` is settled on every channel: nothing that is said in it can come any more. */
  | { readonly kind: 'settled'; readonly seconds: number }
  | { readonly kind: 'speech_started'; readonly seconds: number; readonly channel: number }
  | { readonly kind: 'utterance_end'; readonly seconds: number; readonly channel: number }
  /** All audio before the oldest `finalize` that has had no answer yet is settled. */
  | { readonly kind: 'finalized' }
  /** The provider will end this connection soon: another one is to be opened at the end of an utterance. */
  | { readonly kind: 'leaving' }
  /** Audio that was sent before `end` is transcribed whole; the provider may close now. */
  | { readonly kind: 'ended' }
  | { readonly kind: 'warning'; readonly text: string }
  /** The connection is of no use any more. */
  | { readonly kind: 'failed'; readonly failure: Failure }

/**
 * One connection to a provider, without a socket and without a clock: what is to be sent, and what a frame means. It
 * counts the audio itself where the protocol says times by what was sent. Used for one connection only.
 */
export interface LiveStepper {
  /** The frames that go out once the socket is open, before any audio. */
  opened(): readonly LiveFrame[]
  /**
   * @param bytes whole samples in the format of the handshake, 50 to 1000 ms, or less before `finalize`, `end` and a
   *        pause; valid during the call only
   */
  audio(bytes: Uint8Array): readonly LiveFrame[]
  /**
   * Asks for what was sent so far to be settled; answered by `finalized`.
   *
   * @returns empty: there is nothing to settle; null: too many wait for their answer, it is to be asked again later
   */
  finalize(): readonly LiveFrame[] | null
  /** Keeps the connection when no audio comes; empty where the provider needs nothing. */
  keepAlive(): readonly LiveFrame[]
  /** Ends the audio; answered by `ended`, at the latest by the provider's close. */
  end(): readonly LiveFrame[]
  /** Meaning of a frame. Never throws: a frame that makes no sense is a `warning` or `failed`. */
  received(frame: LiveFrame): { readonly events: readonly LiveEvent[]; readonly reply?: readonly LiveFrame[] }
  /**
   * Meaning of a close. Before `end` it is always a failure; after it, null says that all was transcribed.
   *
   * @param code of the close frame; 1006 without one
   */
  closed(code: number, reason: string): Failure | null
}

/** Meaning of a frame of a provider that speaks. Sentences are named as they were by `speak`. */
export type SpeechEvent =
  | { readonly kind: 'audio'; readonly sentence: number; readonly bytes: Uint8Array }
  /** All audio of the sentence has come. */
  | { readonly kind: 'spoken'; readonly sentence: number }
  /** The connection is of no use any more. */
  | { readonly kind: 'failed'; readonly failure: Failure }

/** One connection to a provider that speaks, without a socket and without a clock. Used for one connection only. */
export interface SpeechStepper {
  /** @param sentence a number of the caller's, which no other sentence of the connection has */
  speak(sentence: number, text: string): readonly LiveFrame[]
  /** No sentence follows. */
  end(): readonly LiveFrame[]
  /** Meaning of a frame. Never throws. */
  received(frame: LiveFrame): readonly SpeechEvent[]
  /** Meaning of a close while sentences are not spoken. @param code of the close frame; 1006 without one */
  closed(code: number, reason: string): Failure
}

/**
 * Why a live session ended: its caller had sent all audio, or left; it was as long as sessions may be; its node
 * stopped; an operator ended it in the console; or it failed, which its error explains.
 */
export const SESSION_ENDS = [
  'completed',
  'client_left',
  'session_limit',
  'drain',
  'operator',
  'failed',
] as const
export type SessionEnd = (typeof SESSION_ENDS)[number]

/** Kind of a live session. */
export const SESSION_KINDS = ['transcription', 'speech'] as const
export type SessionKind = (typeof SESSION_KINDS)[number]

/** An entry of a route, as callers may know it. */
export interface LiveEntry {
  readonly provider: string
  readonly model: string
}

/** Outcome of a live session, in wire names. */
export interface SessionFacts {
  /** Characters that were sent to be spoken; absent: it transcribes. */
  readonly characters?: number
  /** Absent: it speaks. */
  readonly audio_seconds?: number
  /** How often its provider was changed. */
  readonly switches: number
  /** Audio that was sent again for it, and audio that could not be sent again. Absent: it speaks. */
  readonly replayed_seconds?: number
  readonly lost_seconds?: number
  /** Null: it has not ended. */
  readonly ended: SessionEnd | null
}

/** How a socket to a provider ended. */
export type SocketEnd =
  /** The provider answered the handshake with another status than 101. */
  | { readonly kind: 'refused'; readonly reply: UpstreamReply }
  /** There was no connection, or it broke, or the handshake took too long. */
  | { readonly kind: 'failed'; readonly failure: Failure }
  /** @param code of the close frame; 1006 without one */
  | { readonly kind: 'closed'; readonly code: number; readonly reason: string }

/** Is told what becomes of a socket. None of its methods throws. */
export interface SocketListener {
  onOpen(): void
  /** A binary frame is the listener's to keep. */
  onFrame(frame: LiveFrame): void
  /** Once for each socket, whatever happens to it, and last. */
  onEnd(end: SocketEnd): void
}

/** A socket to a provider. After its end, or before it is open, sending does nothing. */
export interface UpstreamSocket {
  /** Copies what it is given. */
  send(frame: LiveFrame): void
  /** Bytes that wait for the network. */
  readonly bufferedBytes: number
  /** Takes no frames until `resume`, so that the provider has to wait. */
  pause(): void
  resume(): void
  /** Closes with 1000, and cuts the connection if the provider does not close as well. */
  close(): void
  /** Cuts the connection at once. */
  destroy(): void
}

export interface SocketOptions {
  /** Milliseconds that connecting and the handshake may take. */
  readonly handshakeMs: number
  /** Trace context, by lower-case name. */
  readonly headers: Readonly<Record<string, string>>
}

/** Opens a socket to a provider. The listener is called in later turns of the loop only. */
export type OpenSocket = (
  handshake: SocketHandshake,
  listener: SocketListener,
  options: SocketOptions,
) => UpstreamSocket
