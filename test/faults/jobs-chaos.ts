import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import { JOB_STATUSES, type Job, type JobStatus, type Jobs } from '../../src/contracts/jobs.ts'
import { type Fleet, killNowAndThen } from '../support/fleet.ts'
import { setWebhook, startBell, submitJob } from '../support/fleet-jobs.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

const ENDED: ReadonlySet<JobStatus> = new Set(['succeeded', 'failed', 'cancelled'])
const CANCELLED_SHARE = 0.02
/** Callers that hand jobs in at the same time. */
const CALLERS = 24
/** Longest pause between an accepted job and its cancellation. */
const CANCEL_WITHIN_MS = 3_000
/** After the last kill: a lease of 10 s, its sweep, and the job itself. */
const SETTLED_MS = 45_000
/** Between two looks at all jobs, which cost those something who work. */
const LOOK_MS = 250
const LOOKED_AT_ONCE = 200
/** Behind the last end: an attempt of a killed sender is made again when its lease is over. */
const DELIVERED_MS = 100_000

export interface ChaosOptions {
  readonly count: number
  /**
   * How long processes are killed at least, also when all jobs have been handed in; at most twice as long, since nobody
   * can hand in anything while the one process that there is begins.
   */
  readonly killMs: number
}

/** A provider that hears everything at once, or a little later, so that kills also meet calls under way. */
export async function startHurriedUpstream(t: Pick<Test, 'teardown'>) {
  const upstream = await startUpstream(t)
  upstream.behave('whisper-1', { before: () => sleep(Math.random() * 40) })
  return upstream
}

/**
 * Hands jobs in, cancels a few, and kills processes meanwhile. Then every job has reached one state, once, has been
 * told of, and has succeeded but for those that were cancelled, or that three workers died of.
 */
export async function assertJobsOutlive(
  t: Test,
  fleet: Fleet,
  { count, killMs }: ChaosOptions,
): Promise<void> {
  const { workspaces, authorizationOf } = fleet
  const { jobs } = await fleet.openState()
  const url = () => fleet.node().url
  const bell = await startBell(t)
  for (const workspace of workspaces) {
    await setWebhook(url(), workspace, authorizationOf(workspace), bell.url)
  }
  const ids: string[] = []
  const cancellations = new Map<string, Promise<string | null>>()
  const startedMs = performance.now()
  let killing = true
  const kills = killNowAndThen(fleet, () => killing && performance.now() - startedMs < 2 * killMs)
  await Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      for (let at = caller; at < count; at += CALLERS) {
        const authorization = authorizationOf(workspaces[at % workspaces.length]!)
        const id = await submitJob(url, authorization)
        ids.push(id)
        if (Math.random() < CANCELLED_SHARE) cancellations.set(id, cancelSoon(url, id, authorization))
      }
    }),
  )
  const handedInMs = performance.now() - startedMs
  await waitUntil(async () => (await jobs.waiting()) === 0, Math.max(0, killMs - handedInMs))
  await sleep(Math.max(0, killMs - (performance.now() - startedMs)))
  killing = false
  const killed = await kills
  t.comment(`${count} jobs handed in within ${Math.round(handedInMs)} ms, ${killed} kills`)

  t.ok(await allEnd(jobs, ids), 'every job has ended within 45 s of the last kill')
  const answers = new Map<string, string | null>()
  for (const [id, answer] of cancellations) answers.set(id, await answer)
  const ended = await lookAt(jobs, ids)
  assertEnds(t, ended, answers)
  await waitUntil(() => ended.every(({ id }) => bell.told.has(id)), DELIVERED_MS)
  const untold = ended.filter(({ id }) => !bell.told.has(id))
  t.equal(untold.length, 0, 'every end is told')
  const lies = ended.filter(({ id, status }) => bell.told.get(id)?.some((told) => told !== status))
  t.equal(lies.length, 0, 'and told as it is')
  const later = await lookAt(jobs, ids)
  t.same(later, ended, 'and nothing has changed since')
  const deliveries = [...bell.told.values()].reduce((sum, { length }) => sum + length, 0)
  t.comment(`${deliveries} deliveries of ${ended.length} events`)
}

/** @returns what the job said of itself; null when nobody answered */
async function cancelSoon(url: () => string, id: string, authorization: string): Promise<string | null> {
  await sleep(Math.random() * CANCEL_WITHIN_MS)
  try {
    const path = `/v1/transcription/jobs/${id}`
    const response = await fetch(url() + path, { method: 'DELETE', headers: { authorization } })
    const { status } = (await response.json()) as { status?: string }
    return status ?? null
  } catch {
    return null
  }
}

/** A state that is busy has no two seconds for twenty thousand questions at once. */
async function lookAt(jobs: Pick<Jobs, 'get'>, ids: readonly string[]): Promise<Job[]> {
  const found: Job[] = []
  for (let from = 0; from < ids.length; from += LOOKED_AT_ONCE) {
    const looked = await Promise.all(ids.slice(from, from + LOOKED_AT_ONCE).map((id) => jobs.get(id)))
    for (const [at, job] of looked.entries()) {
      if (job === null) throw new Error(`${ids[from + at]} is lost`)
      found.push(job)
    }
  }
  return found
}

async function allEnd(jobs: Pick<Jobs, 'get'>, ids: readonly string[]): Promise<boolean> {
  let open = [...ids]
  return waitUntil(async () => {
    await sleep(LOOK_MS)
    try {
      open = (await lookAt(jobs, open)).filter(({ status }) => !ENDED.has(status)).map(({ id }) => id)
    } catch (error) {
      // Nothing is known of them by this look: the machine has too much to do to answer it in time.
      if (!(error instanceof GatewayError) || error.code !== 'DEPENDENCY_UNAVAILABLE') throw error
    }
    return open.length === 0
  }, SETTLED_MS)
}

function assertEnds(t: Test, ended: readonly Job[], cancelled: ReadonlyMap<string, string | null>): void {
  const counts = Object.fromEntries(JOB_STATUSES.map((status) => [status, 0])) as Record<JobStatus, number>
  let poisoned = 0
  for (const job of ended) {
    counts[job.status] += 1
    const ends = job.history.filter(({ status }) => ENDED.has(status))
    const said = cancelled.get(job.id)
    const isPoisoned = job.status === 'failed' && job.error?.code === 'INTERNAL' && job.fence >= 3
    if (isPoisoned) poisoned += 1
    if (ends.length !== 1) t.fail(`${job.id} ended ${ends.length} times`)
    if (job.history.at(-1)?.status !== job.status) t.fail(`${job.id} is ${job.status} and did not become it`)
    if (job.status === 'failed' && !isPoisoned) t.fail(`${job.id} failed: ${JSON.stringify(job.error)}`)
    if (job.status === 'cancelled' && !cancelled.has(job.id)) t.fail(`${job.id} was cancelled by nobody`)
    if (job.status === 'succeeded' && job.result === null) t.fail(`${job.id} has no result`)
    if (said !== undefined && said !== null && said !== 'processing' && said !== job.status) {
      t.fail(`${job.id} said that it is ${said}, and is ${job.status}`)
    }
  }
  const { succeeded, failed, cancelled: stopped } = counts
  t.equal(succeeded + failed + stopped, ended.length, `${JSON.stringify(counts)}`)
  t.equal(failed, poisoned, `${poisoned} jobs were taken up by three workers that were killed`)
}
