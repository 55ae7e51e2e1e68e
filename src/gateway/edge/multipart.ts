import { isUtf8 } from 'node:buffer'
import type { Limits } from '../../contracts/limits.ts'
import { decodeUtf8 } from '../../contracts/utf8.ts'
import { ByteBuilder } from './byte-builder.ts'
import { Delimiter } from './delimiter.ts'
import { AUDIO_SOURCES, readBoolean } from './form.ts'
import { declaredFilename, declaredMediaType, type HeaderValue, parseHeaderValue } from './header-value.ts'
import { audioTooLarge, invalid, invalidField } from './refusals.ts'
import type { AudioTap, BodyScanner, ForeseenAudio, ScannedAudio, ScannedBody } from './scanner.ts'

const MAX_PARTS = 64
const MAX_HEAD_BYTES = 16 * 1024
const MAX_FIELD_BYTES = 64 * 1024
/** Values and names of all fields together. */
const MAX_FIELDS_BYTES = 256 * 1024
/** Blanks between a boundary and the end of its line (RFC 2046, section 5.1.1). */
const MAX_PADDING = 256
/** The padding and the line end after it. */
const MAX_LINE = MAX_PADDING + 2
/** Headers are copied in steps of this size until their end is found. */
const HEAD_STEP_BYTES = 1024

const CR = 0x0d
const LF = 0x0a
const DASH = 0x2d
const NOTHING = Buffer.alloc(0)
const CLOSE = Buffer.from('--')
/** The closing delimiter's end of line, which nearly every client writes. */
const CLOSED_LINE_BYTES = CLOSE.length + 2
const HEAD_END = Buffer.from('\r\n\r\n')
const AUDIO_NAMES: ReadonlySet<string> = new Set(['file', 'audio'])
/** Printable ASCII; RFC 2046 allows less, its length and its end are as there. */
const BOUNDARY = /^[ -~]{0,69}[!-~]$/

/**
 * - content: the preamble, or the body of a part, up to the next delimiter
 * - line: the bytes after a delimiter up to the end of its line
 * - head: the headers of a part
 * - epilogue: all bytes after the closing delimiter
 */
type State = 'content' | 'line' | 'head' | 'epilogue'

/** The part whose body is being read; null in the preamble. */
type Part = { readonly kind: 'field'; readonly head: PartHead } | { readonly kind: 'audio' } | null

/**
 * Finds fields and the one file of multipart/form-data (RFC 7578) in a stream, in time linear in its length.
 *
 * A delimiter is CRLF, two dashes and the boundary, and its line must end as RFC 2046 has it: a line of the
 * audio that only begins like one stays audio. CR occurs only at the front of a delimiter, so a match that
 * fails can be dropped as a whole, and a count is held back between chunks, never a copy.
 */
export class MultipartScanner implements BodyScanner {
  readonly #maxAudioBytes: number
  readonly #tap: AudioTap | undefined
  readonly #delimiter: Delimiter
  #state: State = 'content'
  #part: Part = null
  /** Bytes of the body before the current view. */
  #position = 0
  /** Bytes of the delimiter seen so far. Its CRLF counts as seen at the very beginning and after headers. */
  #matched = 2
  /** How many of the matched bytes are such a CRLF and so no content. */
  #borrowed = 2
  /** Bytes after a possible delimiter in earlier views, too few to tell whether it is one. */
  #line: Buffer = NOTHING
  #parts = 0
  readonly #head = new ByteBuilder()
  readonly #value = new ByteBuilder()
  #fieldsBytes = 0
  readonly #fields = new Map<string, string[]>()
  #audio: { readonly head: PartHead; readonly offset: number; length: number } | null = null

  /** @throws GatewayError INVALID_REQUEST when the boundary is missing or malformed */
  constructor(contentType: HeaderValue, limits: Limits, tap?: AudioTap) {
    const boundary = contentType.parameters.get('boundary') ?? ''
    if (!BOUNDARY.test(boundary)) throw invalid('multipart/form-data needs a boundary of 1 to 70 characters')
    this.#delimiter = new Delimiter(Buffer.from(`\r\n--${boundary}`, 'latin1'))
    this.#maxAudioBytes = limits.max_audio_bytes
    this.#tap = tap
  }

