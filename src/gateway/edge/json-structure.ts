import { JsonString, QUOTE } from '../../contracts/json-string.ts'
import { invalid } from './refusals.ts'

/** Objects and arrays in one another. */
const MAX_DEPTH = 128
/**
 * Values in all. An empty array of two bytes becomes an object of forty, so that without a bound a body of 50
 * MB would become two gigabytes.
 */
const MAX_VALUES = 500_000
/** The names of one object: half a million of them take a second to parse and check. */
const MAX_NAMES = 10_000

const COMMA = 0x2c
const BRACE = 0x7b

/**
 * Watches the structure of a JSON body while it arrives, so that no body is parsed that would take more
 * memory than its bytes promise or is nested so deeply that what walks it runs out of stack. Whether the body
 * is JSON at all is for the parser to say; of any other body, no more is promised than that it ends.
 */
export class JsonStructure {
  #depth = 0
  #values = 0
  /** By level, the names of an object; of an array, so few that no comma makes them too many. */
  readonly #names = [0]
  #inString = false
  readonly #string = new JsonString()

  /** @throws GatewayError INVALID_REQUEST at the value or the level that is one too many */
  scan(view: Buffer): void {
    let at = 0
    while (at < view.length) at = this.#inString ? this.#skipString(view, at) : this.#scanStructure(view, at)
  }

  /** @returns where the string has ended, or the end of the view */
  #skipString(view: Buffer, from: number): number {
    const quote = this.#string.endIn(view, from)
    if (quote === -1) return view.length
    this.#inString = false
    return quote + 1
  }

  #scanStructure(view: Buffer, from: number): number {
    for (let at = from; at < view.length; at++) {
      const byte = view[at]!
      if (byte === QUOTE) {
        this.#inString = true
        return at + 1
      }
      if (byte === COMMA) this.#next()
      // Both brackets that open, and both that close, differ in this bit alone.
      else if ((byte | 0x20) === 0x7b) this.#open(byte)
      else if ((byte | 0x20) === 0x7d) this.#depth = Math.max(0, this.#depth - 1)
    }
    return view.length
  }

  #open(bracket: number): void {
    this.#depth += 1
    if (this.#depth > MAX_DEPTH) throw invalid(`the body is nested over ${MAX_DEPTH} levels deep`)
    this.#names[this.#depth] = bracket === BRACE ? 1 : -MAX_VALUES
    this.#count()
  }

  #next(): void {
    const names = (this.#names[this.#depth] ?? 0) + 1
    if (names > MAX_NAMES) throw invalid(`an object of the body has over ${MAX_NAMES} names`)
    this.#names[this.#depth] = names
    this.#count()
  }

  #count(): void {
    this.#values += 1
    if (this.#values > MAX_VALUES) throw invalid(`the body has over ${MAX_VALUES} values`)
  }
}

/** A key with its quotes, escapes resolved; empty when it is not valid. */
export function readKey(quoted: Buffer): string {
  try {
    return JSON.parse(quoted.toString('latin1'))
  } catch {
    return ''
  }
}
