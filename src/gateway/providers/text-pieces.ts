/** Pieces that are kept one by one. */
const PIECES_MAX = 64

/**
 * A text that comes in pieces. V8 keeps every piece that is added to a string, and some 60 bytes beside it, until the
 * string is read: of a stream of tokens, seven times the text.
 */
export class TextPieces {
  #flat = ''
  #pieces: string[] = []

  add(piece: string): void {
    if (piece === '') return
    if (this.#pieces.push(piece) < PIECES_MAX) return
    this.#flat += this.#pieces.join('')
    this.#pieces = []
  }

  get whole(): string {
    return this.#flat + this.#pieces.join('')
  }
}
