import { randomInt } from 'node:crypto'
import { doubled, spread } from './key-table.ts'
import { Bytes, type Source, sourceOf, WORD } from './packing.ts'

/** Texts of which none need be a string before somebody asks for it. Arrays of strings are such lists, too. */
export interface TextList extends Iterable<string> {
  readonly length: number
  at(index: number): string | undefined
}

/** Texts in UTF-8, one behind the other. */
export class PackedTexts implements TextList {
  readonly bytes: Buffer
  /** Bytes of each. */
  readonly lengths: ArrayLike<number>
  /** Where each ends, and the next begins; null: nobody asked for one yet. */
  #ends: Uint32Array | null = null

  /** @param lengths are all bytes, together */
  constructor(bytes: Uint8Array, lengths: ArrayLike<number>) {
    this.bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    this.lengths = lengths
  }

  static of(texts: TextList): PackedTexts {
    if (texts instanceof PackedTexts) return texts
    const parts = Array.from(texts, (text) => Buffer.from(text))
    return new PackedTexts(
      Buffer.concat(parts),
      parts.map(({ length }) => length),
    )
  }

  get length(): number {
    return this.lengths.length
  }

  at(index: number): string | undefined {
    this.#ends ??= endsOf(this.lengths)
    const end = this.#ends[index]
    return end === undefined ? undefined : this.bytes.toString('utf8', this.#ends[index - 1] ?? 0, end)
  }

  *[Symbol.iterator](): Generator<string, void> {
    for (let index = 0, start = 0; index < this.length; index += 1) {
      const end = start + this.lengths[index]!
      yield this.bytes.toString('utf8', start, end)
      start = end
    }
  }
}

function endsOf(lengths: ArrayLike<number>): Uint32Array {
  const ends = new Uint32Array(lengths.length)
  for (let at = 0, end = 0; at < ends.length; at += 1) {
    end += lengths[at]!
    ends[at] = end
  }
  return ends
}

const FIRST_TEXTS = 256
/** What is behind texts that are looked up, since the next may be a little longer. */
const ROOM_BYTES = 16 * 1024

/**
 * Texts, each once and numbered from 0 on. They are looked up by their bytes: 20,000 end users are 600,000 texts in the
 * tables of a month, and a third of the time that a first question took went into making strings of them.
 */
export class TextDictionary {
  readonly #bytes = new Bytes()
  /** Where each text ends, and the next begins. */
  #ends = new Uint32Array(FIRST_TEXTS)
  #hashes = new Int32Array(FIRST_TEXTS)
  /** Numbers plus one, by hash; 0 is free. At most half are taken. */
  #slots = new Int32Array(2 * FIRST_TEXTS)
  /** Callers choose names of end users: nobody can choose such as are found in one place. */
  readonly #seed = randomInt(2 ** 32)
  #source = sourceOf(Buffer.allocUnsafeSlow(ROOM_BYTES))
  size = 0

  textOf(number: number): string {
    return this.#bytes.textOf(this.#startOf(number), this.#ends[number]!)
  }

  /** Null: there is no such text. */
  find(text: string): number | null {
    const bytes = Buffer.from(text)
    const source = this.#copied(bytes)
    const hash = hashOf(source, 0, bytes.length, this.#seed)
    const number = this.#slots[this.#slotOf(source, 0, bytes.length, hash)]! - 1
    return number < 0 ? null : number
  }

  /** The same texts by their numbers; those that are not there yet get some. */
  numbered(texts: TextList): NumberedTexts {
    const { bytes, lengths } = PackedTexts.of(texts)
    const source = this.#copied(bytes)
    const known = this.size
    const numbers = new Uint32Array(lengths.length)
    let next = 0
    for (let at = 0, start = 0; at < numbers.length; at += 1) {
      const length = lengths[at]!
      // Tables have their texts in order: behind one mostly stands what stood there in the first of them.
      const number = this.#isText(next, source, start, length) ? next : this.#numberOf(source, start, length)
      // What was added stands behind all others, and says nothing about the order.
      if (number < known) next = number + 1
      numbers[at] = number
      start += length
    }
    return new NumberedTexts(this, numbers)
  }

  #isText(number: number, source: Source, start: number, length: number): boolean {
    if (number >= this.size) return false
    const own = this.#startOf(number)
    return this.#ends[number]! - own === length && this.#bytes.isSame(own, source, start, length)
  }