  scan(view: Buffer): void {
    let at = 0
    while (at < view.length) at = this.#step(view, at)
    this.#position += view.length
  }

  flag(name: string): boolean | null {
    const [text] = this.#fields.get(name) ?? []
    return text === undefined ? null : readBoolean(text) === true
  }

  /**
   * Takes a file that has begun for the last part, closed as clients do it. A body with a field after it, or with
   * another end, turns out to be something else.
   */
  foresee(contentLength: number): ForeseenAudio | null {
    if (this.#audio === null || this.#part?.kind !== 'audio') return null
    const { head, offset } = this.#audio
    const length = contentLength - offset - this.#delimiter.bytes.length - CLOSED_LINE_BYTES
    if (length <= 0 || length > this.#maxAudioBytes) return null
    return { fields: { kind: 'form', values: new Map(this.#fields) }, audio: audioOf(head, offset, length) }
  }

  finish(): ScannedBody {
    if (this.#state === 'line' && this.#line.equals(CLOSE)) this.#endPart('epilogue')
    if (this.#state !== 'epilogue') throw invalid('the multipart body ends before its closing boundary')
    const fields = { kind: 'form', values: this.#fields } as const
    if (this.#audio === null) return { fields, source: { kind: 'none' } }
    const { head, offset, length } = this.#audio
    if (length === 0) throw invalid('the audio is empty', 'audio')
    return { fields, source: { kind: 'audio', audio: audioOf(head, offset, length) } }
  }

  #step(view: Buffer, at: number): number {
    if (this.#state === 'content') return this.#scanContent(view, at)
    if (this.#state === 'line') return this.#scanLine(view, at)
    if (this.#state === 'head') return this.#scanHead(view, at)
    return view.length
  }

  #scanContent(view: Buffer, at: number): number {
    const delimiter = this.#delimiter.bytes
    if (this.#matched > 0) {
      const end = at + Math.min(delimiter.length - this.#matched, view.length - at)
      const matched = this.#matched + end - at
      if (view.compare(delimiter, this.#matched, matched, at, end) === 0) {
        this.#matched = matched
        if (matched === delimiter.length) this.#state = 'line'
        return end
      }
      this.#giveBack()
    }
    const found = findDelimiter(view, at, this.#delimiter)
    if (found === -1) {
      const end = heldFrom(view, at, delimiter)
      this.#write(view.subarray(at, end))
      this.#matched = view.length - end
      return view.length
    }
    this.#write(view.subarray(at, found))
    this.#matched = delimiter.length
    this.#state = 'line'
    return found + delimiter.length
  }

  #scanLine(view: Buffer, at: number): number {
    const held = this.#line.length
    const rest = view.subarray(at, at + MAX_LINE)
    const line = held === 0 ? rest : Buffer.concat([this.#line, rest])
    const judged = judgeLine(line, 0)
    if (judged === 'undecided') {
      this.#line = Buffer.from(line)
      return view.length
    }
    if (judged === 'content') {
      this.#giveBack()
      this.#state = 'content'
      return at
    }
    this.#endPart(judged === 'close' ? 'epilogue' : 'head')
    return judged === 'close' ? at : at + judged - held
  }

  #scanHead(view: Buffer, at: number): number {
    const head = this.#head
    if (head.length === 0) head.append(HEAD_END.subarray(0, 2))
    const before = head.length
    head.append(view.subarray(at, at + HEAD_STEP_BYTES))
    const found = head.bytes().indexOf(HEAD_END, Math.max(0, before - 3))
    if (found === -1 ? head.length > MAX_HEAD_BYTES : found > MAX_HEAD_BYTES) {
      throw invalid(`the headers of a part are over ${MAX_HEAD_BYTES} bytes`)
    }
    if (found === -1) return Math.min(view.length, at + HEAD_STEP_BYTES)
    const end = at + found + HEAD_END.length - before
    this.#beginPart(parsePartHead(head.bytes().subarray(0, found)), this.#position + end)
    head.clear()
    return end
  }

  #beginPart(head: PartHead, offset: number): void {
    this.#parts += 1
    if (this.#parts > MAX_PARTS) throw invalid(`a form has at most ${MAX_PARTS} parts`)
    if (AUDIO_NAMES.has(head.name)) {
      if (this.#audio !== null) throw invalid('send exactly one file, named file or audio', 'audio')
      this.#audio = { head, offset, length: 0 }
      this.#part = { kind: 'audio' }
    } else {
      if (AUDIO_SOURCES.has(head.name)) throw invalid('send the audio as the file part alone', 'audio')
      if (head.hasFilename && head.filename !== null) {
        throw invalid('name the file part file or audio', 'audio')
      }
      this.#part = { kind: 'field', head }
      this.#countField(head.name.length)
    }
    this.#state = 'content'
    this.#matched = 2
    this.#borrowed = 2
  }

  #write(bytes: Buffer): void {
    if (this.#part?.kind === 'audio') {
      const audio = this.#audio!
      audio.length += bytes.length
      if (audio.length > this.#maxAudioBytes) throw audioTooLarge(this.#maxAudioBytes, audio.length)
      this.#tap?.take(bytes, 'identity')
    } else if (this.#part?.kind === 'field') {
      if (this.#value.length + bytes.length > MAX_FIELD_BYTES) {
        throw invalidField(this.#part.head.name, `must have at most ${MAX_FIELD_BYTES} bytes`)
      }
      this.#countField(bytes.length)
      this.#value.append(bytes)
    }
  }

  #countField(bytes: number): void {
    this.#fieldsBytes += bytes
    if (this.#fieldsBytes > MAX_FIELDS_BYTES) {
      throw invalid(`the fields are over ${MAX_FIELDS_BYTES} bytes together`)
    }
  }

  #endPart(next: State): void {
    if (this.#part?.kind === 'field') {
      const { head } = this.#part
      const values = this.#fields.get(head.name) ?? []
      values.push(decodeField(this.#value.bytes(), head))
      this.#fields.set(head.name, values)
      this.#value.clear()
    }
    this.#part = null
    this.#line = NOTHING
    this.#state = next
  }

  /** The match has failed: the bytes held back are content. */
  #giveBack(): void {
    this.#write(this.#delimiter.bytes.subarray(this.#borrowed, this.#matched))
    this.#write(this.#line)
    this.#matched = 0
    this.#borrowed = 0
    this.#line = NOTHING
  }
}

function audioOf({ mediaType, filename }: PartHead, offset: number, length: number): ScannedAudio {
  const plain = { encoding: 'identity', decodedBytes: length, canonical: true } as const
  return { offset, length, ...plain, mediaType, filename }
}

/** Start of the next delimiter whose line is one as far as the view goes; -1 when there is none. */
function findDelimiter(view: Buffer, from: number, delimiter: Delimiter): number {
  const { length } = delimiter.bytes
  let found = delimiter.find(view, from)
  while (found !== -1 && judgeLine(view, found + length) === 'content') {
    found = delimiter.find(view, found + length)
  }
  return found
}

/**
 * Judges a delimiter by the bytes after it (RFC 2046, section 5.1.1).
 *
 * @returns `close` when it ends the body, where the next part's headers begin when it ends a part, `content`
 *          when it is not a delimiter, `undecided` when the bytes end too soon; never with `MAX_LINE` bytes
 */
function judgeLine(bytes: Buffer, from: number): number | 'close' | 'content' | 'undecided' {
  const length = bytes.length
  if (bytes[from] === DASH) {
    if (from + 1 < length && bytes[from + 1] !== DASH) return 'content'
    if (from + 2 >= length) return 'undecided'
    const next = bytes[from + 2]!
    return isBlank(next) || next === CR || next === LF ? 'close' : 'content'
  }
  let at = from
  while (at < length && at - from < MAX_PADDING && isBlank(bytes[at]!)) at++
  if (at < length && bytes[at] !== CR) return 'content'
  if (at + 1 >= length) return 'undecided'
  return bytes[at + 1] === LF ? at + 2 : 'content'
}

/** Possible start of a delimiter that the end of a view cuts off; `view.length` when there is none. */
function heldFrom(view: Buffer, at: number, delimiter: Buffer): number {
  const first = Math.max(at, view.length - delimiter.length + 1)
  for (let from = view.length - 1; from >= first; from--) {
    if (view[from] !== CR) continue
    return view.compare(delimiter, 0, view.length - from, from) === 0 ? from : view.length
  }
  return view.length
}

function decodeField(bytes: Buffer, { name, charset }: PartHead): string {
  const text = charset === null ? decodeUtf8(bytes) : decodeCharset(bytes, charset)
  if (text === null) {
    throw invalidField(name, `must be text in ${charset === null ? 'UTF-8' : 'its charset'}`)
  }
  return text
}

function decodeCharset(bytes: Buffer, charset: string): string | null {
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes)
  } catch {
    return null
  }
}

function isBlank(byte: number): boolean {
  return byte === 0x20 || byte === 0x09
}

/** Headers of one part of multipart/form-data (RFC 7578, section 4). */
interface PartHead {
  readonly name: string
  /** True when the part has a file name, be it empty. */
  readonly hasFilename: boolean
  readonly filename: string | null
  readonly mediaType: string | null
  /** Label of the text encoding of a field; null: UTF-8. */
  readonly charset: string | null
}

/** Longest field name, in UTF-16 units: names come back in errors and warnings. */
const MAX_NAME = 128
const IDENTITY_ENCODINGS: ReadonlySet<string> = new Set(['binary', '8bit', '7bit'])
/** `charset'language'percent-encoded` (RFC 8187). */
const EXTENDED = /^(utf-8|iso-8859-1)'[^']*'(.*)$/i

/**
 * @param block the header lines of a part with their line ends, without the empty line
 * @throws GatewayError INVALID_REQUEST
 */
function parsePartHead(block: Buffer): PartHead {
  const headers = readHeaders(isUtf8(block) ? block.toString('utf8') : block.toString('latin1'))
  const disposition = parseHeaderValue(headers.get('content-disposition') ?? '')
  const name = disposition?.value === 'form-data' ? disposition.parameters.get('name') : undefined
  if (disposition === null || name === undefined || name === '') {
    throw invalid('every part needs a Content-Disposition of form-data with a name')
  }
  if (name.length > MAX_NAME) throw invalid(`field names are at most ${MAX_NAME} characters long`)

  const transfer = headers.get('content-transfer-encoding')?.trim().toLowerCase()
  if (transfer !== undefined && !IDENTITY_ENCODINGS.has(transfer)) {
    throw invalidField(name, 'must be sent as it is, without Content-Transfer-Encoding')
  }
  const type = headers.get('content-type')
  const filename = disposition.parameters.get('filename')
  const extended = disposition.parameters.get('filename*')
  return {
    name,
    hasFilename: filename !== undefined || extended !== undefined,
    filename: declaredFilename(decodeExtended(extended) ?? filename ?? ''),
    mediaType: type === undefined ? null : declaredMediaType(type),
    charset: type === undefined ? null : (parseHeaderValue(type)?.parameters.get('charset') ?? null),
  }
}

/** Header lines by lower-case name. Folded lines (RFC 822) are joined; a repeated header is refused. */
function readHeaders(text: string): Map<string, string> {
  const headers = new Map<string, string>()
  for (const line of text.replace(/\r\n[ \t]+/g, ' ').split('\r\n')) {
    if (line === '') continue
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).toLowerCase()
    if (colon < 1 || /[\r\n\0]/.test(line) || /\s/.test(name)) throw invalid('a part has a malformed header')
    if (headers.has(name)) throw invalid(`a part has the header ${name} twice`)
    headers.set(name, line.slice(colon + 1))
  }
  return headers
}

function decodeExtended(text: string | undefined): string | undefined {
  const [, charset = '', encoded = ''] = EXTENDED.exec(text ?? '') ?? []
  if (charset === '') return undefined
  try {
    if (charset.toLowerCase() === 'utf-8') return decodeURIComponent(encoded)
    return encoded.replace(/%([0-9a-f]{2})/gi, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    )
  } catch {
    return undefined
  }
}
