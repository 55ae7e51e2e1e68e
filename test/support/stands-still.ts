import { setTimeout as sleep } from 'node:timers/promises'

/** Looks in a row that have to see the same: a machine that stands still itself spoils one or two of them. */
const LOOKS = 10
const STEP_MS = 50

/**
 * Waits until a count that has begun to grow does so no more, though the loop turns.
 *
 * @returns where it stands
 */
export async function whenStill(count: () => number, timeoutMs = 20_000): Promise<number> {
  const deadlineMs = performance.now() + timeoutMs
  let last = count()
  for (let same = 0; same < LOOKS; ) {
    if (performance.now() > deadlineMs) throw new Error(`it does not stand still: ${last}`)
    await sleep(STEP_MS)
    const now = count()
    same = now === last && now > 0 ? same + 1 : 0
    last = now
  }
  return last
}
