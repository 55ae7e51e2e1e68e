import { closeSync, fdatasync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newId } from '../contracts/ids.ts'
import { SegmentEncoder, type UsageRow } from './encoder.ts'
import { placeId } from './segment.ts'

/** End of the names of segment files. */
export const SEGMENT_SUFFIX = '.usage'

const sync = promisify(fdatasync)

/** The place of a record that is to be written again. */
export interface KeptPlace {
  readonly segment: OpenSegment
  readonly place: number
  /** Cost of the record as it was written, micro-USD. */
  costMicros: number | null
}

/** A segment that rows are appended to. Its file is made with the first of them. */
export class OpenSegment {
  /** Tells when it was opened: no record of it ended before, which a segment that was closed says by nothing else. */
  readonly id: string
  readonly openedAtMs: number
  readonly path: string
  readonly #encoder: SegmentEncoder
  #fd: number | null = null
  #syncing: Promise<void> | null = null
  #isSynced = true
  /** Rows that are encoded and not written yet; null: none are. */
  #encoded: Buffer | null = null
  #encodedRows = 0
  #places = 0
  /** Places of the file: a record with a later one was lost with the write that failed. */
  placesWritten = 0
  /** Bytes of the file. */
  bytes = 0
  /** Records that are to be written again. */
  kept = 0

  /**
   * @param openedAtMs when the first of its records came; epoch milliseconds
   * @param name of its file; absent: that of a segment which is to be handed on
   */
  constructor(folder: string, openedAtMs: number, name?: string) {
    this.openedAtMs = openedAtMs
    this.id = newId('seg', openedAtMs)
    this.path = join(folder, name ?? this.id + SEGMENT_SUFFIX)
    this.#encoder = new SegmentEncoder({ id: this.id, openedAtMs })
  }

  /** Rows that are not in the file yet. */
  get waitingRows(): number {
    return this.#encoder.rows + this.#encodedRows
  }

  get waitingBytes(): number {
    return this.#encoder.bytes
  }

  /** Id of a record that it has without one of its own. */
  idOf(place: number): string {
    return placeId(this.id, place)
  }

  add(row: UsageRow, instead?: number): number {
    const place = this.#encoder.add(row, instead)
    this.#places = Math.max(this.#places, place + 1)
    return place
  }

  /**
   * Makes its file, and encodes the rows that are written next.
   *
   * @returns its size after that
   * @throws Error when it cannot be made
   */
  encode(): number {
    if (this.#encoder.rows > 0) {
      this.#encodedRows = this.#encoder.rows
      this.#encoded = this.#encoder.take()
    }
    if (this.#encoded === null) return this.bytes
    this.#fd ??= openSync(this.path, 'ax', 0o600)
    return this.bytes + this.#encoded.length
  }

  /**
   * Hands the waiting rows to the kernel, by one write.
   *
   * @throws Error when it does not take it: nothing may be added then
   */
  write(): void {
    const bytes = this.#encoded ?? (this.#encoder.rows > 0 ? this.#encoder.take() : null)
    this.#encoded = null
    this.#encodedRows = 0
    if (bytes === null) return
    this.#fd ??= openSync(this.path, 'ax', 0o600)
    for (let at = 0; at < bytes.length; ) {
      const written = writeSync(this.#fd, bytes, at, bytes.length - at)
      at += written
      this.bytes += written
    }
    this.placesWritten = this.#places
    this.#isSynced = false
  }

  /** Has the disk take all writes, in the background. Never rejects. */
  sync(): Promise<void> {
    if (this.#fd === null || this.#isSynced) return this.#syncing ?? Promise.resolve()
    this.#isSynced = true
    const fd = this.#fd
    const before = this.#syncing ?? Promise.resolve()
    const syncing = before.then(() => sync(fd)).catch(() => {})
    this.#syncing = syncing
    return syncing
  }

  /** Resolves once the file is closed. */
  async close(): Promise<void> {
    await this.sync()
    this.drop()
  }

  /** Closes the file, also if the disk has not taken all of it. Not while it syncs. */
  drop(): void {
    if (this.#fd !== null) closeSync(this.#fd)
    this.#fd = null
  }
}
