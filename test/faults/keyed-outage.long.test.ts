import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Accounts } from '../../src/contracts/ledger.ts'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { AUDIO_SECONDS, ask, countsOf, type KeyedAnswer, keyedUpload, nameOf } from '../support/keyed-call.ts'
import type { Larkway } from '../support/larkway.ts'
import { type RedisProxy, startRedisProxy, type Verdict } from '../support/redis-proxy.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

/** Gateways whose connections break, each in its own time. */
const LANES = 4
/** Requests that are on their way when a connection breaks. */
const AT_ONCE = 3
const [CUTS, SILENCES, SERVER_KILLS] = process.env.LARKWAY_TEST_LONG === '1' ? [464, 16, 20] : [160, 8, 8]

/** No request waits longer, whatever Redis does. */
const PATIENCE_MS = 5_000
/** So long after an outage a key is what it will stay: Redis is found within 1 s, and then tried every second. */
const RECOVERY_MS = 10_000

const COMMANDS = ['begin_call', 'settle_call'] as const
const CUT_POINTS: readonly Verdict[] = ['cut before', 'cut inside', 'cut after', 'cut inside the answer']

const CREDITS_USD = 1_000
const PER_HOUR_USD = 36
const COST_MICROS = Math.round((AUDIO_SECONDS * PER_HOUR_USD * 1_000_000) / 3600)

interface Lane {
  readonly gateway: Larkway
  readonly proxy: RedisProxy
}

/** Its first node is one whose connection nobody touches. */
interface Rig extends Fleet {
  readonly redis: RedisServer
  readonly upstream: Upstream
  readonly lanes: readonly Lane[]
  readonly accounts: Accounts
  /** When Redis was away last. */
  lastOutageMs: number
}

async function startRig(t: Test): Promise<Rig> {
  const upstream = await startUpstream(t)
  const price = { per_hour_usd: PER_HOUR_USD }
  const fleet = await startFleet(t, {
    redis: { durable: true },
    providers: { hears: { kind: 'openai-compatible', access: 'platform', base_url: upstream.url } },
    workspaces: {
      acme: {
        entries: [{ provider: 'hears', model: 'm', capabilities: ['audio_input'], price }],
        terms: { credits_usd: CREDITS_USD, grant_id: 'initial' },
      },
    },
  })
  const lanes = await Promise.all(
    Array.from({ length: LANES }, async () => {
      const proxy = await startRedisProxy(t, fleet.redis.port)
      return { proxy, gateway: await fleet.startNode({ env: { REDIS_URL: proxy.url } }) }
    }),
  )
  const { accounts } = await fleet.openState()
  return { ...fleet, upstream, lanes, accounts, lastOutageMs: 0 }
}

/** What became of a key whose first request met an outage. */
interface Fate {
  readonly key: string
  readonly first: KeyedAnswer
  /** How often the provider had executed it when the first request was answered. */
  readonly executedFirst: number
  /** The answer to the first request after that which was not told to wait, and how long after the last outage. */
  readonly next: KeyedAnswer
  readonly nextMs: number
}

type First = Pick<Fate, 'key' | 'first' | 'executedFirst'>

/** Sends requests while an outage is brought about. */
function sendThrough(
  { upstream, authorizationOf }: Rig,
  lane: Lane,
  keys: readonly string[],
): Promise<First[]> {
  return Promise.all(
    keys.map(async (key) => {
      const first = await ask(lane.gateway.port, keyedUpload(key, authorizationOf('acme')))
      return { key, first, executedFirst: upstream.executions(key) }
    }),
  )
}

/** Sends the same ones by another gateway until they are settled. For when the outage has been brought about. */
function follow(rig: Rig, firsts: readonly First[]): Promise<Fate>[] {
  rig.lastOutageMs = performance.now()
  return firsts.map(async (first) => ({ ...first, ...(await settledBy(rig, first.key)) }))
}

async function settledBy(rig: Rig, key: string): Promise<Pick<Fate, 'next' | 'nextMs'>> {
  const upload = keyedUpload(key, rig.authorizationOf('acme'))
  for (;;) {
    const answer = await ask(rig.node().port, upload)
    const nextMs = performance.now() - rig.lastOutageMs
    const waits = answer.status === 503 || answer.code === 'IDEMPOTENCY_REPLAY_IN_PROGRESS'
    if (!waits || nextMs > RECOVERY_MS) return { next: answer, nextMs }
    await sleep(100)
  }
}

/** Whether the gateway has its Redis again. */
function isBack({ gateway }: Lane): Promise<boolean> {
  return waitUntil(async () => {
    const ready = (await (await fetch(`${gateway.url}/readyz`)).json()) as { degraded?: boolean }
    return ready.degraded !== true
  })
}

/** Passes this verdict on the first command of that name, once. */
function once(proxy: RedisProxy, command: string, verdict: Verdict): { readonly met: boolean } {
  const judged = { met: false }
  proxy.judge = ({ name }) => {
    if (name !== command || judged.met) return 'pass'
    judged.met = true
    return verdict
  }
  return judged
}

