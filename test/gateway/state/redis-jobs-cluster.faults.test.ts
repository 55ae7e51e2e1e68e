import t, { type Test } from 'tap'
import { jobPartition, PARTITIONS } from '../../../src/contracts/ids.ts'
import type { Job } from '../../../src/contracts/jobs.ts'
import type { State, StateHints } from '../../../src/contracts/state.ts'
import { claimingOf, KEEP, SUCCESS, specOf } from '../../support/jobs-under-test.ts'
import { beginToMove, startRedisCluster } from '../../support/redis-cluster.ts'
import { startWatchedRedis } from '../../support/redis-sentinel.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { LONG_MS, newWorkspace } from '../../support/state-under-test.ts'
import { waitUntil } from '../../support/wait-until.ts'

const SENDING = { limit: 16, leaseMs: LONG_MS, perWorkspace: 100, perAiling: 100 }

t.test('jobs of a partition that moves from node to node', { skip: withoutServers }, async (t) => {
  const cluster = await startRedisCluster(t)
  const { jobs, outbox } = await openRedisState(t, cluster.url)
  const workspace = newWorkspace()
  const partition = `lk:{jobs:${jobPartition(specOf(workspace).id)}}`
  const accepted = new Set<string>()
  const ended = new Map<string, Job>()
  const delivered = new Set<string>()
  let refused = 0
  const orElse = async <Answer>(answer: Promise<Answer>): Promise<Answer | null> =>
    answer.catch((error: { code?: string }) => {
      if (error.code !== 'DEPENDENCY_UNAVAILABLE') throw error
      refused += 1
      return null
    })
  const insist = async (act: () => Promise<unknown>) => {
    const isDone = async () => (await orElse(act().then(() => true))) ?? false
    if (!(await waitUntil(isDone))) throw new Error('the cluster does not answer')
  }

  let isOver = false
  const submitting = async () => {
    while (!isOver) {
      const spec = specOf(workspace, { kind: 'transcription' })
      await insist(() => jobs.submit({ spec, slot: null }))
      accepted.add(spec.id)
    }
  }
  const working = async () => {
    for (let idle = 0; idle < 3; ) {
      const claimed = (await orElse(jobs.claim(claimingOf({ limit: 4 })))) ?? []
      for (const { job } of claimed)
        await insist(async () => ended.set(job.id, (await jobs.end(job.id, job.fence, SUCCESS, KEEP))!))
      idle = claimed.length === 0 && isOver ? idle + 1 : 0
    }
  }
  const sending = async () => {
    for (let idle = 0; idle < 3; ) {
      const events = (await orElse(outbox.claim(SENDING))) ?? []
      for (const event of events) {
        await insist(() => outbox.end(event, { state: 'delivered' }))
        delivered.add(event.jobId)
      }
      idle = events.length === 0 && isOver && ended.size === accepted.size ? idle + 1 : 0
    }
  }
  const all = Promise.all([submitting(), working(), working(), sending()])

  t.ok(await waitUntil(() => ended.size > 20))
  const moving = await beginToMove(cluster, partition)
  // What all scripts begin with is there, and everything else is still here.
  await moving.move(partition)
  t.ok(await waitUntil(() => refused > 0), 'half of a partition is none')
  await moving.moveRest()
  const before = ended.size
  await moving.finish()
  t.ok(await waitUntil(() => ended.size > before + 20), 'it goes on')
  isOver = true
  await all

  t.equal(ended.size, accepted.size, `all ${accepted.size} jobs have ended`)
  t.equal(delivered.size, accepted.size, 'and their events were delivered')
  const stories = new Set(
    [...ended.values()].map(({ history }) => history.map(({ status }) => status).join()),
  )
  t.same([...stories], ['queued,processing,succeeded'], 'each at the first try')
  t.equal(await jobs.waiting(), 0)
  t.same(await outbox.list(null, 10), [])
  t.equal(await moving.left(), 0, 'nothing was written where the partition is no more')
  const moved = await moving.to.client.hgetall(`${partition}:running`)
  t.same(moved, {}, 'and none counts as running')
})

/** Has jobs queued in every partition, again and again, until somebody else was told of all of them and their ends. */
async function assertTold(t: Test, { jobs }: Pick<State, 'jobs'>, told: ReadonlySet<string>): Promise<void> {
  const parts = new Set<number>()
  const isTold = async () => {
    const spec = specOf(newWorkspace())
    parts.add(jobPartition(spec.id) ?? -1)
    await jobs.submit({ spec, slot: null })
    await jobs.cancel(spec.id, spec, KEEP)
    const queued = Array.from({ length: PARTITIONS }, (_, part) => `queued ${part}`)
    return told.has(spec.id) && queued.every((one) => told.has(one))
  }
  t.ok(await waitUntil(isTold, 20_000), `told of ${told.size} things`)
  t.equal(parts.size, PARTITIONS, 'of every partition')
}

function listener(): { readonly told: Set<string>; readonly hints: StateHints } {
  const told = new Set<string>()
  return {
    told,
    hints: {
      queued: (part) => void told.add(`queued ${part}`),
      changed: (id) => void told.add(id),
      settings: () => void told.add('settings'),
    },
  }
}

t.test('what happens on any node of a cluster is told to all', { skip: withoutServers }, async (t) => {
  const cluster = await startRedisCluster(t)
  const [own, other] = [await openRedisState(t, cluster.url), await openRedisState(t, cluster.url)]
  const { told, hints } = listener()
  other.listen(hints)
  await assertTold(t, own, told)
})

t.test(
  'and after Sentinels have made a replica the primary',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const { url, primary } = await startWatchedRedis(t)
    const [own, other] = [await openRedisState(t, url), await openRedisState(t, url)]
    const { told, hints } = listener()
    other.listen(hints)
    await assertTold(t, own, told)
    await primary.kill()
    t.ok(await waitUntil(() => own.healthy(), 60_000))
    told.clear()
    await waitUntil(() => other.healthy(), 20_000)
    await assertTold(t, own, told)
  },
)
