import { type Clock, sleep } from './time.ts'

export interface Rounds {
  /** Resolves when the current round is over. */
  stop(): Promise<void>
}

/**
 * Does rounds of work that waits in the state: one after the other while there is more, else after a pause.
 *
 * @param round answers true when more may be waiting
 * @param onAway told once when a round has failed, until one succeeds again
 */
export function startRounds(
  round: () => Promise<boolean>,
  { pauseMs, clock, onAway }: { pauseMs: number; clock: Clock; onAway: (error: unknown) => void },
): Rounds {
  const stopping = new AbortController()
  const { signal } = stopping
  let isAway = false

  async function tryRound(): Promise<boolean> {
    try {
      const more = await round()
      isAway = false
      return more
    } catch (error) {
      if (!isAway) onAway(error)
      isAway = true
      return false
    }
  }

  async function rounds(): Promise<void> {
    while (!signal.aborted) {
      const more = await tryRound()
      if (!more) await sleep(clock, pauseMs, { signal, ref: false }).catch(() => {})
    }
  }

  const done = rounds()
  return {
    stop() {
      stopping.abort()
      return done
    },
  }
}
