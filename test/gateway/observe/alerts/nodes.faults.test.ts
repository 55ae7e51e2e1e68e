import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../../../src/gateway/catalog/key.ts'
import { type Larkway, startLarkway } from '../../../support/larkway.ts'
import { startRedis } from '../../../support/redis-server.ts'
import { tempFolder } from '../../../support/scratch.ts'
import { withoutServers } from '../../../support/servers.ts'
import { waitUntil } from '../../../support/wait-until.ts'
import { answering, type Receiver, startReceiver } from '../../../support/webhook-receiver.ts'
import { isVerified } from '../../../support/webhook-signatures.ts'

t.setTimeout(180_000)

const SECRET = `whsec_${Buffer.alloc(32, 9).toString('base64')}`
const KEY = makeKey()
const TIMING = {
  alerts: { roundMs: 100 },
  recorder: { tickMs: 100, stepMs: 500 },
  deliveries: { pollMs: 100, schedule: { pausesMs: [50, 50, 50, 50], retryAfterMaxMs: 100 } },
}
/** A permit is free again so long after its holder was killed, and a busy machine is late. */
const TAKEOVER_MS = 40_000

interface Told {
  readonly type: string
  readonly rule: string
  readonly incident_id: string
  readonly subject: Readonly<Record<string, string>>
  readonly value: number | null
}

const toldTo = ({ received }: Receiver) => received.map(({ body }) => JSON.parse(body) as Told)
const typesOf = (receiver: Receiver, rule: string) =>
  toldTo(receiver)
    .filter((told) => told.rule === rule)
    .map(({ type }) => type)

function configuration(port: number, endsOn: string | null): object {
  const entry = { provider: 'ill', model: 'morse-1', options: { status: 500 } }
  return {
    alerts: {
      webhook: { url: `http://127.0.0.1:${port}/alerts`, secret: `\${ALERTS_SECRET}` },
      recover_after_seconds: 1,
      rules: {
        ends: { model_ends: { days: 30 } },
        errors: { error_share: { share: 0.5, window_seconds: 60, min_calls: 5 } },
      },
    },
    providers: { ill: { kind: 'sandbox', access: 'byok', workspace: 'acme' } },
    routes: {
      voice: { workspace: 'acme', entries: [{ ...entry, ...(endsOn === null ? {} : { ends_on: endsOn }) }] },
    },
    workspaces: {
      acme: {
        apps: { web: { route: 'voice' } },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(KEY) }],
      },
    },
  }
}

/** Eleven characters at 100 micro-USD each: an end user may have ten of these calls. */
const SPOKEN = { input: 'eleven char' }
const CALLS_MAX = 10

/** End users, whose ids are hashed, with a budget that is told of at its half. */
function withEndUsers(port: number, calls: number): object {
  const price = { per_1k_characters_usd: 0.1 }
  const entries = [{ provider: 'fine', model: 'morse-1', price }]
  const { alerts, workspaces } = configuration(port, null) as {
    alerts: object
    workspaces: { acme: object }
  }
  const budget = { per_month: (calls * SPOKEN.input.length * 100) / 1_000_000 }
  return {
    alerts: { ...alerts, rules: { customers: { end_user_budget: { share: 0.5 } } } },
    providers: { fine: { kind: 'sandbox', access: 'byok', workspace: 'acme' } },
    routes: { voice: { workspace: 'acme', entries } },
    workspaces: { acme: { ...workspaces.acme, end_users: { hash: true, budget_usd: budget } } },
  }
}

async function speakFor({ url }: Larkway, endUser: string): Promise<number> {
  const headers = {
    authorization: `Bearer ${KEY}`,
    'content-type': 'application/json',
    'x-lk-end-user': endUser,
  }
  const answer = await fetch(`${url}/v1/speech`, { method: 'POST', headers, body: JSON.stringify(SPOKEN) })
  await answer.arrayBuffer()
  return answer.status
}

async function start(
  t: Test,
  receiver: Receiver,
  env: Record<string, string>,
  dataFolder?: string,
  config = configuration(receiver.port, '2020-01-01'),
) {
  return startLarkway(t, {
    config,
    env: { LARKWAY_INSECURE_WEBHOOKS: 'true', ALERTS_SECRET: SECRET, ...env },
    timing: TIMING,
    ...(dataFolder === undefined ? {} : { dataFolder }),
  })
}

async function fail({ url }: Larkway, calls: number): Promise<void> {
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'a secret of the caller' }] })
  for (let call = 0; call < calls; call += 1) {
    const answer = await fetch(`${url}/v1/chat`, { method: 'POST', headers, body })
    await answer.text()
  }
}

/** Takes the end of its model out of the configuration, which is watched. */
async function keepModel({ dataFolder }: Larkway, receiver: Receiver): Promise<void> {
  await writeFile(join(dataFolder, 'larkway.yaml'), JSON.stringify(configuration(receiver.port, null)))
}

