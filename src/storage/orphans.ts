import { jobPartition } from '../ids.ts'
import type { KnownJob } from '../schema/jobs.ts'
import type { ObjectInfo, Objects } from '../schema/objects.ts'
import { keyOf } from './job-objects.ts'

/** Jobs that the state is asked about at a time. */
const BATCH = 500

/** Those of the jobs that have a record, and what that needs. */
export type KnownJobs = (ids: readonly string[]) => Promise<ReadonlyMap<string, KnownJob>>

/**
 * Deletes what was kept for jobs, from before `before`, and what no job needs any more: of submissions that were cut
 * short, of workers that were killed behind the end of a job or behind the loss of it, and of jobs that ended without a
 * worker. A state that is away deletes nothing, and neither does a name that is no id of a job.
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
      const job = known.get(id)
      const needless = keys.filter((key) => job === undefined || !isNeeded(key, job))
      for (const key of needless) await objects.remove(key)
      removed += needless.length
    }
  }
  for await (const { key, modifiedAt } of keptForJobs(objects)) {
    const id = key.split('/')[2] ?? ''
    if (!(modifiedAt < before) || jobPartition(id) === null) continue
    const keys = keysOf.get(id)
    if (keys === undefined) keysOf.set(id, [key])
    else keys.push(key)
    if (keysOf.size >= BATCH) await settle()
  }
  if (keysOf.size > 0) await settle()
  return removed
}

async function* keptForJobs(objects: Pick<Objects, 'list'>): AsyncGenerator<ObjectInfo> {
  for (const kind of ['job/', 'result/'] as const) yield* objects.list(kind)
}

/** By what its record says now, which is newer than the object. */
function isNeeded(key: string, { status, fence, result, work }: KnownJob): boolean {
  const [kind, , , name = ''] = key.split('/')
  const hasEnded = status !== 'queued' && status !== 'processing'
  if (kind === 'job')
    return !hasEnded || (work !== null && keyOf('audio' in work ? work.audio : work.payload) === key)
  if (result !== null) return keyOf(result) === key
  // Of the claim that is in force, which has yet to end: every claim has its fence before the names of its results.
  return !hasEnded && Number.parseInt(name, 10) >= fence
}
