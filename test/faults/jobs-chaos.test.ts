import t from 'tap'
import { startEmbeddedFleet, startRedisFleet } from '../support/fleet-kinds.ts'
import { assertJobsOutlive, startHurriedUpstream } from './jobs-chaos.ts'

t.setTimeout(600_000)
// Most of the time they wait for leases of what was killed.
// Each has options of its own: tap keeps results in them.
t.jobs = 2

const WORKERS = 4
const WORKSPACES = 10
/** Places of dead workers are taken until their leases are over. */
const ENV = { LARKWAY_JOBS_PER_WORKSPACE: '10000' }
const isLong = process.env.LARKWAY_TEST_LONG === '1'
const SIZE = isLong ? { count: 20_000, killMs: 60_000 } : { count: 1_500, killMs: 15_000 }

t.test(`${SIZE.count} jobs on Redis, and workers that are killed`, { buffered: true }, async (t) => {
  const upstream = await startHurriedUpstream(t)
  const options = { upstreamUrl: upstream.url, workspaces: WORKSPACES, env: ENV }
  await assertJobsOutlive(t, await startRedisFleet(t, { ...options, workers: WORKERS }), SIZE)
})

t.test(
  `${SIZE.count} jobs on one file, and the one process that is killed`,
  { buffered: true },
  async (t) => {
    const upstream = await startHurriedUpstream(t)
    const options = { upstreamUrl: upstream.url, workspaces: WORKSPACES, env: ENV }
    await assertJobsOutlive(t, await startEmbeddedFleet(t, options), SIZE)
  },
)
