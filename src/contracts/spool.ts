import type { ArrivingBody, StoredBody } from './audio.ts'
import type { ObjectKind } from './objects.ts'

/** Where a body goes while it arrives: held in memory under the byte budget, or streamed into the object store. */
export interface Spool {
  /** Opens a writer. No I/O and no reservation happens before `start`. */
  open(options: SpoolOptions): BodyWriter
}

export interface SpoolOptions {
  /** Workspace that the object key is filed under, and whose share of the memory the body counts against. */
  readonly workspace: string
  /** Id of the request, for the object key. */
  readonly id: string
  /** Declared Content-Length, or null for a chunked body. */
  readonly contentLength: number | null
  /** Kind of an object; absent: `spool`. An object of another kind is on the disk once it exists. */
  readonly kind?: Extract<ObjectKind, 'spool' | 'upload' | 'resumable' | 'job'>
  /** Beginning of the last segment of the object key; absent: nothing. */
  readonly name?: string
  /** Never held: it goes to the store, whatever memory there is. Needs a `contentLength`. */
  readonly stored?: boolean
  /** An object that it goes into is sealed: it holds nothing that can be read once the body is released. */
  readonly sealed?: boolean
  /** Ms for which its sender was free to send so far; absent: all the time, by the clock. */
  readonly sendingMs?: () => number
}

/**
 * Takes a body chunk by chunk. `write` never refuses: what arrives after the sender was asked to stop is charged to the
 * budget by force. All failures come out of `start` and `finish`, and once through `onFailure`.
 */
export interface BodyWriter {
  /**
   * Reserves memory (waiting up to 500 ms for it) or opens an upload (waiting 2 s more for whichever comes first).
   * Called once, after admission; chunks written before are kept and charged by force.
   *
   * @throws GatewayError OVERLOADED when neither memory nor an upload permit is to be had
   */
  start(): Promise<void>
  /** Takes a copy of `chunk`, synchronously: the caller's memory may vanish on return. */
  write(chunk: Uint8Array): void
  /**
   * False while the sender should be paused: not started yet, waiting for memory with enough here to tell its speed,
   * or the store is behind.
   */
  readonly ready: boolean
  /** Called whenever `ready` turns true. Set by the owner. */
  onReady: () => void
  /** Called at most once, when the store failed or stalled: the sender can be answered while it still sends. */
  onFailure: (error: Error) => void
  /**
   * The body is complete and valid. Until this is called the last bytes of a streamed upload are held back, so that a
   * body that is cut short or refused never becomes an object.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store failed or made no progress for 5 s
   */
  finish(): Promise<StoredBody>
  /**
   * Lets the body be read while it comes. Needs a `contentLength`, and is called before `start`. Absent: what it takes
   * cannot be read before its end.
   */
  arriving?(): ArrivingBody
  /** Drops everything: budget given back, upload aborted, no object left. Idempotent; no-op behind a `finish`. */
  abort(): Promise<void>
}
