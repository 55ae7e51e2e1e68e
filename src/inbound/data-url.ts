import { declaredMediaType } from './header-value.ts'
import { invalid } from './refusals.ts'

const SCHEME = 'data:'
/** Bytes between the quote and the comma, JSON escapes included. */
const MAX_PREFIX = 1024
const QUOTE = '"'.charCodeAt(0)
const COMMA = ','.charCodeAt(0)

/**
 * Tells `data:audio/wav;base64,` (RFC 2397) at the front of a JSON string from plain base64, byte by byte.
 * The letters of `data` are base64 too, so up to four bytes are held back until the colon decides.
 */
export class DataUrlPrefix {
  #text = ''
  #mediaType: string | null = null

  /** The media type that the prefix named; null without a prefix or when it named none. */
  get mediaType(): string | null {
    return this.#mediaType
  }

  /** What was held back and is base64 after all. */
  get held(): Buffer {
    return Buffer.from(this.#text, 'latin1')
  }

  /**
   * @returns `more` when the byte was taken and another is needed, `end` when it was the comma before the
   *          base64 text, `none` when there is no prefix: the byte and what is `held` belong to the base64
   *          text
   * @throws GatewayError INVALID_REQUEST when a `data:` URL is malformed or not base64
   */
  take(byte: number): 'more' | 'end' | 'none' {
    const char = String.fromCharCode(byte)
    const length = this.#text.length
    if (length < SCHEME.length) {
      if (char.toLowerCase() !== SCHEME[length]) return 'none'
    } else if (byte === QUOTE || length >= MAX_PREFIX) {
      throw malformed()
    } else if (byte === COMMA) {
      this.#mediaType = readMediaType(this.#text)
      return 'end'
    }
    this.#text += char
    return 'more'
  }
}

/** @param prefix the URL up to its comma, with JSON's escapes */
function readMediaType(prefix: string): string | null {
  let text: string
  try {
    text = JSON.parse(`"${prefix}"`)
  } catch {
    throw malformed()
  }
  const marker = text.lastIndexOf(';')
  if (
    text
      .slice(marker + 1)
      .trim()
      .toLowerCase() !== 'base64' ||
    marker === -1
  )
    throw malformed()
  return declaredMediaType(text.slice(SCHEME.length, marker))
}

function malformed() {
  return invalid('a data: URL of audio is written data:<media type>;base64,<base64>', 'audio')
}
