import type { AudioRef } from './audio.ts'
import type { CancelSignal } from './cancellation.ts'

/** A piece of a request body: bytes as they are, or the call's audio, read again by each attempt. */
export type Piece = Uint8Array | { readonly audio: AudioRef; readonly as: 'bytes' | 'base64' }

/** Request to a provider. The sender computes Content-Length from the pieces; never chunked. */
export interface UpstreamRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Absolute URL. */
  readonly url: string
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: readonly Piece[]
}

/**
 * A provider's whole answer. The body's size is capped and charged to the byte budget. Not to be spread: its headers
 * are made when they are first read.
 */
export interface UpstreamReply {
  readonly status: number
  /** Lower-case names; repeated headers joined with `, `. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: readonly Uint8Array[]
  /** The body as JSON, null when it is none; absent: it was not parsed yet. */
  readonly json?: unknown
}

/** Kinds of failed attempts; they decide failover, cooling down and whether the outcome is ambiguous. */
export const FAILURE_KINDS = [
  /** 429, 503 and documented overload codes. */
  'rate',
  /** 5xx with an answer. */
  'server',
  /** All permits of the account are in use: nothing was sent. */
  'busy',
  /** Connection failed before any byte of the request was sent. */
  'connect',
  /** Broken off or timed out after bytes were sent: the provider may have done the work. */
  'ambiguous',
  /** 401, 402, 403, quota: the credential, not the call. */
  'credential',
  /** The provider has no such model. */
  'model',
  /** Over a limit of this provider, or with an option that it lacks: another entry may take the very same call. */
  'limit',
  /** The caller's own fault: the same payload fails everywhere. */
  'caller',
  /** Refused for its content. */
  'content',
] as const
export type FailureKind = (typeof FAILURE_KINDS)[number]

/** Why a provider refuses an input, as the caller is told it: `details.reason` of UPSTREAM_REJECTED. */
export const REJECTION_REASONS = [
  'bad_audio',
  'bad_image',
  'unsupported_format',
  'too_long',
  'too_large',
  'context_too_long',
  'content_policy',
  'unknown_voice',
  'unsupported_option',
  'other',
] as const
export type RejectionReason = (typeof REJECTION_REASONS)[number]

/** A refusal of the input in our own words, none of them a provider's. */
export interface Rejection {
  readonly reason: RejectionReason
  /** Field of the gateway's own interface that is at fault; null: not known. */
  readonly param: string | null
}

/** How an attempt failed. For the log and for `details.attempts`; `reason` is ours, never a provider's text. */
export interface Failure {
  readonly kind: FailureKind
  /** The provider's HTTP status; null when there was none. */
  readonly status: number | null
  /** A short sentence of our own. */
  readonly reason: string
  /** How long the provider asks to be left alone. */
  readonly retryAfterMs: number | null
  /** Message of the provider, for the log only, at most 2 KiB. */
  readonly providerMessage: string | null
  /** Reason of `limit`, `caller`, `content` and requests that were never sent, where it is known. */
  readonly rejection?: Rejection
}

/**
 * Sends one request to a provider and reads the whole answer.
 *
 * @throws UpstreamFailure when there is no answer; the signal's reason when the caller left
 */
export type Send = (request: UpstreamRequest, options: SendOptions) => Promise<UpstreamReply>

export interface SendOptions {
  /** Milliseconds from now until the last byte of the answer. */
  readonly deadlineMs: number
  readonly signal: CancelSignal
  /** Told of every chunk of the answer that is kept, bytes, so that the byte budget can count it. */
  readonly onHeld: (bytes: number) => void
  /** Asked while more of the answer comes; the provider is held back for as long as that takes, see `MemoryLease`. */
  readonly turn?: (signal: CancelSignal) => Promise<void> | null
}

/** An answer whose body is still coming. */
export interface UpstreamStream {
  readonly status: number
  /** As in `UpstreamReply`. */
  readonly headers: Readonly<Record<string, string>>
  /**
   * The body as it comes, at the pace of whoever iterates: nothing is read ahead but what the sockets hold. A chunk is
   * the iterator's to keep. Leaving the loop ends the request. Throws as `OpenStream` does.
   */
  readonly chunks: AsyncIterable<Uint8Array>
}

/** `onHeld` is told of what waits for its reader, and by a negative number of what was read. */
export type OpenOptions = Pick<SendOptions, 'deadlineMs' | 'signal'> & Partial<Pick<SendOptions, 'onHeld'>>

/**
 * Sends one request to a provider; resolves when the head of its answer is here. `deadlineMs` counts until then, and
 * after that only while the reader waits for the next chunk: a reader that takes its time is no fault of the provider.
 *
 * @throws UpstreamFailure when there is no answer; the signal's reason when the caller left
 */
export type OpenStream = (request: UpstreamRequest, options: OpenOptions) => Promise<UpstreamStream>

/** An attempt that got no answer: `connect` before bytes were sent, else `ambiguous`. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure'
  readonly failure: Failure
  constructor(failure: Failure, cause?: unknown) {
    super(failure.reason, cause === undefined ? undefined : { cause })
    this.failure = failure
  }
}
