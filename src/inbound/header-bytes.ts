import { GatewayError } from '../errors.ts'

/** A request's headers, and the names of those whose values lack bytes over 0x7f that they had at an end. */
interface Shown {
  readonly headers: Readonly<Record<string, string>>
  readonly cut: readonly string[]
  /** It is known that all bytes of the head are ASCII, and none is DEL. */
  readonly plain: boolean
}

/** The headers that decide something about a request, by their names in lower case. */
const DECIDING: Readonly<Record<string, string>> = {
  authorization: 'Authorization',
  'content-type': 'Content-Type',
  'idempotency-key': 'Idempotency-Key',
  traceparent: 'traceparent',
  'x-lk-end-user': 'X-LK-End-User',
  'x-lk-purpose': 'X-LK-Purpose',
  'x-lk-request-id': 'X-LK-Request-ID',
}
const NAMES = Object.keys(DECIDING)
/** Those that say where a request ends, and whose it is. */
export const FRAMING = ['host', 'content-length', 'transfer-encoding']

/** Visible ASCII, blanks and tabs. */
const PLAIN = /^[\t -~]*$/
const HEAD_END = Buffer.from('\r\n\r\n')
const BLANK = 0x20
const CR = 0x0d
const LF = 0x0a
const BLANKS_AROUND = /^[\t ]+|[\t ]+$/g
/** What the native parser cuts off: it takes bytes over 0x7f for less than a blank. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: as the parser has it
const CUT_AROUND = /^[\x00-\x20\x80-\xff]+|[\x00-\x20\x80-\xff]+$/g

/**
 * Refuses a header that decides something and holds another byte than visible ASCII: two values would be taken for one.
 *
 * @returns INVALID_REQUEST naming the header; null when all are plain
 */
export function judgeHeaderBytes({ headers, cut, plain }: Shown): GatewayError | null {
  if (plain) return null
  for (const name of NAMES) {
    const value = headers[name]
    if (value === undefined || (PLAIN.test(value) && !cut.includes(name))) continue
    const param = DECIDING[name]!
    return new GatewayError('INVALID_REQUEST', `${param} must be visible ASCII characters`, { param })
  }
  return null
}

/** Shows what the native parser has cut off the values of a head; see `openReceiveWindow`. */
export class HeadWindow {
  readonly #bytes: Buffer
  readonly #words: Int32Array

  constructor({ buffer, byteOffset, byteLength }: Uint8Array) {
    this.#bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
    this.#words = new Int32Array(buffer, byteOffset, byteLength >> 2)
  }

  /**
   * Whether the segment begins with a head of that length in which every byte is ASCII and none is DEL. Every request
   * is asked so, and therefore four bytes at a time.
   *
   * @param length the head has when there is one blank before each value and nothing was cut off
   */
  isPlain(method: string, length: number): boolean {
    const words = this.#words
    const bytes = this.#bytes
    const begins = bytes[0] === method.charCodeAt(0) && bytes[method.length] === BLANK
    if (!begins || length > bytes.length) return false
    let found = 0
    for (let at = length >> 2; at-- > 0; ) {
      const word = words[at]!
      // Of an ASCII byte the sum has its highest bit only where that is DEL.
      found |= word | ((word + 0x01010101) | 0)
    }
    const ends = bytes[length - 4] === CR && bytes[length - 3] === LF
    return (found & 0x80808080) === 0 && ends && bytes[length - 2] === CR && bytes[length - 1] === LF
  }

  /**
   * Finds the headers whose values had bytes over 0x7f at an end. To be called in the route callback, as long as the
   * head is still there. It is not when it came in several segments, of which only the last is: then nothing is found.
   *
   * @param begins how the first line of the request does
   */
  cutNames(begins: string, headers: Shown['headers']): readonly string[] {
    const end = this.#bytes.indexOf(HEAD_END)
    const [first = '', ...lines] = this.#bytes.toString('latin1', 0, Math.max(0, end)).split('\r\n')
    if (!first.startsWith(begins)) return []
    const cut = new Set<string>()
    for (const line of lines) {
      const colon = line.indexOf(':')
      const name = line.slice(0, colon).toLowerCase()
      if (!NAMES.includes(name) && !FRAMING.includes(name)) continue
      const value = line.slice(colon + 1).replace(BLANKS_AROUND, '')
      const shown = value.replace(CUT_AROUND, '')
      // What is no part of this request's value is of another one.
      const isOurs = headers[name]?.includes(Buffer.from(shown, 'latin1').toString()) === true
      if (shown !== value && isOurs) cut.add(name)
    }
    return [...cut]
  }
}
