import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { readEnvironment } from '../../src/gateway/node/config.ts'
import { openObjects } from '../../src/gateway/node/stores.ts'
import { Dice } from '../support/dice.ts'
import { scrape } from '../support/exposition.ts'
import { startGateway } from '../support/gateway.ts'
import { startLarkway } from '../support/larkway.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { openBucket } from '../support/s3-server.ts'
import { tempFolder } from '../support/scratch.ts'
import { withoutServers } from '../support/servers.ts'
import { sharedS3 } from '../support/shared-s3.ts'
import { lakeOf, putRecords, randomRecord } from '../support/usage-lake.ts'
import { waitUntil } from '../support/wait-until.ts'

const DAY_MS = 86_400_000
const CALLERS = {
  acme: ['inference', 'admin'],
  beta: ['inference', 'admin'],
  /** Of the workspace beta. */
  operator: ['operator'],
  caller: ['inference'],
} as const
type Caller = keyof typeof CALLERS

const keys = Object.fromEntries(Object.keys(CALLERS).map((name) => [name, makeKey()])) as Record<
  Caller,
  string
>

const PRICE = {
  per_hour_usd: 36,
  per_1k_characters_usd: 1,
  per_1m_input_tokens_usd: 1,
  per_1m_output_tokens_usd: 1,
  per_image_usd: 1,
  per_video_second_usd: 1,
}

function configuration(): object {
  const key = (name: Caller) => {
    return { id: `key_${name}`, app: 'web', sha256: hashKey(keys[name]), scopes: CALLERS[name] }
  }
  const route = (workspace: string) => ({
    workspace,
    entries: [{ provider: 'sandbox', model: 'morse-1', price: PRICE }],
  })
  return {
    usage: { retention_days: 30 },
    providers: { sandbox: { kind: 'sandbox', access: 'platform' } },
    routes: { acme: route('acme'), beta: route('beta') },
    workspaces: {
      acme: {
        usage: { retention_days: 3 },
        credits_usd: 1,
        grant_id: 'a',
        apps: { web: { route: 'acme' } },
        keys: [key('acme'), key('caller')],
      },
      beta: {
        credits_usd: 1,
        grant_id: 'b',
        apps: { web: { route: 'beta' } },
        keys: [key('beta'), key('operator')],
      },
    },
  }
}

interface Report {
  readonly complete_until: string
  readonly data: readonly { readonly workspace: string; readonly calls: number }[]
  readonly total: { readonly calls: number }
}

async function ask(url: string, caller: Caller, query = ''): Promise<{ status: number; body: Report }> {
  const from = new Date(Date.now() - 60 * DAY_MS).toISOString()
  const response = await fetch(`${url}/v1/usage?from=${from}${query}`, {
    headers: { authorization: `Bearer ${keys[caller]}` },
  })
  return { status: response.status, body: (await response.json()) as Report }
}

