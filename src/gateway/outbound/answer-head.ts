import { trimBlanks } from '../../contracts/trim.ts'

/** Largest head of an answer, and largest trailer, bytes. Providers send 1 to 2 KiB. */
const SECTION_BYTES_MAX = 32 * 1024
/** Most header lines. */
const FIELDS_MAX = 256
/** Decimal digits of a length. */
const LENGTH_DIGITS_MAX = 15

/** The answer is not HTTP/1.1, or its end is not certain. */
export class MalformedAnswer extends Error {
  override readonly name = 'MalformedAnswer'
}

export const CR = 13
export const LF = 10
const SPACE = 32
const TAB = 9
const ZERO = 48
const COLON = 58
/** Only the last digit of the version may differ. */
const VERSION = Buffer.from('HTTP/1.')

/** Characters of a header's name (RFC 9110, `token`). */
const TOKEN = tableOf((code) => /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(code)))
/** Characters of a header's value. */
export const TEXT = tableOf((code) => code === TAB || (code >= SPACE && code !== 127))

/** Options of a connection, each of which ends with a comma here. */
const CLOSE = /(?:^|,)[ \t]*close[ \t]*,/i
const KEEP_ALIVE = /(?:^|,)[ \t]*keep-alive[ \t]*,/i

function tableOf(holds: (code: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, code) => (holds(code) ? 1 : 0))
}

/** Status line and headers of one answer after another, as far as they decide where it ends. */
export class AnswerHead {
  status = 0
  /** HTTP/1.1, not 1.0. */
  #modern = false
  /** Content-Length; -1: none. */
  length = -1
  /** The body comes in chunks. */
  isCoded = false
  #connection = ''
  #keepAlive = ''
  /** Value of Content-Encoding; empty: none. */
  encoding = ''

  /** The answer ends with its head. */
  get isBodiless(): boolean {
    return this.status === 204 || this.status === 304
  }

  /** The connection may be used for another request. */
  get keepsAlive(): boolean {
    if (!this.#isFramed() || CLOSE.test(this.#connection)) return false
    return this.#modern || (KEEP_ALIVE.test(this.#connection) && !this.isCoded)
  }

  /** How long the other side keeps an idle connection, as it says, ms; null: it does not say. */
  get keepAliveMs(): number | null {
    if (this.#keepAlive === '') return null
    const seconds = /timeout=(\d{1,6})/i.exec(this.#keepAlive)?.[1]
    return seconds === undefined ? null : Number(seconds) * 1_000
  }

  /**
   * Reads a head in the place of the last one.
   *
   * @param end after its empty line
   * @returns where the header lines begin
   * @throws  MalformedAnswer
   */
  read(bytes: Buffer, start: number, end: number): number {
    this.length = -1
    this.isCoded = false
    this.#connection = ''
    this.#keepAlive = ''
    this.encoding = ''
    const fieldsAt = this.#readStatus(bytes, start)
    this.#readFields(bytes, fieldsAt, end, false)
    if (this.isCoded && this.length !== -1) throw new MalformedAnswer('a length beside a transfer coding')
    return fieldsAt
  }

  /** Checks a trailer: only its form matters. @throws MalformedAnswer */
  checkTrailer(bytes: Buffer, start: number, end: number): void {
    this.#readFields(bytes, start, end, true)
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
    const next = bytes[at + 5]
    const isSpaced = bytes[at + 1] === SPACE && (next === SPACE || next === CR)
    if (!isSpaced || !(status >= 100) || !(minor === 0 || minor === 1))
      throw new MalformedAnswer('no status line')
    this.status = status
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
        if (this.length !== -1) throw new MalformedAnswer('two lengths')
        this.length = contentLengthOf(fieldValue(bytes, nameEnd, end))
        return
      case 16:
        if (isNamed(bytes, nameAt, 'content-encoding')) this.encoding += fieldValue(bytes, nameEnd, end)
        return
      case 17:
        if (!isNamed(bytes, nameAt, 'transfer-encoding')) return
        if (this.isCoded || fieldValue(bytes, nameEnd, end).toLowerCase() !== 'chunked')
          throw new MalformedAnswer('an unknown transfer coding')
        this.isCoded = true
    }
  }

  /** True if the answer ends certainly without the end of the connection. */
  #isFramed(): boolean {
    // A 204 or 304 has no body. One that announces a body may send it all the same.
    if (this.isBodiless) return this.length <= 0 && !this.isCoded
    return this.isCoded || this.length !== -1
  }
}

/**
 * Finds the end of a head or trailer, after its empty line; -1: it is not here yet.
 *
 * @param start where it begins
 * @param from  where its bytes have not been looked at yet
 * @throws MalformedAnswer for a line that ends without CR, and when it is too long
 */
export function findSectionEnd(bytes: Buffer, start: number, from: number, end: number): number {
  for (let at = from; at < end; at += 1) {
    if (bytes[at] !== LF) continue
    if (at === start || bytes[at - 1] !== CR) throw new MalformedAnswer('a line without its end')
    const isEmpty = at - 1 === start || bytes[at - 2] === LF
    if (isEmpty && at - start < SECTION_BYTES_MAX) return at + 1
  }
  if (end - start >= SECTION_BYTES_MAX) throw new MalformedAnswer('a head too long')
  return -1
}

/** Finds the beginning of the next line. @throws MalformedAnswer for a byte that a line may not hold */
function endOfLine(bytes: Buffer, from: number): number {
  let at = from
  while (TEXT[bytes[at]!] === 1) at += 1
  if (bytes[at] !== CR || bytes[at + 1] !== LF) throw new MalformedAnswer('a byte that no header may hold')
  return at + 2
}

/** Compares a name with one of the same length. @param name in lower case */
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

function contentLengthOf(value: string): number {
  if (!/^\d+$/.test(value) || value.length > LENGTH_DIGITS_MAX) throw new MalformedAnswer('no length')
  return Number(value)
}

/** Headers by their lower-case names, repeated ones joined with `, `. @param fields as `onHead` was given them */
export function readHeaders(fields: string): Record<string, string> {
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