t.test('a server that was killed tells nothing again, and ends what it had begun', async (t) => {
  // It refuses first, so that there is a delivery to be gone on with.
  const receiver = await startReceiver(
    t,
    (line, delivery) => answering(receiver.received.length > 1 ? 204 : 503)(line, delivery),
    { names: null },
  )
  const folder = await tempFolder(t)
  const first = await start(t, receiver, {}, folder)
  await fail(first, 8)
  t.ok(await waitUntil(() => typesOf(receiver, 'errors').length > 0, 20_000), 'failing calls are told of')
  t.ok(await waitUntil(() => typesOf(receiver, 'ends').length > 0, 20_000))
  await sleep(500)
  await first.signal('SIGKILL')
  const before = new Set(toldTo(receiver).map(({ incident_id: id }) => id))

  const second = await start(t, receiver, {}, folder)
  await sleep(2_000)
  t.same(new Set(toldTo(receiver).map(({ incident_id: id }) => id)), before, 'nothing anew')
  t.same(new Set(typesOf(receiver, 'ends')), new Set(['alert.opened']))
  await keepModel(second, receiver)
  t.ok(await waitUntil(() => typesOf(receiver, 'ends').includes('alert.recovered'), 20_000))
  for (const delivery of receiver.received) {
    t.ok(isVerified(SECRET, delivery))
    t.notMatch(delivery.body, /secret of the caller/)
  }
  t.same(
    second.log.filter(({ level }) => level === 'error'),
    [],
  )
})

t.test('two nodes tell once; when one is killed the other goes on', { skip: withoutServers }, async (t) => {
  const receiver = await startReceiver(t, answering(204), { names: null })
  const { url } = await startRedis(t)
  const env = { REDIS_URL: url, LARKWAY_SECRET_KEYS: Buffer.alloc(32, 7).toString('base64') }
  const one = await start(t, receiver, env)
  t.ok(await waitUntil(() => typesOf(receiver, 'ends').length > 0, 20_000))
  const other = await start(t, receiver, env)
  await fail(other, 8)
  t.ok(await waitUntil(() => typesOf(receiver, 'errors').length > 0, 20_000), 'of calls at any node')
  // The first one came first, and looks.
  await one.signal('SIGKILL')
  await fail(other, 8)
  await keepModel(other, receiver)
  t.ok(await waitUntil(() => typesOf(receiver, 'ends').includes('alert.recovered'), TAKEOVER_MS))
  await sleep(1_000)
  t.same(typesOf(receiver, 'ends'), ['alert.opened', 'alert.recovered'])
  t.same(typesOf(receiver, 'errors'), ['alert.opened'])
})

t.test(
  'of an end user who calls at two nodes it is told once, by its hash, and again when it has more',
  { skip: withoutServers },
  async (t) => {
    const receiver = await startReceiver(t, answering(204), { names: null })
    const { url } = await startRedis(t)
    const env = { REDIS_URL: url, LARKWAY_SECRET_KEYS: Buffer.alloc(32, 7).toString('base64') }
    const config = withEndUsers(receiver.port, CALLS_MAX)
    const nodes = await Promise.all([0, 1].map(() => start(t, receiver, env, undefined, config)))
    const call = async (endUser: string, calls: number) => {
      const statuses: number[] = []
      for (let turn = 0; turn < calls; turn += 1)
        for (const node of nodes) statuses.push(await speakFor(node, endUser))
      return statuses
    }
    t.same(new Set(await call('frugal@shop.example', 2)), new Set([200]))
    t.same(new Set(await call('lavish@shop.example', 3)), new Set([200]))
    t.ok(await waitUntil(() => typesOf(receiver, 'customers').length > 0, 20_000))
    const statuses = await call('lavish@shop.example', 4)
    t.equal(statuses.filter((status) => status === 402).length, 4, 'the last calls are over the budget')
    t.ok(await waitUntil(() => typesOf(receiver, 'customers').includes('alert.exhausted'), 20_000))
    await sleep(2_000)
    const told = toldTo(receiver)
    const subject = { workspace: 'acme', end_user: /^eu_[\w-]{32}$/ }
    t.match(told, [
      { type: 'alert.opened', subject },
      { type: 'alert.exhausted', subject, exhausted: true },
    ])
    t.equal(told.length, 2)
    t.ok((told[0]?.value ?? 0) >= 0.5)
    const raised = JSON.stringify(withEndUsers(receiver.port, 10 * CALLS_MAX))
    for (const { dataFolder } of nodes) await writeFile(join(dataFolder, 'larkway.yaml'), raised)
    t.ok(await waitUntil(() => typesOf(receiver, 'customers').includes('alert.recovered'), 20_000))
    t.match(toldTo(receiver)[2], { subject: told[0]?.subject, value: 0.1 })
    for (const delivery of receiver.received) {
      t.ok(isVerified(SECRET, delivery))
      t.notMatch(delivery.body, /shop\.example/)
    }
  },
)
