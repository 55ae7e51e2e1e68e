import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { createLogger } from '../../src/contracts/log.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import type { Timing } from '../../src/gateway/node/timing.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { liveAudio } from '../support/live-audio.ts'
import { LiveClient } from '../support/live-rig.ts'
import { startMeteredNode } from '../support/metered-node.ts'
import { tempFolder } from '../support/scratch.ts'
import { readSegmentFile, segmentRecords, usageRecords } from '../support/usage-records.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

/** A second of audio. */
const AUDIO = { base64: filledWav(32_044, 1).toString('base64') }
const CALLERS = 6
/** Longer than records are gathered, and much longer than a turn of the loop takes. */
const GATHERED_MS = 500

t.test(
  'SIGKILL costs no record of a call whose caller has its answer, and whose money was settled',
  async (t) => {
    const node = await startMeteredNode(t)
    const acknowledged: { readonly id: string; readonly isKeyed: boolean; readonly atMs: number }[] = []
    let killedMs = 0
    async function caller(name: number): Promise<void> {
      for (let count = 0; killedMs === 0; count += 1) {
        const id = `caller.${name}.${count}`
        const isKeyed = count % 2 === 0
        // A call with a key is settled by itself, before its answer; of the others many are settled together, later.
        const headers = { 'x-lk-request-id': id, ...(isKeyed ? { 'idempotency-key': id } : {}) }
        const answered = isKeyed
          ? node.ask('POST', '/v1/transcription', { audio: AUDIO }, headers)
          : node.ask('POST', '/v1/chat', { messages: [{ role: 'user', content: 'hello' }] }, headers)
        const status = await answered.then((response) => response.status).catch(() => null)
        if (status === 200) acknowledged.push({ id, isKeyed, atMs: performance.now() })
        else if (status !== null) throw new Error(`${id}: ${status}`)
      }
    }
    const callers = Array.from({ length: CALLERS }, (_, name) => caller(name))
    // Some were gathered long ago, and one was answered just now.
    const isTime = () => {
      const nowMs = performance.now()
      const isOld = acknowledged.some(({ isKeyed, atMs }) => !isKeyed && atMs < nowMs - 2 * GATHERED_MS)
      const isNew = (acknowledged.findLast(({ isKeyed }) => isKeyed)?.atMs ?? 0) > nowMs - 50
      return acknowledged.length >= 150 && isOld && isNew
    }
    while (!isTime()) await sleep(5)
    killedMs = performance.now()
    await node.signal('SIGKILL')
    await Promise.all(callers)

    const records = await usageRecords(join(node.dataFolder, 'usage-segments'))
    const costs = new Map(records.map(({ request_id, cost_usd }) => [request_id, cost_usd]))
    t.equal(costs.size, records.length, 'each call has one')
    const settled = acknowledged.filter(({ isKeyed, atMs }) => isKeyed || atMs < killedMs - GATHERED_MS)
    t.ok(settled.some(({ isKeyed }) => !isKeyed) && settled.some(({ atMs }) => atMs > killedMs - 100))
    t.same(
      settled.filter(({ id }) => !((costs.get(id) ?? 0) > 0)).map(({ id }) => id),
      [],
    )
  },
)

const KEY = makeKey()
const AUTHORIZATION = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }

const PRICE = {
  per_hour_usd: 36,
  per_1k_characters_usd: 1,
  per_1m_input_tokens_usd: 1,
  per_1m_output_tokens_usd: 1,
  per_image_usd: 1,
  per_video_second_usd: 1,
}

/** Audio by files takes its provider longer than any process lives. */
function configuration(): object {
  const live = { features: [], hints: [], limits: {}, price: { per_hour_usd: 36 } }
  const entry = { provider: 'sandbox', model: 'morse-1', price: PRICE, live }
  return {
    providers: { sandbox: { kind: 'sandbox', access: 'platform' } },
    routes: {
      live: { workspace: 'acme', entries: [entry] },
      slow: { workspace: 'acme', entries: [{ ...entry, options: { delay_ms: 60_000 } }] },
    },
    workspaces: {
      acme: {
        credits_usd: 10,
        grant_id: 'first',
        purposes: { slow: {} },
        apps: { web: { route: 'live', purposes: { slow: 'slow' } } },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(KEY), scopes: ['inference', 'jobs'] }],
      },
    },
  }
}

async function listen(t: Test, { port }: Larkway): Promise<LiveClient> {
  const socket = new WebSocket(
    `ws://127.0.0.1:${port}/v1/transcription/stream?sample_rate=16000`,
    'larkway.v1',
    { headers: { authorization: `Bearer ${KEY}` } },
  )
  const caller = new LiveClient(t, socket)
  await caller.message('ready')
  return caller
}

