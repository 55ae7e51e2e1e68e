/** The byte that begins and ends a string. */
export const QUOTE = 0x22
const BACKSLASH = 0x5c

/**
 * Finds the ends of JSON strings in a body that comes in pieces, one string after the other, at the speed of a search
 * for the quote: a picture in base64 costs next to nothing.
 */
export class JsonString {
  /** The last byte so far was a backslash that escapes what comes. */
  #escapes = false

  /**
   * @param from after the quote that begins the string, or the beginning of a view in which it continues
   * @returns the index of the quote that ends it; -1 when it continues after the view
   */
  endIn(view: Buffer, from: number): number {
    let start = from
    if (this.#escapes) {
      this.#escapes = false
      start += 1
    }
    for (;;) {
      const quote = quoteIn(view, start)
      const escaped = escapesAt(view, start, quote === -1 ? view.length : quote)
      if (quote === -1) this.#escapes = escaped
      if (quote === -1 || !escaped) return quote
      start = quote + 1
    }
  }
}

/** Strings that are longer are searched by native code, which a call costs more than so many bytes. */
const NEAR_BYTES = 64

function quoteIn(view: Buffer, from: number): number {
  const near = Math.min(view.length, from + NEAR_BYTES)
  for (let at = from; at < near; at += 1) if (view[at] === QUOTE) return at
  return near < view.length ? view.indexOf(QUOTE, near) : -1
}

/** True for an odd number of backslashes directly before `end`, none of them before `start`. */
function escapesAt(view: Buffer, start: number, end: number): boolean {
  let at = end
  while (at > start && view[at - 1] === BACKSLASH) at -= 1
  return (end - at) % 2 === 1
}
