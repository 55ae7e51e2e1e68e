import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Job } from '../../src/contracts/jobs.ts'
import type { State } from '../../src/contracts/state.ts'
import { type Fleet, startFleet } from '../support/fleet.ts'
import {
  type Bell,
  JOB_TIMING,
  jobTenants,
  KILLED_JOB_TIMING,
  setWebhook,
  startBell,
  submitJob,
} from '../support/fleet-jobs.ts'
import type { LarkwayProcess } from '../support/larkway.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

t.setTimeout(400_000)
// Most of the time they wait for jobs that do not end, and for leases.
// Each has options of its own: tap keeps results in them.
t.jobs = 4

/** Jobs at the provider when the process is told to stop; it answers every second one of them soon after that. */
const RUNNING = 50
const SOON_MS = 1_000
/** Jobs that have ended, and whose deliveries are under way then. */
const ANNOUNCED = 8
const TARGET_MS = 3_000
const POLLS = 10
/** How long jobs may go on when their process is to stop, and what a busy machine may take beside that. */
const GRACE_MS = 25_000
const SLACK_MS = 30_000
/** The lease of a job whose process has ended without a word, and then the job. */
const TAKEN_OVER_MS = 60_000
const ENV = { LARKWAY_JOBS: '64', LARKWAY_JOBS_PER_WORKSPACE: '1000' }

type StartFleet = (t: Test, options: ReturnType<typeof jobTenants>) => Promise<Fleet>

interface Rig extends Fleet {
  readonly state: State
  readonly upstream: Upstream
  readonly bell: Bell
  /** At the provider. */
  readonly running: readonly string[]
  readonly announced: readonly string[]
  readonly ids: readonly string[]
  /** Callers that wait for the end of jobs. */
  readonly polls: Promise<readonly PromiseSettledResult<{ status: string }>[]>
  /** Has the provider answer every second job of those that run. */
  answerSome(): void
}

async function startRig(t: Test, start: StartFleet): Promise<Rig> {
  const upstream = await startUpstream(t)
  const some = Promise.withResolvers<void>()
  let heard = 0
  const before = async () => {
    heard += 1
    if (heard > RUNNING) return
    await (heard % 2 === 0 ? some.promise : new Promise(() => {}))
  }
  upstream.behave('whisper-1', { before })
  const fleet = await start(t, jobTenants({ upstreamUrl: upstream.url }))
  const state = await fleet.openState()
  const url = () => fleet.node().url
  const [workspace = ''] = fleet.workspaces
  const authorization = fleet.authorizationOf(workspace)
  const bell = await startBell(t)
  bell.answerAfterMs = TARGET_MS
  await setWebhook(url(), workspace, authorization, bell.url)
  const submitMany = (count: number) =>
    Promise.all(Array.from({ length: count }, () => submitJob(url, authorization)))

  const running = await submitMany(RUNNING)
  t.ok(await waitUntil(() => upstream.received.length === RUNNING, 30_000), 'all are at the provider')
  const polls = Promise.allSettled(
    running.slice(0, POLLS).map(async (id) => {
      const path = `/v1/transcription/jobs/${id}?wait=30`
      return (await (await fetch(url() + path, { headers: { authorization } })).json()) as { status: string }
    }),
  )
  const announced = await submitMany(ANNOUNCED)
  t.ok(await waitUntil(() => bell.told.size === ANNOUNCED, 30_000), 'deliveries are under way')
  const ids = [...running, ...announced]
  return { ...fleet, state, upstream, bell, running, announced, ids, polls, answerSome: some.resolve }
}

function workerOf({ working }: Fleet): LarkwayProcess {
  const [worker] = working()
  if (worker === undefined) throw new Error('nobody works')
  return worker
}

async function jobsOf({ state }: Rig, ids: readonly string[]): Promise<readonly Job[]> {
  const jobs = await Promise.all(ids.map((id) => state.jobs.get(id)))
  return jobs.filter((job) => job !== null)
}

const stages = ({ history }: Job) => history.map(({ status }) => status).join(', ')
const DONE_AT_ONCE = 'queued, processing, succeeded'
const DONE_BY_THE_NEXT = 'queued, processing, queued, processing, succeeded'