  /** The same bytes with room behind them, since they are looked at by words; until the next are copied. */
  #copied(bytes: Uint8Array): Source {
    if (this.#source.bytes.length < bytes.length + WORD)
      this.#source = sourceOf(Buffer.allocUnsafeSlow(bytes.length + ROOM_BYTES))
    this.#source.bytes.set(bytes)
    return this.#source
  }

  #startOf(number: number): number {
    return number === 0 ? 0 : this.#ends[number - 1]!
  }

  #numberOf(source: Source, start: number, length: number): number {
    const hash = hashOf(source, start, length, this.#seed)
    const slot = this.#slotOf(source, start, length, hash)
    const number = this.#slots[slot]! - 1
    return number < 0 ? this.#insert(source, start, length, hash, slot) : number
  }

  /** The slot that has a text, or the free one that it belongs into. */
  #slotOf(source: Source, start: number, length: number, hash: number): number {
    const slots = this.#slots
    const mask = slots.length - 1
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const number = slots[at]! - 1
      if (number < 0) return at
      if (this.#hashes[number] === hash && this.#isText(number, source, start, length)) return at
    }
  }

  #insert(source: Source, start: number, length: number, hash: number, slot: number): number {
    const number = this.size
    this.size += 1
    if (number === this.#ends.length) {
      this.#ends = doubled(this.#ends)
      this.#hashes = doubled(this.#hashes)
    }
    this.#bytes.copy(source, start, length)
    this.#ends[number] = this.#bytes.length
    this.#hashes[number] = hash
    this.#slots[slot] = number + 1
    if (this.size * 2 > this.#slots.length)
      this.#slots = spread(2 * this.#slots.length, this.size, (other) => this.#hashes[other]!)
    return number
  }
}

/** Some texts of a dictionary. */
export class NumberedTexts implements TextList {
  readonly dictionary: TextDictionary
  readonly numbers: Uint32Array

  constructor(dictionary: TextDictionary, numbers: Uint32Array) {
    this.dictionary = dictionary
    this.numbers = numbers
  }

  get length(): number {
    return this.numbers.length
  }

  at(index: number): string | undefined {
    const number = this.numbers[index]
    return number === undefined ? undefined : this.dictionary.textOf(number)
  }

  *[Symbol.iterator](): Generator<string, void> {
    for (const number of this.numbers) yield this.dictionary.textOf(number)
  }
}

/** Those at some places. */
export function pickTexts(texts: TextList, places: readonly number[]): TextList {
  return texts instanceof NumberedTexts
    ? new NumberedTexts(
        texts.dictionary,
        Uint32Array.from(places, (place) => texts.numbers[place]!),
      )
    : places.map((place) => texts.at(place)!)
}

/** For each text 1 if it is one of those wanted, else 0. */
export function wantedTexts(texts: TextList, wanted: ReadonlySet<string | null>): Uint8Array {
  if (!(texts instanceof NumberedTexts)) return Uint8Array.from(texts, (text) => (wanted.has(text) ? 1 : 0))
  const { dictionary, numbers } = texts
  const found = new Set(Array.from(wanted, (text) => (text === null ? null : dictionary.find(text))))
  const marks = new Uint8Array(numbers.length)
  for (let at = 0; at < numbers.length; at += 1) if (found.has(numbers[at]!)) marks[at] = 1
  return marks
}

/** Mixes a word at a time, and those of a length from a beginning of their own. */
function hashOf({ view }: Source, start: number, length: number, seed: number): number {
  let hash = seed ^ length
  for (let at = 0; at < length; at += WORD) {
    const word = view.getUint32(start + at, true)
    const left = length - at
    hash = Math.imul(hash ^ (left < WORD ? word & ((1 << (8 * left)) - 1) : word), 0x9e3779b1)
    hash ^= hash >>> 15
  }
  return hash
}
