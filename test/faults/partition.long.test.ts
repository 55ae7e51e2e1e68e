import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { AUDIO_SECONDS, ask, keyedUpload } from '../support/keyed-call.ts'
import { type LiveAudio, liveAudio } from '../support/live-audio.ts'
import { LiveClient } from '../support/live-rig.ts'
import { addReplica, startRedisCluster } from '../support/redis-cluster.ts'
import { startWatchedRedis } from '../support/redis-sentinel.ts'
import { startRedis } from '../support/redis-server.ts'
import { startServerLink } from '../support/server-link.ts'
import { withoutServers } from '../support/servers.ts'
import { NO_TERMS } from '../support/state-under-test.ts'
import { waitUntil } from '../support/wait-until.ts'

const CUT_MS = 120_000
const CREDITS_MICROS = 10_000_000
/** A second of live audio costs a thousandth of a dollar, and so does a call. */
const LIVE = { features: ['word_timestamps'], hints: [], limits: {}, price: { per_hour_usd: 3.6 } }
const HOUR_USD = 72
const CALL_MICROS = (HOUR_USD / 3_600) * AUDIO_SECONDS * 1_000_000
const SLICE_MICROS = 60_000
const SESSIONS = 2
const JOBS = 8
const CLUSTERED = ['ws_0', 'ws_1', 'ws_2', 'ws_3', 'ws_4', 'ws_5']
/** Place of the node that is cut off. */
const CUT = 1

const entryAt = (provider: string) => ({
  ...{ provider, model: 'morse-1', live: LIVE, price: { per_hour_usd: HOUR_USD } },
  ...{ capabilities: ['audio_input'], options: { delay_ms: 1_500 } },
})

/** Two nodes, of which the second reaches Redis by a line that can be cut. */
async function startNodes(t: Test) {
  const redis = await startRedis(t, { durable: true })
  const link = await startServerLink(t, redis.port)
  const fleet = await startFleet(t, {
    nodes: 1,
    redis: { url: redis.url },
    s3: 'shared',
    providers: {
      paid: { kind: 'sandbox', access: 'platform' },
      own: { kind: 'sandbox', access: 'byok', workspace: 'own' },
    },
    workspaces: {
      paid: { entries: [entryAt('paid')], terms: { credits_usd: 10, grant_id: 'first' } },
      own: { entries: [entryAt('own')] },
    },
  })
  await fleet.startNode({ env: { REDIS_URL: `redis://${link.host}` } })
  return { fleet, link }
}

const wordsOf = (count: number) =>
  Array.from({ length: count }, (_, word) => ['sos', 'abc', 'klm', 'xyz'][word % 4]).join(' ')

/** Opens a session, and speaks until all is said or the session is ended. */
async function open(t: Test, fleet: Fleet, workspace: string, { pcm }: LiveAudio, at = CUT) {
  const headers = { authorization: fleet.authorizationOf(workspace) }
  const address = `${fleet.node(at).url.replace('http', 'ws')}/v1/transcription/stream?sample_rate=16000`
  const caller = new LiveClient(t, new WebSocket(address, 'larkway.v1', { headers }))
  await caller.message('ready')
  const speak = async () => {
    await caller.speak(pcm)
    caller.send({ type: 'end' })
    return caller.closed
  }
  return { workspace, caller, code: speak() }
}

async function jobAt(fleet: Fleet, number: number): Promise<string> {
  const authorization = fleet.authorizationOf('paid')
  const headers = { authorization, 'content-type': 'audio/wav' }
  const body = new Uint8Array(keyedUpload(`job-${number}`, authorization).body)
  const answer = await fetch(`${fleet.node(0).url}/v1/transcription/jobs`, { method: 'POST', headers, body })
  return ((await answer.json()) as { job_id: string }).job_id
}

async function statusOf(fleet: Fleet, id: string): Promise<string> {
  const headers = { authorization: fleet.authorizationOf('paid') }
  const answer = await fetch(`${fleet.node(0).url}/v1/transcription/jobs/${id}`, { headers })
  return ((await answer.json()) as { status: string }).status
}

