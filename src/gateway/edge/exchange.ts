import type { CancelSignal } from '../../contracts/cancellation.ts'
import type { GatewayError } from '../../contracts/errors.ts'
import type { UpgradeReply } from './client-socket.ts'

/** One HTTP request and its answer, with everything of uWebSockets.js hidden. Lives until the answer is out. */
export interface Exchange {
  /** The caller's X-LK-Request-ID when it is well-formed, else a new `req_…`. On every answer. */
  readonly requestId: string
  readonly method: string
  /** Path as sent, without the query. */
  readonly path: string
  /** The path of the route that has the request, as `EdgeRoute` writes it; null: none has. */
  readonly pattern: string | null
  /** Raw query without `?`; empty when there is none. */
  readonly query: string
  /** Values of the pattern's `:name` parameters, in order, percent-decoded. */
  readonly params: readonly string[]
  /** Copied at tick 0. Lower-case names; repeated headers joined with `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Address of the other end of the connection, as text; empty once the answer is out or the client has left. */
  readonly peer: string
  /** That connection has TLS; a proxy in front tells of its own by headers. */
  readonly encrypted: boolean
  /** The fault of the head; null: it has none, or the edge has answered it. */
  readonly headFault: GatewayError | null
  /** Declared Content-Length; null for a chunked body and for none. */
  readonly contentLength: number | null
  /** Aborts with a GatewayError CLIENT_CLOSED when the client leaves, and never after the answer went out. */
  readonly signal: CancelSignal
  readonly body: RequestBody
  /** Milliseconds since the request's headers arrived. */
  readonly elapsedMs: number
  /** The part of it for which the body was waited for; pauses are ours, and not counted. */
  readonly bodyMs: number
  /** Bytes of body received so far. */
  readonly receivedBytes: number
  /** Bytes of the answer's body handed to the socket so far. */
  readonly sentBytes: number
  /** When the first byte of a streamed answer was, on the clock of `elapsedMs`; null before, and for a whole one. */
  readonly firstByteMs: number | null
  /**
   * Answers, in a later turn of the loop. While the client is still sending, the rest of the body is first discarded
   * within bounds, and the connection is closed after the answer. A second call, or one after the client left, does
   * nothing. Adds X-LK-Request-ID. Header values with control characters are refused: the answer becomes a 500.
   *
   * @param workspace whose memory the answer holds, and so the one it can be taken back from while it is read
   */
  reply(reply: Reply, workspace?: string): void
  /**
   * Turns the connection into a WebSocket; the exchange ends with it. Only while the route's handler is called, and
   * only where `handshake` is true.
   */
  upgrade(reply: UpgradeReply): void
  /** The request asks for a WebSocket, on a path that takes them. */
  readonly handshake: boolean
  /** The error envelope, by `errorReply`. */
  replyError(error: GatewayError): void
  /** The same for an error that a handler threw, which is logged unless it is a deliberate reply. */
  fail(thrown: unknown): void
  /** Status sent (or 499); null while unanswered. */
  readonly status: number | null
  /** Runs once, when the answer is out or the client has left: for logging and releases. */
  onFinished(listener: (() => void) | FinishListener): void
}

/** An object that is told of the end of an exchange: one closure less for every request. */
export interface FinishListener {
  finished(): void
}

/** The body as it comes off the socket. Paused after its first chunk until it has a consumer. */
export interface RequestBody {
  /**
   * Hands over the bytes that have arrived, then every further chunk, in order and never re-entrantly. Called at most
   * once. Does nothing after an answer or after the client left.
   */
  consume(consumer: BodyConsumer): void
  /**
   * Asks the sender to stop. As much as `PAUSED_BYTES_MAX` may still arrive and is delivered all the same: the consumer
   * counts what it holds. Idempotent; does nothing once the last chunk is in.
   */
  pause(): void
  /** Idempotent. */
  resume(): void
}

export interface BodyConsumer {
  /** It may come for longer than bodies may else, at the least rate of all. */
  readonly isLasting?: boolean
  /** `view` is valid during the call only. `last` is true exactly once; the last view may be empty. */
  onChunk(view: Buffer, last: boolean): void
  /** The sender is too slow (REQUEST_TIMEOUT), or the body ended short. No chunk comes after it. */
  onError(error: GatewayError): void
}

/** A body piece: text or bytes as they are, or bytes that go out as base64 text, in slices, following backpressure. */
export type ReplyPiece = string | Uint8Array | { readonly base64: readonly Uint8Array[] }

/**
 * A body that is made while it is sent, in chunked coding. Its next piece is asked for when the client has taken the
 * last one, or sooner if that has under 16 KiB: a small piece keeps its bytes for good, a larger one until then. An
 * empty piece is passed over. It is left (`return`) when the client leaves, or was gone before the answer. An error
 * before its first piece becomes the answer; a later one cuts the connection, as a part must not pass for the whole.
 */
export interface StreamedBody {
  readonly stream: AsyncIterable<string | Uint8Array>
  /** It begins while the body of the request is still coming, which has its consumer; else that is read before. */
  readonly duplex?: true
}

export interface WholeReply {
  readonly status: number
  /** Lower-case names. `content-type` defaults to `application/json` for a string, else it must be given. */
  readonly headers?: Readonly<Record<string, string>>
  /** Headers that other answers have, too, of which `headers` names none. */
  readonly common?: CommonHeaders
  /** Lines of further headers, each after a line end: names and values that this program alone has made. */
  readonly lines?: string
  readonly body: string | Uint8Array | readonly ReplyPiece[]
}

/** Headers that are checked and written once, for many answers; `commonHeaders` makes them. */
export interface CommonHeaders {
  readonly headers: Readonly<Record<string, string>>
  readonly lines: string
}

export interface StreamedReply {
  readonly status: number
  /** Lower-case names. `content-type` must be given. */
  readonly headers: Readonly<Record<string, string>>
  /** As of a whole one. */
  readonly lines?: string
  readonly body: StreamedBody
}

export type Reply = WholeReply | StreamedReply

/** How an exchange can end: with an answer, or by becoming a WebSocket. */
export type Ending = Reply | UpgradeReply

/** Log fields of any request: everything known without its headers and body. */
export function edgeFacts(exchange: Exchange) {
  const { requestId, method, pattern, status, elapsedMs, firstByteMs, receivedBytes, sentBytes } = exchange
  return {
    request_id: requestId,
    method,
    path: pattern ?? undefined,
    status,
    milliseconds: Math.round(elapsedMs),
    first_byte_milliseconds: firstByteMs === null ? undefined : Math.round(firstByteMs),
    received_bytes: receivedBytes,
    sent_bytes: sentBytes,
  }
}
