import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { openEmbeddedState } from '../../src/state/embedded/state.ts'
import { customersOf, startJobFleet } from '../support/job-fleet.ts'
import { startLarkway } from '../support/larkway.ts'
import { tempFolder } from '../support/scratch.ts'
import { assertJobsOutlive, type Chaos, startHurriedUpstream } from './jobs-chaos.ts'

t.setTimeout(600_000)

const WORKERS = 4
const WORKSPACES = 10
/** Places of dead workers are taken until their leases are over. */
const ENV = { LARKWAY_JOBS_PER_WORKSPACE: '10000' }
const isLong = process.env.LARKWAY_TEST_LONG === '1'
const SIZE = isLong ? { count: 20_000, killMs: 60_000 } : { count: 1_500, killMs: 15_000 }

t.test(`${SIZE.count} jobs on Redis, and workers that are killed`, async (t) => {
  await assertJobsOutlive(t, await startOnRedis(t), SIZE)
})

t.test(`${SIZE.count} jobs on one file, and the one process that is killed`, async (t) => {
  await assertJobsOutlive(t, await startEmbedded(t), SIZE)
})

async function startOnRedis(t: Test): Promise<Chaos> {
  const upstream = await startHurriedUpstream(t)
  const fleet = await startJobFleet(t, { upstreamUrl: upstream.url, workspaces: WORKSPACES, env: ENV })
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()))
  return {
    ...fleet,
    jobs: fleet.state.jobs,
    url: () => fleet.server.url,
    async kill() {
      const at = Math.floor(Math.random() * WORKERS)
      await workers[at]?.signal('SIGKILL')
      workers[at] = await fleet.startWorker()
    },
  }
}

async function startEmbedded(t: Test): Promise<Chaos> {
  const upstream = await startHurriedUpstream(t)
  const { config, customer } = customersOf({ upstreamUrl: upstream.url, workspaces: WORKSPACES })
  const dataFolder = await tempFolder(t)
  const env = { ...ENV, LARKWAY_INSECURE_WEBHOOKS: 'true' }
  const start = () => startLarkway(t, { config, dataFolder, env })
  let server = await start()
  const log = pino({ level: 'silent' })
  const state = await openEmbeddedState({ file: join(dataFolder, 'state.sqlite'), log })
  t.teardown(() => state.close())
  return {
    ...customer,
    jobs: state.jobs,
    url: () => server.url,
    async kill() {
      await server.signal('SIGKILL')
      server = await start()
    },
  }
}
