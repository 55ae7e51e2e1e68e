import type { PermitLease, PermitLimit, Permits, PermitsTaken, Waiter } from '../../../contracts/permits.ts'
import { type Clock, LONGEST_TIMER_MS } from '../../../contracts/time.ts'
import { EmbeddedPermits } from '../embedded/permits.ts'
import type { MemorySubjects, PermitEnd, PermitWait } from './messages.ts'

/** Permits that the processes of a machine share: the one that has their state counts, and keeps the queues. */
export class SharedPermits implements Permits {
  readonly #server: MemorySubjects['permits']
  readonly #post: (item: PermitWait | PermitEnd) => void
  readonly #clock: Clock
  /** Counts what this process holds, and all that it may while the other does not answer. */
  readonly #own: EmbeddedPermits
  /** Tickets that wait, and what is done when they are served. */
  readonly #served = new Map<number, () => void>()
  readonly #waiting = new Map<string, number>()
  #lastTicket = 0

  constructor(server: MemorySubjects['permits'], post: (item: PermitWait | PermitEnd) => void, clock: Clock) {
    this.#server = server
    this.#post = post
    this.#clock = clock
    this.#own = new EmbeddedPermits(clock)
  }

  async take(limits: readonly PermitLimit[]): Promise<PermitsTaken> {
    const ticket = this.#newTicket()
    try {
      const name = await this.#server.take(ticket, limits)
      const full = limits.find((limit) => limit.name === name)
      return full === undefined ? { lease: this.#hold(ticket, limits) } : { full }
    } catch {
      // They may have been given, and the answer be late.
      this.#post({ release: ticket })
      return this.#own.take(limits)
    }
  }

  async wait(limit: PermitLimit, { workspace, waitMs, signal }: Waiter): Promise<PermitLease | null> {
    if (signal.aborted) return null
    if (waitMs <= 0) {
      const taken = await this.take([limit])
      return 'lease' in taken ? taken.lease : null
    }
    const ticket = this.#newTicket()
    return new Promise((resolve) => {
      const end = (lease: PermitLease | null) => {
        timer.close()
        signal.removeEventListener('abort', leave)
        this.#served.delete(ticket)
        this.#countWaiting(limit.name, -1)
        resolve(lease)
      }
      const leave = () => {
        this.#post({ release: ticket })
        end(null)
      }
      const timer = this.#clock.after(Math.min(waitMs, LONGEST_TIMER_MS), leave)
      signal.addEventListener('abort', leave)
      this.#served.set(ticket, () => end(this.#hold(ticket, [limit])))
      this.#countWaiting(limit.name, 1)
      this.#post({ wait: ticket, limit, workspace })
    })
  }

  held(name: string): number {
    return this.#own.held(name)
  }

  waiting(name: string): number {
    return this.#waiting.get(name) ?? 0
  }

  /** A ticket that waited has its permit; one that has left gave it back by leaving. */
  serve(ticket: number): void {
    this.#served.get(ticket)?.()
  }

  #newTicket(): number {
    this.#lastTicket += 1
    return this.#lastTicket
  }

  #hold(ticket: number, limits: readonly PermitLimit[]): PermitLease {
    return this.#own.hold(limits, () => this.#post({ release: ticket }))
  }

  #countWaiting(name: string, change: 1 | -1): void {
    const waiting = this.waiting(name) + change
    if (waiting > 0) this.#waiting.set(name, waiting)
    else this.#waiting.delete(name)
  }
}
