import { type Clock, systemClock, type Timer } from '../../src/contracts/time.ts'

/** Turns of the event loop between two timers: what one has begun comes to its next wait meanwhile. */
const TURNS = 4

interface Waiting {
  atMs: number
  readonly everyMs: number | null
  readonly run: () => void
}

/**
 * A clock that stands still until a test moves it. Timers fire in the order of their times, and of their making where
 * those are the same; between two of them the event loop turns a few times, so that promises and sockets of this
 * process have their say.
 */
export class VirtualClock implements Clock {
  #nowMs = 0
  #startMs: number
  readonly #waiting = new Set<Waiting>()
  readonly #watchers = new Set<() => void>()

  /** @param startMs the wall clock at the begin */
  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#startMs = startMs
  }

  readonly now = (): number => this.#nowMs

  readonly wallNow = (): number => this.#startMs + this.#nowMs

  readonly after = (ms: number, run: () => void): Timer => this.#arm(ms, run, null)

  readonly every = (ms: number, run: () => void): Timer => this.#arm(ms, run, Math.max(1, ms))

  /** How far off the timers are that wait, the nearest first. */
  get dueInMs(): number[] {
    return [...this.#waiting].map(({ atMs }) => atMs - this.#nowMs).toSorted((a, b) => a - b)
  }

  /** Sets the wall clock forward, or back; no time passes. */
  set(ms: number): void {
    this.#startMs += ms
  }

  /** Moves the time on by `ms` and fires what becomes due on the way. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms
    await turn()
    for (let next = this.#next(untilMs); next !== null; next = this.#next(untilMs)) {
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      if (next.everyMs === null) this.#waiting.delete(next)
      else next.atMs += next.everyMs
      next.run()
      await turn()
    }
    this.#nowMs = untilMs
  }

  /** Resolves when a timer waits that is due within `ms`, at once if one does: the event that a test waits for. */
  armed(ms = Number.POSITIVE_INFINITY): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (![...this.#waiting].some(({ atMs }) => atMs - this.#nowMs <= ms)) return
        this.#watchers.delete(look)
        resolve()
      }
      this.#watchers.add(look)
      look()
    })
  }

  #arm(ms: number, run: () => void, everyMs: number | null): Timer {
    const waiting: Waiting = { atMs: this.#nowMs + Math.max(0, ms), everyMs, run }
    const put = () => {
      this.#waiting.delete(waiting)
      this.#waiting.add(waiting)
      for (const look of [...this.#watchers]) look()
    }
    put()
    const timer: Timer = {
      close: () => this.#waiting.delete(waiting),
      unref: () => timer,
      refresh: () => {
        waiting.atMs = this.#nowMs + Math.max(0, ms)
        put()
      },
    }
    return timer
  }

  #next(untilMs: number): Waiting | null {
    let first: Waiting | null = null
    for (const one of this.#waiting) if (first === null || one.atMs < first.atMs) first = one
    return first !== null && first.atMs <= untilMs ? first : null
  }
}

async function turn(): Promise<void> {
  for (let i = 0; i < TURNS; i += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** The machine's clock with its wall clock so far ahead: for code that compares moments with those of files. */
export function clockAhead(ms: number): Clock {
  return { ...systemClock, wallNow: () => Date.now() + ms }
}
