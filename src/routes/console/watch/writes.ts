import type { Logger } from '../../../log.ts'

/** How often a write is tried; with a second in between, and two for an answer at most. */
const TRIES_MAX = 5
/** Writes that wait, of which the oldest are given up for younger ones. */
const WAITING_MAX = 16

interface Write {
  readonly run: () => Promise<void>
  tries: number
}

/**
 * Writes what the state may do without: what it refuses is tried again a few times, then given up. Each write has to be
 * idempotent.
 */
export class Writes {
  readonly #log: Logger
  #waiting: Write[] = []
  #running: Promise<void> | null = null
  /** The state has refused one, and taken none since. */
  #away = false

  constructor(log: Logger) {
    this.#log = log
  }

  put(run: () => Promise<void>): void {
    this.#waiting.push({ run, tries: 0 })
    if (this.#waiting.length > WAITING_MAX) this.#waiting.shift()
  }

  /** Sends what waits, all of it at once: the state flushes it together. Does nothing while the last are under way. */
  send(): void {
    if (this.#running !== null || this.#waiting.length === 0) return
    this.#running = this.#sendAll().finally(() => {
      this.#running = null
    })
  }

  /** Resolves when what waits was tried once more. */
  async close(): Promise<void> {
    await this.#running
    await this.#sendAll()
  }

  async #sendAll(): Promise<void> {
    const writes = this.#waiting
    this.#waiting = []
    const refused = await Promise.all(writes.map(async (write) => ((await this.#try(write)) ? [] : [write])))
    const left = refused.flat().filter(({ tries }) => tries < TRIES_MAX)
    this.#waiting = [...left, ...this.#waiting].slice(-WAITING_MAX)
  }

  async #try(write: Write): Promise<boolean> {
    write.tries += 1
    try {
      await write.run()
      this.#away = false
      return true
    } catch (error) {
      if (!this.#away) this.#log.warn({ err: error }, 'the state does not take what the console shows')
      this.#away = true
      return false
    }
  }
}
