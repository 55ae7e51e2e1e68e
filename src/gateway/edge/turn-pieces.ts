import type { Due, ImmediateBatch } from './immediate-batch.ts'

type Piece = string | Uint8Array

/** Pieces of this length do not wait, as their bytes may change. A small one costs time too, and counts as longer. */
const ENOUGH = 16_384
const PIECE_LENGTH_MIN = 512

/**
 * Joins the pieces of a stream that come in one turn of the event loop, such as the events of one read from a provider:
 * each write is a system call, half of what an event costs, and a provider that is fast has many events in a read, as
 * has a loop that is busy. It asks for one piece ahead of its reader, and for no more until the reader asks.
 */
export class TurnPieces implements AsyncIterator<Piece, unknown>, Due {
  readonly #source: AsyncIterator<Piece, unknown>
  readonly #immediate: ImmediateBatch
  #pieces: Piece[] = []
  #length = 0
  /** The source was asked, and has not answered. */
  #isAsked = false
  #isDue = false
  /** How the source ended, to be told after its pieces. */
  #end: Promise<IteratorResult<Piece, unknown>> | null = null
  #reader: PromiseWithResolvers<IteratorResult<Piece, unknown>> | null = null

  constructor(source: AsyncIterator<Piece, unknown>, immediate: ImmediateBatch) {
    this.#source = source
    this.#immediate = immediate
  }

  next(): Promise<IteratorResult<Piece, unknown>> {
    this.#reader = Promise.withResolvers()
    const { promise } = this.#reader
    this.#step()
    return promise
  }

  async return(): Promise<IteratorResult<Piece, unknown>> {
    await this.#source.return?.()
    return { value: undefined, done: true }
  }

  /** The turn is over. */
  run(): void {
    this.#isDue = false
    if (this.#pieces.length > 0) this.#handOut()
  }

  #step(): void {
    if (this.#length >= ENOUGH || this.#end !== null) this.#handOut()
    else {
      if (this.#pieces.length > 0 && !this.#isDue) {
        this.#isDue = true
        this.#immediate.add(this)
      }
      if (!this.#isAsked) this.#ask()
    }
  }

  #ask(): void {
    this.#isAsked = true
    const asked = this.#source.next()
    asked.then(
      (step) => this.#onAnswer(step.done ? asked : step.value),
      () => this.#onAnswer(asked),
    )
  }

  #onAnswer(answer: Piece | Promise<IteratorResult<Piece, unknown>>): void {
    this.#isAsked = false
    if (answer instanceof Promise) this.#end = answer
    else {
      this.#pieces.push(answer)
      this.#length += Math.max(PIECE_LENGTH_MIN, answer.length)
    }
    if (this.#reader !== null) this.#step()
  }

  #handOut(): void {
    const reader = this.#reader
    if (reader === null) return
    this.#reader = null
    reader.resolve(this.#pieces.length === 0 ? this.#end! : { value: joined(this.#pieces), done: false })
    this.#pieces = []
    this.#length = 0
  }
}

function joined(pieces: readonly Piece[]): Piece {
  if (pieces.length === 1) return pieces[0]!
  if (pieces.every((piece) => typeof piece === 'string')) return pieces.join('')
  return Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece)))
}
