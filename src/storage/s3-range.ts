import { Readable } from 'node:stream'
import { unavailable } from './failure.ts'

/**
 * The bytes of an answer, exactly `length` of them. Fails when the store ends early, or sends nothing for `stallMs`
 * although the reader waits; a reader that takes its time is no fault of the store.
 */
export class RangeStream extends Readable {
  readonly #source: Readable
  readonly #timer: NodeJS.Timeout
  #missing: number
  #waiting = false

  constructor(source: Readable, length: number, stallMs: number) {
    super()
    this.#source = source
    this.#missing = length
    this.#timer = setTimeout(() => {
      if (this.#waiting) this.destroy(unavailable(new Error(`the store sent nothing for ${stallMs} ms`)))
    }, stallMs)
    source.on('data', (chunk: Buffer) => this.#take(chunk))
    source.on('end', () => this.#finish())
    source.on('error', (error) => this.destroy(unavailable(error)))
    source.on('close', () => this.#finish())
    source.pause()
  }

  override _read(): void {
    this.#waiting = true
    this.#timer.refresh()
    this.#source.resume()
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    clearTimeout(this.#timer)
    this.#source.destroy()
    callback(error)
  }

  #take(chunk: Buffer): void {
    this.#waiting = false
    this.#missing -= chunk.length
    if (!this.push(chunk)) this.#source.pause()
  }

  #finish(): void {
    if (this.destroyed || this.readableEnded) return
    if (this.#missing === 0) this.push(null)
    else this.destroy(unavailable(new Error(`the store left out ${this.#missing} bytes`)))
  }
}
