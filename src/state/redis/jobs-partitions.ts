import { PARTITIONS } from '../../ids.ts'
import { keys } from './keys.ts'

/** What every script of jobs and events has: see `job_steps.lua`. */
export const partitioned = { keys: ['partition', 'never'], steps: 'job_steps' } as const

/** The keys of such a script. */
export const placeOf = (partition: number) => ({
  partition: keys.jobs(partition),
  never: keys.noJobs(partition),
})

export const ALL_PARTITIONS: readonly number[] = Array.from({ length: PARTITIONS }, (_, i) => i)

/** Records of a partition that a list looks through at most, some hundreds at a time. */
const LISTED_MAX = 20_000

/**
 * Goes through records of a partition, the newest first, until it has `limit` of them.
 *
 * @param look answers from where to go on, -1 at the end, and at most `limit` records
 */
export async function lookThrough<Item>(
  limit: number,
  idOf: (item: Item) => string,
  look: (range: { limit: number; offset: number }) => Promise<[number, Item[]]>,
): Promise<Item[]> {
  // By their ids: records that are added meanwhile move those behind them, and one may come twice.
  const found = new Map<string, Item>()
  for (let offset = 0; offset >= 0 && offset < LISTED_MAX && found.size < limit; ) {
    const [next, items] = await look({ limit: limit - found.size, offset })
    for (const item of items) found.set(idOf(item), item)
    offset = next
  }
  return [...found.values()]
}
