import { AnswerHead, CR, findSectionEnd, LF, MalformedAnswer, TEXT } from './answer-head.ts'

/**
 * Reads answers of HTTP/1.1 off the bytes of a connection, one answer at a time.
 *
 * A connection is used for the calls of many tenants, so that an answer whose end could be understood in two ways would
 * hand one of them the rest of another's. Any doubt about the end is an error, after which the connection is
 * not used again: a length beside a coding, two lengths, a coding other than `chunked`, a line that ends
 * without CR, a folded header, a byte that a header may not hold, a chunk without its own end. It leaves out the
 * parts of RFC 9112 that answer no request of ours: upgrades, and answers to HEAD and CONNECT.
 *
 * Bytes are looked at where they lie; only the part of a head that comes in several reads is copied together. An answer
 * that comes whole in one read costs one string for its headers and nothing else.
 */

/** Longest line in front of a chunk, with its extensions, which are ignored. */
const CHUNK_LINE_BYTES_MAX = 4 * 1024
/** Hexadecimal digits of a chunk's size: 4 PiB, which a number holds exactly. */
const SIZE_DIGITS_MAX = 13

/** Receives an answer while it is read. What it throws ends the answer. */
export interface AnswerSink {
  /**
   * The head of the answer; informational ones are passed over.
   *
   * @param fields   header lines, for `readHeaders`
   * @param encoding value of Content-Encoding; empty: none
   */
  onHead(status: number, fields: string, encoding: string): void
  /** A part of the body, in bytes that are valid during the call only. */
  onBody(bytes: Buffer, start: number, end: number): void
}

const SEMICOLON = 59

type State =
  | 'head'
  | 'length'
  | 'close'
  | 'size'
  | 'extension'
  | 'sizeEnd'
  | 'data'
  | 'dataEnd'
  | 'lineEnd'
  | 'trailer'
  | 'done'

export class AnswerParser {
  readonly #sink: AnswerSink
  #state: State = 'head'
  /** Beginning of a head or trailer that is not here whole yet. */
  #part: Buffer | null = null
  /** Bytes left of the body or the chunk; while a chunk's size is read, that size. */
  #left = 0
  /** Bytes of the line in front of a chunk. */
  #line = 0
  /** Head of the answer that was read last. */
  readonly head = new AnswerHead()

  constructor(sink: AnswerSink) {
    this.#sink = sink
  }

  /** The next bytes begin an answer. */
  begin(): void {
    this.#state = 'head'
    this.#part = null
  }

  /** The answer is whole. */
  get done(): boolean {
    return this.#state === 'done'
  }

  /** How many of the next bytes certainly belong to the body: all that is left of it, or of a chunk. */
  get bodyLeft(): number {
    return this.#state === 'length' || this.#state === 'data' ? this.#left : 0
  }

  /**
   * Reads until the end of the answer, or of the bytes.
   *
   * @returns how many bytes were read
   * @throws  MalformedAnswer; what the sink throws
   */
  read(bytes: Buffer, end: number): number {
    let at = 0
    while (at < end && this.#state !== 'done') at = this.#step(bytes, at, end)
    return at
  }

  /**
   * The connection has ended, which is the end of an answer without a length. One that was reset is no certain end: it
   * will do for a refusal, of which providers that do not read the whole request send no more.
   *
   * @returns whether the answer is whole
   */
  finish(reset: boolean): boolean {
    if (this.#state === 'close' && (!reset || this.head.status >= 300)) this.#state = 'done'
    return this.#state === 'done'
  }

  #step(bytes: Buffer, at: number, end: number): number {
    switch (this.#state) {
      case 'head':
      case 'trailer':
        return this.#readSection(bytes, at, end)
      case 'length':
      case 'data':
        return this.#readBody(bytes, at, end)
      case 'close':
        this.#sink.onBody(bytes, at, end)
        return end
      default:
        this.#readChunkLine(bytes[at]!)
        return at + 1
    }
  }

  /** Reads a head or a trailer: all of it or, when it is not here whole, nothing. */
  #readSection(bytes: Buffer, at: number, end: number): number {
    const kept = this.#part
    if (kept === null) {
      const sectionEnd = findSectionEnd(bytes, at, at, end)
      if (sectionEnd === -1) this.#part = Buffer.from(bytes.subarray(at, end))
      else this.#endSection(bytes, at, sectionEnd)
      return sectionEnd === -1 ? end : sectionEnd
    }
    // The part may end within the empty line, whose beginning lies up to three bytes before.
    const joined = Buffer.concat([kept, bytes.subarray(at, end)])
    const sectionEnd = findSectionEnd(joined, 0, kept.length, joined.length)
    if (sectionEnd === -1) {
      this.#part = joined
      return end
    }
    this.#part = null
    this.#endSection(joined, 0, sectionEnd)
    return at + sectionEnd - kept.length
  }

