import { STATUS_CODES } from 'node:http'
import type { UpgradeReply } from './client-socket.ts'
import type { CommonHeaders, Reply, ReplyPiece, StreamedReply, WholeReply } from './exchange.ts'
import type { HttpResponse } from './uws.ts'

/** By status; 460 is tus' own. */
const REASONS: Readonly<Record<number, string | undefined>> = { ...STATUS_CODES, 460: 'Checksum Mismatch' }

/** Status and headers of an answer, checked. */
export interface AnswerHead {
  readonly status: number
  /** Value of the header `FIRST`, and after it the lines of all others. */
  readonly headers: string
}

/** An answer ready to be written: checked headers, a known length, and the body in slices. */
export interface Answer extends AnswerHead {
  /** Bytes of the whole body. */
  readonly length: number
  /** The body when it is small enough for a single write, else null. */
  readonly whole: string | Uint8Array | null
  /** The body in slices of at most `SLICE_BYTES`. A slice is only valid until the next one is asked for. */
  slices(): Generator<Uint8Array, void>
}

/** Largest slice that goes to the socket at once; base64 text of three quarters of it, a multiple of three, is one. */
export const SLICE_BYTES = 65_536
const BASE64_SLICE_SOURCE_BYTES = (SLICE_BYTES / 4) * 3

const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
/** Names that replies may set. They come from this program alone. */
const lineStarts = new Map<string, LineStart>()

interface LineStart {
  /** The line up to the value. */
  readonly text: string
  /** The value that was checked last, if it is short, and its line: most come again. */
  value: string
  line: string
}

/** Longer values are checked each time: they may be made of a caller's own text, which is not to stay. */
const REMEMBERED_LENGTH_MAX = 48
/** Visible characters, space and tab: uWS writes a value as it is, so a CR LF in it would begin a header of its own. */
const VALUE = /^[\t\x20-\x7e\x80-\uffff]*$/
/** The header that every answer begins with; its value is `nosniff`. */
const FIRST = 'x-content-type-options'
const NO_HEADERS: Readonly<Record<string, string>> = Object.freeze({})
/** Set by the edge, for every answer alike. */
const RESERVED = new Set(['content-length', 'transfer-encoding', 'connection', 'x-lk-request-id', FIRST])

/**
 * Prepares an answer.
 *
 * @throws Error naming the header at fault; never its value, which an attacker may have sent
 */
export function prepareAnswer(reply: WholeReply, requestId: string): Answer {
  return new PreparedAnswer(reply, requestId)
}

class PreparedAnswer implements Answer {
  readonly status: number
  readonly headers: string
  readonly length: number
  readonly whole: string | Uint8Array | null
  readonly #body: WholeReply['body']

  constructor(reply: WholeReply, requestId: string) {
    const { status, body } = reply
    const isOne = isPiece(body)
    const length = isOne ? pieceLength(body) : body.reduce((sum, piece) => sum + pieceLength(piece), 0)
    const type = typeof body === 'string' ? 'application/json' : 'application/octet-stream'
    this.status = status
    this.headers = headerText(reply, requestId, length > 0 ? type : null)
    this.length = length
    this.whole = length > SLICE_BYTES ? null : isOne ? body : joinedPieces(body, length)
    this.#body = body
  }

