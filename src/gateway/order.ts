import type { Entry, Route } from '../schema/catalog.ts'
import type { LatencyBook } from './latency.ts'

/** What strategies decide by. */
export interface Yardsticks {
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly latency: Pick<LatencyBook, 'medianMs'>
  readonly nowMs: number
  /** USD; Infinity when the price is not known. */
  readonly estimateUsd: (entry: Entry) => number
}

/** Entries of one group in the order in which their route's strategy tries them; equal ones as the route lists them. */
export function inOrder<Item extends { readonly entry: Entry }>(
  { strategy }: Route,
  items: readonly Item[],
  yardsticks: Yardsticks,
): readonly Item[] {
  const measure = strategy === 'priority' || items.length < 2 ? null : MEASURES[strategy]
  if (measure === null) return items
  const measured = items.map((item) => ({ item, key: measure(item.entry, yardsticks) }))
  return measured.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)).map(({ item }) => item)
}

/** By what a strategy sorts: the smallest comes first. */
const MEASURES: Readonly<
  Record<Exclude<Route['strategy'], 'priority'>, (entry: Entry, by: Yardsticks) => number>
> = {
  // Sorting by drawn keys picks in proportion to the weights, without replacement (Efraimidis, Spirakis 2006).
  weighted: ({ weight }, { random }) => -Math.log(1 - random()) / weight,
  lowest_cost: (entry, { estimateUsd }) => estimateUsd(entry),
  lowest_latency: (entry, { latency, nowMs }) => latency.medianMs(entry, nowMs),
}
