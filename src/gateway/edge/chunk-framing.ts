import type { SegmentView } from './segment-view.ts'

/** Digits of a chunk's size at most, leading zeros included. */
const DIGITS_MAX = 32
/** A size line with the line end of the chunk before it. */
const LINE_MAX = 2 + DIGITS_MAX + 2
const LINE = /^\r\n([0-9A-Fa-f]{1,32})\r\n/
const FIRST_LINE = /^([0-9A-Fa-f]{1,32})\r\n/
/** The end of a line whose beginning may have come in an earlier segment. */
const LINE_REST = /^(?:(?:(?:\r?\n)?[0-9A-Fa-f]{0,32}\r)?\n)?$/
const LAST_LINE = /^\r\n0{1,32}\r\n/
const FIRST_LAST_LINE = /^0{1,32}\r\n/
const LAST_LINE_REST = /^(?:(?:\r?\n)?0{0,32}\r)?\n/
const BETWEEN: readonly number[] = Object.freeze([0])

/** The ways in which a node takes chunked bodies; see `ChunkFraming`. */
export type ChunkedBodies = 'seen' | 'strict' | 'refuse'

/** The beginning of a body, before the end of its segment, which the parser marks by CR and `a`. */
const FIRST_LINE_BEGUN = /^[0-9A-Fa-f]{0,32}\r(?:[\na]|\ra)/

/**
 * Compares the native parser's reading of a chunked body with the bytes it read, which only the receive window shows.
 * The parser folds the bytes after a size into it (`2;c` is 700), takes a lone line feed, a size without digits and any
 * two bytes for the end of a chunk. RFC 9112, section 7.1, is held here without extensions: a body with one is refused,
 * which the RFC allows and all known senders live with.
 *
 * A segment without data stays unseen: the next one has overwritten it before any call of the module. A line in it is
 * taken as the parser has read it, or, strictly, the body is refused: some senders write each line by itself. Strictly,
 * a line in two segments counts as seen where the bytes after the data before it, and those before its own data, make
 * one; the end of the first segment is not known, so that several sizes may be possible.
 */
export class ChunkFraming {
  readonly #view: SegmentView
  /** Places in the segment where the bytes after the last data seen may be; none: they are not known. */
  #places: readonly number[]
  readonly #isWholeHead: boolean
  #isFirst = true
  /** How the segment of the places begins: another one begins otherwise. */
  #beginning: string
  /** The bytes at each of the places: also those of earlier segments, where its own ended before. */
  #tails: readonly string[]
  readonly #isStrict: boolean
  /** Bytes that the chunk may lack; 0 between two; null: not known. */
  #left: readonly number[] | null = BETWEEN

  /** @param at where the body begins in the segment of its head; null: that came in several segments */
  constructor(view: SegmentView, at: number | null, isStrict: boolean) {
    this.#view = view
    this.#isStrict = isStrict
    this.#isWholeHead = at !== null
    this.#beginning = view.text(0, LINE_MAX)
    this.#places = at === null ? view.headEnds() : [at]
    this.#tails = this.#tailsAtPlaces()
  }

  /** The bytes after the head in its segment can be the beginning of a chunked body. */
  begins(): boolean {
    return !this.#isWholeHead || FIRST_LINE_BEGUN.test(this.#view.text(this.#places[0]!, LINE_MAX))
  }

