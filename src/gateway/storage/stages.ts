import type { Base64Decoder } from '../../contracts/media.ts'
import { notBase64 } from './failure.ts'

/** Classes of bytes in irregular base64 text that are not data. */
const SKIP = 0
const PADDING = 1
const ESCAPE = 2
const INVALID = 3

const MEANING = new Uint8Array(256).fill(INVALID)
for (const byte of Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'))
  MEANING[byte] = byte
for (const byte of Buffer.from(' \t\r\n')) MEANING[byte] = SKIP
MEANING['-'.charCodeAt(0)] = '+'.charCodeAt(0)
MEANING['_'.charCodeAt(0)] = '/'.charCodeAt(0)
MEANING['='.charCodeAt(0)] = PADDING
MEANING['\\'.charCodeAt(0)] = ESCAPE

/** Escapes of JSON that mean a byte of base64 text, besides `\u`. */
const ESCAPES: Readonly<Record<string, string>> = { '/': '/', n: '\n', r: '\r', t: '\t' }
const UNICODE_ESCAPE_LENGTH = '\\u0000'.length

/**
 * Turns base64 text as it is in a JSON string into canonical base64: standard alphabet, padded, nothing in between.
 * The text was checked when it arrived; text that is not base64 after all is an error of this process or the store.
 */
export class TextCleaner {
  /** Data characters so far. */
  #data = 0
  /** The escape being read, across views. */
  #escape = ''

  /** True while the text so far ends within an escape. */
  get inEscape(): boolean {
    return this.#escape !== ''
  }

  /** @returns bytes written to `out`, at most as many as `text` has */
  clean(text: Uint8Array, out: Uint8Array): number {
    let written = 0
    for (let at = 0; at < text.length; at += 1) {
      const meant = this.#escape === '' ? MEANING[text[at]!]! : this.#unescape(text[at]!)
      if (meant > INVALID) {
        out[written] = meant
        written += 1
      } else if (meant === ESCAPE) {
        this.#escape = '\\'
      } else if (meant === INVALID) {
        throw notBase64()
      }
    }
    this.#data += written
    return written
  }

  /** Writes the padding. */
  end(out: Uint8Array): number {
    const padding = (4 - (this.#data % 4)) % 4
    out.fill('='.charCodeAt(0), 0, padding)
    return padding
  }

  /** Continues an escape with `byte`; SKIP until the escape is complete. */
  #unescape(byte: number): number {
    const char = String.fromCharCode(byte)
    if (this.#escape === '\\' && char !== 'u') {
      this.#escape = ''
      return MEANING[ESCAPES[char]?.charCodeAt(0) ?? 0]!
    }
    this.#escape += char
    if (this.#escape.length < UNICODE_ESCAPE_LENGTH) return SKIP
    const code = Number.parseInt(this.#escape.slice(2), 16)
    this.#escape = ''
    const meant = MEANING[code] ?? INVALID
    return meant === ESCAPE ? INVALID : meant
  }
}

/** Chunks that a stage hands on are valid until the next one is asked for. */
export type Chunks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>

/** Base64 characters handled at a time: longer strings leave the young heap. */
const TEXT_SLICE = 64 * 1024
const BYTES_SLICE = (TEXT_SLICE / 4) * 3
/** Gathered chunks; a socket that has one of these queued asks for no second one. */
const GATHERED_BYTES = 128 * 1024

/** Decodes canonical base64 that is cut anywhere. */
export async function* decodeText(chunks: Chunks, decoder: Base64Decoder): AsyncGenerator<Uint8Array> {
  const out = Buffer.allocUnsafeSlow(BYTES_SLICE)
  for await (const text of inGroups(chunks, 4, TEXT_SLICE)) {
    const written = text.length % 4 === 0 ? await decoder.decode(text, out) : -1
    if (written < 0) throw notBase64()
    yield out.subarray(0, written)
  }
}

/** Encodes bytes that are cut anywhere, without line breaks. */
export async function* encodeText(chunks: Chunks): AsyncGenerator<Uint8Array> {
  const out = Buffer.allocUnsafeSlow(TEXT_SLICE)
  for await (const { buffer, byteOffset, length } of inGroups(chunks, 3, BYTES_SLICE)) {
    const text = Buffer.from(buffer, byteOffset, length).toString('base64')
    yield out.subarray(0, out.write(text, 'latin1'))
  }
}

/** Cuts chunks into slices of whole groups of `size` bytes: only what the last one ends with may be shorter. */
async function* inGroups(chunks: Chunks, size: number, slice: number): AsyncGenerator<Uint8Array> {
  const group = Buffer.alloc(size)
  let grouped = 0
  for await (const chunk of chunks) {
    let at = 0
    if (grouped > 0) {
      at = Math.min(size - grouped, chunk.length)
      group.set(chunk.subarray(0, at), grouped)
      grouped += at
      if (grouped < size) continue
      grouped = 0
      yield group
    }
    const end = chunk.length - ((chunk.length - at) % size)
    for (; at < end; at += slice) yield chunk.subarray(at, Math.min(at + slice, end))
    grouped = chunk.length - end
    group.set(chunk.subarray(end))
  }
  if (grouped > 0) yield group.subarray(0, grouped)
}

/** Makes canonical base64 of text with white space, JSON escapes, the URL-safe alphabet, or without padding. */
export async function* cleanText(chunks: Chunks): AsyncGenerator<Uint8Array> {
  const cleaner = new TextCleaner()
  const out = Buffer.allocUnsafeSlow(TEXT_SLICE)
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += TEXT_SLICE) {
      yield out.subarray(0, cleaner.clean(chunk.subarray(at, at + TEXT_SLICE), out))
    }
  }
  yield out.subarray(0, cleaner.end(out))
}

/**
 * Copies chunks together to pieces of `GATHERED_BYTES`, only the last of them shorter. Two pieces of ordinary memory
 * take turns, and the garbage collector ends them: a piece that a socket still sends goes to no other reader.
 *
 * @param total bytes that must come
 * @throws Error when more or fewer come
 */
export async function* gather(chunks: Chunks, total: number): AsyncGenerator<Uint8Array> {
  const size = Math.min(total, GATHERED_BYTES)
  let piece: Uint8Array = Buffer.allocUnsafeSlow(size)
  let other: Uint8Array | null = null
  let filled = 0
  let missing = total
  for await (const chunk of chunks) {
    missing -= chunk.length
    if (missing < 0) throw new Error('stored audio is longer than it was when it arrived')
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + size - filled)
      piece.set(part, filled)
      filled += part.length
      at += part.length
      if (filled < size) continue
      yield piece
      ;[piece, other] = [other ?? Buffer.allocUnsafeSlow(size), piece]
      filled = 0
    }
  }
  if (missing > 0) throw new Error('stored audio is shorter than it was when it arrived')
  if (filled > 0) yield piece.subarray(0, filled)
}
