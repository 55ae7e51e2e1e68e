import { jobPartition } from '../ids.ts'
import type { Objects } from '../schema/objects.ts'

/** Jobs that the state is asked about at a time. */
const BATCH = 500

/** Which of the jobs have a record. */
export type KnownJobs = (ids: readonly string[]) => Promise<ReadonlySet<string>>

/**
 * Deletes what jobs kept, from before `before`, of which there is no record: of submissions that were cut short, and of
 * jobs that were purged while a worker that died had more of them than it could tell. A state that is away deletes
 * nothing, and neither does a name that is no id of a job.
 *
 * @returns how many objects went
 * @throws  GatewayError DEPENDENCY_UNAVAILABLE when the store or the state fails
 */
export async function sweepOrphans(objects: Objects, before: Date, knownJobs: KnownJobs): Promise<number> {
  let removed = 0
  let keysOf = new Map<string, string[]>()
  const settle = async () => {
    const batch = keysOf
    keysOf = new Map()
    const known = await knownJobs([...batch.keys()])
    for (const [id, keys] of batch) {
      if (known.has(id)) continue
      for (const key of keys) await objects.remove(key)
      removed += keys.length
    }
  }
  for (const kind of ['job/', 'result/'] as const) {
    for await (const { key, modifiedAt } of objects.list(kind)) {
      const id = key.split('/')[2] ?? ''
      if (!(modifiedAt < before) || jobPartition(id) === null) continue
      keysOf.set(id, [...(keysOf.get(id) ?? []), key])
      if (keysOf.size >= BATCH) await settle()
    }
  }
  if (keysOf.size > 0) await settle()
  return removed
}