async function askJobs({ url }: Larkway, method: string, path: string, body?: object) {
  const answer = await fetch(`${url}/v1/transcription/jobs${path}`, {
    method,
    headers: AUTHORIZATION,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return (await answer.json()) as { job_id: string; status: string; attempts: number }
}

t.test(
  'sessions that are open when a node dies, and jobs that no worker ends, have one record',
  { timeout: 120_000 },
  async (t) => {
    const dataFolder = await tempFolder(t)
    const segments = join(dataFolder, 'usage-segments')
    const start = (timing: Timing) =>
      startLarkway(t, {
        dataFolder,
        config: configuration(),
        env: { LARKWAY_USAGE: 'true', LARKWAY_JOBS: '1' },
        timing: {
          jobs: { leaseMs: 500, renewMs: 100, pollMs: [50, 50] },
          usage: { segmentMs: 300 },
          ...timing,
        },
      })
    let node = await start({ usageFiles: { abandonedMs: 600_000 }, usage: {} })
    const { pcm } = liveAudio('lark lark lark')
    const ended = await listen(t, node)
    const open = await listen(t, node)
    await Promise.all([ended, open].map((one) => one.speak(pcm.subarray(0, 64_000), 4)))
    ended.send({ type: 'end' })
    await ended.message('done')
    const { job_id: job } = await askJobs(node, 'POST', '', { audio: AUDIO, purpose: 'slow' })
    const hasBegun = async (attempt: number) => (await askJobs(node, 'GET', `/${job}`)).attempts === attempt
    t.ok(await waitUntil(() => hasBegun(1)))
    const { job_id: cancelled } = await askJobs(node, 'POST', '', { audio: AUDIO, purpose: 'slow' })
    t.match(await askJobs(node, 'DELETE', `/${cancelled}`), { status: 'cancelled' })
    const known = async () => {
      const files = await Promise.all((await openFiles(segments)).map((path) => readSegmentFile(path)))
      const records = files.flatMap((file) => segmentRecords(file))
      const last = new Map(records.map((record) => [record.record_id, record]))
      const isWhole = (one: UsageRecord) => one.audio_seconds === 2_000 && one.cost_usd === 20_000
      return last.size === 1 && [...last.values()].every(isWhole)
    }
    t.ok(await waitUntil(known), 'what is known of the open session is on the disk, and of no other')
    await listen(t, node)
    for (const attempt of [2, 3]) {
      await node.signal('SIGKILL')
      node = await start({})
      t.equal(
        await bookedIn(dataFolder),
        40_000,
        'two seconds of each session, and not the minute that was begun',
      )
      t.ok(await waitUntil(() => hasBegun(attempt)), `attempt ${attempt}`)
    }
    await node.signal('SIGKILL')
    node = await start({ usageFiles: { abandonedMs: 100 } })

    const recorded = async () => (await usageRecords(segments)).filter(({ kind }) => kind !== 'call')
    t.ok(await waitUntil(async () => (await recorded()).length >= 5, 20_000))
    await sleep(1_000)
    const records = await recorded()
    t.equal(new Set(records.map(({ record_id }) => record_id)).size, records.length, 'each once')
    const sessions = records.filter(({ kind }) => kind === 'session')
    t.same(sessions.map(({ outcome, error_code }) => [outcome, error_code]).sort(), [
      ['error', 'INTERNAL'],
      ['error', 'INTERNAL'],
      ['ok', null],
    ])
    const [young, dead] = sessions
      .filter(({ outcome }) => outcome === 'error')
      .sort((one, other) => (one.audio_seconds ?? 0) - (other.audio_seconds ?? 0))
    t.match(
      young,
      { status: 101, workspace: 'acme', audio_seconds: 0, cost_usd: 0 },
      'killed at its beginning',
    )
    t.match(dead, {
      status: 101,
      workspace: 'acme',
      key_id: 'key_web',
      audio_seconds: 2_000,
      cost_usd: 20_000,
      estimated: true,
    })
    t.match(dead, { provider: 'sandbox', model: 'morse-1', endpoint: 'GET /v1/transcription/stream' })
    const jobs = new Map(records.filter(({ kind }) => kind === 'job').map((one) => [one.job_id, one]))
    t.match(jobs.get(job), { outcome: 'error', error_code: 'INTERNAL', operation: 'transcription' })
    t.match(jobs.get(cancelled), { outcome: 'canceled', error_code: null, cost_usd: 0, workspace: 'acme' })
    t.equal(jobs.size, 2)
  },
)

t.test(
  'a job that has ended has its record, whenever its worker is killed',
  { timeout: 60_000 },
  async (t) => {
    const dataFolder = await tempFolder(t)
    const node = await startLarkway(t, {
      dataFolder,
      config: configuration(),
      env: { LARKWAY_USAGE: 'true', LARKWAY_JOBS: '1' },
      // Nothing is written for being gathered long enough.
      timing: { jobs: { pollMs: [50, 50] }, usage: { gatherMs: 60_000, syncMs: 60_000 } },
    })
    const { job_id: job } = await askJobs(node, 'POST', '', { audio: AUDIO })
    const isOver = async () => (await askJobs(node, 'GET', `/${job}`)).status === 'succeeded'
    t.ok(await waitUntil(isOver))
    await node.signal('SIGKILL')
    const records = await usageRecords(join(dataFolder, 'usage-segments'))
    t.match(records, [{ kind: 'job', record_id: job, outcome: 'ok', cost_usd: 10_000 }])
  },
)

/** What the workspace was charged for good, micro-USD. */
async function bookedIn(dataFolder: string): Promise<number> {
  const state = await openEmbeddedState({
    file: join(dataFolder, 'state.sqlite'),
    log: createLogger('silent'),
  })
  try {
    const { booked } = await state.accounts.show('acme', { grant: null, trial: null, budgetMicros: null })
    return booked.months.reduce((sum, { micros }) => sum + micros, 0)
  } finally {
    await state.close()
  }
}

/** Of each process what it knows of its open sessions. */
async function openFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => [])
  return names.filter((name) => name.endsWith('open-sessions')).map((name) => join(folder, name))
}