  #endSection(bytes: Buffer, start: number, end: number): void {
    const head = this.head
    if (this.#state === 'trailer') {
      head.checkTrailer(bytes, start, end)
      this.#state = 'done'
      return
    }
    const fieldsAt = head.read(bytes, start, end)
    const { status } = head
    if (status === 101) throw new MalformedAnswer('an upgrade that was not asked for')
    if (status < 200) return
    this.#frame(head)
    this.#sink.onHead(status, bytes.toString('latin1', fieldsAt, end), head.encoding)
  }

  /** Decides where the answer ends. */
  #frame({ isBodiless, isCoded, length }: AnswerHead): void {
    this.#left = Math.max(0, length)
    if (isBodiless || length === 0) this.#state = 'done'
    else if (isCoded) this.#beginChunk()
    else this.#state = length === -1 ? 'close' : 'length'
  }

  #beginChunk(): void {
    this.#left = 0
    this.#line = 0
    this.#state = 'size'
  }

  #readBody(bytes: Buffer, at: number, end: number): number {
    const partEnd = Math.min(end, at + this.#left)
    this.take(partEnd - at)
    this.#sink.onBody(bytes, at, partEnd)
    return partEnd
  }

  /** Counts bytes of the body, `bodyLeft` at most, that the system has read to where they belong. */
  take(bytes: number): void {
    this.#left -= bytes
    if (this.#left === 0) this.#state = this.#state === 'data' ? 'dataEnd' : 'done'
  }

  /** Reads one byte of what lies between the data of two chunks. */
  #readChunkLine(byte: number): void {
    if (this.#state === 'size') this.#readSize(byte)
    else if (this.#state === 'extension') this.#readExtension(byte)
    else if (this.#state === 'dataEnd') {
      if (byte !== CR) throw new MalformedAnswer('a chunk longer than its size')
      this.#state = 'lineEnd'
    } else {
      if (byte !== LF) throw new MalformedAnswer('a line without its end')
      if (this.#state === 'lineEnd') this.#beginChunk()
      else this.#state = this.#left === 0 ? 'trailer' : 'data'
    }
  }

  #readSize(byte: number): void {
    const digit = hexOf(byte)
    if (digit !== -1) {
      if (this.#line === SIZE_DIGITS_MAX) throw new MalformedAnswer('a chunk too large')
      this.#line += 1
      this.#left = this.#left * 16 + digit
      return
    }
    if (this.#line === 0) throw new MalformedAnswer('a chunk without a size')
    if (byte === CR) this.#state = 'sizeEnd'
    else if (byte === SEMICOLON) this.#state = 'extension'
    else throw new MalformedAnswer('a chunk without a size')
  }

  #readExtension(byte: number): void {
    this.#line += 1
    if (byte === CR) this.#state = 'sizeEnd'
    else if (TEXT[byte] === 0 || this.#line > CHUNK_LINE_BYTES_MAX)
      throw new MalformedAnswer('an extension of a chunk that is none')
  }
}

/** Value of a hexadecimal digit; -1: it is none. */
function hexOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}
