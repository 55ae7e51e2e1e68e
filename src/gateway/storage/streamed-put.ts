import type { Objects } from '../../contracts/objects.ts'
import type { Clock } from '../../contracts/time.ts'
import { unavailable } from './failure.ts'
import type { ChunkQueue } from './held-body.ts'
import type { WrittenTally } from './written.ts'

/**
 * Bytes between sender and store at which the sender is asked to stop, and those at which it may go on: while there is
 * memory, and while it is scarce.
 */
const WATER_BYTES = { high: 512 * 1024, low: 256 * 1024 } as const
const SCARCE_WATER_BYTES = { high: 64 * 1024, low: 16 * 1024 } as const
/** Bytes handed to the store at a time; small enough that a working store takes them well within `stallMs`. */
const CHUNK_BYTES = 256 * 1024
/** A store makes an object of a body as soon as its last byte is there, so this much waits for the verdict. */
const HELD_BACK_BYTES = 1

export interface StreamedPutOptions {
  readonly objects: Objects
  readonly key: string
  /** Exact length of the body, in bytes; at least 1. */
  readonly length: number
  /** May hold the beginning of the body already. Released here. */
  readonly queue: ChunkQueue
  /** Counts what goes into the object; null: nothing does. */
  readonly tally: WrittenTally | null
  /** A store that takes no byte for this long is given up. */
  readonly stallMs: number
  readonly clock: Clock
  /** `ready` has turned true. */
  readonly onReady: () => void
  /** The store failed while the body was still coming. Called at most once, and not after `finish`. */
  readonly onFailure: (error: Error) => void
}

/** One body of known length on its way into one object, with nothing but the queue in memory. */
export class StreamedPut {
  readonly #options: StreamedPutOptions
  readonly #controller = new AbortController()
  /** Settles when the store is done with the queue's memory, however it went. Never rejects. */
  readonly settled: Promise<void>
  #handed = 0
  #complete = false
  #stored = false
  #failure: Error | null = null
  #ready: boolean
  /** Set while the store asks for bytes that have not arrived. */
  #wake: (() => void) | null = null
  #progressAtMs: number

  constructor(options: StreamedPutOptions) {
    this.#options = options
    this.#ready = options.queue.pending < this.#water.high
    this.#progressAtMs = options.clock.now()
    const { objects, key, length, queue } = options
    this.settled = objects
      .put(key, this.#body(), length, { signal: this.#controller.signal })
      .then(
        () => {
          this.#stored = true
        },
        (error: unknown) => this.#fail(unavailable(error)),
      )
      .then(() => queue.release())
  }

  get #water() {
    return this.#options.queue.isScarce ? SCARCE_WATER_BYTES : WATER_BYTES
  }

  get ready(): boolean {
    return this.#ready || this.#failure !== null
  }

  readonly isUploading = true

  write(chunk: Uint8Array): void {
    if (this.#failure !== null) return
    this.#options.queue.append(chunk)
    if (this.#options.queue.pending >= this.#water.high) this.#ready = false
    this.#wake?.()
  }

  /** Lets the last byte go, and waits until the object is there. @returns true: the body is in the store */
  async finish(): Promise<boolean> {
    this.#complete = true
    this.#wake?.()
    await this.settled
    if (this.#failure !== null) throw this.#failure
    return true
  }

  /** Gives up: afterwards there is no object, and no memory is in use. */
  async abort(): Promise<void> {
    // Once the last byte is out only the store knows whether the object exists, so its answer is awaited.
    const undecided = this.#handed === this.#options.length
    if (!undecided) this.cancel(new Error('storage: upload aborted'))
    await this.settled
    if (undecided) await this.#options.objects.remove(this.#options.key)
  }

  /** Ends the upload with `error` as its failure. */
  cancel(error: Error): void {
    if (this.#stored) return
    this.#fail(error)
    this.#controller.abort(error)
  }

  /** To be called now and then: gives up on a store that takes nothing although there is something for it. */
  tick(nowMs: number): void {
    if (this.#stored || this.#failure !== null || this.#wake !== null) return
    if (nowMs - this.#progressAtMs < this.#options.stallMs) return
    this.cancel(unavailable(new Error(`the store took nothing for ${this.#options.stallMs} ms`)))
  }

  #fail(error: Error): void {
    if (this.#failure !== null) return
    this.#failure = error
    this.#wake?.()
    if (!this.#complete) this.#options.onFailure(error)
  }

  async *#body(): AsyncGenerator<Uint8Array> {
    const { queue, length, clock } = this.#options
    while (this.#handed < length) {
      const limit = this.#complete ? length : length - HELD_BACK_BYTES
      const chunk = queue.lend(Math.min(CHUNK_BYTES, limit - this.#handed))
      if (chunk === undefined) {
        if (this.#complete) throw new Error('storage: the body is shorter than it was declared')
        await this.#nextWrite()
        continue
      }
      this.#progressAtMs = clock.now()
      this.#handed += chunk.length
      this.#options.tally?.add(chunk)
      yield chunk
      queue.settle()
      this.#progressAtMs = clock.now()
      if (!this.#ready && queue.pending <= this.#water.low) {
        this.#ready = true
        this.#options.onReady()
      }
    }
  }

  #nextWrite(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#wake = () => {
        this.#wake = null
        this.#progressAtMs = this.#options.clock.now()
        if (this.#failure === null) resolve()
        else reject(this.#failure)
      }
      if (this.#failure !== null) this.#wake()
    })
  }
}
