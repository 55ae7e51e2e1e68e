import { HEAD_END, WINDOW_BYTES } from './receive-window.ts'

/** The parser takes a request that begins with it for one that is not whole yet: it waits for more. */
const UNFINISHED = 0x0d
/** The end of a head, where its beginning was in the segment before. */
const HEAD_RESTS = ['\n', '\r\n', '\n\r\n']
const REQUEST_LINE = /^(?:GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS|TRACE|CONNECT) [!-~]/

/** The segment that the native parser is reading, seen and changed in its own memory; see `openReceiveWindow`. */
export class SegmentView {
  readonly #bytes: Buffer

  constructor({ buffer, byteOffset, byteLength }: Uint8Array) {
    this.#bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
  }

  get length(): number {
    return this.#bytes.length
  }

  /** Up to `length` bytes in latin1: past the end of the segment they are of earlier ones. */
  text(start: number, length: number): string {
    return this.#bytes.toString('latin1', start, Math.min(this.#bytes.length, start + length))
  }

  /** Places where a head may end if the segment has only its rest. */
  headEnds(): readonly number[] {
    const whole = this.#bytes.subarray(0, WINDOW_BYTES).indexOf(HEAD_END)
    const rests = HEAD_RESTS.filter((rest) => this.text(0, rest.length) === rest).map(({ length }) => length)
    return whole === -1 ? rests : [...rests, whole + HEAD_END.length]
  }

  /** A piece of a body is the memory at a place itself, and not only equal to it. */
  holds(piece: Uint8Array, start: number): boolean {
    const bytes = this.#bytes
    const value = bytes[start]
    if (value === undefined || piece.length === 0 || piece[0] !== value) return false
    bytes[start] = value ^ 0xff
    const isSame = piece[0] !== value
    bytes[start] = value
    return isSame
  }

  /** A request begins at a place. */
  beginsRequest(start: number): boolean {
    const byte = this.#bytes[start]
    return byte !== undefined && byte >= 0x41 && byte <= 0x5a && REQUEST_LINE.test(this.text(start, 24))
  }

  /** Keeps the parser from reading a request from a place on. One byte is enough. */
  silence(start: number): void {
    if (start < this.#bytes.length) this.#bytes[start] = UNFINISHED
  }
}
