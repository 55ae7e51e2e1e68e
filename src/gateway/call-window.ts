/** How far back calls are counted, seconds. */
const WINDOW_SECONDS = 30

/** Calls of the last 30 seconds and how many of them failed, in counts per second: its size does not grow with load. */
export interface CallWindow {
  count(nowMs: number, failed: boolean): void
  totals(nowMs: number): { readonly calls: number; readonly failures: number }
  clear(): void
}

/** Times are on one clock that never goes back, such as `performance.now()`. */
export function createCallWindow(): CallWindow {
  const seconds = new Float64Array(WINDOW_SECONDS).fill(Number.NEGATIVE_INFINITY)
  const calls = new Uint32Array(WINDOW_SECONDS)
  const failures = new Uint32Array(WINDOW_SECONDS)

  return {
    count(nowMs, failed) {
      const second = Math.floor(nowMs / 1000)
      const slot = second % WINDOW_SECONDS
      if (seconds[slot] !== second) {
        seconds[slot] = second
        calls[slot] = 0
        failures[slot] = 0
      }
      calls[slot] = (calls[slot] ?? 0) + 1
      if (failed) failures[slot] = (failures[slot] ?? 0) + 1
    },

    totals(nowMs) {
      const oldest = Math.floor(nowMs / 1000) - WINDOW_SECONDS
      const sum = { calls: 0, failures: 0 }
      for (let slot = 0; slot < WINDOW_SECONDS; slot += 1) {
        if ((seconds[slot] ?? oldest) <= oldest) continue
        sum.calls += calls[slot] ?? 0
        sum.failures += failures[slot] ?? 0
      }
      return sum
    },

    clear() {
      seconds.fill(Number.NEGATIVE_INFINITY)
    },
  }
}
