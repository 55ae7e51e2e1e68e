import { GatewayError } from '../../../contracts/errors.ts'
import type { Clock, Timer } from '../../../contracts/time.ts'

export interface PendingCall {
  /** It looks whether a disk that was full takes more than a few calls: only that ends the block. */
  readonly looks: boolean
  readonly deadlineMs: number
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

export interface PendingOptions {
  /** Longest that a caller waits, ms. */
  readonly limitMs: number
  readonly clock: Clock
  /** Some were given up, for this reason. */
  readonly onLate: (reason: string) => void
  /** There is none any more. */
  readonly onNone: () => void
}

/** Calls whose answers come later, by their numbers. */
export class PendingCalls {
  readonly #options: PendingOptions
  readonly #calls = new Map<number, PendingCall>()
  #timer: Timer | null = null
  #lastId = 0

  constructor(options: PendingOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#calls.size
  }

  /** Adds a call, and has `send` send it. */
  add(looks: boolean, send: (id: number) => void): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#lastId += 1
      const deadlineMs = this.#options.clock.now() + this.#options.limitMs
      this.#calls.set(this.#lastId, { looks, deadlineMs, resolve, reject })
      send(this.#lastId)
      this.#watch()
    })
  }

  /** Undefined: it was given up meanwhile. */
  take(id: number): PendingCall | undefined {
    const call = this.#calls.get(id)
    this.#calls.delete(id)
    if (this.#calls.size === 0) this.#options.onNone()
    return call
  }

  failAll(reason: string): void {
    for (const id of [...this.#calls.keys()]) this.take(id)?.reject(unavailable(reason))
  }

  /** One timer serves all callers: they wait equally long, so the oldest is the first to be given up. */
  #watch(): void {
    const { clock } = this.#options
    const [oldest] = this.#calls.values()
    if (this.#timer || !oldest) return
    // After a long task of this process the timer fires before answers that have arrived are read: they count.
    const leftMs = Math.max(0, oldest.deadlineMs - clock.now())
    this.#timer = clock.after(leftMs, () => setImmediate(this.#giveUpLate)).unref()
  }

  readonly #giveUpLate = (): void => {
    this.#timer = null
    const { clock, limitMs, onLate } = this.#options
    const nowMs = clock.now()
    const reason = `no answer within ${limitMs} ms`
    for (const [id, { deadlineMs }] of this.#calls) {
      if (deadlineMs > nowMs) break
      onLate(reason)
      this.take(id)?.reject(unavailable(reason))
    }
    this.#watch()
  }
}

/** Gathers what is sent in one turn of the event loop: a message wakes its reader, and costs more than a call. */
export class Batch<Item> {
  #items: Item[] = []
  readonly #send: (items: readonly Item[]) => void

  constructor(send: (items: readonly Item[]) => void) {
    this.#send = send
  }

  add(item: Item): void {
    if (this.#items.length === 0) setImmediate(() => this.flush())
    this.#items.push(item)
  }

  /** Sends what was gathered at once. */
  flush(): void {
    const items = this.#items
    this.clear()
    if (items.length > 0) this.#send(items)
  }

  /** Sends nothing of what was gathered. */
  clear(): void {
    this.#items = []
  }
}

export function unavailable(reason: string): GatewayError {
  return new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause: new Error(reason) })
}
