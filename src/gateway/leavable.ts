/**
 * A generator that can be left at any moment: left before its first step or while a step is under way, a plain one
 * would run nothing of its `finally`, or only when that step is done.
 */
export class Leavable<Piece> implements AsyncGenerator<Piece, void, void> {
  readonly #pieces: AsyncGenerator<Piece, void, void>
  readonly #leave: () => Promise<void>

  /** @param leave called first of all; makes a step that is under way end soon, and may be called more than once */
  constructor(pieces: AsyncGenerator<Piece, void, void>, leave: () => Promise<void>) {
    this.#pieces = pieces
    this.#leave = leave
  }

  next(): Promise<IteratorResult<Piece, void>> {
    return this.#pieces.next()
  }

  async return(): Promise<IteratorResult<Piece, void>> {
    await this.#leave()
    return this.#pieces.return()
  }

  async throw(error: unknown): Promise<IteratorResult<Piece, void>> {
    await this.#leave()
    return this.#pieces.throw(error)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }
}