async function assertAllSucceed(t: Test, rig: Rig, withinMs: number): Promise<readonly Job[]> {
  const ended = await waitUntil(async () => {
    await sleep(200)
    return (await jobsOf(rig, rig.ids)).every(({ endedAtMs }) => endedAtMs !== null)
  }, withinMs)
  t.ok(ended, 'all have ended')
  const jobs = await jobsOf(rig, rig.ids)
  t.equal(jobs.length, rig.ids.length, 'none is lost')
  t.same(new Set(jobs.map(({ status }) => status)), new Set(['succeeded']), 'all have succeeded')
  t.ok(await waitUntil(() => rig.ids.every((id) => rig.bell.told.has(id)), 30_000), 'every end is told')
  return jobs
}

async function drained(t: Test, start: StartFleet): Promise<void> {
  const rig = await startRig(t, start)
  const worker = workerOf(rig)
  const toldMs = performance.now()
  const exit = worker.signal('SIGTERM')
  setTimeout(() => rig.answerSome(), SOON_MS)
  const late = sleep(GRACE_MS + SLACK_MS, 'still there', { ref: false })
  t.equal(await Promise.race([exit, late]), 0, 'ends with status 0, in time')
  t.comment(`after ${Math.round(performance.now() - toldMs)} ms`)
  t.ok(await waitUntil(() => worker.log.at(-1)?.msg === 'stopped'))
  t.match(worker.log.at(-1), { held_bytes: 0, bodies: { arriving: 0, uploading: 0 } }, 'nothing is held')
  const broken = worker.log.filter(({ level }) => level === 'error' || level === 'fatal')
  t.same(broken, [], 'nothing broke')
  const polled = await rig.polls
  const refused = polled.filter((poll) => poll.status === 'rejected' || poll.value.status === undefined)
  t.same(refused, [], 'callers that waited were answered')

  const left = await jobsOf(rig, rig.running)
  const done = left.filter(({ status }) => status === 'succeeded')
  const back = left.filter(({ status }) => status === 'queued')
  t.equal(done.length, RUNNING / 2, 'what could end has ended')
  t.equal(back.length, RUNNING / 2, 'and the others were given back')
  for (const job of back) {
    t.match(job, { fence: 1, stalled: 0, retries: 0, returns: 0, error: null }, `${job.id}`)
  }

  rig.bell.answerAfterMs = 0
  await rig.kill()
  const jobs = await assertAllSucceed(t, rig, SLACK_MS)
  const backIds = new Set(back.map(({ id }) => id))
  for (const job of jobs) {
    t.equal(stages(job), backIds.has(job.id) ? DONE_BY_THE_NEXT : DONE_AT_ONCE)
    t.equal(job.stalled, 0)
  }
  const deliveries = [...rig.bell.told.values()].map(({ length }) => length)
  t.same(new Set(deliveries), new Set([1]), 'each end is told once')
}

async function broken(t: Test, start: StartFleet): Promise<void> {
  const rig = await startRig(t, start)
  const worker = workerOf(rig)
  void worker.signal('SIGTERM')
  t.ok(await waitUntil(() => worker.log.some(({ msg }) => msg === 'stopping')))
  const startedMs = performance.now()
  t.equal(await worker.signal('SIGTERM'), 1, 'ends with status 1')
  t.ok(performance.now() - startedMs < 5_000, 'at once')
  rig.bell.answerAfterMs = 0
  await rig.kill()
  const jobs = await assertAllSucceed(t, rig, TAKEN_OVER_MS)
  const stalled = jobs.filter(({ stalled }) => stalled > 0)
  t.same(stalled.map(({ id }) => id).sort(), [...rig.running].sort(), 'those that ran were taken over')
}

/** One worker, beside a server; all of them with one object store. */
const startOneWorker: StartFleet = (test, tenants) => {
  const servers = { redis: { durable: true }, s3: 'shared', workers: 1 } as const
  return startFleet(test, { ...tenants, ...servers, env: ENV, timing: JOB_TIMING })
}
const startEmbedded: StartFleet = (test, tenants) =>
  startFleet(test, { ...tenants, env: ENV, timing: KILLED_JOB_TIMING })

t.test('SIGTERM while a server works', { buffered: true }, (t) => drained(t, startEmbedded))
t.test('a second SIGTERM to a server', { buffered: true }, (t) => broken(t, startEmbedded))
t.test('SIGTERM while a worker works', { buffered: true, skip: withoutServers }, (t) =>
  drained(t, startOneWorker),
)
t.test('a second SIGTERM to a worker', { buffered: true, skip: withoutServers }, (t) =>
  broken(t, startOneWorker),
)
