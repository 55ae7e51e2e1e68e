import { nextTurn, systemClock } from '../time.ts'

/** How long calls wait for steps, where each is shorter than that. */
const SLICE_MS = 1

/** Takes steps, and has others at work in between. */
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