t.test(
  'a node that is cut from Redis for two minutes, with calls, jobs and live sessions',
  { skip: withoutServers, timeout: 400_000 },
  async (t) => {
    const { fleet, link } = await startNodes(t)
    const text = wordsOf(52)
    const audio = liveAudio(text)
    t.comment(`sessions of ${Math.round(audio.seconds)} s`)
    const sessions = await Promise.all(
      ['paid', 'own'].flatMap((workspace) =>
        Array.from({ length: SESSIONS }, () => open(t, fleet, workspace, audio)),
      ),
    )
    await Promise.all(sessions.map(({ caller }) => caller.message('final')))
    const jobs = await Promise.all(Array.from({ length: JOBS }, (_, number) => jobAt(fleet, number)))
    const isBegun = async () => {
      const statuses = await Promise.all(jobs.map((id) => statusOf(fleet, id)))
      return statuses.includes('processing')
    }
    t.ok(await waitUntil(isBegun, 10_000), 'jobs are under way')
    await link.cut()
    const cutMs = performance.now()
    const statuses = [new Set<unknown>(), new Set<unknown>()]
    let calls = 0
    for (let round = 0; performance.now() - cutMs < CUT_MS; round++) {
      for (const [at, seen] of statuses.entries()) {
        const upload = keyedUpload(`call-${round}-${at}`, fleet.authorizationOf('paid'))
        const { status } = await ask(fleet.node(at).port, upload)
        if (status === 200) calls += 1
        seen.add(status)
      }
      await sleep(5_000)
    }
    t.same([...statuses[0]!], [200], 'the other node answers')
    t.same([...statuses[CUT]!], [503], 'this one executes nothing whose key it cannot look up')
    await link.mend()

    for (const { workspace, code, caller } of sessions) {
      if (workspace === 'own') {
        t.equal(await code, 1000, 'what costs no credits goes on without Redis')
        t.equal(caller.text, text, 'and loses no word')
        continue
      }
      t.equal(await code, 4503)
      t.match(caller.of('error'), [{ error: { code: 'DEPENDENCY_UNAVAILABLE' } }])
      t.match(caller.of('going_away'), [{ reason: 'credits' }], 'told before, to go on at another node')
      t.ok(text.startsWith(caller.text) && caller.text.length > 20, 'up to the last second that was paid for')
    }
    const done = async () => {
      const statuses = await Promise.all(jobs.map((id) => statusOf(fleet, id)))
      return statuses.every((status) => status === 'succeeded')
    }
    t.ok(await waitUntil(done, 30_000), 'its jobs were taken over')
    const isReplayed = async () =>
      (await ask(fleet.node(CUT).port, keyedUpload('call-0-0', fleet.authorizationOf('paid')))).replayed
    t.ok(await waitUntil(isReplayed, 20_000), 'it has what the other one did meanwhile')

    const { accounts } = await fleet.openState()
    const account = () => accounts.show('paid', NO_TERMS)
    t.ok(await waitUntil(async () => (await account()).reservedMicros === 0, 30_000), 'nothing is held')
    const { creditsMicros, expired } = await account()
    const spent = SESSIONS * SLICE_MICROS + (calls + jobs.length) * CALL_MICROS
    t.equal(CREDITS_MICROS - creditsMicros - expired.micros, spent, 'each was charged once')
    t.comment(`${calls} calls, ${jobs.length} jobs, ${expired.count} charged by the lease of a job`)
  },
)

t.test(
  'a primary of Redis that is killed under live sessions on credits, and one that only hangs',
  { skip: withoutServers, timeout: 240_000 },
  async (t) => {
    const watched = await startWatchedRedis(t)
    const fleet = await startFleet(t, {
      nodes: 1,
      redis: { url: watched.url },
      providers: { paid: { kind: 'sandbox', access: 'platform' } },
      workspaces: { paid: { entries: [entryAt('paid')], terms: { credits_usd: 10, grant_id: 'first' } } },
    })
    const text = wordsOf(26)
    const audio = liveAudio(text)
    const opening = Array.from({ length: 4 }, () => open(t, fleet, 'paid', audio, 0))
    const sessions = await Promise.all(opening)
    await Promise.all(sessions.map(({ caller }) => caller.message('final')))
    watched.primary.freeze()
    await sleep(3_000)
    await watched.primary.kill()
    for (const { code, caller } of sessions) {
      t.equal(await code, 1000)
      t.equal(caller.text, text, 'no word is lost')
    }
    const costs = sessions.map(({ caller }) => Number(caller.of('done')[0]?.cost_usd))
    const { accounts } = await fleet.openState()
    const account = () => accounts.show('paid', NO_TERMS)
    t.ok(await waitUntil(async () => (await account()).reservedMicros === 0, 200_000))
    const { creditsMicros, expired } = await account()
    const spent = Math.round(costs.reduce((sum, cost) => sum + cost, 0) * 1_000_000)
    t.comment(`sessions of ${Math.round(audio.seconds)} s came to ${spent}, ${expired.micros} of leases`)
    t.equal(CREDITS_MICROS - creditsMicros, spent + expired.micros)
  },
)

t.test(
  'a primary of a Redis Cluster that is killed under live sessions, and a node that stands still meanwhile',
  { skip: withoutServers, timeout: 240_000 },
  async (t) => {
    const cluster = await startRedisCluster(t)
    const replica = await addReplica(t, cluster)
    const fleet = await startFleet(t, {
      nodes: 1,
      redis: { url: cluster.url },
      providers: { paid: { kind: 'sandbox', access: 'platform' } },
      // Their accounts are on all primaries.
      workspaces: Object.fromEntries(
        CLUSTERED.map((name) => [
          name,
          { entries: [entryAt('paid')], terms: { credits_usd: 10, grant_id: 'first' } },
        ]),
      ),
    })
    const text = wordsOf(26)
    const audio = liveAudio(text)
    const sessions = await Promise.all(CLUSTERED.map((name) => open(t, fleet, name, audio, 0)))
    await Promise.all(sessions.map(({ caller }) => caller.message('final')))
    await cluster.primaries[0]?.kill()
    process.kill(fleet.node(0).pid, 'SIGSTOP')
    const isPrimary = async () => (await replica.client.info('replication')).includes('role:master')
    t.ok(await waitUntil(isPrimary, 30_000), 'its replica takes over')
    process.kill(fleet.node(0).pid, 'SIGCONT')
    for (const { workspace, code, caller } of sessions) {
      t.equal(await code, 1000)
      t.equal(caller.text, text, `${workspace} loses no word`)
    }
    const { accounts } = await fleet.openState()
    for (const { workspace, caller } of sessions) {
      const account = () => accounts.show(workspace, NO_TERMS)
      t.ok(await waitUntil(async () => (await account()).reservedMicros === 0, 60_000))
      const { creditsMicros, expired } = await account()
      const cost = Math.round(Number(caller.of('done')[0]?.cost_usd) * 1_000_000)
      t.equal(CREDITS_MICROS - creditsMicros, cost + expired.micros, 'and is charged once')
    }
  },
)
