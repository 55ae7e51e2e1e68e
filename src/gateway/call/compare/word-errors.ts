import { nextTurn } from '../../../contracts/time.ts'
import { wordsOf } from '../attempt/transcript-quality.ts'

/** Rows of the table that are worked on together: the bits of an integer. */
const BITS = 32
/** Steps, each of 32 cells of the table, until others get their turn: about a millisecond. */
const TURN_STEPS = 100_000
/** Most words of a text: six hours of speech, and some 100 ms of work in turns. */
export const COMPARED_WORDS_MAX = 60_000

/** How far a text is from its reference, in words. */
export interface WordErrors {
  /** Words of the reference. */
  readonly words: number
  /** Fewest words that have to be put in, left out or changed to make the text of the reference. */
  readonly errors: number
}

/**
 * Counts the word errors of a text against its reference: their ratio is the word error rate. Both are taken in lower
 * case, in Unicode's compatible form and without punctuation; of scripts without spaces every character is a word.
 *
 * The event loop is never held up for it. Null: a text has more than 60,000 words.
 */
export async function countWordErrors(reference: string, text: string): Promise<WordErrors | null> {
  // Shorter than a character of each there is no word.
  if (Math.max(reference.length, text.length) > COMPARED_WORDS_MAX * 16) return null
  const [wanted, given] = [spokenWords(reference), spokenWords(text)]
  if (Math.max(wanted.length, given.length) > COMPARED_WORDS_MAX) return null
  return { words: wanted.length, errors: await distance(wanted, given) }
}

/** Words as they are compared. */
export function spokenWords(text: string): string[] {
  return wordsOf(text.normalize('NFKC').replaceAll('’', "'"))
}

/**
 * Edit distance of two lists, 32 rows of the table at a time: Myers, "A fast bit-vector algorithm for approximate
 * string matching based on dynamic programming", JACM 1999, in the blocks of Hyyrö, "A bit-vector algorithm for
 * computing Levenshtein and Damerau edit distances", 2003.
 */
async function distance(one: readonly string[], other: readonly string[]): Promise<number> {
  const [rows, columns] = withoutEnds(one, other)
  if (rows.length === 0 || columns.length === 0) return Math.max(rows.length, columns.length)
  const table = new Table(rows)
  let steps = 0
  for (const word of columns) {
    table.add(word)
    steps += table.blocks
    if (steps < TURN_STEPS) continue
    steps = 0
    await nextTurn()
  }
  return table.distance
}

/** The lists without what is the same at both ends, where two transcripts mostly agree. */
function withoutEnds(one: readonly string[], other: readonly string[]) {
  const shorter = Math.min(one.length, other.length)
  let from = 0
  while (from < shorter && one[from] === other[from]) from += 1
  let back = 0
  while (back < shorter - from && one.at(-1 - back) === other.at(-1 - back)) back += 1
  return [one.slice(from, one.length - back), other.slice(from, other.length - back)] as const
}

/** The column of the table that was added last, as differences between its rows. */
class Table {
  readonly blocks: number
  /** Edits between all rows and the columns so far. */
  distance: number
  /** Rows that are one more than the row above, and one less. */
  readonly #more: Int32Array
  readonly #less: Int32Array
  /** Rows whose word is that of the column. */
  readonly #same: Int32Array
  readonly #rowsOf = new Map<string, number[]>()
  /** Bit of the last row. */
  readonly #last: number

  constructor(words: readonly string[]) {
    this.blocks = Math.ceil(words.length / BITS)
    this.distance = words.length
    this.#more = new Int32Array(this.blocks).fill(-1)
    this.#less = new Int32Array(this.blocks)
    this.#same = new Int32Array(this.blocks)
    this.#last = 1 << ((words.length - 1) % BITS)
    for (const [row, word] of words.entries()) {
      const known = this.#rowsOf.get(word)
      if (known === undefined) this.#rowsOf.set(word, [row])
      else known.push(row)
    }
  }

  add(word: string): void {
    const same = this.#same
    const rows = this.#rowsOf.get(word) ?? []
    for (const row of rows) same[row >>> 5]! |= 1 << (row & 31)
    // Above the first row, each column is one more than the one before it.
    let carried = 1
    for (let block = 0; block < this.blocks; block += 1) {
      const isLast = block === this.blocks - 1
      carried = this.#step(block, carried, isLast ? this.#last : 1 << 31)
    }
    this.distance += carried
    for (const row of rows) same[row >>> 5] = 0
  }

  /**
   * Works out 32 rows of a column.
   *
   * @param carried what the row above them is more than in the column before
   * @param last    bit of the row to tell the same of
   */
  #step(block: number, carried: number, last: number): number {
    const above = this.#more[block]!
    const below = this.#less[block]!
    const vertical = this.#same[block]! | below
    const same = carried < 0 ? this.#same[block]! | 1 : this.#same[block]!
    const across = (((same & above) + above) ^ above) | same
    let more = below | ~(across | above)
    let less = above & across
    const next = (more & last) !== 0 ? 1 : (less & last) !== 0 ? -1 : 0
    more = (more << 1) | (carried > 0 ? 1 : 0)
    less = (less << 1) | (carried < 0 ? 1 : 0)
    this.#more[block] = less | ~(vertical | more)
    this.#less[block] = more & vertical
    return next
  }
}