/** Calls by workspace. */
async function callsOf(url: string, caller: Caller, query = ''): Promise<Record<string, number>> {
  const { status, body } = await ask(url, caller, `&by=workspace${query}`)
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`)
  return Object.fromEntries(body.data.map(({ workspace, calls }) => [workspace, calls]))
}

async function completeUntil(url: string): Promise<number> {
  return Date.parse((await ask(url, 'operator')).body.complete_until)
}

/** The environment of nodes that share a Redis and a bucket. Each names the folder of its segments. */
async function sharedBy(t: Test, redis: RedisServer) {
  const folder = await tempFolder(t)
  const bucket = await openBucket(t, await sharedS3(t))
  const env = { REDIS_URL: redis.url, LARKWAY_USAGE: 'true', LARKWAY_METRICS_PORT: '0', ...bucket.env }
  const nodeWith = (segments: string) => ({
    config: configuration(),
    env: { ...env, LARKWAY_USAGE_FOLDER: join(folder, segments), LARKWAY_SECRET_KEYS: SECRET_KEYS },
  })
  return { env, nodeWith }
}

const SECRET_KEYS = Buffer.alloc(32, 'k').toString('base64')

/** What some weeks have left: of each workspace 100 records on some days. */
async function fill(env: Readonly<Record<string, string>>, ages: readonly number[]): Promise<void> {
  const objects = await openObjects(readEnvironment(env))
  const lake = lakeOf(objects)
  const today = Date.now() - (Date.now() % DAY_MS)
  for (const age of ages) {
    const fromMs = today - age * DAY_MS
    const records = ['acme', 'beta'].flatMap((workspace) =>
      Array.from({ length: 100 }, (_, at): UsageRecord => {
        const id = `use_${workspace}_${age}_${at}`
        return { ...randomRecord(new Dice(at), id, { fromMs, toMs: fromMs + DAY_MS }), workspace }
      }),
    )
    await putRecords(lake, records, `seg_${age}`)
  }
  await objects.close()
}

const options = { skip: withoutServers, timeout: 300_000 }

t.test('nodes of one ledger: who may ask, what is kept, and how far it is complete', options, async (t) => {
  const redis = await startRedis(t)
  const { env, nodeWith } = await sharedBy(t, redis)
  await fill(env, [2, 10, 40])
  const usage = { segmentMs: 200 }
  const usageFiles = { intervalMs: 300, graceMs: 0, noteMs: 50 }
  const asked = await startGateway(t, { ...nodeWith('one'), timing: { usage, usageFiles } })
  await keepsByWorkspace(t, asked.url)
  await answersEachItsOwn(t, asked.url)
  await countsCompactions(t, Number(asked.log.find(({ msg }) => msg === 'listening')?.metrics_port))

  const quiet = { usageFiles: { ...usageFiles, intervalMs: 10 * DAY_MS } }
  const other = await startLarkway(t, { ...nodeWith('two'), timing: quiet })
  t.ok(await waitUntil(async () => (await completeUntil(asked.url)) > Date.now() - 1_000))
  const before = (await callsOf(asked.url, 'acme')).acme ?? 0
  const calledMs = Date.now()
  const called = await fetch(`${other.url}/v1/chat`, {
    method: 'POST',
    headers: { authorization: `Bearer ${keys.caller}`, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
  })
  t.equal(called.status, 200)
  const endedMs = Date.now()
  await sleep(1_000)
  const held = await completeUntil(asked.url)
  t.ok(held >= calledMs - 1_000 && held <= endedMs, `held back at ${held}, called from ${calledMs} on`)
  await other.signal('SIGKILL')
  await sleep(500)
  t.equal(await completeUntil(asked.url), held, 'a dead node holds it back')
  t.equal((await callsOf(asked.url, 'acme')).acme, before)

  const next = await startLarkway(t, { ...nodeWith('two'), timing: { usage, ...quiet } })
  t.ok(await waitUntil(async () => (await completeUntil(asked.url)) > endedMs), 'until another takes over')
  t.equal((await callsOf(asked.url, 'acme')).acme, before + 1, 'then its record is there')
  t.equal(await next.signal('SIGTERM'), 0)
  await waitUntil(async () => (await completeUntil(asked.url)) > Date.now() - 500)
  redis.freeze()
  const known = await completeUntil(asked.url)
  await sleep(300)
  t.equal(await completeUntil(asked.url), known, 'without Redis it does not move')
  redis.thaw()
  t.ok(await waitUntil(async () => (await completeUntil(asked.url)) > known + 500))
})

async function keepsByWorkspace(t: Test, url: string): Promise<void> {
  let calls: unknown
  const isKept = async () => {
    calls = await callsOf(url, 'operator')
    return JSON.stringify(calls) === '{"beta":200,"acme":100}'
  }
  t.ok(await waitUntil(isKept), JSON.stringify(calls))
}

async function answersEachItsOwn(t: Test, url: string): Promise<void> {
  t.same(await callsOf(url, 'operator'), { beta: 200, acme: 100 })
  t.same(await callsOf(url, 'operator', '&workspace=acme'), { acme: 100 })
  t.same(await callsOf(url, 'operator', '&workspace=nobody'), {})
  for (const [caller, own, foreign, count] of [
    ['acme', 'acme', 'beta', 100],
    ['beta', 'beta', 'acme', 200],
  ] as const) {
    t.same(await callsOf(url, caller), { [own]: count })
    t.same(await callsOf(url, caller, `&workspace=${own}`), { [own]: count })
    t.equal((await ask(url, caller)).body.total.calls, count, 'nor do the sums tell of others')
    for (const named of [foreign, 'nobody', '', `${own}&workspace=${foreign}`]) {
      const refused = await ask(url, caller, `&workspace=${named}`)
      t.match(refused, { status: 404, body: { error: { code: 'NOT_FOUND', param: 'workspace' } } }, named)
    }
  }
  t.match(await ask(url, 'caller'), { status: 403, body: { error: { code: 'PERMISSION_DENIED' } } })
  for (const [limit, isCut] of [
    [1, 'true'],
    [2, 'false'],
  ] as const) {
    const csv = await fetch(`${url}/v1/usage?by=workspace&format=csv&limit=${limit}`, {
      headers: { authorization: `Bearer ${keys.operator}` },
    })
    t.equal((await csv.text()).trim().split('\n').length, 1 + limit)
    t.match(Object.fromEntries(csv.headers), { 'x-lk-groups': '2', 'x-lk-truncated': isCut })
  }
}

async function countsCompactions(t: Test, metricsPort: number): Promise<void> {
  const metrics = await scrape(metricsPort)
  const files = (event: string) => metrics.value('larkway_usage_files_total', { event })
  t.equal(files('merged'), 1, 'the file of two workspaces was written again')
  t.equal(files('replaced'), 1)
  t.equal(metrics.value('larkway_usage_file_records_total', { event: 'merged' }), 100)
  t.ok((metrics.value('larkway_usage_compactions_total', { outcome: 'done' }) ?? 0) > 0)
  t.equal(metrics.value('larkway_usage_compactions_total', { outcome: 'failed' }), 0)
}
