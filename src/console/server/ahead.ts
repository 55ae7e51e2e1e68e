/** Answers that are made at a time; more would take the place of those that somebody waits for. */
const AT_ONCE = 2
const KEPT_MAX = 16
/** After it a view is not loading any more. */
const FRESH_MS = 10_000

interface Begun<Answer> {
  readonly beganMs: number
  /** Null: it failed. */
  readonly answer: Promise<Answer | null>
}

/** Answers that are begun before a view asks for them, while a browser loads its modules. Each is given once. */
export class AnswersAhead<Answer> {
  readonly #begun = new Map<string, Begun<Answer>>()
  #running = 0

  begin(key: string, work: () => Promise<Answer>): void {
    if (this.#running >= AT_ONCE || isFresh(this.#begun.get(key))) return
    this.#running += 1
    const answer = work()
      .catch(() => null)
      .finally(() => {
        this.#running -= 1
      })
    this.#begun.delete(key)
    this.#begun.set(key, { beganMs: performance.now(), answer })
    const [oldest] = this.#begun.keys()
    if (this.#begun.size > KEPT_MAX && oldest !== undefined) this.#begun.delete(oldest)
  }

  /** Null: it was not begun, or long ago, or it failed: whoever asks finds out why. */
  async take(key: string): Promise<Answer | null> {
    const begun = this.#begun.get(key)
    this.#begun.delete(key)
    return isFresh(begun) ? begun.answer : null
  }
}

function isFresh<One extends { readonly beganMs: number }>(begun: One | undefined): begun is One {
  return begun !== undefined && performance.now() - begun.beganMs <= FRESH_MS
}
