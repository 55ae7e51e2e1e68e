import { jobPartition } from '../../ids.ts'
import type { Job, JobKind, JobSpec, JobStatus, Jobs, KeptText, KnownJob } from '../../schema/jobs.ts'
import type { Ask } from './ask.ts'
import { readJobFigures } from './jobs-figures.ts'
import { ALL_PARTITIONS, listNewest, partitioned, placeOf } from './jobs-partitions.ts'
import { jobOf, listOf, recordOf } from './jobs-record.ts'
import { keys } from './keys.ts'
import { integerOf, textOf, textsOf } from './reply.ts'
import { script } from './script.ts'

/** Ids that one script looks up. */
const KNOWN_AT_ONCE = 500

const knownJobs = script('known_jobs', {
  ...partitioned,
  args: ['ids'],
  reply: (reply): (readonly [string, KnownJob])[] => {
    if (!Array.isArray(reply)) throw new Error('known_jobs.lua replied no list')
    return reply.map((item) => knownOf(textsOf(item)))
  },
})

/** Read by whoever asked: a record that cannot be read is a fault of ours, and not of Redis. */
const showJob = script('show_job', { ...partitioned, args: ['id'], reply: (reply) => reply })

const listJobs = script('list_jobs', {
  ...partitioned,
  args: ['workspace', 'kind', 'status', 'limit', 'offset'],
  reply: (reply) => listOf(reply, recordOf),
})

/** What shows jobs and changes nothing. */
export function createJobsView(ask: Ask): Pick<Jobs, 'get' | 'known' | 'list' | 'waiting' | 'figures'> {
  return {
    async get(id) {
      const partition = jobPartition(id)
      if (partition === null) return null
      return jobOf(await ask((redis) => showJob(redis, { ...placeOf(partition), id })))
    },
    async known(ids) {
      const lists = await Promise.all(
        batchesOf(ids).map(({ partition, batch }) =>
          ask((redis) => knownJobs(redis, { ...placeOf(partition), ids: JSON.stringify(batch) })),
        ),
      )
      return new Map(lists.flat())
    },
    list: ({ workspace, kind, status, limit }) =>
      listNewest<Job>(workspace, limit, {
        idOf: ({ id }) => id,
        atMsOf: ({ createdAtMs }) => createdAtMs,
        look: (place, range) => {
          const filter = { workspace: workspace ?? '', kind: kind ?? '', status: status ?? '' }
          return ask((redis) => listJobs(redis, { ...place, ...filter, ...range }))
        },
      }),
    async waiting() {
      const counts = await Promise.all(
        ALL_PARTITIONS.map((partition) => ask((redis) => redis.hget(keys.jobs(partition), 'waiting'))),
      )
      return counts.map(integerOf).reduce((sum, count) => sum + count, 0)
    },
    figures: () => readJobFigures(ask),
  }
}

/** Null: nothing, or what cannot be read, which must not keep the others from whoever asked. */
function readableIn<Value>(json: string | null | undefined): Value | null {
  try {
    return JSON.parse(json ?? '') as Value
  } catch {
    return null
  }
}

function knownOf([id, status, kind, fence, result, spec]: readonly (string | null)[]): readonly [
  string,
  KnownJob,
] {
  const known: KnownJob = {
    status: textOf(status) as JobStatus,
    kind: textOf(kind) as JobKind,
    fence: integerOf(fence),
    result: readableIn<KeptText>(result),
    work: readableIn<JobSpec>(spec)?.work ?? null,
  }
  return [textOf(id), known]
}

/** The ids by their partitions, as many at a time as a script takes. */
function batchesOf(ids: readonly string[]): { partition: number; batch: string[] }[] {
  const batches = new Map<number, string[][]>()
  for (const id of new Set(ids)) {
    const partition = jobPartition(id)
    if (partition === null) continue
    const lists = batches.get(partition) ?? []
    batches.set(partition, lists)
    const last = lists.at(-1)
    if (last && last.length < KNOWN_AT_ONCE) last.push(id)
    else lists.push([id])
  }
  return [...batches].flatMap(([partition, lists]) => lists.map((batch) => ({ partition, batch })))
}
