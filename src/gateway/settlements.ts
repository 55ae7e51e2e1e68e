import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import type { CallLedger, Cancellation, Settled, Settlement } from '../schema/ledger.ts'

/** Pauses between two tries while the state is away. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 1_000
/** Of all that waits in a workspace, so much is tried at once: while the state is away, and when it takes something. */
const TRIED_AWAY = 4
const TRIED_BACK = 100
/** How long a lost `begin` is worth taking back: an answer that the server kept for longer does not come any more. */
const CANCEL_MS = 60_000

/** Ends what calls began in the state. What the state does not take at once is tried again behind the caller's back. */
export interface Settlements {
  /**
   * Resolves when the state has taken it, or has not answered once: the caller's answer does not wait for longer. Goes
   * on until `forMs` are over; what was begun has ended by itself then.
   *
   * @returns null when nobody knows yet
   */
  settle(settlement: Settlement, forMs: number): Promise<Settled | null>
  /** Takes back a `begin` whose answer was lost. */
  cancel(cancellation: Cancellation): void
  /** Counts what goes on when its caller leaves as pending: a call, or its beginning. Settles as `call` does. */
  during<Value>(call: Promise<Value>): Promise<Value>
  /** Calls of that kind, and ends that the state has not taken yet. */
  readonly pending: number
  /** Gives up what the state has not taken yet. */
  close(): Promise<void>
}

export function createSettlements(ledger: CallLedger, log: Logger): Settlements {
  const firstTries = new Set<Promise<void>>()
  const backlogs = new Map<string, Backlog>()
  const closing = new AbortController()
  let calls = 0

  function tryLater(workspace: string, end: Untaken): void {
    let backlog = backlogs.get(workspace)
    if (backlog === undefined) {
      backlog = new Backlog(log, closing.signal, () => void backlogs.delete(workspace))
      backlogs.set(workspace, backlog)
    }
    backlog.add(end)
  }

  return {
    settle(settlement, forMs) {
      const { token, workspace } = settlement
      const untilMs = performance.now() + forMs
      const first = ledger.settle(settlement).catch(() => null)
      const tried = first.then((settled) => {
        firstTries.delete(tried)
        if (settled !== null) return
        tryLater(workspace, { what: 'end', token, untilMs, send: () => ledger.settle(settlement) })
      })
      firstTries.add(tried)
      return first
    },
    cancel(cancellation) {
      const { token, workspace } = cancellation
      const untilMs = performance.now() + CANCEL_MS
      tryLater(workspace, { what: 'withdrawal', token, untilMs, send: () => ledger.cancel(cancellation) })
    },
    during(call) {
      calls += 1
      return call.finally(() => {
        calls -= 1
      })
    },
    get pending() {
      let untaken = 0
      for (const { size } of backlogs.values()) untaken += size
      return calls + firstTries.size + untaken
    },
    async close() {
      await Promise.all(firstTries)
      closing.abort()
      await Promise.all([...backlogs.values()].map(({ done }) => done))
    },
  }
}

/** What the state has not taken yet. */
interface Untaken {
  readonly what: 'end' | 'withdrawal'
  readonly token: string
  /** When it is given up, on the clock of `performance.now()`. */
  readonly untilMs: number
  readonly send: () => Promise<unknown>
}

/**
 * The ends that the state owes to a workspace. Only a few of them are tried at a time until it takes one, however many
 * wait: an outage is not made worse by those who wait for its end. A workspace is kept in one place of the state, so
 * that what becomes of one of its ends becomes of all.
 */
class Backlog {
  readonly done: Promise<void>
  /** Those that were tried longest ago first. */
  readonly #waiting = new Set<Untaken>()
  readonly #log: Logger
  readonly #stop: AbortSignal

  /** @param onDone called when nothing waits any more: what comes then needs another backlog */
  constructor(log: Logger, stop: AbortSignal, onDone: () => void) {
    this.#log = log
    this.#stop = stop
    this.done = this.#work(onDone)
  }

  get size(): number {
    return this.#waiting.size
  }

  add(end: Untaken): void {
    this.#waiting.add(end)
  }

  async #work(onDone: () => void): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS
    do {
      await sleep(pauseMs, undefined, { signal: this.#stop }).catch(() => {})
      this.#giveUp()
      let most = TRIED_AWAY
      while (await this.#try(most)) {
        most = TRIED_BACK
        pauseMs = FIRST_PAUSE_MS
      }
      pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)
    } while (this.#waiting.size > 0)
    onDone()
  }

  /** @returns whether the state took any of them */
  async #try(most: number): Promise<boolean> {
    const tried: Promise<boolean>[] = []
    for (const end of this.#waiting) {
      if (tried.length === most) break
      tried.push(this.#send(end))
    }
    return (await Promise.all(tried)).includes(true)
  }

  async #send(end: Untaken): Promise<boolean> {
    try {
      await end.send()
      this.#waiting.delete(end)
      return true
    } catch {
      // Said once, when it is given up. The others come first, the next time.
      if (this.#waiting.delete(end)) this.#waiting.add(end)
      return false
    }
  }

  /** Forgets those whose time is over; all of them when the node stops. */
  #giveUp(): void {
    const nowMs = performance.now()
    const over = [...this.#waiting].filter(({ untilMs }) => this.#stop.aborted || untilMs <= nowMs)
    for (const end of over) this.#waiting.delete(end)
    const [first] = over
    if (first === undefined) return
    const { what, token } = first
    this.#log.error({ what, token, count: over.length }, 'ends of calls were not taken by the state')
  }
}
