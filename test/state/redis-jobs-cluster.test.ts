import t from 'tap'
import { jobPartition } from '../../src/ids.ts'
import type { Job } from '../../src/schema/jobs.ts'
import { claimingOf, KEEP, SUCCESS, specOf } from '../support/jobs-under-test.ts'
import { beginToMove } from '../support/moving-slot.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { openRedisState } from '../support/redis-state.ts'
import { withoutServers } from '../support/servers.ts'
import { LONG_MS, newWorkspace } from '../support/state-under-test.ts'
import { waitUntil } from '../support/wait-until.ts'

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
