import { PARTITIONS } from '../../ids.ts'

/** No partition is asked any more after this long: the caller waits for all of them. */
const SWEEP_MS = 1_000

/** What one partition had. */
export interface Found<Item> {
  readonly items: readonly Item[]
  /** Asking again may find others. */
  readonly more: boolean
}

/** @param isFirst false when the sweep has asked this partition before */
type AskPartition<Item> = (partition: number, limit: number, isFirst: boolean) => Promise<Found<Item>>

/**
 * Makes what collects from all partitions, each time beginning behind the one that gave something last. As many are
 * asked at a time as there may be items, and what is left to take is dealt out among them, so that there are never more
 * than `limit`. Those that had more are asked again. With a limit of 0 each is asked once, for what it does besides.
 *
 * What it makes throws what a partition rejected with, when nothing was found: one that is away keeps no other one
 * waiting.
 */
export function createSweep(): <Item>(limit: number, ask: AskPartition<Item>) => Promise<Item[]> {
  let first = 0
  return async <Item>(limit: number, ask: AskPartition<Item>) => {
    const order = Array.from({ length: PARTITIONS }, (_, i) => (first + i) % PARTITIONS)
    first = (first + 1) % PARTITIONS
    const until = performance.now() + SWEEP_MS
    const found: Item[] = []
    const failures: unknown[] = []
    const seen = new Set<number>()

    const askSome = async (): Promise<void> => {
      const left = limit - found.length
      const asked = order.splice(0, left || PARTITIONS)
      const answers = await Promise.allSettled(
        asked.map((partition, i) =>
          // These shares add up to what is left.
          ask(partition, Math.floor((left + i) / asked.length), !seen.has(partition)),
        ),
      )
      for (const [i, partition] of asked.entries()) {
        const answer = answers[i]
        seen.add(partition)
        if (answer?.status === 'rejected') failures.push(answer.reason)
        if (answer?.status !== 'fulfilled') continue
        found.push(...answer.value.items)
        if (answer.value.items.length > 0) first = (partition + 1) % PARTITIONS
        // Behind those that were not asked yet.
        if (answer.value.more) order.push(partition)
      }
    }
    do await askSome()
    while (found.length < limit && order.length > 0 && performance.now() < until)
    if (found.length === 0 && failures.length > 0) throw failures[0]
    return found
  }
}
