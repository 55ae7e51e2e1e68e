import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { ask, countsOf, keyedUpload, nameOf } from '../support/keyed-call.ts'
import type { Larkway } from '../support/larkway.ts'
import type { RawClient } from '../support/raw-client.ts'
import { type RedisProxy, startRedisProxy } from '../support/redis-proxy.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { answersOf, reached, type StalledAtRedis, sendPart, stallAt, stallTogether } from './stalled-calls.ts'

const ROUNDS = process.env.LARKWAY_TEST_LONG === '1' ? 5 : 2
const AT_ONCE = 10
/** Rounds that may be taken again because a busy machine kept requests from coming to their step together. */
const MISSES_MAX = 5
/** Gateways that are killed at the same time. */
const LANES = 2
const DEADLINE_SECONDS = 3
/** A running slot outlasts its call's deadline by this. */
const GRACE_MS = 15_000

/** What becomes of a key whose gateway is killed at a step. */
type Verdict =
  /** Nothing was begun: it may be used again at once. */
  | 'free'
  /** It may have been executed: in progress until the lease is over, then without a result. */
  | 'burned'
  /** It was answered: the same answer again. */
  | 'replayed'

interface Step {
  readonly name: string
  readonly verdict: Verdict
  /** Brings all requests there. */
  reach(stalled: StalledAtRedis): Promise<RawClient[]>
}

const atProvider = (stage: 'connected' | 'whole' | 'half') => (stalled: StalledAtRedis) =>
  stallAt(stalled, stage)

const atBegin = (verdict: 'hold' | 'hold the answer') => (stalled: StalledAtRedis) =>
  stallTogether(stalled, 'begin_call', verdict, () => sendPart(stalled, 1))

const atSettle = (verdict: 'hold' | 'hold the answer') => async (stalled: StalledAtRedis) => {
  const clients = await stallAt(stalled, 'whole')
  await stallTogether(stalled, 'settle_call', verdict, () => {
    stalled.upstream.holdAt(null)
    stalled.upstream.letGo()
  })
  return clients
}

async function sendAndBeAdmitted(stalled: StalledAtRedis, share: number): Promise<RawClient[]> {
  const { proxy, keys } = stalled
  const clients = await sendPart(stalled, share)
  await reached('take_token', () => proxy.executed('take_token') === keys.length)
  return clients
}

/** Those that have to wait for their leases come first. */
const STEPS: readonly Step[] = [
  { name: 'begin executed, its answer on the way', verdict: 'burned', reach: atBegin('hold the answer') },
  { name: 'provider connected', verdict: 'burned', reach: atProvider('connected') },
  { name: 'provider has the whole request', verdict: 'burned', reach: atProvider('whole') },
  { name: 'provider has answered half', verdict: 'burned', reach: atProvider('half') },
  { name: 'settle on its way', verdict: 'burned', reach: atSettle('hold') },
  { name: 'headers sent', verdict: 'free', reach: (stalled) => sendAndBeAdmitted(stalled, 0) },
  { name: 'half of the body sent', verdict: 'free', reach: (stalled) => sendAndBeAdmitted(stalled, 0.5) },
  { name: 'begin on its way', verdict: 'free', reach: atBegin('hold') },
  {
    name: 'settle executed, its answer on the way',
    verdict: 'replayed',
    reach: atSettle('hold the answer'),
  },
  {
    name: 'answer written',
    verdict: 'replayed',
    async reach(stalled) {
      const clients = await sendPart(stalled, 1)
      const answers = await answersOf(clients)
      if (answers.some(({ status }) => status !== 200))
        throw new Error(`not answered: ${answers.map(nameOf)}`)
      return clients
    },
  },
]

/** What each verdict says to the first request with the key after the kill, and to one after the lease. */
const ANSWERS: Readonly<Record<Verdict, readonly [atOnce: string, later: string]>> = {
  free: ['200', '200 replayed'],
  burned: ['409 IDEMPOTENCY_REPLAY_IN_PROGRESS', '409 IDEMPOTENT_RESULT_UNAVAILABLE'],
  replayed: ['200 replayed', '200 replayed'],
}

interface Turn {
  readonly step: Step
  readonly round: number
}

interface Prepared {
  readonly gateway: Larkway
  readonly proxy: RedisProxy
}

/** Everything that the kills have in common. */
class Kills {
  readonly atOnce = new Map<Step, string[]>()
  readonly keysOf = new Map<Step, string[]>()
  readonly upstreams: Upstream[] = []
  readonly missed: string[] = []
  lastBurnedMs = 0
  readonly #t: Test
  /** Its first node is killed by nobody. */
  readonly #fleet: Fleet & { readonly redis: RedisServer }

  constructor(t: Test, fleet: Fleet & { readonly redis: RedisServer }) {
    this.#t = t
    this.#fleet = fleet
    for (const step of STEPS) {
      this.atOnce.set(step, [])
      this.keysOf.set(step, [])
    }
  }

