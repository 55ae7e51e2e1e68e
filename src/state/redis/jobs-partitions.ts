import { PARTITIONS, partitionOf } from '../../ids.ts'
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

/** What tells records apart, and which of them is the newer. */
interface Records<Item> {
  readonly idOf: (item: Item) => string
  readonly atMsOf: (item: Item) => number
  /** Answers from where to go on, -1 at the end, and at most `limit` records. */
  readonly look: (
    place: ReturnType<typeof placeOf>,
    range: { limit: number; offset: number },
  ) => Promise<[number, Item[]]>
}

/** The newest records of a workspace, or of all; of the same millisecond the larger id first, as Redis has them. */
export async function listNewest<Item>(
  workspace: string | null,
  limit: number,
  records: Records<Item>,
): Promise<Item[]> {
  const { idOf, atMsOf } = records
  const partitions = workspace === null ? ALL_PARTITIONS : [partitionOf(workspace)]
  const lists = await Promise.all(partitions.map((partition) => lookThrough(partition, limit, records)))
  const newestFirst = (one: Item, other: Item) =>
    atMsOf(other) - atMsOf(one) || (idOf(one) < idOf(other) ? 1 : -1)
  return lists.flat().sort(newestFirst).slice(0, limit)
}

/** Goes through records of a partition, the newest first, until it has `limit` of them. */
async function lookThrough<Item>(
  partition: number,
  limit: number,
  { idOf, look }: Records<Item>,
): Promise<Item[]> {
  // By their ids: records that are added meanwhile move those behind them, and one may come twice.
  const found = new Map<string, Item>()
  for (let offset = 0; offset >= 0 && offset < LISTED_MAX && found.size < limit; ) {
    const [next, items] = await look(placeOf(partition), { limit: limit - found.size, offset })
    for (const item of items) found.set(idOf(item), item)
    offset = next
  }
  return [...found.values()]
}
