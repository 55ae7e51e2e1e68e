import { countCharacters } from '../../contracts/characters.ts'
import { SentenceCutter } from './sentences.ts'
import type { SentenceCall } from './speech-calls.ts'

export interface Sentence {
  readonly seq: number
  readonly text: string
  readonly characters: number
  /** Null: no provider is asked yet. */
  call: SentenceCall | null
  /** Sent to the caller. */
  audioBytes: number
  /** Its rest is not sent. */
  isDropped: boolean
}

/** Answered when all that came before it is spoken. */
interface FlushMark {
  readonly flushed: string | null
}

/** Text that waits to be spoken: whole sentences in order, the marks between them, and the beginning of the next. */
export class SpeechText {
  readonly #cutter = new SentenceCutter()
  readonly #queue: (Sentence | FlushMark)[] = []
  /** Characters in the queue; a mark counts as one. */
  #queued = 0
  #seq = 0

  /** Characters that wait, in sentences or in none yet. */
  get waiting(): number {
    return this.#queued + this.#cutter.length
  }

  /** Neither a sentence nor a mark waits. */
  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  /** The sentence that is next; null: there is none, or a mark comes first. */
  get upcoming(): Sentence | null {
    const [next] = this.#queue
    return next === undefined || 'flushed' in next ? null : next
  }

  push(text: string): void {
    for (const sentence of this.#cutter.push(text)) this.#enqueue(sentence)
  }

  /** The rest becomes a sentence, as it is. */
  flush(): void {
    const rest = this.#cutter.flush()
    if (rest !== null) this.#enqueue(rest)
  }

  mark(id: string | null): void {
    this.#queue.push({ flushed: id })
    this.#queued += 1
  }

  next(): Sentence | FlushMark | null {
    const next = this.#queue.shift()
    if (next === undefined) return null
    this.#queued -= 'flushed' in next ? 1 : next.text.length
    return next
  }

  /** Forgets all that waits. @returns the sentences of it */
  clear(): Sentence[] {
    this.#cutter.flush()
    this.#queued = 0
    return this.#queue.splice(0).filter((one): one is Sentence => !('flushed' in one))
  }

  #enqueue(text: string): void {
    const characters = countCharacters(text)
    this.#queue.push({ seq: this.#seq, text, characters, call: null, audioBytes: 0, isDropped: false })
    this.#seq += 1
    this.#queued += text.length
  }
}
