import type { Objects } from '../schema/objects.ts'
import { createBudget } from './budget.ts'
import { unavailable } from './failure.ts'

/** A bound to how long a turn is waited for where the caller of `put` sets none, in ms. */
const TURN_MS = 60_000

/**
 * The same store, with at most `most` objects put at a time: a burst of small ones would take more connections than a
 * server has. Workspaces (the second segment of a key) wait for their turn by the rules of memory, so that one over its
 * equal share waits last.
 */
export function limitPuts(objects: Objects, most: number): Objects {
  const slots = createBudget(most, 0)
  return {
    ...objects,
    async put(key, body, length, options) {
      const { signal } = options
      const [, workspace = ''] = key.split('/')
      if (!(await slots.reserve(1, { workspace, waitMs: TURN_MS, signal }))) {
        signal.throwIfAborted()
        throw unavailable(new Error(`no turn within ${TURN_MS} ms`))
      }
      try {
        await objects.put(key, body, length, options)
      } finally {
        slots.refund(1, workspace)
      }
    },
  }
}
