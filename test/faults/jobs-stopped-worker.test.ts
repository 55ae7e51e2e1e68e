import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startFleet } from '../support/fleet.ts'
import { JOB_TIMING, jobTenants, submitJob } from '../support/fleet-jobs.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

t.setTimeout(300_000)

const JOBS = 100
/** Twice the lease of a fleet, so that everything it had is long taken over. */
const STOPPED_MS = 20_000
const ENV = { LARKWAY_JOBS: '100', LARKWAY_JOBS_PER_WORKSPACE: '1000' }

t.test(
  'a worker that was stopped for twice its lease comes too late with everything that it has',
  async (t) => {
    const upstream = await startUpstream(t)
    const held = Promise.withResolvers<void>()
    upstream.behave('whisper-1', { before: () => held.promise, deltas: ['first'] })
    const fleet = await startFleet(t, {
      ...jobTenants({ upstreamUrl: upstream.url }),
      ...{ workers: 0, redis: { durable: true }, s3: 'shared', env: ENV, timing: JOB_TIMING },
    })
    const { jobs } = await fleet.openState()
    const stale = await fleet.startWorker()
    const authorization = fleet.authorizationOf('ws_0')
    const ids: string[] = []
    for (let i = 0; i < JOBS; i += 1) ids.push(await submitJob(() => fleet.node().url, authorization))
    t.ok(
      await waitUntil(() => upstream.received.length === JOBS, 60_000),
      'it has all of them at the provider',
    )

    process.kill(stale.pid, 'SIGSTOP')
    const stoppedMs = performance.now()
    upstream.behave('whisper-1', { deltas: ['second'] })
    await fleet.startWorker()
    const all = () => Promise.all(ids.map((id) => jobs.get(id)))
    const ended = await waitUntil(async () => {
      await sleep(500)
      return (await all()).every((job) => job?.status === 'succeeded')
    }, 90_000)
    t.ok(ended, 'another one has done them')
    const before = await all()

    await sleep(Math.max(0, STOPPED_MS - (performance.now() - stoppedMs)))
    // Its answers lie in its sockets when it wakes up.
    held.resolve()
    await sleep(1_000)
    process.kill(stale.pid, 'SIGCONT')
    const lateLines = () => stale.log.filter(({ msg, job_id: id }) => msg === 'job' && ids.includes(`${id}`))
    t.ok(await waitUntil(() => lateLines().length === JOBS, 60_000), 'it has come to an end with each')
    t.same(
      lateLines().filter(({ status }) => status === 'succeeded'),
      [],
      'and of none it could say that it has done it',
    )

    const after = await all()
    t.same(after, before, 'nothing has changed')
    for (const job of after) {
      const { text } = Object(job?.result) as { text: string }
      const line = job?.history.map(({ status, fence }) => `${status} ${fence}`).join(', ')
      t.equal(JSON.parse(text).content, 'second')
      t.equal(line, 'queued 0, processing 1, queued 1, processing 2, succeeded 2')
    }

    await submitJob(() => fleet.node().url, authorization)
    const worked = await waitUntil(async () => (await jobs.waiting()) === 0, 10_000)
    t.ok(worked, 'jobs are taken up as before')
  },
)
