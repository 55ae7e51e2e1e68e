import { END_USER_HEADER } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { newId } from '../../contracts/ids.ts'
import { trimBlanks, trimWhere } from '../../contracts/trim.ts'
import { HEAD_END, WINDOW_BYTES } from './receive-window.ts'
import { SegmentView } from './segment-view.ts'
import type { HttpRequest } from './uws.ts'

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** A request's first line and headers, copied while uWS's request object was alive. */
export interface RequestHead {
  /** In upper case; `_OTHER` for one that the edge does not know, empty for what is none. */
  readonly method: string
  readonly path: string
  /** Without `?`. */
  readonly query: string
  /** Lower-case names; repeated headers joined with `, `. Without a prototype: any name is only a name. */
  readonly headers: Readonly<Record<string, string>>
  /** Names of headers whose values lack bytes over 0x7f that they had at an end. */
  readonly cut: readonly string[]
  /** It is known that all bytes are ASCII, and none is DEL. */
  readonly plain: boolean
  /** Bytes that it has in the segment that it came in; null: in several, or it is not known. */
  readonly length: number | null
}

const NOTHING_CUT: readonly string[] = Object.freeze([])
/** Blanks and version of a request line, and the line ends around the headers. */
const LINE_BYTES = ' '.length + ' HTTP/1.1\r\n'.length + '\r\n'.length

/**
 * To be called in the route callback: uWS's request is dead when that returns.
 *
 * @param window null: bytes that the parser has cut off stay unseen
 */
export function readHead(request: HttpRequest, method: string, window: HeadWindow | null): RequestHead {
  const headers: Record<string, string> = Object.create(null)
  const path = request.getUrl()
  // Can be undefined, although its type does not say so.
  const query = (request.getQuery() as string | undefined) ?? ''
  let length = LINE_BYTES + method.length + path.length + (query === '' ? 0 : query.length + 1)
  request.forEach((name, value) => {
    length += name.length + value.length + 4
    const known = headers[name]
    headers[name] = known === undefined ? value : `${known}, ${value}`
  })
  const plain = window?.isPlain(method, length) === true
  if (plain || window === null)
    return { method, path, query, headers, cut: NOTHING_CUT, plain, length: plain ? length : null }
  return { method, path, query, headers, plain, ...window.restore(`${method} ${path}`, headers) }
}

/** RFC 9110, section 5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

/** The method of a request whose own the edge does not know: the caller's text gets no further. */
export function otherMethod(request: HttpRequest): string {
  return TOKEN.test(request.getCaseSensitiveMethod()) ? '_OTHER' : ''
}

/** The caller's own id for the request where it is well-formed, else a new one. */
export function requestIdOf({ headers, cut }: RequestHead): string {
  const given = cut.includes('x-lk-request-id') ? undefined : headers['x-lk-request-id']
  return given !== undefined && REQUEST_ID.test(given) ? given : newId('req')
}

/** Headers that decide something about a request and are ASCII, by their names in lower case. */
type Deciding = Readonly<Record<string, string>>

/** Headers that identify the caller. */
export const CREDENTIALS: Deciding = { authorization: 'Authorization', 'xi-api-key': 'xi-api-key' }
/** Headers that say what the caller wants. */
export const SELECTORS: Deciding = {
  'content-type': 'Content-Type',
  'idempotency-key': 'Idempotency-Key',
  traceparent: 'traceparent',
  'x-lk-purpose': 'X-LK-Purpose',
  'x-lk-require': 'X-LK-Require',
  'x-lk-request-id': 'X-LK-Request-ID',
}
/** Headers that decide where a request ends, and whose it is. */
const FRAMING = ['host', 'content-length', 'transfer-encoding']
const GUARDED = [...Object.keys(CREDENTIALS), ...Object.keys(SELECTORS), ...FRAMING]

/** Visible ASCII, blanks and tabs. */
const PLAIN = /^[\t -~]*$/
const BLANK = 0x20
const CR = 0x0d
const LF = 0x0a
/** Bytes that the native parser cuts off: it treats bytes over 0x7f as less than a blank. */
const isCutByParser = (byte: number): boolean => byte <= BLANK || byte > 0x7f

/**
 * Refuses a header that decides something and holds another byte than visible ASCII: two values would be taken for one.
 *
 * @returns INVALID_REQUEST naming the header; null when all are plain
 */
export function judgeHeaderBytes(
  { headers, cut, plain }: Pick<RequestHead, 'headers' | 'cut' | 'plain'>,
  deciding: Deciding,
): GatewayError | null {
  if (plain) return null
  for (const [name, param] of Object.entries(deciding)) {
    const value = headers[name]
    if (value === undefined || (PLAIN.test(value) && !cut.includes(name))) continue
    return new GatewayError('INVALID_REQUEST', `${param} must be visible ASCII characters`, { param })
  }
  return null
}

/** Shows the bytes that the native parser has cut off the values of a head; see `openReceiveWindow`. */
export class HeadWindow {
  /** The same memory, and as much more of it as can be seen. */
  readonly segment: SegmentView
  readonly #bytes: Buffer
  readonly #words: Int32Array

