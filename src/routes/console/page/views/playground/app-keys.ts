import type { PlaygroundKeyAnswer } from '../../../api/answers.ts'

/** For how long after it was made a node may not know a key yet. */
const UNKNOWN_FOR_MS = 5_000
const AGAIN_AFTER_MS = 400
/** A key is not used for a call that it may not outlive. */
const SPARE_MS = 120_000

interface Kept {
  readonly answer: PlaygroundKeyAnswer
  readonly madeMs: number
}

export interface Clock {
  readonly now: () => number
  readonly wait: (milliseconds: number, signal: AbortSignal) => Promise<void>
}

/** The playground's keys of one session, one for each app. They are kept in memory only, and made when first needed. */
export class AppKeys {
  readonly #make: (app: string) => Promise<PlaygroundKeyAnswer>
  readonly #clock: Clock
  readonly #kept = new Map<string, Promise<Kept>>()

  /** @param make asks the console's API for a key of an app */
  constructor(make: (app: string) => Promise<PlaygroundKeyAnswer>, clock: Clock) {
    this.#make = make
    this.#clock = clock
  }

  /**
   * Makes a call with the app's key. Refused right after the key was made, it is made again for up to 5 s, since other
   * nodes learn of a key within that time; refused later, the key was revoked, and another is made, once.
   *
   * @param isRefused whether what the call threw, or answered, is a 401
   */
  async call<Answer>(
    app: string,
    signal: AbortSignal,
    make: (key: string) => Promise<Answer>,
    isRefused: (outcome: { readonly answer: Answer } | { readonly thrown: unknown }) => boolean,
  ): Promise<Answer> {
    let renewed = false
    for (;;) {
      const kept = await this.#current(app)
      signal.throwIfAborted()
      const outcome = await make(kept.answer.key).then(
        (answer) => ({ answer }),
        (thrown: unknown) => ({ thrown }),
      )
      if (!isRefused(outcome) || signal.aborted) return settled(outcome)
      if (this.#clock.now() - kept.madeMs < UNKNOWN_FOR_MS) {
        await this.#clock.wait(AGAIN_AFTER_MS, signal)
        continue
      }
      if (renewed) return settled(outcome)
      renewed = true
      this.#kept.delete(app)
    }
  }

  /** The ids of the keys that were made so far. They are used no more: the next call makes another. */
  async takeIds(): Promise<readonly string[]> {
    const kept = [...this.#kept.values()]
    this.#kept.clear()
    const made = await Promise.allSettled(kept)
    return made.flatMap((one) => (one.status === 'fulfilled' ? [one.value.answer.id] : []))
  }

  async #current(app: string): Promise<Kept> {
    const known = this.#kept.get(app)
    const kept = await known
    if (kept !== undefined && Date.parse(kept.answer.expires_at) - this.#clock.now() > SPARE_MS) return kept
    // Another call may have seen to it meanwhile.
    const newer = this.#kept.get(app)
    if (newer !== known && newer !== undefined) return newer
    const made = this.#make(app).then((answer) => ({ answer, madeMs: this.#clock.now() }))
    this.#kept.set(app, made)
    made.catch(() => {
      if (this.#kept.get(app) === made) this.#kept.delete(app)
    })
    return made
  }
}

function settled<Answer>(outcome: { readonly answer: Answer } | { readonly thrown: unknown }): Answer {
  if ('answer' in outcome) return outcome.answer
  throw outcome.thrown
}
