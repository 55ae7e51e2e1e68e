import { invalid } from './refusals.ts'

/** Meanings of a byte within base64 text in a JSON string. */
const INVALID = 0
const STANDARD = 1
const URL_SAFE = 2
const PADDING = 3
const SPACE = 4
const BACKSLASH = 5

const KINDS = new Uint8Array(256)
for (const byte of Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')) {
  KINDS[byte] = STANDARD
}
for (const byte of Buffer.from('-_')) KINDS[byte] = URL_SAFE
for (const byte of Buffer.from(' \t\r\n')) KINDS[byte] = SPACE
KINDS[0x3d] = PADDING
KINDS[0x5c] = BACKSLASH

/** Short escapes of JSON that base64 text may hold: byte after the backslash → byte meant. */
const MEANT = new Uint8Array(256)
for (const [char, meant] of Object.entries({ '/': '/', n: '\n', r: '\r', t: '\t' })) {
  MEANT[char.charCodeAt(0)] = meant.charCodeAt(0)
}
/** Hexadecimal digits by byte, plus one. */
const DIGITS = new Uint8Array(256)
for (let digit = 0; digit < 16; digit++) {
  DIGITS[digit.toString(16).charCodeAt(0)] = digit + 1
  DIGITS[digit.toString(16).toUpperCase().charCodeAt(0)] = digit + 1
}
const LETTER_U = 0x75
const UNICODE_ESCAPE_LENGTH = '\\u0000'.length

/** Text is checked by decoding it in slices that stay in the cache. */
const SLICE_BYTES = 64 * 1024
/** Shorter text is checked byte by byte: the call would cost more. */
const MIN_FAST_BYTES = 64
/** Never read: Node counts only what it has somewhere to write. */
const scratch = Buffer.allocUnsafeSlow((SLICE_BYTES / 4) * 3)

/**
 * Checks base64 text as it streams past and counts what it decodes to: exactly the bytes that
 * `Buffer.from(text, 'base64')` yields for the text after JSON's escapes are resolved.
 *
 * Accepted are both alphabets, padding that is right or absent, white space (also raw: shells insert it), and the
 * escapes `\/` (PHP), `\n`, `\r`, `\t` and `\uXXXX` for any of these characters (Gson writes `=`, .NET `+` that way).
 * Refused are other characters, data after padding, and a lone last character, which decodes to nothing.
 */
export class Base64Text {
  /** Characters of data, without padding. */
  #data = 0
  #padding = 0
  /** True while nothing but the standard alphabet was seen; else the slow loop reads all that follows. */
  #plain = true
  /** White space or an escape was seen, or the other alphabet. */
  #irregular = false
  /** How many bytes of an escape were read, across views; 0 outside of one. */
  #escapeLength = 0
  /** The code of a `\uXXXX` as far as it was read. */
  #escapeCode = 0

  /** Bytes that the text so far decodes to. */
  get decodedBytes(): number {
    return Math.floor((this.#data * 3) / 4)
  }

  /** True for the standard alphabet, padded, with nothing in between: decodable from any group of four. */
  get canonical(): boolean {
    return !this.#irregular && (this.#data + this.#padding) % 4 === 0
  }

  /**
   * Takes `view` from `start` to `end` (exclusive).
   *
   * @throws GatewayError INVALID_REQUEST on a character that is not base64
   */
  scan(view: Buffer, start: number, end: number): void {
    let at = start
    if (this.#plain && end - start >= MIN_FAST_BYTES) {
      this.#plain = !holds(view, '-', start, end) && !holds(view, '_', start, end)
    }
    // Padding is left to the slow loop, which would otherwise read the whole last slice again.
    const dataEnd = view[end - 1] === 0x3d ? end - 4 : end
    while (this.#plain && dataEnd - at >= MIN_FAST_BYTES) {
      const length = Math.min(SLICE_BYTES, (dataEnd - at) & ~3)
      // Anything but data shortens the result; the length is a multiple of 4, so by at least one byte.
      const written = scratch.write(view.toString('latin1', at, at + length), 'base64')
      this.#plain = written === (length / 4) * 3
      if (!this.#plain) break
      this.#data += length
      at += length
    }
    this.#scanBytes(view, at, end)
  }

  /** @throws GatewayError INVALID_REQUEST when the text is cut short or its padding is wrong */
  finish(): void {
    const whole = this.#padding === 0 ? this.#data % 4 !== 1 : (this.#data + this.#padding) % 4 === 0
    if (this.#escapeLength > 0 || !whole) throw notBase64()
  }

  #scanBytes(view: Buffer, start: number, end: number): void {
    let at = start
    while (at < end) {
      if (this.#escapeLength > 0) {
        this.#unescape(view[at]!)
        at += 1
        continue
      }
      const run = at
      if (this.#padding === 0) while (at < end && KINDS[view[at]!] === STANDARD) at++
      this.#data += at - run
      if (at < end) this.#scanByte(view[at]!)
      at += 1
    }
  }

  #scanByte(byte: number): void {
    const kind = KINDS[byte]
    if (kind === STANDARD || kind === URL_SAFE) {
      if (this.#padding > 0) throw notBase64()
      this.#data += 1
      if (kind === URL_SAFE) this.#irregular = true
    } else if (kind === PADDING) {
      this.#padding += 1
      if (this.#padding > 2) throw notBase64()
    } else if (kind === INVALID) {
      throw notBase64()
    } else {
      this.#irregular = true
      if (kind === BACKSLASH) this.#escapeLength = 1
    }
    if (this.#padding > 0 || this.#irregular) this.#plain = false
  }

  #unescape(byte: number): void {
    this.#escapeLength += 1
    if (this.#escapeLength === 2) {
      this.#escapeCode = 0
      if (byte === LETTER_U) return
      if (MEANT[byte] === 0) throw notBase64()
      this.#escapeLength = 0
      this.#scanByte(MEANT[byte]!)
      return
    }
    if (DIGITS[byte] === 0) throw notBase64()
    this.#escapeCode = this.#escapeCode * 16 + DIGITS[byte]! - 1
    if (this.#escapeLength < UNICODE_ESCAPE_LENGTH) return
    this.#escapeLength = 0
    if (this.#escapeCode > 0x7f || KINDS[this.#escapeCode] === BACKSLASH) throw notBase64()
    this.#scanByte(this.#escapeCode)
  }
}

/** True if `view` holds `char` from `start` to `end`; may look beyond, but never finds anything there. */
function holds(view: Buffer, char: '-' | '_', start: number, end: number): boolean {
  const found = view.indexOf(char, start, 'latin1')
  return found !== -1 && found < end
}

function notBase64() {
  return invalid('the audio is not valid base64', 'audio')
}
