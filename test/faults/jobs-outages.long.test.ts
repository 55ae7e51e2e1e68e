import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { type Bell, JOB_TIMING, jobTenants, setWebhook, startBell, submitJob } from '../support/fleet-jobs.ts'
import type { LarkwayProcess } from '../support/larkway.ts'
import { cpuMsOf } from '../support/process-load.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { type S3Server, startS3 } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

t.setTimeout(400_000)
// They wait for one another's outages otherwise. Each has options of its own: tap keeps results in them.
t.jobs = 3

/** At least so many, and as many as are handed in until the last outage is over: each comes while they are. */
const JOBS = process.env.LARKWAY_TEST_LONG === '1' ? 3_000 : 200
const CALLERS = 8
const WORKSPACES = 5
const WORKERS = 2
/** Of each worker. */
const PLACES = 16
const ENV = { LARKWAY_JOBS: `${PLACES}`, LARKWAY_JOBS_PER_WORKSPACE: '1000' }
/** The pause of a caller between two jobs. */
const PAUSE_MS = 250
const ENDED = ['succeeded', 'failed', 'cancelled']
/** A lease of 10 s, which what was sent before an outage may have taken at its end, and the longest pauses. */
const ENDED_MS = 75_000
/** The lease of an event is 20 s. */
const DELIVERED_MS = 90_000
/** What a worker may use while the state is away: it tries to connect again once a second. */
const CPU_SHARE = 0.25
/** Lines that may say that something is away, or is back; beside them each job says once what became of it. */
const LINES = 20

interface Rig extends Fleet {
  readonly redis: RedisServer
  readonly bell: Bell
}

/** What a process has used and said since it was looked at. */
interface Load {
  /** Processor time, in the program and in the kernel for it. */
  readonly cpuMs: number
  readonly lines: number
  readonly ms: number
}

/** Looks at a process. @returns tells its load from then on */
async function loadOf({ pid, log }: LarkwayProcess): Promise<() => Promise<Load>> {
  const [cpuMs, lines, startedMs] = [await cpuMsOf(pid), log.length, performance.now()]
  return async () => ({
    cpuMs: (await cpuMsOf(pid)) - cpuMs,
    lines: log.length - lines,
    ms: performance.now() - startedMs,
  })
}

/** Breaks something, and makes it well again. */
type Outage = (rig: Rig) => Promise<void>

async function startRig(t: Test, s3: S3Server | 'shared'): Promise<Rig> {
  const upstream = await startUpstream(t)
  upstream.behave('whisper-1', { before: () => sleep(Math.random() * 400) })
  const fleet = await startFleet(t, {
    ...jobTenants({ upstreamUrl: upstream.url, workspaces: WORKSPACES }),
    ...{ workers: WORKERS, redis: { durable: true }, s3, env: ENV, timing: JOB_TIMING },
  })
  const bell = await startBell(t)
  for (const workspace of fleet.workspaces) {
    await setWebhook(fleet.node().url, workspace, fleet.authorizationOf(workspace), bell.url)
  }
  return { ...fleet, bell }
}

