import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../log.ts'
import type { CallLedger, Cancellation, Settled, Settlement } from '../schema/ledger.ts'

/** Pauses between two tries while the state is away. */
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 2_000
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
  /** Counts a call as pending that goes on when its caller leaves. Settles as `call` does. */
  during<Value>(call: Promise<Value>): Promise<Value>
  /** Calls of that kind, and ends that the state has not taken yet. */
  readonly pending: number
  /** Gives up what the state has not taken yet. */
  close(): Promise<void>
}

export function createSettlements(ledger: CallLedger, log: Logger): Settlements {
  const working = new Set<Promise<void>>()
  let calls = 0
  const closing = new AbortController()

  function track(work: Promise<void>): void {
    const tracked = work.finally(() => working.delete(tracked))
    working.add(tracked)
  }

  /** Tries until it is done. @returns whether it was */
  async function insist(what: string, token: string, forMs: number, attempt: () => Promise<unknown>) {
    const untilMs = performance.now() + forMs
    let pauseMs = FIRST_PAUSE_MS
    while (performance.now() + pauseMs < untilMs && !closing.signal.aborted) {
      await sleep(pauseMs, undefined, { signal: closing.signal }).catch(() => {})
      pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)
      try {
        await attempt()
        return
      } catch {
        // Said once, when it is given up.
      }
    }
    log.error({ token }, `${what} was not taken by the state`)
  }

  return {
    settle(settlement, forMs) {
      const { token } = settlement
      const first = ledger.settle(settlement).catch(() => null)
      track(
        first.then(async (settled) => {
          if (settled === null)
            await insist('the end of a call', token, forMs, () => ledger.settle(settlement))
        }),
      )
      return first
    },
    cancel(cancellation) {
      const { token } = cancellation
      track(insist('the withdrawal of a call', token, CANCEL_MS, () => ledger.cancel(cancellation)))
    },
    during(call) {
      calls += 1
      return call.finally(() => {
        calls -= 1
      })
    },
    get pending() {
      return calls + working.size
    },
    async close() {
      closing.abort()
      await Promise.all(working)
    },
  }
}
