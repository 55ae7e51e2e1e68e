import type { Trail } from './gateway.ts'

/** Waits for somebody who is neither this node nor a store of ours, and leaves on the trail how long that took. */
export async function elsewhere<Value>(trail: Trail, awaited: Promise<Value>): Promise<Value> {
  const startMs = performance.now()
  try {
    return await awaited
  } finally {
    trail.elsewhereMs += performance.now() - startMs
  }
}
