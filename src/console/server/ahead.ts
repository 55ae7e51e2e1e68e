import type { Clock } from '../../time.ts'

/** Views answered ahead at a time; more would slow down those that a viewer waits for. */
const AT_ONCE = 2
const KEPT_MAX = 32
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
  readonly #clock: Clock
  #running = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @param work makes an answer for each of the keys, which are those of one view */
  begin(keys: readonly string[], work: () => Promise<readonly Answer[]>): void {
    if (this.#running >= AT_ONCE || keys.every((key) => this.#isFresh(this.#begun.get(key)))) return
    this.#running += 1
    const answers = work()
      .catch(() => [])
      .finally(() => {
        this.#running -= 1
      })
    for (const [at, key] of keys.entries()) {
      this.#begun.delete(key)
      this.#begun.set(key, {
        beganMs: this.#clock.now(),
        answer: answers.then((made: readonly Answer[]) => made[at] ?? null),
      })
      const [oldest] = this.#begun.keys()
      if (this.#begun.size > KEPT_MAX && oldest !== undefined) this.#begun.delete(oldest)
    }
  }

  /** Null: it was not begun, or long ago, or it failed: whoever asks finds out why. */
  async take(key: string): Promise<Answer | null> {
    const begun = this.#begun.get(key)
    this.#begun.delete(key)
    return this.#isFresh(begun) ? begun.answer : null
  }

  #isFresh(begun: Begun<Answer> | undefined): begun is Begun<Answer> {
    return begun !== undefined && this.#clock.now() - begun.beganMs <= FRESH_MS
  }
}

/** A question about what the viewer may see. */
interface Asked {
  /** Null: all workspaces. */
  readonly scope: string | null
  /** In whatever order. */
  readonly query: object
}

/** Names what a view asks. @param record of which it asks; null: of none */
export function keyOf({ scope, query }: Asked, record: string | null = null): string {
  return JSON.stringify([scope, record, Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1))])
}
