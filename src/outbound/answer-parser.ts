import { trimBlanks } from '../trim.ts'

/**
 * Reads answers of HTTP/1.1 off the bytes of a connection, one answer at a time.
 *
 * A connection is used for the calls of many tenants, so that an answer whose end could be understood in two ways would
 * hand one of them the rest of another's. What this reader does not take for certain is an error, after which the
 * connection is not used again: a length beside a coding, two lengths, a coding other than `chunked`, a line that ends
 * without CR, a folded header, a byte that a header may not hold, a chunk without its own end. Left out of RFC 9112 is
 * what no request of ours can be answered with: upgrades, and answers to HEAD and CONNECT.
 *
 * Bytes are looked at where they lie; only the part of a head that comes in several reads is copied together. An answer
 * that comes whole in one read costs one string for its headers and nothing else.
 */

/** Largest head of an answer, and largest trailer, bytes. Providers send 1 to 2 KiB. */
const HEAD_BYTES_MAX = 32 * 1024
/** Most header lines. */
const FIELDS_MAX = 256
/** Longest line in front of a chunk, with its extensions, which are ignored. */
const CHUNK_LINE_BYTES_MAX = 4 * 1024
/** Hexadecimal digits of a chunk's size: 4 PiB, which a number holds exactly. */
const SIZE_DIGITS_MAX = 13
/** Decimal digits of a length. */
const LENGTH_DIGITS_MAX = 15

/** Receives an answer while it is read. What it throws ends the answer. */
export interface AnswerSink {
  /**
   * The head of the answer; informational ones are passed over.
   *
   * @param fields   header lines, for `headersOf`
   * @param encoding value of Content-Encoding; empty: none
   */
  onHead(status: number, fields: string, encoding: string): void
  /** A part of the body, in bytes that are valid during the call only. */
  onBody(bytes: Buffer, start: number, end: number): void
}

/** The answer is not HTTP/1.1, or its end is not certain. */
export class MalformedAnswer extends Error {
  override readonly name = 'MalformedAnswer'
}

const CR = 13
const LF = 10
const SPACE = 32
const TAB = 9
const ZERO = 48
const COLON = 58
const SEMICOLON = 59
/** Of the version only the last digit may differ. */
const VERSION = Buffer.from('HTTP/1.')

/** Characters of a header's name (RFC 9110, `token`). */
const TOKEN = tableOf((code) => /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(code)))
/** Characters of a header's value. */
const TEXT = tableOf((code) => code === TAB || (code >= SPACE && code !== 127))

/** Options of a connection, each of which ends with a comma here. */
const CLOSE = /(?:^|,)[ \t]*close[ \t]*,/i
const KEEP_ALIVE = /(?:^|,)[ \t]*keep-alive[ \t]*,/i

