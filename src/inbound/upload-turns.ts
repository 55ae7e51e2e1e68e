/** An upload that can be held back: nothing is read from it until it is let go. */
interface Upload {
  holdBack(): void
  letGo(): void
}

/**
 * Bytes of bodies after which a turn of the event loop takes no more of them: one to two milliseconds of work. To hold
 * an upload back takes three system calls.
 */
const TURN_BYTES = 2 * 1024 * 1024

/**
 * Shares the event loop between uploads and all other work. One poll hands out every socket that has data, each with up
 * to 512 KiB: sixteen uploads were up to 7 MiB in one turn, during which no small request was answered. When a turn has
 * brought enough, the uploads that it has not come to wait for the next one, and those that were read, until the others
 * had their turn.
 */
export class UploadTurns {
  /** Bodies of which more is to come. */
  readonly #uploads = new Set<Upload>()
  /** Uploads that were read since all of them had their turn. */
  readonly #read = new Set<Upload>()
  #bytes = 0
  #isOver = false
  #isEnding = false

  /** Counts a chunk of a body of which more is to come. */
  take(upload: Upload, bytes: number): void {
    this.#uploads.add(upload)
    this.#read.add(upload)
    this.#bytes += bytes
    this.#endLater()
    if (this.#isOver) upload.holdBack()
    if (this.#isOver || this.#bytes < TURN_BYTES) return
    this.#isOver = true
    for (const one of this.#uploads) one.holdBack()
  }

  /** No more of it is to come, or is wanted. */
  leave(upload: Upload): void {
    if (!this.#uploads.delete(upload)) return
    this.#read.delete(upload)
    upload.letGo()
  }

  #endLater(): void {
    if (this.#isEnding) return
    this.#isEnding = true
    setImmediate(this.#end)
  }

  readonly #end = (): void => {
    if (!this.#isOver || this.#read.size === this.#uploads.size) this.#read.clear()
    this.#bytes = 0
    this.#isOver = false
    this.#isEnding = false
    for (const one of this.#uploads) if (!this.#read.has(one)) one.letGo()
    // The others may have nothing to be read.
    if (this.#read.size > 0) this.#endLater()
  }
}
