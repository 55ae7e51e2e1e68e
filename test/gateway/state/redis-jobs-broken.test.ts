import { Redis } from 'ioredis'
import t from 'tap'
import { jobPartition } from '../../../src/contracts/ids.ts'
import type { JobEnding, JobSpec } from '../../../src/contracts/jobs.ts'
import {
  claimingOf,
  FAILURE,
  KEEP,
  neighbours,
  OVER_MS,
  POISON,
  SHORT_MS,
  SOON_MS,
  SOON_OVER_MS,
  SUCCESS,
  specOf,
  takeExpired,
} from '../../support/jobs-under-test.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState, startsEmpty } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { beginningOf, LONG_MS, NO_TERMS, reserve } from '../../support/state-under-test.ts'

const SENDING = { limit: 16, leaseMs: LONG_MS, perWorkspace: 4, perAiling: 4 }
const ALL = { workspace: null, kind: null, status: null, limit: 100 }
const LATER: JobEnding = { state: 'queued', delayMs: SHORT_MS, counts: 'retry' }
const AT_ONCE = { transcriptionMs: SHORT_MS, queueMs: SHORT_MS, deadMs: SHORT_MS }

// What a server has lost, or an operator broken, concerns the one job that it was of.
t.test('a record that is broken keeps no other waiting', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const state = await openRedisState(t, url)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  const start = startsEmpty(state, [redis])
  const { jobs, outbox, ledger, accounts } = state

  const keyOf = ({ id }: JobSpec, name: string) => `lk:{jobs:${jobPartition(id)}}:${name}`
  const lose = (spec: JobSpec) => redis.del(keyOf(spec, `job:${spec.id}`))
  const garble = (spec: JobSpec, field = 'spec') => redis.hset(keyOf(spec, `job:${spec.id}`), field, '{')
  /** Two workspaces of one partition, the one with a broken job, and what another one is served by. */
  const placeOf = async () => {
    const { pass } = await start()
    const [broken = '', sound = ''] = neighbours(2)
    const submit = async (workspace: string, over: Partial<JobSpec> = {}) => {
      const spec = specOf(workspace, over)
      await jobs.submit({ spec, slot: null })
      return spec
    }
    const idsOf = async (over = {}) =>
      (await jobs.claim(claimingOf({ limit: 16, ...over }))).map(({ job }) => job.id)
    /** What a partition has besides its records. */
    const lists = async (spec: JobSpec) => {
      const names = await redis.keys(keyOf(spec, '*'))
      return names
        .map((name) => name.slice(keyOf(spec, '').length))
        .filter((name) => !/^(job|claim|event|app):/.test(name))
    }
    return { broken, sound, submit, idsOf, lists, pass }
  }

  t.test('a queued job is gone', async (t) => {
    const { broken, sound, submit, idsOf } = await placeOf()
    const gone = await submit(broken)
    const next = await submit(broken)
    const other = await submit(sound)
    await lose(gone)
    t.same((await idsOf()).sort(), [next.id, other.id].sort())
    t.equal(await jobs.waiting(), 0)
    t.equal(await redis.exists(keyOf(gone, `job:${gone.id}`)), 0, 'nothing is made of it')
    t.same(await redis.hgetall(keyOf(gone, 'running')), { [broken]: '1', [sound]: '1' })
    t.equal((await jobs.list(ALL)).length, 2)
  })

  t.test('a delayed job is gone', async (t) => {
    const { broken, sound, submit, idsOf, pass } = await placeOf()
    const gone = await submit(broken)
    const other = await submit(sound)
    t.equal((await idsOf()).length, 2)
    for (const { id } of [gone, other]) await jobs.end(id, 1, LATER, KEEP)
    await lose(gone)
    await pass(OVER_MS)
    t.same(await idsOf(), [other.id])
    t.equal(await jobs.waiting(), 0)
  })

  t.test('a running job is gone', async (t) => {
    const { broken, sound, submit, idsOf, lists, pass } = await placeOf()
    const gone = await submit(broken)
    const other = await submit(sound)
    t.equal((await idsOf({ leaseMs: 400, perWorkspace: 1 })).length, 2)
    const next = await submit(broken)
    t.same(await idsOf({ perWorkspace: 1, limit: 1 }), [], 'it has as many as it may have')
    await lose(gone)
    await pass(450)
    const ids = [...(await idsOf({ perWorkspace: 1 })), ...(await idsOf({ perWorkspace: 1 }))]
    t.same(ids.sort(), [next.id, other.id].sort(), 'its place is free')
    await jobs.end(next.id, 1, SUCCESS, KEEP)
    await jobs.end(other.id, 2, SUCCESS, KEEP)
    t.same((await lists(gone)).sort(), ['expiry', 'index'], 'and none counts as running')
  })

  t.test('a job that has ended is gone', async (t) => {
    const { broken, sound, submit, idsOf, pass } = await placeOf()
    const gone = await submit(broken)
    const other = await submit(sound)
    for (const id of await idsOf()) await jobs.end(id, 1, SUCCESS, AT_ONCE)
    await lose(gone)
    await pass(OVER_MS)
    t.match(await takeExpired(jobs, 1, 16), [{ id: other.id }])
    t.equal(await redis.exists(keyOf(gone, `job:${gone.id}`)), 0, 'nothing is made of it')
    await jobs.forget(other.id)
    t.same(await redis.zrangebyscore(keyOf(gone, 'index'), '-inf', '+inf'), [])
    t.same(await redis.zrangebyscore(keyOf(gone, 'expiry'), '-inf', '+inf'), [])
  })

  t.test('the list of a workspace is gone', async (t) => {
    const { broken, sound, submit, idsOf } = await placeOf()
    const gone = await submit(broken)
    const other = await submit(sound)
    await redis.del(keyOf(gone, `ready:priority:${broken}`))
    t.same(await idsOf(), [other.id])
    const next = await submit(broken)
    t.same(await idsOf(), [next.id])
  })

  t.test('a job cannot be read', async (t) => {
    const { broken, sound, submit, idsOf, pass } = await placeOf()
    const bad = await submit(broken, { kind: 'transcription' })
    const others = [await submit(broken), await submit(sound)].map(({ id }) => id)
    await garble(bad)
    t.same((await idsOf({ leaseMs: SOON_MS })).sort(), others.sort(), 'the others are handed out')
    t.same((await jobs.list(ALL)).map(({ id }) => id).sort(), others, 'and listed')
    for (const id of others) t.ok(await jobs.end(id, 1, SUCCESS, AT_ONCE))
    for (let claims = 1; claims < 3; claims++) {
      await pass(SOON_OVER_MS)
      t.same(await idsOf({ leaseMs: SOON_MS }), [])
    }
    await pass(SOON_OVER_MS)
    t.same(await idsOf({ keep: AT_ONCE }), [])
    const ended = await redis.hgetall(keyOf(bad, `job:${bad.id}`))
    t.match(ended, { status: 'failed', error: JSON.stringify(POISON) }, 'it is given up')
    t.match(await outbox.claim(SENDING), [{ jobId: bad.id, status: 'failed' }], 'and its end announced')
    await pass(OVER_MS)
    t.same(await jobs.list(ALL), [])
    t.same((await takeExpired(jobs, others.length, 16)).map(({ id }) => id).sort(), others)
  })

  t.test('an event is gone', async (t) => {
    const { broken, sound, submit, idsOf, lists, pass } = await placeOf()
    const [waits, flies, failed, other] = [
      await submit(broken, { kind: 'transcription' }),
      await submit(broken, { kind: 'transcription' }),
      await submit(broken, { kind: 'transcription' }),
      await submit(sound, { kind: 'transcription' }),
    ]
    t.equal((await idsOf()).length, 4)
    const loseEvent = (spec: JobSpec) => redis.del(keyOf(spec, `event:${spec.id}`))
    const send = async (leaseMs = LONG_MS) =>
      (await outbox.claim({ ...SENDING, leaseMs })).map(({ jobId }) => jobId)
    await jobs.end(failed.id, 1, FAILURE, KEEP)
    t.same(await send(), [failed.id])
    await outbox.end({ jobId: failed.id, attempts: 1 }, { state: 'given_up', reason: '', keepMs: LONG_MS })
    await jobs.end(flies.id, 1, SUCCESS, KEEP)
    t.same(await send(SOON_MS), [flies.id])
    await jobs.end(waits.id, 1, SUCCESS, KEEP)
    for (const spec of [waits, flies, failed]) await loseEvent(spec)
    await jobs.end(other.id, 1, SUCCESS, KEEP)
    t.match(await outbox.list(null, 10), [{ jobId: other.id }])
    await pass(SOON_OVER_MS)
    t.same(await send(), [other.id])
    t.same(await send(), [])
    t.equal(await redis.exists(keyOf(waits, `event:${waits.id}`)), 0, 'nothing is made of it')
    await outbox.end({ jobId: other.id, attempts: 1 }, { state: 'delivered' })
    const left = ['ailing', 'events', 'expiry', 'given_up', 'index']
    t.same((await lists(other)).sort(), left, 'no turn is left')
    t.same(await redis.zrangebyscore(keyOf(other, 'events'), '-inf', '+inf'), [failed.id])
    t.equal(await outbox.redeliver(waits.id), true)
    t.same(await send(), [waits.id], 'an event can be made anew out of its job')
  })

  t.test('what was set aside is gone', async (t) => {
    const { pass } = await start()
    const [workspace] = neighbours(1)
    const begin = (leaseMs: number) => {
      const beginning = beginningOf(workspace!, {
        reservation: reserve(0, { leaseMs }),
        claim: { number: 1 },
      })
      return ledger.begin(beginning).then(({ state }) => [state, beginning] as const)
    }
    for (const look of [() => begin(LONG_MS), () => accounts.show(workspace!, NO_TERMS)]) {
      const [, { token }] = await begin(1)
      await redis.hdel(`lk:{${workspace}}:reservations`, token)
      await pass(OVER_MS)
      await look()
      t.same(await redis.zscore(`lk:{${workspace}}:leases`, token), null)
    }
    const [, unleased] = await begin(LONG_MS)
    await redis.zrem(`lk:{${workspace}}:leases`, unleased.token)
    t.same(await ledger.begin({ ...unleased, claim: { number: 2 } }), { state: 'begun' })
  })
})
