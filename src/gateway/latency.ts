import type { Entry } from '../schema/catalog.ts'

/** How many of the newest answers of an entry are looked at. */
const SAMPLES = 31

/** The recent latencies of each entry on this node, for routes with the strategy `lowest_latency`. */
export interface LatencyBook {
  note(entry: Entry, milliseconds: number): void
  /** Median of the newest answers; 0 for an entry without any, so that it gets tried. */
  medianMs(entry: Entry): number
}

export function createLatencyBook(): LatencyBook {
  // Entries belong to a snapshot; after a reload the old ones vanish with it.
  const newest = new WeakMap<Entry, number[]>()
  return {
    note(entry, milliseconds) {
      const samples = newest.get(entry) ?? []
      samples.push(milliseconds)
      if (samples.length > SAMPLES) samples.shift()
      newest.set(entry, samples)
    },
    medianMs(entry) {
      const sorted = [...(newest.get(entry) ?? [])].sort((a, b) => a - b)
      return sorted[Math.floor(sorted.length / 2)] ?? 0
    },
  }
}