  async prepare(upstream: Upstream): Promise<Prepared> {
    const proxy = await startRedisProxy(this.#t, this.#fleet.redis.port)
    const providers = providersAt(upstream)
    return { proxy, gateway: await this.#fleet.startNode({ env: { REDIS_URL: proxy.url }, providers }) }
  }

  /** Kills gateways, one after the other; the next one starts while this one is brought to its step. */
  async lane(queue: Turn[], upstream: Upstream): Promise<void> {
    let next: Promise<Prepared> | null = null
    for (let turn = queue.shift(); turn !== undefined; turn = queue.shift()) {
      const prepared: Prepared = await (next ?? this.prepare(upstream))
      next = queue.length > 0 ? this.prepare(upstream) : null
      if (!(await this.kill(prepared, upstream, turn))) queue.unshift({ ...turn, round: turn.round + ROUNDS })
    }
    await next
  }

  /** @returns false when the requests could not be brought to the step: that happens, but must not happen often */
  async kill({ gateway, proxy }: Prepared, upstream: Upstream, { step, round }: Turn): Promise<boolean> {
    const keys = Array.from({ length: AT_ONCE }, (_, index) => `${STEPS.indexOf(step)}-${round}-${index}`)
    const authorization = this.#fleet.authorizationOf('acme')
    const stalled = { port: gateway.port, authorization, keys, upstream, proxy, misses: this.missed.length }
    const clients = await step.reach(stalled).catch((error: Error) => {
      this.missed.push(`${step.name}: ${error.message}`)
      return null
    })
    await gateway.signal('SIGKILL')
    if (step.verdict === 'burned') this.lastBurnedMs = performance.now()
    for (const client of clients ?? []) client.destroy()
    upstream.holdAt(null)
    upstream.letGo()
    if (clients === null && this.missed.length <= MISSES_MAX) return false
    if (clients === null) throw new Error(this.missed.join('; '))
    this.keysOf.get(step)?.push(...keys)
    this.atOnce.get(step)?.push(...(await this.askAll(keys)))
    return true
  }

  askAll(keys: readonly string[]): Promise<string[]> {
    const authorization = this.#fleet.authorizationOf('acme')
    const { port } = this.#fleet.node()
    return Promise.all(keys.map(async (key) => nameOf(await ask(port, keyedUpload(key, authorization)))))
  }

  executions(key: string): number {
    return this.upstreams.reduce((sum, upstream) => sum + upstream.executions(key), 0)
  }
}

const providersAt = ({ url }: Upstream) => ({
  hears: { kind: 'openai-compatible', access: 'byok', workspace: 'acme', base_url: url },
})

t.test(
  'a gateway is killed while requests with idempotency keys are on their way',
  { skip: withoutServers, timeout: 240_000 },
  async (t) => {
    const [own, ...lanes] = await Promise.all(Array.from({ length: LANES + 1 }, () => startUpstream(t)))
    if (own === undefined) throw new Error('there is no provider')
    const fleet = await startFleet(t, {
      redis: {},
      timing: { calls: { slotGraceMs: GRACE_MS } },
      providers: providersAt(own),
      workspaces: { acme: { entries: [{ provider: 'hears', model: 'm', capabilities: ['audio_input'] }] } },
      config: { deadline_seconds: DEADLINE_SECONDS },
    })
    // Redis knows the scripts from now on: no gateway sends one whole.
    await ask(fleet.node().port, keyedUpload('first', fleet.authorizationOf('acme')))

    const kills = new Kills(t, fleet)
    kills.upstreams.push(own, ...lanes)
    const rounds = Array.from({ length: ROUNDS }, (_, round) => round)
    const queue = STEPS.flatMap((step) => rounds.map((round) => ({ step, round })))
    await Promise.all(lanes.map((upstream) => kills.lane(queue, upstream)))

    await sleep(kills.lastBurnedMs + DEADLINE_SECONDS * 1000 + GRACE_MS + 1_000 - performance.now())
    const all = ROUNDS * AT_ONCE
    for (const step of STEPS) {
      const keys = kills.keysOf.get(step) ?? []
      const [atOnce, later] = ANSWERS[step.verdict]
      t.same(countsOf(kills.atOnce.get(step) ?? []), { [atOnce]: all }, `${step.name}: at once`)
      t.same(countsOf(await kills.askAll(keys)), { [later]: all }, `${step.name}: after the lease`)
      const executions = keys.map((key) => kills.executions(key))
      if (step.verdict !== 'burned') t.same(countsOf(executions), { 1: all }, `${step.name}: executed once`)
      else
        t.ok(
          executions.every((times) => times <= 1),
          `${step.name}: never twice, ${tellOf(executions)}`,
        )
    }
  },
)

function tellOf(executions: readonly number[]): string {
  return `${executions.filter((times) => times === 1).length} of ${executions.length} once`
}
