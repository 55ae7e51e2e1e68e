import { notBase64 } from './failure.ts'

/** What a byte of irregular base64 text stands for when it is no data. */
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

/** Escapes of JSON that stand for a byte of base64 text, besides `\u`. */
const ESCAPES: Readonly<Record<string, string>> = { '/': '/', n: '\n', r: '\r', t: '\t' }
const UNICODE_ESCAPE_LENGTH = '\\u0000'.length

/**
 * Turns base64 text as it stands in a JSON string into canonical base64: standard alphabet, padded, nothing in between.
 * The text has been checked when it arrived; what is no base64 after all is an error of this process or the store.
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

  /** What `byte` within an escape makes of it; SKIP while the escape goes on. */
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
