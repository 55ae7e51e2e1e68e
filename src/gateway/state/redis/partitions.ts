import { ALERTS_WORKSPACE } from '../../../contracts/alerts.ts'
import { ALERTS_PARTITION, PARTITIONS, partitionOf } from '../../../contracts/ids.ts'
import type { Clock } from '../../../contracts/time.ts'
import { keys } from './key-names.ts'

/** Shape that all scripts of jobs and events share: see `jobs/job_steps.lua`. */
export const partitioned = { keys: ['partition', 'never'], steps: 'jobs/job_steps' } as const

/** The keys of such a script. */
export const placeOf = (partition: number) => ({
  partition: keys.jobs(partition),
  never: keys.noJobs(partition),
})

export const ALL_PARTITIONS: readonly number[] = Array.from({ length: PARTITIONS }, (_, i) => i)

/** Records of a partition that a list looks through at most, some hundreds at a time. */
const LISTED_MAX = 20_000

/** How records are read, told apart and ordered. */
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
  const partitions = workspace === null ? ALL_PARTITIONS : [homeOf(workspace)]
  const lists = await Promise.all(partitions.map((partition) => lookThrough(partition, limit, records)))
  const newestFirst = (one: Item, other: Item) =>
    atMsOf(other) - atMsOf(one) || (idOf(one) < idOf(other) ? 1 : -1)
  return lists.flat().sort(newestFirst).slice(0, limit)
}

function homeOf(workspace: string): number {
  return workspace === ALERTS_WORKSPACE ? ALERTS_PARTITION : partitionOf(workspace)
}

/** Goes through records of a partition, the newest first, until it has `limit` of them. */
async function lookThrough<Item>(
  partition: number,
  limit: number,
  { idOf, look }: Records<Item>,
): Promise<Item[]> {
  // By their ids: records that are added meanwhile move later ones, and one may come twice.
  const found = new Map<string, Item>()
  for (let offset = 0; offset >= 0 && offset < LISTED_MAX && found.size < limit; ) {
    const [next, items] = await look(placeOf(partition), { limit: limit - found.size, offset })
    for (const item of items) found.set(idOf(item), item)
    offset = next
  }
  return [...found.values()]
}

/** No partition is asked any more after this long: the caller waits for all of them. */
const SWEEP_MS = 1_000

/**
 * Items that a partition which had more than it could give is expected to have: so many are taken from it before
 * another one is asked, since each costs a script of its own.
 */
const RICH_ITEMS = 4

/** Answer of one partition. */
interface Found<Item> {
  readonly items: readonly Item[]
  /** Asking again may find others. */
  readonly more: boolean
}

/** @param isFirst false when the sweep has asked this partition before */
type AskPartition<Item> = (partition: number, limit: number, isFirst: boolean) => Promise<Found<Item>>

/**
 * Makes a function that collects items from all partitions and begins each time behind the one that gave something
 * last. It asks as many at a time as may be needed, by what they had before, and deals out among them what is left to
 * take, so that there are never more than `limit`. It asks those that had more again. With a limit of 0 it asks each
 * once, for its side effects.
 *
 * The function throws the rejection of a partition only when nothing was found: one that is away keeps no other one
 * waiting.
 */
export function createSweep(clock: Clock): <Item>(limit: number, ask: AskPartition<Item>) => Promise<Item[]> {
  let first = 0
  const rich = new Set<number>()
  /** How many of the partitions most likely have so many items; all of them when none is to be taken. */
  const enough = (partitions: readonly number[], items: number): number => {
    if (items === 0) return partitions.length
    let expected = 0
    const last = partitions.findIndex((partition) => {
      expected += rich.has(partition) ? RICH_ITEMS : 1
      return expected >= items
    })
    return last < 0 ? partitions.length : last + 1
  }
  return async <Item>(limit: number, ask: AskPartition<Item>) => {
    const order = Array.from({ length: PARTITIONS }, (_, i) => (first + i) % PARTITIONS)
    first = (first + 1) % PARTITIONS
    const until = clock.now() + SWEEP_MS
    const found: Item[] = []
    const failures: unknown[] = []
    const seen = new Set<number>()

    const askSome = async (): Promise<void> => {
      const left = limit - found.length
      const asked = order.splice(0, enough(order, left))
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
        if (answer.value.more) rich.add(partition)
        else rich.delete(partition)
      }
    }
    do await askSome()
    while (found.length < limit && order.length > 0 && clock.now() < until)
    if (found.length === 0 && failures.length > 0) throw failures[0]
    return found
  }
}