  constructor(received: Uint8Array) {
    const { buffer, byteOffset } = received
    const byteLength = Math.min(received.byteLength, WINDOW_BYTES)
    this.segment = new SegmentView(received)
    this.#bytes = Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength)
    this.#words = new Int32Array(buffer, byteOffset, byteLength >> 2)
  }

  /**
   * True if the segment begins with a head of that length in which every byte is ASCII and none is DEL. Every request
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
      // For an ASCII byte, the sum has its highest bit set only if the byte is DEL.
      found |= word | ((word + 0x01010101) | 0)
    }
    const ends = bytes[length - 4] === CR && bytes[length - 3] === LF
    return (found & 0x80808080) === 0 && ends && bytes[length - 2] === CR && bytes[length - 1] === LF
  }

  /**
   * Finds the headers whose values had bytes over 0x7f at an end, and gives the end user's its own back. To be called
   * in the route callback, as long as the head is still there. It is not when it came in several segments, of which
   * only the last is: then nothing is found.
   *
   * @param begins how the first line of the request does
   * @returns `cut`: names of headers that must be ASCII and were cut; the empty one when a header has none, with which
   *          the native parser lets the list of headers end
   */
  restore(begins: string, headers: Record<string, string>): Pick<RequestHead, 'cut' | 'length'> {
    const end = this.#bytes.indexOf(HEAD_END)
    const [first = '', ...lines] = this.#bytes.toString('latin1', 0, Math.max(0, end)).split('\r\n')
    if (!first.startsWith(begins)) {
      // A segment may have no more than the end of the head: the lines after it are of an earlier one.
      const isKnown = this.segment.headEnds().length === 1
      return { cut: isKnown && lines.some((line) => line.startsWith(':')) ? [''] : NOTHING_CUT, length: null }
    }
    const cut = new Set<string>()
    const endUsers: string[] = []
    for (const line of lines) {
      const colon = line.indexOf(':')
      const name = line.slice(0, colon).toLowerCase()
      if (colon === 0) cut.add('')
      if (name !== END_USER_HEADER && !GUARDED.includes(name)) continue
      const value = trimBlanks(line.slice(colon + 1))
      const shown = trimWhere(value, isCutByParser)
      // Bytes that are not part of this request's value belong to another one.
      const isOurs = headers[name]?.includes(Buffer.from(shown, 'latin1').toString()) === true
      if (!isOurs) continue
      if (name === END_USER_HEADER) endUsers.push(Buffer.from(value, 'latin1').toString())
      else if (shown !== value) cut.add(name)
    }
    if (endUsers.length > 0) headers[END_USER_HEADER] = endUsers.join(', ')
    return { cut: [...cut], length: end + HEAD_END.length }
  }
}

/** How the body ends. `contentLength` is null for a chunked body and for none. */
export interface Framing {
  readonly contentLength: number | null
  readonly chunked: boolean
}

const NO_BODY: Framing = Object.freeze({ contentLength: null, chunked: false })
const CHUNKED: Framing = Object.freeze({ contentLength: null, chunked: true })

const DIGITS = /^[0-9]{1,15}$/
/** A name or IPv4 address with an optional port, or an IPv6 address in brackets with an optional port. */
const HOST = /^(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?$/
const PRINTABLE_ASCII = /^[\x21-\x7e]*$/

/**
 * Judges the headers that decide where a request ends, more strictly than uWS's parser: that one takes the first of two
 * Content-Lengths and any Transfer-Encoding as chunked, by which one request can hide another from a proxy in front.
 *
 * @returns the framing, or INVALID_REQUEST, after which the connection must be closed: its next bytes mean
 *          nothing
 */
export function judgeFraming(head: RequestHead): Framing | GatewayError {
  if (head.method === '') return malformed('the method must be a token')
  if (head.cut.includes('')) return malformed('a header must have a name')
  const cut = head.cut.find((name) => FRAMING.includes(name))
  if (cut !== undefined) return malformed(`the header ${cut} must be visible ASCII`)
  // A header that came more than once is joined with `, `, which no value below may hold.
  const { host, 'content-length': length, 'transfer-encoding': coding } = head.headers
  if (host === undefined || !HOST.test(host)) return malformed('the header Host must name one host')
  if (!PRINTABLE_ASCII.test(head.path) || (head.query !== '' && !PRINTABLE_ASCII.test(head.query)))
    return malformed('the request target must be printable ASCII')
  if (coding !== undefined) {
    if (length !== undefined)
      return malformed('a request has Content-Length or Transfer-Encoding, never both')
    if (coding.toLowerCase() === 'chunked') return CHUNKED
    return malformed('the only Transfer-Encoding taken is chunked')
  }
  if (length === undefined) return NO_BODY
  if (DIGITS.test(length)) return { contentLength: Number(length), chunked: false }
  if (length.includes(',')) return malformed('Content-Length is given more than once')
  return malformed('Content-Length must be 1 to 15 digits')
}

/** The fault of a chunked body that cannot be read; after it the connection must be closed. */
export function malformedChunks(): GatewayError {
  return malformed('the chunks of the body must be framed as RFC 9112 has them, without extensions')
}

function malformed(message: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message)
}
