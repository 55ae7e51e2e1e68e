import { BLOCK_BYTES } from '../schema/audio.ts'
import type { ByteBudget, ReserveOptions } from '../schema/budget.ts'

/** A ByteBudget whose callers may wait for their turn, and that knows which app holds how much. */
export interface WaitingBudget extends ByteBudget {
  reserve(bytes: number, options: ReserveOptions): Promise<boolean>
  /** Callers of `reserve` that wait now. */
  readonly waiting: number
}

interface Account {
  held: number
  waiting: number
}

interface Waiter {
  readonly bytes: number
  readonly app: string
  grant(granted: boolean): void
}

/**
 * A count of units (bytes of memory, or upload slots) with a fair queue.
 *
 * The equal share is the limit divided by the apps that hold or want something. A caller whose app stays within its
 * share, counting what it holds and already waits for, queues in front; all others queue behind them. Where a caller
 * stands is settled when it arrives, so that granting is O(1) and one refund wakes exactly those whose bytes now fit.
 *
 * @param limit    units that may be held
 * @param smallest requests of at most this many units pass the queue when they fit, so that a small body never waits
 *                 behind a large one; the large one has the store to fall back on
 */
export function createBudget(limit: number, smallest: number = BLOCK_BYTES): WaitingBudget {
  return new FairBudget(limit, smallest)
}

class FairBudget implements WaitingBudget {
  readonly limit: number
  readonly #smallest: number
  readonly #accounts = new Map<string, Account>()
  // Sets keep their order and forget a member in O(1), which a caller that gives up needs.
  readonly #within = new Set<Waiter>()
  readonly #over = new Set<Waiter>()
  #used = 0

  constructor(limit: number, smallest: number) {
    this.limit = limit
    this.#smallest = smallest
  }

  get used(): number {
    return this.#used
  }

  get waiting(): number {
    return this.#within.size + this.#over.size
  }

  charge(bytes: number, app?: string): void {
    this.#used += bytes
    if (app !== undefined) this.#book(app, bytes, 0)
  }

  tryReserve(bytes: number, app?: string): boolean {
    if (this.#used + bytes > this.limit) return false
    this.charge(bytes, app)
    return true
  }

  refund(bytes: number, app?: string): void {
    this.#used -= bytes
    if (app !== undefined) this.#book(app, -bytes, 0)
    this.#grantWaiting()
  }

  async reserve(bytes: number, options: ReserveOptions): Promise<boolean> {
    if (bytes > this.limit || options.signal.aborted) return false
    const passes = bytes <= this.#smallest || this.waiting === 0
    if (passes && this.tryReserve(bytes, options.app)) return true
    if (options.waitMs <= 0) return false
    return this.#wait(bytes, options)
  }

  #wait(bytes: number, { app, waitMs, signal }: ReserveOptions): Promise<boolean> {
    const { held, waiting } = this.#book(app, 0, bytes)
    const queue = held + waiting <= this.limit / this.#accounts.size ? this.#within : this.#over
    return new Promise((resolve) => {
      const grant = (granted: boolean) => {
        clearTimeout(timer)
        signal.removeEventListener('abort', giveUp)
        queue.delete(waiter)
        this.#book(app, 0, -bytes)
        resolve(granted)
        // A caller that gives up may have been the one that everybody behind it waited for.
        if (!granted) this.#grantWaiting()
      }
      const giveUp = () => grant(false)
      const waiter: Waiter = { bytes, app, grant }
      const timer = setTimeout(giveUp, waitMs)
      signal.addEventListener('abort', giveUp, { once: true })
      queue.add(waiter)
    })
  }

  #grantWaiting(): void {
    for (const queue of [this.#within, this.#over]) {
      for (const waiter of queue) {
        if (!this.tryReserve(waiter.bytes, waiter.app)) return
        waiter.grant(true)
      }
    }
  }

  #book(app: string, held: number, waiting: number): Account {
    const account = this.#accounts.get(app) ?? { held: 0, waiting: 0 }
    this.#accounts.set(app, account)
    account.held += held
    account.waiting += waiting
    if (account.held <= 0 && account.waiting <= 0) this.#accounts.delete(app)
    return account
  }
}
