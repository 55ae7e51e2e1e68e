import { randomUUID } from 'node:crypto'
import { JsonString, QUOTE } from '../../../contracts/json-string.ts'
import { ownTurn } from '../../../contracts/time.ts'
import { TimeSlices } from '../../../contracts/time-slices.ts'
import type { UpstreamReply } from '../../../contracts/upstream.ts'
import { readUtf8 } from '../../../contracts/utf8.ts'

/** Answers that take milliseconds to parse: several in one turn of the event loop would keep other calls waiting. */
const OWN_TURN_BYTES = 256 * 1024
/** Answers that are parsed in several turns: a batch of embeddings can be 60 MB, half a second of work. */
const LARGE_BYTES = 1024 * 1024
/** Bytes that are searched at a time; about as many are parsed at a time. */
const PIECE_BYTES = 64 * 1024

/** Gives a large answer a turn of its own; JSON that is larger still is parsed here, in several of them. */
export function inOwnTurn(reply: UpstreamReply): UpstreamReply | Promise<UpstreamReply> {
  let bytes = 0
  for (const { length } of reply.body) bytes += length
  if (bytes < OWN_TURN_BYTES) return reply
  const isParsed = bytes >= LARGE_BYTES && reply.headers['content-type']?.includes('json') === true
  return isParsed ? parsed(reply) : ownTurn().then(() => reply)
}

async function parsed({ status, headers, body }: UpstreamReply): Promise<UpstreamReply> {
  return { status, headers, body, json: await parseInTurns(body) }
}

/** @returns the value of JSON that came in pieces; null: it is none */
export async function parseInTurns(pieces: readonly Uint8Array[]): Promise<unknown> {
  await ownTurn()
  const slices = new TimeSlices()
  const bytes = Buffer.allocUnsafe(pieces.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of pieces) {
    bytes.set(piece, at)
    at += piece.length
    if (slices.isOver) await slices.next()
  }
  const json = new LargeJson(bytes)
  try {
    while (json.step()) if (slices.isOver) await slices.next()
    return json.end()
  } catch {
    return null
  }
}

const STRUCTURE = /["[\]{}]/g
/** A text with more levels counts as no JSON. */
const DEPTH_MAX = 10_000
/** A text that takes the place of an array that is parsed already. Drawn at start, so that no answer can hold it. */
const PLACE = `place ${randomUUID()} `

/** An object or an array that has not ended. */
interface Container {
  readonly isArray: boolean
  /** Where it begins. */
  readonly start: number
  /** Start of the bytes that are neither parsed nor in `text`. */
  from: number
  /** Text that is still to be parsed, with a place for each array that is parsed already; empty without one. */
  text: string
  /** Items that are parsed already; null: the array is as short as most are. */
  items: unknown[] | null
}

/** Parses the items of long arrays while it searches for their ends, so that little is left to be parsed at once. */
class LargeJson {
  readonly #bytes: Buffer
  /** From the outermost to the innermost; the first one is the whole text. */
  readonly #open: Container[] = []
  /** The arrays whose places are in a text. */
  readonly #arrays: unknown[][] = []
  readonly #string = new JsonString()
  #at = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#begin(false, 0, 0)
  }

  /** Looks at the next bytes, and parses what ends there. @returns whether there are more */
  step(): boolean {
    const base = this.#at
    const view = this.#bytes.toString('latin1', base, Math.min(base + PIECE_BYTES, this.#bytes.length))
    this.#at = base + view.length
    STRUCTURE.lastIndex = 0
    while (STRUCTURE.test(view)) {
      const at = base + STRUCTURE.lastIndex
      const code = this.#bytes[at - 1]!
      if (code === QUOTE) {
        const end = this.#string.endIn(this.#bytes, at)
        if (end === -1 || end >= this.#at) {
          this.#at = end === -1 ? this.#bytes.length : end + 1
          break
        }
        STRUCTURE.lastIndex = end + 1 - base
        continue
      }
      // Both brackets that open differ in this bit alone.
      if ((code | 0x20) === 0x7b) this.#begin(code === 0x5b, at - 1, at)
      else this.#close(code === 0x5d, at)
    }
    return this.#at < this.#bytes.length
  }

  /** @throws SyntaxError */
  end(): unknown {
    return this.#parse('', this.#open[0]!, this.#bytes.length, '')
  }

  #begin(isArray: boolean, start: number, from: number): void {
    if (this.#open.length === DEPTH_MAX) throw new SyntaxError('the text is nested too deeply')
    this.#open.push({ isArray, start, from, text: '', items: null })
  }

  #close(isArray: boolean, end: number): void {
    const closed = this.#open.pop()!
    const outer = this.#open.at(-1)
    if (outer === undefined || closed.isArray !== isArray) throw new SyntaxError('a bracket closes nothing')
    const text = this.#textOf(closed, end)
    if (text !== null) {
      outer.text += this.#read(outer.from, closed.start) + text
      outer.from = end
    }
    if (outer.isArray && outer.text.length + end - outer.from >= PIECE_BYTES) this.#take(outer, end)
  }

  /** The text of what was closed, if a part of it is parsed already; null: none is. */
  #textOf(closed: Container, end: number): string | null {
    if (closed.items !== null) {
      this.#take(closed, end - 1)
      return JSON.stringify(PLACE + (this.#arrays.push(closed.items) - 1))
    }
    if (closed.text === '') return null
    return (closed.isArray ? '[' : '{') + closed.text + this.#read(closed.from, end)
  }

  /** Parses the items of an array up to here. */
  #take(array: Container, end: number): void {
    // After the first items the text begins with a comma, or is empty.
    const [first, ...others] = this.#parse(array.items === null ? '[' : '[""', array, end, ']') as unknown[]
    if (array.items === null) array.items = [first]
    for (const item of others) array.items.push(item)
    array.text = ''
    array.from = end
  }

  #parse(before: string, { text, from }: Container, end: number, after: string): unknown {
    const json = before + text + this.#read(from, end) + after
    if (text === '') return JSON.parse(json)
    return JSON.parse(json, (_key, value: unknown) =>
      typeof value === 'string' && value.startsWith(PLACE)
        ? this.#arrays[Number(value.slice(PLACE.length))]
        : value,
    )
  }

  #read(from: number, end: number): string {
    return readUtf8(this.#bytes.subarray(from, end))
  }
}
