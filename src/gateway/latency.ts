import type { Entry } from '../schema/catalog.ts'

/** How many of the newest answers of an entry are looked at. */
const SAMPLES = 31
/** An answer is recent for so long. An entry that was once slow gets tried again after it. */
const RECENT_MS = 300_000

/** The recent latencies of each entry on this node, for routes with the strategy `lowest_latency`. */
export interface LatencyBook {
  /** Times are on the clock of `performance.now()`. */
  note(entry: Entry, milliseconds: number, nowMs?: number): void
  /** Median of the newest answers; 0 for an entry without any, so that it gets tried. */
  medianMs(entry: Entry, nowMs: number): number
}

interface Answers {
  readonly newest: { readonly milliseconds: number; readonly atMs: number }[]
  /** Worked out when it is asked for: routes with other strategies never do. */
  median: { readonly milliseconds: number; readonly untilMs: number } | null
}

export function createLatencyBook(): LatencyBook {
  // What was said of an entry vanishes with it, when a reload puts another in its place.
  const answers = new WeakMap<Entry, Answers>()
  return {
    note(entry, milliseconds, nowMs = performance.now()) {
      const known = answers.get(entry) ?? { newest: [], median: null }
      known.newest.push({ milliseconds, atMs: nowMs })
      if (known.newest.length > SAMPLES) known.newest.shift()
      known.median = null
      answers.set(entry, known)
    },
    medianMs(entry, nowMs) {
      const known = answers.get(entry)
      if (known === undefined) return 0
      if (known.median === null || known.median.untilMs <= nowMs) known.median = medianOf(known, nowMs)
      return known.median.milliseconds
    },
  }
}

/** The median of the recent answers, and until when they all are. */
function medianOf({ newest }: Answers, nowMs: number): Answers['median'] & {} {
  while (newest[0] !== undefined && newest[0].atMs + RECENT_MS <= nowMs) newest.shift()
  const sorted = newest.map(({ milliseconds }) => milliseconds).sort((a, b) => a - b)
  const untilMs = newest[0] === undefined ? Number.POSITIVE_INFINITY : newest[0].atMs + RECENT_MS
  return { milliseconds: sorted[Math.floor(sorted.length / 2)] ?? 0, untilMs }
}
