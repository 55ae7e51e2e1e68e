/** An upload that can be held back: nothing is read from it until it is let go. */
interface Upload {
  holdBack(): void
  letGo(): void
}

/**
 * Bytes of bodies after which a turn of the event loop takes no more of them: one to two milliseconds of work. To hold
 * an upload back takes three system calls.
 */
const TURN_BYTES = 1024 * 1024
/** Bytes of unfinished bodies, and in memory, from which on a busy loop reads a few of them to their end first. */
const CROWD_BYTES = 32 * 1024 * 1024
/** Uploads that are read at a time in a crowd, at least: each brings up to 512 KiB in a turn. */
const LEAST_FLOWS = 2
/** Uploads with no more than this left are read in any crowd, and the beginning of each, which tells what it is. */
const SMALL_BYTES = 1024 * 1024
const BEGINNING_BYTES = 128 * 1024
/** A sender whose last read brought less is slow: to hold it back would save nothing, and to wait for it costs all. */
const FAST_READ_BYTES = 64 * 1024
/** Waiting for a turn in a crowd is worth that much, so that a large upload is not passed by others for ever. */
const WAITED_TURN_BYTES = 128 * 1024

interface Progress {
  receivedBytes: number
  /** By the last read. */
  readBytes: number
  /** Infinite where it is unknown. */
  leftBytes: number
  /** Turns that were over when it began. */
  readonly sinceTurn: number
}

/**
 * Shares the event loop between uploads and all other work, and keeps the memory of uploads small.
 *
 * One poll hands out every socket that has data, each with up to 512 KiB: sixteen uploads were up to 7 MiB in one turn,
 * during which no small request was answered. When a turn has brought enough, the uploads that it has not come to wait
 * for the next one, and those that were read, until the others had their turn.
 *
 * Where uploads come faster than they can be read, to read all of them by turns has each in memory for as long as all
 * take together: 64 uploads of 25 MB were 1.6 GB that was all sent on at the end. Then only a few are read, those first
 * that have the least left. All others wait in their senders' kernels, and each is done sooner, but for the last.
 */
export class UploadTurns {
  readonly #memory: { readonly used: number }
  /** Bodies of which more is to come. */
  readonly #uploads = new Map<Upload, Progress>()
  /** Uploads that were read since all of them had their turn. */
  readonly #read = new Set<Upload>()
  /** The ones that are read in a crowd, by their order; empty outside of one. */
  readonly #flowing = new Set<Upload>()
  /** How many they may be; infinite: there is no crowd. */
  #flows = Number.POSITIVE_INFINITY
  /** Bytes that have come of all uploads. */
  #arrivedBytes = 0
  #turns = 0
  #bytes = 0
  #isOver = false
  #isEnding = false

  /** @param memory counts the bytes that are held for bodies */
  constructor(memory: { readonly used: number }) {
    this.#memory = memory
  }

