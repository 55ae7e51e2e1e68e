import type { AudioReader, AudioRef } from '../../contracts/audio.ts'
import { TimeSlices } from '../../contracts/time-slices.ts'
import { joinedBytes } from './bytes.ts'

/** Largest range that is asked of the reader at once. */
export const RANGE_BYTES = 256 * 1024
/** After so many ranges one pass over everything is cheaper, for the store as for us. */
const RANGES_MAX = 4
/** A pass over the audio may have to begin again once: a container is searched at its end, then read from its start. */
const SCANS_MAX = 2
/**
 * Calls for every 64 bytes of audio, and some for short ones. Real files need a tenth; one made to be slow stops here.
 */
const STEPS_MIN = 10_000
const STEP_BYTES = 64

/** Thrown when a look at the audio would cost more than it may; the duration is then unknown. */
export class OutOfReach extends Error {
  override readonly name = 'OutOfReach'
}

const NOTHING = new Uint8Array(0)

/** Bytes and where in the audio they begin. */
export interface Span {
  readonly start: number
  readonly bytes: Uint8Array
}

/**
 * Random access over audio at a bounded price: a few ranges, then at most two passes from the beginning.
 * Probes are written against `from` alone and mostly go forward, so the same code works on ranges, on a pass,
 * and on base64 that can only be decoded from its beginning. Gives the event loop a turn every millisecond.
 */
export class AudioWindow {
  /** Bytes of audio, after decoding. */
  readonly size: number
  /** False when a range costs as much as a pass up to its end: looking at the end first is then no gain. */
  readonly seekable: boolean
  readonly #reader: AudioReader
  readonly #audio: AudioRef
  readonly #signal: AbortSignal
  #rangesLeft: number
  #scansLeft = SCANS_MAX
  #stepsLeft: number
  #head: Span = { start: 0, bytes: NOTHING }
  #tail: Span = this.#head
  #latest: Span = this.#head
  #scan: AsyncGenerator<Uint8Array> | null = null
  #scanned: Span = this.#head
  readonly #slices = new TimeSlices()

  constructor(reader: AudioReader, audio: AudioRef, signal: AbortSignal) {
    this.#reader = reader
    this.#audio = audio
    this.#signal = signal
    this.size = audio.decodedBytes
    this.seekable = audio.encoding === 'identity' || audio.canonical
    this.#stepsLeft = STEPS_MIN + this.size / STEP_BYTES
    this.#rangesLeft = this.seekable ? RANGES_MAX : 1
  }

  /**
   * Bytes from `offset` on: `atLeast` of them unless the audio ends, and as many more as are at hand, up to
   * 256 KiB. Only valid until the next call.
   *
   * @throws OutOfReach when the limits of this class are used up; the reader's errors
   */
  async from(offset: number, atLeast = 1): Promise<Uint8Array> {
    if (this.#stepsLeft-- <= 0) throw new OutOfReach('too many steps')
    if (offset >= this.size) return NOTHING
    if (this.#slices.isOver) await this.#slices.next(this.#signal)
    const end = Math.min(this.size, offset + atLeast)
    const held = [this.#head, this.#tail, this.#latest, this.#scanned].find((span) =>
      covers(span, offset, end),
    )
    if (held) return cut(held, offset)
    if (this.#scan && offset >= this.#scanned.start) return this.#readOn(offset, end)
    if (this.#rangesLeft > 0) return this.#fetch(offset, end)
    return this.#readOn(offset, end)
  }

  /** The last 256 KiB, or all when there is less. Stays valid. Errors as `from`. */
  async tail(): Promise<Span> {
    const start = Math.max(0, this.size - RANGE_BYTES)
    if (this.#tail.bytes.length === 0) {
      const bytes = await this.from(start, this.size - start)
      // Bytes of a range are ours; those of a pass are not.
      this.#tail = { start, bytes: this.#scan ? bytes.slice() : bytes }
    }
    return this.#tail
  }

  /** Ends a pass that is under way, so that its source is released. */
  async close(): Promise<void> {
    await this.#scan?.return(undefined)
    this.#scan = null
  }

  async #fetch(offset: number, end: number): Promise<Uint8Array> {
    this.#rangesLeft -= 1
    const until = Math.min(this.size, Math.max(end, offset + RANGE_BYTES))
    const bytes = await this.#reader.range(this.#audio, offset, until, this.#signal)
    this.#latest = { start: offset, bytes }
    if (offset === 0) this.#head = this.#latest
    return cut(this.#latest, offset)
  }

  async #readOn(offset: number, end: number): Promise<Uint8Array> {
    if (!this.#scan || offset < this.#scanned.start) await this.#restart()
    while (this.#scanned.start + this.#scanned.bytes.length < end) {
      const next = await this.#scan!.next()
      if (next.done) break
      if (this.#slices.isOver) await this.#slices.next(this.#signal)
      const { start, bytes } = this.#scanned
      const passed = Math.min(Math.max(offset - start, 0), bytes.length)
      this.#scanned = { start: start + passed, bytes: joinedBytes(bytes.subarray(passed), next.value) }
    }
    return cut(this.#scanned, offset)
  }

  async #restart(): Promise<void> {
    if (this.#scansLeft-- <= 0) throw new OutOfReach('too many passes')
    await this.close()
    this.#scan = this.#reader.bytes(this.#audio, this.#signal)
    this.#scanned = { start: 0, bytes: NOTHING }
  }
}

function covers({ start, bytes }: Span, offset: number, end: number): boolean {
  return start <= offset && end <= start + bytes.length
}

function cut({ start, bytes }: Span, offset: number): Uint8Array {
  return bytes.subarray(offset - start, offset - start + RANGE_BYTES)
}