  slices(): Generator<Uint8Array, void> {
    return slicesOf(isPiece(this.#body) ? [this.#body] : this.#body)
  }
}

/** The body is one text or one run of bytes. */
function isPiece(body: WholeReply['body']): body is string | Uint8Array {
  return typeof body === 'string' || body instanceof Uint8Array
}

export function isStreamed(reply: Reply): reply is StreamedReply {
  return typeof reply.body === 'object' && 'stream' in reply.body
}

/**
 * Prepares the head of an answer whose body is made while it is sent.
 *
 * @throws Error as `prepareAnswer`
 */
export function prepareStreamedHead(reply: StreamedReply, requestId: string): AnswerHead {
  if (reply.headers['content-type'] === undefined) throw new Error('a streamed body needs its content-type')
  return { status: reply.status, headers: headerText(reply, requestId, null) }
}

/**
 * Prepares the head of a handshake's answer; uWS adds the headers of WebSockets.
 *
 * @throws Error as `prepareAnswer`
 */
export function prepareUpgradeHead(
  reply: Pick<UpgradeReply, 'status' | 'headers' | 'lines'>,
  requestId: string,
): AnswerHead {
  return { status: reply.status, headers: headerText(reply, requestId, null) }
}

/**
 * The headers of an answer as one text, which begins with the value of `FIRST`.
 *
 * @param defaultType the content type when the reply has none; null: it stays without
 */
function headerText(
  { status, headers = NO_HEADERS, common, lines }: Omit<WholeReply, 'body'>,
  requestId: string,
  defaultType: string | null,
): string {
  if (REASONS[status] === undefined) throw new Error(`there is no HTTP status ${status}`)
  let text = `nosniff\r\nx-lk-request-id: ${requestId}${headerLines(headers)}`
  if (lines !== undefined) text += lines
  if (common !== undefined) text += common.lines
  const isTyped = headers['content-type'] !== undefined || common?.headers['content-type'] !== undefined
  if (defaultType !== null && !isTyped) text += `\r\ncontent-type: ${defaultType}`
  return text
}

function headerLines(headers: Readonly<Record<string, string>>): string {
  let text = ''
  for (const name in headers) {
    const start = lineStarts.get(name) ?? lineStart(name)
    const value = headers[name]!
    text += value === start.value ? start.line : headerLine(name, start, value)
  }
  return text
}

/**
 * Prepares headers for many answers: to check and write them again for each is a tenth of what a small answer costs.
 *
 * @throws Error as `prepareAnswer`
 */
export function commonHeaders(headers: Readonly<Record<string, string>>): CommonHeaders {
  return { headers, lines: inOne(headerLines(headers)) }
}

/** A text that many answers have, as one run of characters: of pieces, each answer would make one anew. */
function inOne(text: string): string {
  // Looking into it does that.
  text.charCodeAt(text.length - 1)
  return text
}

/** Most values of which a header line is remembered. */
const LINES_MAX = 1_024

/** Makes header lines whose value changes seldom, and remembers them: for names and values of this program alone. */
export function rememberedLines<Value>(lineOf: (value: Value) => string): (value: Value) => string {
  const lines = new Map<Value, string>()
  return (value) => {
    const known = lines.get(value)
    if (known !== undefined) return known
    if (lines.size === LINES_MAX) lines.clear()
    const line = inOne(lineOf(value))
    lines.set(value, line)
    return line
  }
}

function headerLine(name: string, start: LineStart, value: string): string {
  if (!VALUE.test(value)) throw new Error(`the header ${name} has control characters`)
  const line = start.text + value
  if (value.length > REMEMBERED_LENGTH_MAX) return line
  start.value = value
  start.line = line
  return line
}

function lineStart(name: string): LineStart {
  if (!NAME.test(name) || RESERVED.has(name))
    throw new Error(`a reply may not set the header ${JSON.stringify(name)}`)
  const text = `\r\n${name}: `
  const start = { text, value: '', line: text }
  lineStarts.set(name, start)
  return start
}

function pieceLength(piece: ReplyPiece): number {
  if (typeof piece === 'string') return Buffer.byteLength(piece)
  if (piece instanceof Uint8Array) return piece.length
  const bytes = piece.base64.reduce((sum, chunk) => sum + chunk.length, 0)
  return 4 * Math.ceil(bytes / 3)
}

function joinedPieces(pieces: readonly ReplyPiece[], length: number): Uint8Array {
  const whole = Buffer.allocUnsafe(length)
  let offset = 0
  for (const slice of slicesOf(pieces)) {
    whole.set(slice, offset)
    offset += slice.length
  }
  return whole
}

function* slicesOf(pieces: readonly ReplyPiece[]): Generator<Uint8Array, void> {
  for (const piece of pieces) {
    if (typeof piece === 'string') yield* cut(Buffer.from(piece))
    else if (piece instanceof Uint8Array) yield* cut(piece)
    else yield* base64Slices(piece.base64)
  }
}

function* cut(bytes: Uint8Array): Generator<Uint8Array, void> {
  for (let start = 0; start < bytes.length; start += SLICE_BYTES)
    yield bytes.subarray(start, start + SLICE_BYTES)
}

/** One base64 text over all chunks: the bytes of a chunk after a multiple of three go with the next one. */
function* base64Slices(chunks: readonly Uint8Array[]): Generator<Uint8Array, void> {
  const total = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
  const source = Buffer.allocUnsafe(Math.min(BASE64_SLICE_SOURCE_BYTES, total))
  const text = Buffer.allocUnsafe(4 * Math.ceil(source.length / 3))
  let filled = 0
  for (const chunk of chunks) {
    let start = 0
    while (start < chunk.length) {
      const end = Math.min(chunk.length, start + source.length - filled)
      source.set(chunk.subarray(start, end), filled)
      filled += end - start
      start = end
      if (filled < source.length) continue
      yield text.subarray(0, text.write(source.toString('base64'), 'latin1'))
      filled = 0
    }
  }
  if (filled > 0) yield text.subarray(0, text.write(source.toString('base64', 0, filled), 'latin1'))
}

/**
 * Writes status and headers; to be called in a cork. All headers go as the value of the first one: uWS writes a
 * value as it is, and a call into it costs as much as a header more in the text.
 */
export function writeHead(res: HttpResponse, head: AnswerHead): void {
  // uWS writes 200 by itself; every call into it costs.
  if (head.status !== 200) res.writeStatus(`${head.status} ${REASONS[head.status]}`)
  res.writeHeader(FIRST, head.headers)
}
