/** Purpose of an object; lifecycle rules of an S3 store can name these prefixes. */
export type ObjectKind =
  | 'spool'
  | 'upload'
  | 'resumable'
  | 'job'
  | 'result'
  | 'slot'
  | 'cache'
  | 'pair'
  | 'usage'
  | 'aggregate'
  | 'state'

export interface ObjectInfo {
  readonly key: string
  readonly bytes: number
  readonly modifiedAt: Date
}

/** An upload of unknown length, in parts of at least 5 MiB but for the last. */
export interface PartUpload {
  /** Sends one part; parts are numbered in the order of calls. The chunks must not change until it resolves. */
  part(chunks: readonly Uint8Array[], signal: AbortSignal): Promise<void>
  /** Makes the object exist. */
  complete(signal: AbortSignal): Promise<void>
  /** Leaves nothing behind, also when `part` is still running. Idempotent. */
  abort(): Promise<void>
}

/**
 * The object store. Two implementations (a folder, any S3-compatible server) behind one contract suite. Keys are
 * `<kind>/<workspace>/<id>/<attempt>`, those of usage `usage/date=<day>/<name>.parquet`; `aggregate` has what earlier
 * versions left. Only objects of the kinds `cache` and `usage` are overwritten, each as a whole.
 *
 * Every method throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails or does not answer in time, and the
 * signal's reason when aborted.
 */
export interface Objects {
  /**
   * Streams `body` into one object of exactly `length` bytes. The object appears only once the last byte arrived; an
   * abort or a failing body leaves nothing. A chunk must not change until the next one is asked for, which happens when
   * the store has taken it; the last one not until the promise settles. Throws what a failing body threw, if that is a
   * GatewayError.
   */
  put(key: string, body: AsyncIterable<Uint8Array>, length: number, options: PutOptions): Promise<void>
  /** Starts an upload whose length is not known yet. */
  upload(key: string, options: PutOptions): Promise<PartUpload>
  /**
   * Bytes `start` to `end` (exclusive). A chunk keeps its bytes until the one after the next is asked for; one under
   * 64 KiB keeps them for good. To be iterated to its end, or left by `break`.
   */
  get(key: string, start: number, end: number, signal: AbortSignal): Promise<AsyncIterable<Uint8Array>>
  /**
   * The file that an object is, where the store is a folder, for threads that have no connection to the store; null: it
   * is read by `get` alone. The file may not be there.
   */
  fileOf(key: string): string | null
  /** Deletes; an absent object is not an error. */
  remove(key: string): Promise<void>
  /** Every object below `prefix`. */
  list(prefix: string): AsyncIterable<ObjectInfo>
  /** Aborts open part uploads below `prefix` that began before `before`; how many there were. */
  abortUploads(prefix: string, before: Date): Promise<number>
  /** Resolves when the store answers. */
  ping(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

export interface PutOptions {
  readonly signal: AbortSignal
}

/** Text that is kept in the record itself, or as an object. */
export type KeptText = { readonly text: string } | KeptObject

export interface KeptObject {
  readonly object: string
  readonly bytes: number
  /** Compared with what is read. Absent where an earlier version wrote it. */
  readonly crc32?: number
}