function tableOf(holds: (code: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (holds(code) ? 1 : 0))
}

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
  #state: State = 'done'
  /** Beginning of a head or trailer that is not here whole yet. */
  #part: Buffer | null = null
  /** Bytes left of the body or the chunk; while a chunk's size is read, that size. */
  #left = 0
  /** Bytes of the line in front of a chunk. */
  #line = 0
  #status = 0
  /** HTTP/1.1, not 1.0. */
  #modern = false
  /** Content-Length; -1: none. */
  #length = -1
  #coded = false
  #connection = ''
  #keepAlive = ''
  #encoding = ''

  constructor(sink: AnswerSink) {
    this.#sink = sink
  }

  /** The next bytes begin an answer. */
  begin(): void {
    this.#state = 'head'
    this.#part = null
  }

  /** Whether the answer is whole. */
  get done(): boolean {
    return this.#state === 'done'
  }

  /** Whether the connection may be used for another request: by the answer that was read last. */
  get keepsAlive(): boolean {
    if (!this.#isFramed() || CLOSE.test(this.#connection)) return false
    return this.#modern || (KEEP_ALIVE.test(this.#connection) && !this.#coded)
  }

  /** How long the provider keeps an idle connection, as it says, ms; null: it does not say. */
  get keepAliveMs(): number | null {
    if (this.#keepAlive === '') return null
    const seconds = /timeout=(\d{1,6})/i.exec(this.#keepAlive)?.[1]
    return seconds === undefined ? null : Number(seconds) * 1_000
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
    if (this.#state === 'close' && (!reset || this.#status >= 300)) this.#state = 'done'
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
    if (this.#state === 'trailer') {
      this.#readFields(bytes, start, end, true)
      this.#state = 'done'
      return
    }
    this.#length = -1
    this.#coded = false
    this.#connection = ''
    this.#keepAlive = ''
    this.#encoding = ''
    const fieldsAt = this.#readStatus(bytes, start)
    this.#readFields(bytes, fieldsAt, end, false)
    if (this.#status < 200) {
      if (this.#status === 101) throw new MalformedAnswer('an upgrade that was not asked for')
      return
    }
    this.#frame()
    this.#sink.onHead(this.#status, bytes.toString('latin1', fieldsAt, end), this.#encoding)
  }

  /** @returns where the header lines begin */
  #readStatus(bytes: Buffer, start: number): number {
    for (let index = 0; index < VERSION.length; index += 1) {
      if (bytes[start + index] !== VERSION[index]) throw new MalformedAnswer('no status line')
    }
    const at = start + VERSION.length
    const minor = bytes[at]! - ZERO
    let status = 0
    for (let index = at + 2; index < at + 5; index += 1) {
      const digit = bytes[index]! - ZERO
      status = digit >= 0 && digit <= 9 ? status * 10 + digit : Number.NaN
    }
    const behind = bytes[at + 5]
    const isSpaced = bytes[at + 1] === SPACE && (behind === SPACE || behind === CR)
    if (!isSpaced || !(status >= 100) || !(minor === 0 || minor === 1))
      throw new MalformedAnswer('no status line')
    this.#status = status
    this.#modern = minor === 1
    return endOfLine(bytes, at + 5)
  }

  /** Reads the header lines. Of a trailer only their form matters. */
  #readFields(bytes: Buffer, start: number, end: number, isTrailer: boolean): void {
    let at = start
    for (let count = 0; bytes[at] !== CR; count += 1) {
      if (count === FIELDS_MAX) throw new MalformedAnswer('too many headers')
      const nameAt = at
      while (TOKEN[bytes[at]!] === 1) at += 1
      const nameEnd = at
      if (nameEnd === nameAt || bytes[at] !== COLON) throw new MalformedAnswer('a header without a name')
      const next = endOfLine(bytes, at + 1)
      if (!isTrailer) this.#noteField(bytes, nameAt, nameEnd, next - 2)
      at = next
    }
    // The bytes end with the empty line.
    if (at + 2 !== end) throw new MalformedAnswer('a byte that no header may hold')
  }

  /** Notes the headers that decide where the answer ends. They are told apart by the length of their names first. */
  #noteField(bytes: Buffer, nameAt: number, nameEnd: number, end: number): void {
    switch (nameEnd - nameAt) {
      case 10:
        if (isNamed(bytes, nameAt, 'connection')) this.#connection += `${fieldValue(bytes, nameEnd, end)},`
        else if (isNamed(bytes, nameAt, 'keep-alive')) this.#keepAlive += fieldValue(bytes, nameEnd, end)
        return
      case 14:
        if (!isNamed(bytes, nameAt, 'content-length')) return
        if (this.#length !== -1) throw new MalformedAnswer('two lengths')
        this.#length = lengthOf(fieldValue(bytes, nameEnd, end))
        return
      case 16:
        if (isNamed(bytes, nameAt, 'content-encoding')) this.#encoding += fieldValue(bytes, nameEnd, end)
        return
      case 17:
        if (!isNamed(bytes, nameAt, 'transfer-encoding')) return
        if (this.#coded || fieldValue(bytes, nameEnd, end).toLowerCase() !== 'chunked')
          throw new MalformedAnswer('an unknown transfer coding')
        this.#coded = true
    }
  }

  /** Decides where the answer ends. */
  #frame(): void {
    if (this.#coded && this.#length !== -1) throw new MalformedAnswer('a length beside a transfer coding')
    if (this.#status === 204 || this.#status === 304) this.#state = 'done'
    else if (this.#coded) this.#beginChunk()
    else if (this.#length === -1) this.#state = 'close'
    else this.#beginLength()
  }

  #beginLength(): void {
    this.#left = this.#length
    this.#state = this.#length === 0 ? 'done' : 'length'
  }

  #beginChunk(): void {
    this.#left = 0
    this.#line = 0
    this.#state = 'size'
  }

  /** Whether the end of the answer was certain without the end of the connection. */
  #isFramed(): boolean {
    // A 204 or 304 has no body. One that announces a body may send it all the same.
    if (this.#status === 204 || this.#status === 304) return this.#length <= 0 && !this.#coded
    return this.#coded || this.#length !== -1
  }

  #readBody(bytes: Buffer, at: number, end: number): number {
    const partEnd = Math.min(end, at + this.#left)
    this.#left -= partEnd - at
    if (this.#left === 0) this.#state = this.#state === 'data' ? 'dataEnd' : 'done'
    this.#sink.onBody(bytes, at, partEnd)
    return partEnd
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

/**
 * Finds the end of a head or trailer, behind its empty line; -1: it is not here yet.
 *
 * @param start where it begins
 * @param from  where its bytes have not been looked at yet
 * @throws MalformedAnswer for a line that ends without CR, and when it is too long
 */
function findSectionEnd(bytes: Buffer, start: number, from: number, end: number): number {
  for (let at = from; at < end; at += 1) {
    if (bytes[at] !== LF) continue
    if (at === start || bytes[at - 1] !== CR) throw new MalformedAnswer('a line without its end')
    const isEmpty = at - 1 === start || bytes[at - 2] === LF
    if (isEmpty && at - start < HEAD_BYTES_MAX) return at + 1
  }
  if (end - start >= HEAD_BYTES_MAX) throw new MalformedAnswer('a head too long')
  return -1
}

/** Finds the beginning of the next line. @throws MalformedAnswer for a byte that a line may not hold */
function endOfLine(bytes: Buffer, from: number): number {
  let at = from
  while (TEXT[bytes[at]!] === 1) at += 1
  if (bytes[at] !== CR || bytes[at + 1] !== LF) throw new MalformedAnswer('a byte that no header may hold')
  return at + 2
}

/** Whether a name of the same length is this one. @param name in lower case */
function isNamed(bytes: Buffer, at: number, name: string): boolean {
  for (let index = 0; index < name.length; index += 1) {
    // Sets the bit that tells small letters from capitals; a hyphen has it.
    if ((bytes[at + index]! | 32) !== name.charCodeAt(index)) return false
  }
  return true
}

/** Value of the header whose name ends at the colon, without the spaces and tabs around it. */
function fieldValue(bytes: Buffer, colonAt: number, lineEnd: number): string {
  let start = colonAt + 1
  let end = lineEnd
  while (start < end && (bytes[start] === SPACE || bytes[start] === TAB)) start += 1
  while (start < end && (bytes[end - 1] === SPACE || bytes[end - 1] === TAB)) end -= 1
  return bytes.toString('latin1', start, end)
}

function lengthOf(value: string): number {
  if (!/^\d+$/.test(value) || value.length > LENGTH_DIGITS_MAX) throw new MalformedAnswer('no length')
  return Number(value)
}

/** Value of a hexadecimal digit; -1: it is none. */
function hexOf(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48
  const letter = byte | 32
  return letter >= 97 && letter <= 102 ? letter - 87 : -1
}

/** Headers by their lower-case names, repeated ones joined with `, `. @param fields as `onHead` was given them */
export function headersOf(fields: string): Record<string, string> {
  const headers: Record<string, string> = Object.create(null)
  for (let at = 0; ; ) {
    const end = fields.indexOf('\r\n', at)
    if (end <= at) return headers
    const colon = fields.indexOf(':', at)
    const name = fields.slice(at, colon).toLowerCase()
    const value = trimBlanks(fields.slice(colon + 1, end))
    const before = headers[name]
    headers[name] = before === undefined ? value : `${before}, ${value}`
    at = end + 2
  }
}
