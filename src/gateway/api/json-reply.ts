import { randomUUID } from 'node:crypto'
import { TimeSlices } from '../../contracts/time-slices.ts'
import type { ReplyPiece, WholeReply } from '../edge/exchange.ts'

/** Text that is escaped at a time, UTF-16 units. */
const SLICE_LENGTH = 64 * 1024
/** How long the writing of an answer may hold up the event loop. */
const SLICE_MS = 4
/** Placeholder of a large member in the JSON text. Drawn at start, so that no caller's or model's text can hold it. */
const HERE = `large ${randomUUID()}`
const HERE_IN_JSON = JSON.stringify(HERE)

/** The large members of the value that is being written. A replacer would be called for every member instead. */
let met: Large[] = []

/** A member of an answer that is too large to be written in one go. */
export class Large<Piece extends ReplyPiece = ReplyPiece> {
  readonly pieces: () => Iterable<Piece>

  /** @param pieces JSON of the member, piece by piece; each one must be quick to make */
  constructor(pieces: () => Iterable<Piece>) {
    this.pieces = pieces
  }

  /** Called by JSON.stringify. */
  toJSON(): string {
    met.push(this)
    return HERE
  }
}

/** A string whose length someone else decides. */
export function largeText(text: string): string | Large<string> {
  if (text.length <= SLICE_LENGTH) return text
  return new Large(function* () {
    yield '"'
    for (let at = 0; at < text.length; at += SLICE_LENGTH) {
      // A pair of surrogates that is cut comes out as two escapes, which mean the same.
      yield JSON.stringify(text.slice(at, at + SLICE_LENGTH)).slice(1, -1)
    }
    yield '"'
  })
}

/**
 * Vectors, one piece each.
 *
 * @param written makes the member of the answer out of a vector; default: its numbers
 */
export function largeRows(
  rows: readonly ArrayLike<number>[],
  written: (row: ArrayLike<number>, index: number) => unknown = (row) => Array.from(row),
): Large<string> {
  return new Large(function* () {
    for (const [index, row] of rows.entries())
      yield (index === 0 ? '[' : ',') + JSON.stringify(written(row, index))
    yield rows.length === 0 ? '[]' : ']'
  })
}

/** Items of a list that are written at a time: some 10 kB of JSON, in some 0.2 ms. */
const LIST_SLICE = 64
/** Items from which an answer is written in turns of the event loop. A list of them takes some 2 ms. */
const LARGE_COUNT = 512

/**
 * A list whose length someone else decides.
 *
 * @param count of its items, or of what they are made of
 * @param items are asked for when the list is written, one by one
 * @param written makes the member of the answer out of an item, and may have large members; default: the item itself
 */
export function largeList<Item>(
  count: number,
  items: () => Iterable<Item>,
  written: (item: Item) => unknown = (item) => item,
): unknown[] | Large<string> {
  if (count < LARGE_COUNT) return Array.from(items(), (item) => written(item))
  return new Large(function* () {
    let slice: unknown[] = []
    let mark = '['
    for (const item of items()) {
      slice.push(written(item))
      if (slice.length < LIST_SLICE) continue
      yield* nestedPieces(mark, slice)
      slice = []
      mark = ','
    }
    if (slice.length > 0) yield* nestedPieces(mark, slice)
    yield mark === '[' && slice.length === 0 ? '[]' : ']'
  })
}

/**
 * A member of an answer that takes long to make.
 *
 * @param count as `largeList` has it
 * @param make is called in its turn
 */
export function largeMember<Value extends object>(count: number, make: () => Value): Value | Large<string> {
  if (count < LARGE_COUNT) return make()
  return new Large(function* () {
    // The taker of the pieces looks at the time before this one, too.
    yield ''
    yield* nestedPieces('', make())
  })
}

/** JSON of a value, whose members may be `Large`. @param mark stands before it: of a list, instead of its brackets */
function* nestedPieces(mark: string, value: object): Iterable<string> {
  const text = toText(value)
  const written = mark === '' ? text : mark + text.slice(1, -1)
  if (met.length === 0) yield written
  else yield* filledIn<string>(written, takeLarge<string>())
}

/** Bytes as a string of base64; they are encoded while the answer goes out. */
export function largeBase64(bytes: readonly Uint8Array[]): Large {
  return new Large(() => ['"', { base64: bytes }, '"'])
}

/** A successful answer of JSON; members of `value` may be `Large`. */
export function jsonReply(value: object): WholeReply | Promise<WholeReply> {
  const text = toText(value)
  // One string goes out in a single write.
  return met.length === 0 ? replyOf(text) : inTurns(filledIn(text, takeLarge())).then(replyOf)
}

function replyOf(body: WholeReply['body']): WholeReply {
  return { status: 200, headers: { 'content-type': 'application/json' }, body }
}

/** The JSON text of `value`, whose members may be `Large`, with room for others in between. */
export async function jsonPieces<Piece extends ReplyPiece = ReplyPiece>(
  value: object,
): Promise<(Piece | string)[]> {
  const text = toText(value)
  return met.length === 0 ? [text] : inTurns(filledIn(text, takeLarge<Piece>()))
}

/**
 * The JSON text of `value`, whose members may be `Large` but for bytes, as one string. Made in turns of the event loop
 * where it is large, else at once.
 */
export function jsonText(value: object): string | Promise<string> {
  const text = toText(value)
  return met.length === 0
    ? text
    : inTurns(filledIn(text, takeLarge<string>())).then((pieces) => pieces.join(''))
}

/** JSON text of a value; `met` then holds its large members, and none of a value before that could not be written. */
function toText(value: object): string {
  if (met.length > 0) met = []
  return JSON.stringify(value)
}

/** Takes the members that `JSON.stringify` has met. Kept here, they would outlive their answer until the next one. */
function takeLarge<Piece extends ReplyPiece>(): readonly Large<Piece>[] {
  const large = met as Large<Piece>[]
  met = []
  return large
}

/** The pieces of an answer, made in turns of the event loop; each one must be quick to make. */
export async function inTurns<Piece extends ReplyPiece>(made: Iterable<Piece>): Promise<Piece[]> {
  const pieces: Piece[] = []
  const slices = new TimeSlices(SLICE_MS)
  for (const piece of made) {
    if (piece !== '') pieces.push(piece)
    if (slices.isOver) await slices.next()
  }
  return pieces
}

/** The text that holds the places of large members, with these in them. */
function* filledIn<Piece extends ReplyPiece>(
  text: string,
  large: readonly Large<Piece>[],
): Iterable<Piece | string> {
  const [first = '', ...others] = text.split(HERE_IN_JSON)
  yield first
  for (const [index, member] of large.entries()) {
    yield* member.pieces()
    yield others[index] ?? ''
  }
}

/** RFC 3339, UTC, with milliseconds; null for a moment that has not come. */
export function timestamp(atMs: number): string
export function timestamp(atMs: number | null): string | null
export function timestamp(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString()
}
