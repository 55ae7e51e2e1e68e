import type { EndedJobs, JobFigures, WaitingJobs } from '../../schema/jobs.ts'
import type { Ask } from './ask.ts'
import { ALL_PARTITIONS, partitioned, placeOf } from './jobs-partitions.ts'
import { script } from './script.ts'

const jobFigures = script('job_figures', { ...partitioned, args: [], reply: figuresOf })

/** The figures of all partitions together. */
export async function readJobFigures(ask: Ask): Promise<JobFigures> {
  const parts = await Promise.all(
    ALL_PARTITIONS.map((partition) => ask((redis) => jobFigures(redis, placeOf(partition)))),
  )
  return {
    waiting: joined(
      parts.flatMap(({ waiting }) => waiting),
      ({ kind, mode }) => `${kind} ${mode}`,
      (one, other) => ({
        ...one,
        ready: one.ready + other.ready,
        delayed: one.delayed + other.delayed,
        oldestMs: Math.max(one.oldestMs, other.oldestMs),
      }),
    ),
    ended: joined(
      parts.flatMap(({ ended }) => ended),
      ({ kind, status }) => `${kind} ${status}`,
      (one, other) => ({ ...one, jobs: one.jobs + other.jobs }),
    ),
  }
}

/** One item for all of a key. */
function joined<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  join: (one: Item, other: Item) => Item,
): Item[] {
  const byKey = new Map<string, Item>()
  for (const item of items) {
    const known = byKey.get(keyOf(item))
    byKey.set(keyOf(item), known === undefined ? item : join(known, item))
  }
  return [...byKey.values()]
}

function figuresOf(reply: unknown): JobFigures {
  const [waiting, ended] = Array.isArray(reply) ? reply : []
  if (!Array.isArray(waiting) || !Array.isArray(ended)) throw new Error('job_figures.lua replied no lists')
  return { waiting: waiting.map(waitingOf), ended: ended.map(endedOf) }
}

function waitingOf([kind, mode, ready, delayed, oldestMs]: unknown[]): WaitingJobs {
  const named = { kind, mode } as Pick<WaitingJobs, 'kind' | 'mode'>
  return { ...named, ready: Number(ready), delayed: Number(delayed), oldestMs: Number(oldestMs) }
}

function endedOf([kind, status, jobs]: unknown[]): EndedJobs {
  return { ...({ kind, status } as Pick<EndedJobs, 'kind' | 'status'>), jobs: Number(jobs) }
}
