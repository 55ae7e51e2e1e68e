import { nextTurn, systemClock } from '../time.ts'

/** How long calls wait for steps, if each is shorter than that. */
const SLICE_MS = 1

/** Takes steps, and lets other work run in between. */
export async function inSlices<Made>(steps: Generator<void, Made>): Promise<Made> {
  for (;;) {
    const untilMs = systemClock.now() + SLICE_MS
    do {
      const { done, value } = steps.next()
      if (done === true) return value
    } while (systemClock.now() < untilMs)
    await nextTurn()
  }
}
