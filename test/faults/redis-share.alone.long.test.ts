import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { ask, keyedUpload } from '../support/keyed-call.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'

/** `bench/redis-shares.json`, which the page on sizing is made of; absent: nothing is written. */
const RESULT = process.env.LARKWAY_TEST_REDIS_SHARES
const NODES_MAX = 3
const IDLE_SECONDS = 10
const COUNTS = { chat: 3_000, keyed: 500, job: 300 }
const AT_ONCE = 16
const PRICE = { per_hour_usd: 0.36, per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 2 }

/** CPU of Redis, microseconds: of an idle second of a node, and of one call of each kind. */
interface Shares {
  readonly nodes: number
  readonly idle: number
  readonly chat: number
  readonly keyed: number
  readonly job: number
}

const rounded = (one: Shares) =>
  Object.fromEntries(Object.entries(one).map(([name, micros]) => [name, Math.round(micros * 10) / 10]))

async function many(count: number, act: (number: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const caller = async () => {
    for (let number = next++; number < count; number = next++) await act(number)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, caller))
}

async function chat(fleet: Fleet, number: number): Promise<void> {
  const { url } = fleet.node(number % fleet.nodes.length)
  const headers = { authorization: fleet.authorizationOf('acme'), 'content-type': 'application/json' }
  const body = '{"messages":[{"role":"user","content":"hello"}]}'
  const response = await fetch(`${url}/v1/chat`, { method: 'POST', headers, body })
  await response.arrayBuffer()
  if (response.status !== 200) throw new Error(`status ${response.status}`)
}

async function job(fleet: Fleet, id: string): Promise<void> {
  const headers = { authorization: fleet.authorizationOf('acme'), 'content-type': 'audio/wav' }
  const body = new Uint8Array(keyedUpload(id, headers.authorization).body)
  const url = `${fleet.node(0).url}/v1/transcription/jobs`
  const { job_id } = (await (await fetch(url, { method: 'POST', headers, body })).json()) as {
    job_id: string
  }
  for (let status = ''; status !== 'succeeded'; ) {
    const view = await fetch(`${url}/${job_id}?wait=30`, { headers })
    status = ((await view.json()) as { status: string }).status
    if (!['queued', 'processing', 'succeeded'].includes(status)) throw new Error(`the job ${status}`)
  }
}

t.test(
  'what Redis does for a node, and for a call',
  { skip: withoutServers, timeout: 300_000 },
  async (t) => {
    const server = await startRedis(t, { durable: true })
    const redis = new Redis(server.url)
    t.teardown(() => redis.disconnect())
    const entry = { provider: 'paid', model: 'morse-1', capabilities: ['audio_input', 'text'], price: PRICE }
    const fleet = await startFleet(t, {
      ...{ nodes: 1, redis: { url: server.url }, s3: 'shared' },
      providers: { paid: { kind: 'sandbox', access: 'platform' } },
      workspaces: { acme: { entries: [entry], terms: { credits_usd: 1_000, grant_id: 'first' } } },
    })
    const cpuMicros = async () => {
      const report = await redis.info('cpu')
      const of = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(report)?.[1])
      return (of('used_cpu_sys') + of('used_cpu_user')) * 1_000_000
    }
    const each = async (count: number, work: () => Promise<unknown>) => {
      const before = await cpuMicros()
      await work()
      return ((await cpuMicros()) - before) / count
    }
    const shares: Shares[] = []
    for (let nodes = 1; nodes <= NODES_MAX; nodes++) {
      if (nodes > 1) await fleet.startNode()
      await many(200, (number) => chat(fleet, number))
      await sleep(3_000)
      const authorization = fleet.authorizationOf('acme')
      const keyed = (number: number) =>
        ask(fleet.node(number % nodes).port, keyedUpload(`${nodes}-${number}`, authorization))
      const idle = await each(IDLE_SECONDS * nodes, () => sleep(IDLE_SECONDS * 1_000))
      /** Without what the nodes would have taken in that time anyway. */
      const net = async (count: number, act: (number: number) => Promise<unknown>) => {
        const startMs = performance.now()
        const gross = await each(count, () => many(count, act))
        return gross - (idle * nodes * (performance.now() - startMs)) / 1_000 / count
      }
      shares.push({
        ...{ nodes, idle },
        chat: await net(COUNTS.chat, (number) => chat(fleet, number)),
        keyed: await net(COUNTS.keyed, keyed),
        job: await net(COUNTS.job, (number) => job(fleet, `${nodes}-${number}`)),
      })
    }
    t.comment(shares)
    const [one, , three] = shares
    t.ok(one && three && three.idle < 2 * one.idle, 'a node more costs what the first one did')
    t.ok(one && three && three.keyed < 2 * one.keyed, 'and so does a call under a key')
    t.ok(one && one.chat < one.keyed / 4, 'leases keep calls of a busy key away from Redis')
    if (RESULT === undefined) return
    const commit = execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], { encoding: 'utf8' }).trim()
    const report = { commit, at: new Date().toISOString(), shares: shares.map(rounded) }
    await writeFile(RESULT, `${JSON.stringify(report, null, 1)}\n`)
  },
)
