import t from 'tap'
import { startFleet } from '../support/fleet.ts'
import { JOB_TIMING, jobTenants, KILLED_JOB_TIMING } from '../support/fleet-jobs.ts'
import { assertJobsOutlive, startHurriedUpstream } from './jobs-chaos.ts'

t.setTimeout(600_000)
// Most of the time they wait for leases of what was killed. Each has options of its own: tap keeps results in them.
t.jobs = 2

const WORKERS = 4
const WORKSPACES = 10
/** Places of dead workers are taken until their leases are over. */
const ENV = { LARKWAY_JOBS_PER_WORKSPACE: '10000' }
const isLong = process.env.LARKWAY_TEST_LONG === '1'
const SIZE = isLong ? { count: 20_000, killMs: 60_000 } : { count: 600, killMs: 8_000 }

t.test(`${SIZE.count} jobs on Redis, and workers that are killed`, { buffered: true }, async (t) => {
  const upstream = await startHurriedUpstream(t)
  const fleet = await startFleet(t, {
    ...jobTenants({ upstreamUrl: upstream.url, workspaces: WORKSPACES }),
    ...{ redis: { durable: true }, s3: 'shared', workers: WORKERS, env: ENV, timing: JOB_TIMING },
  })
  await assertJobsOutlive(t, fleet, SIZE)
})

t.test(
  `${SIZE.count} jobs on one file, and the one process that is killed`,
  { buffered: true },
  async (t) => {
    const upstream = await startHurriedUpstream(t)
    const fleet = await startFleet(t, {
      ...jobTenants({ upstreamUrl: upstream.url, workspaces: WORKSPACES }),
      ...{ env: ENV, timing: KILLED_JOB_TIMING },
    })
    await assertJobsOutlive(t, fleet, SIZE)
  },
)
