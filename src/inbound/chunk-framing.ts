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
/** The beginning of a body, before the end of its segment, which the parser marks by CR and `a`. */
const FIRST_LINE_BEGUN = /^[0-9A-Fa-f]{0,32}\r(?:[\na]|\ra)/

/**
 * Holds what the native parser makes of a chunked body against the bytes it read, and which only the receive window
 * shows. The parser folds whatever stands after a size into it (`2;c` is 700), takes a lone line feed, a size without
 * digits and any two bytes for the end of a chunk. RFC 9112, section 7.1, is held here without extensions: a body with
 * one is refused, which the RFC allows and all senders that are known live with.
 *
 * Unseen stays what came in a segment of its own, without data: the next segment has overwritten it before any call of
 * the module. A line is then taken as the parser has read it. Some senders write each line by itself, so that such
 * bodies cannot be refused.
 */
export class ChunkFraming {
  readonly #view: SegmentView
  /** Where what follows the last data seen may stand in its segment; none: that is not known. */
  #places: readonly number[]
  readonly #isWholeHead: boolean
  #isFirst = true
  /** How the segment of the places begins: another one begins otherwise. */
  #beginning: string
  /** Bytes that the chunk lacks; 0 between two; null: not known. */
  #left: number | null = 0

  /** @param at where the body begins in the segment of its head; null: that came in several segments */
  constructor(view: SegmentView, at: number | null) {
    this.#view = view
    this.#isWholeHead = at !== null
    this.#beginning = view.text(0, LINE_MAX)
    this.#places = at === null ? view.headEnds() : [at]
  }

  /** Whether what follows the head in its segment can be the beginning of a chunked body. */
  begins(): boolean {
    return !this.#isWholeHead || FIRST_LINE_BEGUN.test(this.#view.text(this.#places[0]!, LINE_MAX))
  }

  /** @returns whether data that the parser hands out stands where its framing says */
  data(bytes: Uint8Array): boolean {
    const { length } = bytes
    const left = this.#left
    if (left !== 0 && this.#view.holds(bytes, 0)) return this.#take(0, length, left)
    if (left !== 0 && left !== null) return false
    for (const place of this.#places) {
      const [line, size = ''] =
        (this.#isFirst ? FIRST_LINE : LINE).exec(this.#view.text(place, LINE_MAX)) ?? []
      const start = place + (line?.length ?? 0)
      if (line !== undefined && this.#view.holds(bytes, start))
        return this.#take(start, length, Number.parseInt(size, 16))
    }
    for (let start = 0; start <= LINE_MAX; start += 1) {
      if (!this.#view.holds(bytes, start)) continue
      const before = this.#view.text(0, start)
      const [, size] = LINE.exec(before) ?? []
      return (
        LINE_REST.test(before) &&
        this.#take(start, length, size === undefined ? null : Number.parseInt(size, 16))
      )
    }
    const isUnseen = this.#isUnseen()
    this.#places = []
    this.#left = null
    return isUnseen
  }

  /**
   * To be called when the parser holds the body ended. What follows in the segment, trailers for the most part, is
   * taken from it: it would be read as another request, whose refusal would take the answer to this one with it.
   *
   * @returns whether the last chunk stands where the parser has seen it
   */
  end(): boolean {
    const beginning = this.#view.text(0, LINE_MAX)
    const isSame = beginning === this.#beginning
    const last = isSame ? (this.#isFirst ? FIRST_LAST_LINE : LAST_LINE) : LAST_LINE_REST
    const ends = (isSame ? this.#places : [0]).flatMap((place) => {
      const line = last.exec(this.#view.text(place, LINE_MAX))?.[0]
      return line === undefined ? [] : [place + line.length]
    })
    const isWhole = this.#left === 0 || this.#left === null
    const isSound = isWhole && (ends.length > 0 || (isSame && this.#isUnseen()))
    // The parser leaves two bytes out. Where there may be several ends, it does not matter what stands at the others.
    for (const end of ends) this.#view.silence(end + 2)
    return isSound
  }

  /** Whether framing may stand where it cannot be seen, past the end of what can. */
  #isUnseen(): boolean {
    return this.#places.length === 0 || this.#places.some((place) => place + LINE_MAX > this.#view.length)
  }

  #take(start: number, length: number, size: number | null): boolean {
    this.#places = [start + length]
    this.#beginning = this.#view.text(0, LINE_MAX)
    this.#isFirst = false
    this.#left = size === null ? null : size - length
    return this.#left === null || this.#left >= 0
  }
}