function assertFates(t: Test, rig: Rig, fates: readonly Fate[]): void {
  const { upstream } = rig
  const answered = fates.filter(({ first }) => first.status === 200)
  const refused = fates.filter(({ first }) => first.status !== 200)
  t.ok(answered.length > 0 && refused.length > 0, `${answered.length} answered, ${refused.length} refused`)
  t.same(
    Object.keys(countsOf(refused.map(({ first }) => `${nameOf(first)}, retry: ${first.shouldRetry}`))),
    ['503 DEPENDENCY_UNAVAILABLE, retry: true'],
    'refused because Redis was away, to be tried again',
  )
  t.same(
    countsOf(refused.map(({ executedFirst }) => executedFirst)),
    { 0: refused.length },
    'and not executed',
  )
  t.same(
    countsOf(refused.map(({ next }) => nameOf(next))),
    { 200: refused.length },
    'their keys are free again',
  )
  t.same(
    countsOf(answered.map(({ next }) => nameOf(next))),
    { '200 replayed': answered.length },
    'what was answered is replayed',
  )
  const executions = fates.map(({ key }) => upstream.executions(key))
  t.same(countsOf(executions), { 1: fates.length }, 'no key was executed twice')
  const slowestMs = Math.max(...fates.map(({ first }) => first.milliseconds))
  const laterMs = Math.max(...fates.map(({ nextMs }) => nextMs))
  t.ok(slowestMs < PATIENCE_MS, `no request hung: the slowest took ${Math.round(slowestMs)} ms`)
  t.ok(laterMs < RECOVERY_MS, `all keys were settled ${Math.round(laterMs)} ms after the last outage at most`)
}

/** Every call is paid once, and nothing stays set aside. */
async function assertPaid(t: Test, { accounts, upstream }: Rig): Promise<void> {
  const look = () => accounts.show('acme', { grant: null, trial: null, budgetMicros: null })
  // The test's own connection may be the last to come back.
  const isSettled = () =>
    look().then(
      ({ reservedMicros }) => reservedMicros === 0,
      () => false,
    )
  await waitUntil(isSettled, RECOVERY_MS)
  const { creditsMicros, reservedMicros, expired, overageMicros, spentMicros } = await look()
  t.same(
    { reservedMicros, expired: expired.count, overageMicros },
    { reservedMicros: 0, expired: 0, overageMicros: 0 },
  )
  t.equal(
    creditsMicros,
    CREDITS_USD * 1_000_000 - upstream.received.length * COST_MICROS,
    'every call is paid once',
  )
  t.equal(spentMicros, upstream.received.length * COST_MICROS)
}

t.test('Redis goes away while calls begin and end', { skip: withoutServers, timeout: 280_000 }, async (t) => {
  const rig = await startRig(t)

  await t.test('its connection is cut', async (t) => {
    const fates: Promise<Fate>[] = []
    const met: string[] = []
    const cut = async (lane: Lane, index: number) => {
      const command = COMMANDS[index % 2] ?? 'begin_call'
      const point = CUT_POINTS[(index >> 1) % CUT_POINTS.length] ?? 'cut before'
      const keys = Array.from({ length: AT_ONCE }, (_, call) => `cut-${index}-${call}`)
      const judged = once(lane.proxy, command, point)
      fates.push(...follow(rig, await sendThrough(rig, lane, keys)))
      if (judged.met) met.push(`${command}: ${point}`)
      await isBack(lane)
      rig.lastOutageMs = performance.now()
    }
    let next = 0
    await Promise.all(
      rig.lanes.map(async (lane) => {
        while (next < CUTS) await cut(lane, next++)
      }),
    )
    const kinds = COMMANDS.flatMap((command) => CUT_POINTS.map((point) => `${command}: ${point}`))
    const each = CUTS / kinds.length
    t.same(countsOf(met), Object.fromEntries(kinds.map((kind) => [kind, each])), `${CUTS} cuts`)
    assertFates(t, rig, await Promise.all(fates))
    await assertPaid(t, rig)
  })

  await t.test('it falls silent, and hears late what it was sent', async (t) => {
    const fates: Promise<Fate>[] = []
    const silence = async (lane: Lane, index: number) => {
      const command = COMMANDS[index % 2] ?? 'begin_call'
      const keys = Array.from({ length: AT_ONCE }, (_, call) => `silent-${index}-${call}`)
      const cure = command === 'begin_call' ? 'cancel_call' : 'settle_call'
      const cured = lane.proxy.executed(cure)
      const judged = once(lane.proxy, command, 'leave behind')
      const sent = await sendThrough(rig, lane, keys)
      t.ok(judged.met, command)
      // What the gateway does about the lost command is done before the command itself.
      await isBack(lane)
      t.ok(await waitUntil(() => lane.proxy.executed(cure) > cured), cure)
      rig.lastOutageMs = performance.now()
      lane.proxy.letGo()
      fates.push(...follow(rig, sent))
    }
    let next = 0
    await Promise.all(
      rig.lanes.map(async (lane) => {
        while (next < SILENCES) await silence(lane, next++)
      }),
    )
    assertFates(t, rig, await Promise.all(fates))
    await assertPaid(t, rig)
  })

  await t.test('the server is killed and started again', async (t) => {
    const fates: Promise<Fate>[] = []
    for (let index = 0; index < SERVER_KILLS; index++) {
      const command = COMMANDS[index % 2] ?? 'begin_call'
      let restarted: Promise<void> | null = null
      for (const { proxy } of rig.lanes) {
        proxy.judge = ({ name }) => {
          if (name === command) restarted ??= rig.redis.restart()
          return 'pass'
        }
      }
      const sent = rig.lanes.map((lane, at) => {
        const keys = Array.from({ length: AT_ONCE }, (_, call) => `killed-${index}-${at}-${call}`)
        return sendThrough(rig, lane, keys)
      })
      const each = follow(rig, (await Promise.all(sent)).flat())
      await restarted
      await Promise.all(rig.lanes.map(isBack))
      rig.lastOutageMs = performance.now()
      // Another outage at once would only lengthen this one.
      await Promise.all(each)
      fates.push(...each)
    }
    assertFates(t, rig, await Promise.all(fates))
    await assertPaid(t, rig)
  })
})