/** Hands jobs in all the time, has the outages meanwhile, and looks what became of everything. */
async function assertOutlived(t: Test, rig: Rig, outages: readonly Outage[]): Promise<void> {
  const { workers, bell } = rig
  const [server, state] = [rig.node(), await rig.openState()]
  const ids: string[] = []
  const refused = new Set<string>()
  const note = (answer: string) => void refused.add(answer)
  let isOver = false
  const handingIn = Promise.all(
    Array.from({ length: CALLERS }, async (_, caller) => {
      for (let at = caller; at < JOBS || !isOver; at += CALLERS) {
        const authorization = rig.authorizationOf(`ws_${at % WORKSPACES}`)
        ids.push(await submitJob(() => server.url, authorization, undefined, note))
        await sleep(PAUSE_MS * (0.5 + Math.random()))
      }
    }),
  )
  for (const [at, outage] of outages.entries()) {
    const share = (at + 1) / (outages.length + 2)
    if (!(await waitUntil(() => ids.length >= JOBS * share, 60_000))) t.fail('nothing goes on')
    await outage(rig)
  }
  isOver = true
  await handingIn
  t.same([...refused].sort(), ['503 DEPENDENCY_UNAVAILABLE'], 'callers were told when something was away')

  const all = () => Promise.all(ids.map((id) => state.jobs.get(id)))
  let open: readonly string[] = ids
  const ended = await waitUntil(async () => {
    await sleep(250)
    // The state may still be busy with what had waited for it.
    const jobs = await Promise.all(open.map((id) => state.jobs.get(id))).catch(() => null)
    if (jobs !== null) open = open.filter((_, at) => !ENDED.includes(jobs[at]?.status ?? 'lost'))
    return open.length === 0
  }, ENDED_MS)
  t.ok(ended, 'every job has ended by itself')
  const jobs = await all()
  const statuses: Record<string, number> = {}
  for (const [at, job] of jobs.entries()) {
    const status = job?.status ?? 'lost'
    statuses[status] = (statuses[status] ?? 0) + 1
    const ends = job?.history.filter(({ status }) => ENDED.includes(status)) ?? []
    if (ends.length !== 1) t.fail(`${ids[at]}: ${JSON.stringify(job?.history)}`)
    if (status === 'failed') t.comment(`${ids[at]}: ${JSON.stringify(job?.error)}`)
  }
  t.same(statuses, { succeeded: ids.length })
  t.ok(await waitUntil(() => ids.every((id) => bell.told.has(id)), DELIVERED_MS), 'every end is told')
  const lies = ids.filter((id) => bell.told.get(id)?.some((status) => status !== 'succeeded'))
  t.same(lies, [], 'and told as it is')
  t.same(await all(), jobs, 'and nothing has changed since')
  const stalled = jobs.filter((job) => job !== null && job.stalled > 0).length
  const returns = jobs.filter((job) => job !== null && job.returns > 0).length
  t.comment(`${stalled} jobs were left to their leases, ${returns} were put back`)
  const errors = [server, ...workers].flatMap(({ log }) => log.filter(({ level }) => level === 'error'))
  t.same(errors.slice(0, 3), [], 'nothing is wrong with any process')
}

/** Something is away for so long; the workers, and the server, are at rest meanwhile. */
function away(t: Test, ms: number, leave: Outage, back: Outage): Outage {
  return async (rig) => {
    await leave(rig)
    const loads = await Promise.all(rig.workers.map(loadOf))
    await sleep(ms)
    const used: Load[] = await Promise.all(loads.map((load) => load()))
    await back(rig)
    for (const { cpuMs, lines, ms } of used) {
      const most = Math.max(400, ms * CPU_SHARE)
      t.ok(cpuMs < most, `a worker used ${cpuMs} ms of processor time in ${Math.round(ms)} ms`)
      t.ok(lines <= LINES + 4 * PLACES, `and wrote ${lines} lines`)
    }
  }
}

const freeze = async ({ redis }: Rig) => redis.freeze()
const thaw = async ({ redis }: Rig) => redis.thaw()

// A submission is repeated for 5 s, and its last try takes 2 at most: after that its caller is told, and not before.
t.test('Redis is killed, and stands still for 8 s', { buffered: true, skip: withoutServers }, async (t) => {
  const rig = await startRig(t, 'shared')
  const kill: Outage = ({ redis }) => redis.kill()
  const restart: Outage = ({ redis }) => redis.restart()
  await assertOutlived(t, rig, [away(t, 2_000, kill, restart), away(t, 8_000, freeze, thaw)])
})

t.test('Redis stands still for longer than a lease', { buffered: true, skip: withoutServers }, async (t) => {
  await assertOutlived(t, await startRig(t, 'shared'), [away(t, 35_000, freeze, thaw)])
})

t.test(
  'the object store is killed, and stands still',
  { buffered: true, skip: withoutServers },
  async (t) => {
    const s3 = await startS3(t)
    const rig = await startRig(t, s3)
    const kill: Outage = () => s3.kill()
    const restart: Outage = () => s3.restart()
    const stand: Outage = async () => s3.freeze()
    const goOn: Outage = async () => s3.thaw()
    await assertOutlived(t, rig, [away(t, 3_000, kill, restart), away(t, 8_000, stand, goOn)])
  },
)
