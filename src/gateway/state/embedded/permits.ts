import type { PermitLease, PermitLimit, Permits, PermitsTaken, Waiter } from '../../../contracts/permits.ts'
import { type Clock, LONGEST_TIMER_MS, systemClock } from '../../../contracts/time.ts'

interface Waiting {
  readonly limit: PermitLimit
  readonly workspace: string
  /** Called once, when it leaves the queue. */
  readonly end: (lease: PermitLease | null) => void
}

/** Permits of this process alone: counts, and queues in which workspaces take turns. */
export class EmbeddedPermits implements Permits {
  readonly #held = new Map<string, number>()
  readonly #queues = new Map<string, FairQueue>()
  readonly #clock: Clock

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  async take(limits: readonly PermitLimit[]): Promise<PermitsTaken> {
    const full = limits.find(({ name, most }) => this.#count(name) >= most)
    return full === undefined ? { lease: this.hold(limits) } : { full }
  }

  /**
   * Takes permits whether there are any left or not: that was decided elsewhere.
   *
   * @param onRelease called once, when they were given back here
   */
  hold(limits: readonly PermitLimit[], onRelease: () => void = () => {}): PermitLease {
    for (const { name } of limits) this.#held.set(name, this.#count(name) + 1)
    let isHeld = true
    return {
      release: () => {
        if (!isHeld) return
        isHeld = false
        for (const limit of limits) this.#giveBack(limit.name)
        onRelease()
      },
    }
  }

  wait(limit: PermitLimit, { workspace, waitMs, signal }: Waiter): Promise<PermitLease | null> {
    if (signal.aborted) return Promise.resolve(null)
    const { name, most } = limit
    if (this.#count(name) < most && this.waiting(name) === 0) return Promise.resolve(this.hold([limit]))
    if (waitMs <= 0) return Promise.resolve(null)
    return new Promise((resolve) => {
      const queue = this.#queueOf(name)
      const leave = () => waiting.end(null)
      const timer = this.#clock.after(Math.min(waitMs, LONGEST_TIMER_MS), leave)
      const waiting: Waiting = {
        limit,
        workspace,
        end: (lease) => {
          timer.close()
          signal.removeEventListener('abort', leave)
          if (lease === null) queue.remove(waiting, false)
          if (queue.size === 0) this.#queues.delete(name)
          resolve(lease)
        },
      }
      signal.addEventListener('abort', leave)
      queue.add(waiting)
      // The limit may have been raised since those in front of it came.
      this.#serve(name)
    })
  }

  held(name: string): number {
    return this.#count(name)
  }

  waiting(name: string): number {
    return this.#queues.get(name)?.size ?? 0
  }

  #count(name: string): number {
    return this.#held.get(name) ?? 0
  }

  #giveBack(name: string): void {
    const held = this.#count(name) - 1
    if (held > 0) this.#held.set(name, held)
    else this.#held.delete(name)
    this.#serve(name)
  }

  #serve(name: string): void {
    const queue = this.#queues.get(name)
    for (;;) {
      const next = queue?.first
      if (next === undefined || this.#count(name) >= next.limit.most) return
      queue?.remove(next, true)
      next.end(this.hold([next.limit]))
    }
  }

  #queueOf(name: string): FairQueue {
    let queue = this.#queues.get(name)
    if (queue === undefined) {
      queue = new FairQueue()
      this.#queues.set(name, queue)
    }
    return queue
  }
}

/** A line for each workspace; whose first was served goes to the end of the round. */
class FairQueue {
  readonly #lines = new Map<string, Set<Waiting>>()
  size = 0

  get first(): Waiting | undefined {
    for (const line of this.#lines.values()) for (const waiting of line) return waiting
    return undefined
  }

  add(waiting: Waiting): void {
    const line = this.#lines.get(waiting.workspace)
    if (line === undefined) this.#lines.set(waiting.workspace, new Set([waiting]))
    else line.add(waiting)
    this.size += 1
  }

  /** @param isServed its workspace has had its turn; false: it gave up */
  remove(waiting: Waiting, isServed: boolean): void {
    const line = this.#lines.get(waiting.workspace)
    if (line === undefined || !line.delete(waiting)) return
    this.size -= 1
    if (line.size > 0 && !isServed) return
    this.#lines.delete(waiting.workspace)
    if (line.size > 0) this.#lines.set(waiting.workspace, line)
  }
}