  /** @returns whether data that the parser hands out is where its framing says */
  data(bytes: Uint8Array): boolean {
    const { length } = bytes
    const left = this.#left
    const isWhole = left === null || left.includes(0)
    const isWithin = left === null || left.some((bytes) => bytes > 0)
    if (isWithin && this.#view.holds(bytes, 0) && this.#take(0, length, left)) return true
    if (!isWhole) return false
    for (const place of this.#places) {
      const [line, size = ''] = this.#line.exec(this.#view.text(place, LINE_MAX)) ?? []
      const start = place + (line?.length ?? 0)
      if (line !== undefined && this.#view.holds(bytes, start))
        return this.#take(start, length, [Number.parseInt(size, 16)])
    }
    for (let start = 0; start <= LINE_MAX; start += 1) {
      if (!this.#view.holds(bytes, start)) continue
      const before = this.#view.text(0, start)
      const sizes = this.#isStrict ? this.#sizesBefore(before) : chunkSizes(LINE, before)
      if (this.#isStrict) return this.#take(start, length, sizes)
      return LINE_REST.test(before) && this.#take(start, length, sizes.length === 0 ? null : sizes)
    }
    if (this.#isStrict) return false
    const isUnseen = this.#isUnseen()
    this.#places = []
    this.#left = null
    return isUnseen
  }

  /**
   * To be called when the parser holds the body ended. The bytes that follow in the segment, mostly trailers, are taken
   * from it: it would read them as another request, whose refusal would take the answer to this one with it.
   *
   * @returns whether the last chunk is where the parser has seen it
   */
  end(): boolean {
    const beginning = this.#view.text(0, LINE_MAX)
    const isSame = beginning === this.#beginning
    const last = isSame ? (this.#isFirst ? FIRST_LAST_LINE : LAST_LINE) : LAST_LINE_REST
    const ends = (isSame ? this.#places : [0]).flatMap((place) => {
      const line = last.exec(this.#view.text(place, LINE_MAX))?.[0]
      const isKnown = line !== undefined && (isSame || !this.#isStrict || this.#endsBody(line))
      return isKnown ? [place + line.length] : []
    })
    const isWhole = this.#left === null || this.#left.includes(0)
    const isSound = isWhole && (ends.length > 0 || (isSame && this.#isUnseen()))
    // The parser leaves two bytes out. Where there may be several ends, the bytes at the others do not matter.
    for (const end of ends) this.#view.silence(end + 2)
    return isSound
  }

  /** Framing may be past the end of the bytes that can be seen. */
  #isUnseen(): boolean {
    return this.#places.length === 0 || this.#places.some((place) => place + LINE_MAX > this.#view.length)
  }

  get #line(): RegExp {
    return this.#isFirst ? FIRST_LINE : LINE
  }

  /** The rest of a last line makes one with the bytes after the data before it. */
  #endsBody(rest: string): boolean {
    const line = this.#isFirst ? FIRST_LAST_LINE : LAST_LINE
    const isSplit = (tail: string) =>
      Array.from(tail, (_, end) => tail.slice(0, end) + rest).some((text) => line.exec(text)?.[0] === text)
    return FIRST_LAST_LINE.test(rest) || this.#tails.some(isSplit)
  }

  #tailsAtPlaces(): readonly string[] {
    return this.#isStrict ? this.#places.map((place) => this.#view.text(place, LINE_MAX)) : []
  }

  /**
   * Sizes that a line may have if a segment has its rest before the data. A line end that comes by itself before
   * the digits, as Go sends it, is not missed: with another size than theirs the chunk would have another length.
   */
  #sizesBefore(before: string): readonly number[] {
    const split = this.#tails.flatMap((tail) =>
      Array.from({ length: tail.length + 1 }, (_, end) => tail.slice(0, end) + before).flatMap((line) =>
        chunkSizes(this.#line, line),
      ),
    )
    return [...chunkSizes(FIRST_LINE, before), ...split]
  }

  /** @param sizes bytes that the chunk may have from `start` on; null: not known */
  #take(start: number, length: number, sizes: readonly number[] | null): boolean {
    const left = sizes?.flatMap((size) => (size < length ? [] : [size - length])) ?? null
    if (left?.length === 0) return false
    this.#left = left
    this.#places = [start + length]
    this.#tails = this.#tailsAtPlaces()
    this.#beginning = this.#view.text(0, LINE_MAX)
    this.#isFirst = false
    return true
  }
}

/** The size of a text that is one line and nothing else; empty: it is none. */
function chunkSizes(line: RegExp, text: string): readonly number[] {
  const [whole, size = ''] = line.exec(text) ?? []
  return whole === text ? [Number.parseInt(size, 16)] : []
}