  /**
   * Counts a chunk of a body of which more is to come.
   *
   * @param leftBytes bytes that are still to come; null: it is unknown
   */
  take(upload: Upload, bytes: number, leftBytes: number | null): void {
    const left = leftBytes ?? Number.POSITIVE_INFINITY
    const known = this.#uploads.get(upload)
    const progress = known ?? { receivedBytes: 0, readBytes: 0, leftBytes: left, sinceTurn: this.#turns }
    if (known === undefined) this.#uploads.set(upload, progress)
    progress.receivedBytes += bytes
    progress.readBytes = bytes
    progress.leftBytes = left
    if (this.#waits(upload, progress)) upload.holdBack()
    this.#arrivedBytes += bytes
    // One alone shares with no upload, and all else has its turn after the poll: to end that costs a poll of its own.
    if (this.#uploads.size === 1) return
    this.#read.add(upload)
    if (this.#isOver && !this.#flowing.has(upload)) upload.holdBack()
    this.#count(bytes)
  }

  #count(bytes: number): void {
    this.#bytes += bytes
    this.#endLater()
    if (this.#isOver || this.#bytes < TURN_BYTES) return
    this.#isOver = true
    for (const one of this.#uploads.keys()) if (!this.#flowing.has(one)) one.holdBack()
  }

  /** No more of it is to come, or is wanted. @param bytes of its last chunk */
  leave(upload: Upload, bytes = 0): void {
    const progress = this.#uploads.get(upload)
    if (progress === undefined) return
    this.#uploads.delete(upload)
    this.#arrivedBytes -= progress.receivedBytes
    this.#read.delete(upload)
    this.#flowing.delete(upload)
    upload.letGo()
    if (bytes > 0 && this.#uploads.size > 0) this.#count(bytes)
  }

  #endLater(): void {
    if (this.#isEnding) return
    this.#isEnding = true
    setImmediate(this.#end)
  }

  readonly #end = (): void => {
    const isFull = this.#isOver
    this.#turns += 1
    this.#regulate()
    if (!isFull || this.#read.size === this.#uploads.size || this.#isCrowd) this.#read.clear()
    this.#bytes = 0
    this.#isOver = false
    this.#isEnding = false
    if (this.#isCrowd) this.#choose()
    // The poll hands them out in this order: small ones and beginnings come before those that fill the turn.
    for (const [one, progress] of this.#uploads) {
      if (this.#waits(one, progress)) one.holdBack()
      else if (!this.#flowing.has(one) && !this.#read.has(one)) one.letGo()
    }
    for (const one of this.#flowing) one.letGo()
    // The others may have nothing to be read.
    if (this.#read.size > 0 || this.#isCrowd) this.#endLater()
  }

  get #isCrowd(): boolean {
    return this.#flows < Number.POSITIVE_INFINITY
  }

  #waits(upload: Upload, progress: Progress): boolean {
    return this.#isCrowd && mayWait(progress) && !this.#flowing.has(upload)
  }

  /** Halves the uploads that are read while they fill the turns, and doubles them where they leave half of one. */
  #regulate(): void {
    if (!this.#isCrowd && this.#bytes < TURN_BYTES) return
    let all = 0
    for (const progress of this.#uploads.values()) if (mayWait(progress)) all += 1
    const isHeld = this.#memory.used > CROWD_BYTES && this.#arrivedBytes > CROWD_BYTES
    if (this.#bytes >= TURN_BYTES && isHeld && all > LEAST_FLOWS)
      this.#flows = Math.max(LEAST_FLOWS, Math.min(this.#flows, all) >> 1)
    else if (this.#bytes < TURN_BYTES / 2) this.#flows *= 2
    if (this.#flows < all) return
    this.#flows = Number.POSITIVE_INFINITY
    this.#flowing.clear()
  }

  /** Has as many flow as may. Once chosen, an upload is read to its end unless it becomes one too many. */
  #choose(): void {
    for (const one of [...this.#flowing].slice(this.#flows)) this.#flowing.delete(one)
    while (this.#flowing.size < this.#flows) {
      let best: Upload | null = null
      let least = Number.POSITIVE_INFINITY
      for (const [one, progress] of this.#uploads) {
        if (this.#flowing.has(one) || !mayWait(progress)) continue
        const { receivedBytes, leftBytes, sinceTurn } = progress
        const known = leftBytes === Number.POSITIVE_INFINITY ? -receivedBytes : leftBytes
        const wait = known - (this.#turns - sinceTurn) * WAITED_TURN_BYTES
        if (best !== null && wait >= least) continue
        best = one
        least = wait
      }
      if (best === null) return
      this.#flowing.add(best)
    }
  }
}

/** Tells whether an upload may have to wait in a crowd. */
function mayWait({ receivedBytes, readBytes, leftBytes }: Progress): boolean {
  return leftBytes > SMALL_BYTES && receivedBytes >= BEGINNING_BYTES && readBytes >= FAST_READ_BYTES
}
