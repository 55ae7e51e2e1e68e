import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startFleet, type WorkspaceOptions } from '../support/fleet.ts'
import { ask, countsOf, keyedUpload, nameOf } from '../support/keyed-call.ts'
import { type CommandCounts, startRedisMonitor } from '../support/redis-monitor.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { nameOfPaid, race } from './race.ts'

const CALLS = 100
const AT_ONCE = 10
/** So few that what a node has leased lasts for them, on a slow machine, too. */
const LEASED_CALLS = 20

/**
 * What a node does by itself: it counts the nodes, looks for new API keys and for changes of the catalog, writes down
 * usage and what the console shows, gives tokens back, leases money for many calls and reports what they came to.
 */
const BACKGROUND = [
  ...['note_node', 'hmget', 'add_usage', 'return_tokens', 'lease_money'],
  ...['add_requests', 'add_sample', 'note_key_uses'],
]
/** Of all these together, for one node and one workspace. */
const BACKGROUND_PER_SECOND_MAX = 5

const FACTS = {
  model: 'm',
  capabilities: ['audio_input', 'audio_output'],
  price: { per_1k_characters_usd: 0.13, per_hour_usd: 36 },
}
/** So few tokens at once that a node takes none ahead; they come back faster than they are used. */
const UNLEASED = { rate_limit: { requests_per_minute: 100_000_000, burst: 10 } }

const WORKSPACES: Readonly<Record<string, WorkspaceOptions>> = {
  byok: { entries: [{ provider: 'of-byok', ...FACTS }], key: UNLEASED },
  budgeted: {
    entries: [{ provider: 'of-budgeted', ...FACTS }],
    key: { ...UNLEASED, budget_usd: { per_month: 1_000 } },
  },
  platform: {
    entries: [{ provider: 'platform', ...FACTS }],
    key: UNLEASED,
    terms: { credits_usd: 1_000, grant_id: 'initial' },
  },
  leased: { entries: [{ provider: 'of-leased', ...FACTS }] },
}

async function startCounted(t: Test) {
  const upstream = await startUpstream(t)
  const own = (workspace: string) => ({
    kind: 'openai-compatible',
    access: 'byok',
    workspace,
    base_url: upstream.url,
  })
  const fleet = await startFleet(t, {
    redis: {},
    // What is asked for jobs is asked whether or not there are calls.
    env: { LARKWAY_JOBS: '0' },
    providers: {
      'of-byok': own('byok'),
      'of-budgeted': own('budgeted'),
      'of-leased': own('leased'),
      platform: { kind: 'openai-compatible', access: 'platform', base_url: upstream.url },
    },
    workspaces: WORKSPACES,
  })
  const gateway = fleet.node()
  const monitor = await startRedisMonitor(t, fleet.redis)

  let next = 0
  const keyed = (workspace: string, keysOf: () => readonly string[]) => async () => {
    const keys = keysOf()
    const names: string[] = []
    for (let at = 0; at < keys.length; at += AT_ONCE) {
      const uploads = keys
        .slice(at, at + AT_ONCE)
        .map((key) => keyedUpload(key, fleet.authorizationOf(workspace)))
      const answers = await Promise.all(uploads.map((upload) => ask(gateway.port, upload)))
      names.push(...answers.map(nameOf))
    }
    return names
  }
  const unkeyed =
    (workspace: string, times = CALLS) =>
    async () => {
      const call = {
        path: '/v1/speech',
        body: { input: 'seven c' },
        authorization: fleet.authorizationOf(workspace),
      }
      return (await race([gateway], call, times, AT_ONCE)).map(nameOfPaid)
    }
  const newKeys = () => Array.from({ length: CALLS }, () => `trip-${next++}`)
  const told = (words: RegExp) => gateway.log.filter(({ msg }) => words.test(String(msg))).length
  /** How often the limiter has given Redis up. */
  const alone = () => told(/keeps the rate limits alone/)
  /** Whether it has Redis again since. */
  const isShared = () => told(/share the rate limits/) === alone()
  return { monitor, keyed, unkeyed, newKeys, alone, isShared }
}

const without = (counts: CommandCounts) =>
  Object.fromEntries(Object.entries(counts).filter(([name]) => !BACKGROUND.includes(name)))

const onlyBackground = (counts: CommandCounts) =>
  BACKGROUND.reduce((sum, name) => sum + (counts[name] ?? 0), 0)

t.test('how often a call goes to Redis', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const { monitor, keyed, unkeyed, newKeys, alone, isShared } = await startCounted(t)

  /** The commands of the calls, all of which have to be answered like that. */
  const assertTrips = async (
    t: Test,
    work: () => Promise<readonly string[]>,
    answer: string,
    commands: readonly string[],
  ) => {
    let names: readonly string[] = []
    let counts: CommandCounts = {}
    let leases = 0
    // On a busy machine Redis may be too slow for the limiter, which then goes on without it for a moment.
    for (let round = 0; round < 8; round++) {
      const before = alone()
      const wasShared = isShared()
      counts = await monitor.during(async () => {
        names = await work()
      })
      // A round that is taken again finds what the one before has leased.
      leases = Math.max(leases, counts.lease_money ?? 0)
      if (wasShared && alone() === before) break
    }
    t.same(countsOf(names), { [answer]: CALLS })
    const expected = Object.fromEntries(commands.map((command) => [command, CALLS]))
    t.same(without(counts), expected, `${commands.length} per call: ${commands.join(', ')}`)
    return leases
  }
  /** Of calls whose money the node has: what is leased lasts for many. */
  const assertLeased = async (t: Test, workspace: string) => {
    const leases = await assertTrips(t, unkeyed(workspace), '200', ['take_token'])
    t.ok(leases >= 1 && leases <= CALLS / 5, `${leases} leases for ${CALLS} calls`)
  }
  const whole = ['take_token', 'begin_call', 'settle_call']

  // Redis gets to know the scripts: one that it does not know is sent twice. Calls of a node that has just started may
  // be refused.
  const used = newKeys()
  const isReplayed = async () => (await keyed('byok', () => used)()).every((name) => name === '200 replayed')
  t.ok(await waitUntil(isReplayed))
  await unkeyed('leased')()

  await t.test('with an idempotency key, to a provider of its own', (t) =>
    assertTrips(t, keyed('byok', newKeys), '200', whole),
  )
  await t.test('without a key, to one of the platform', (t) => assertLeased(t, 'platform'))
  await t.test('with a key, to one of the platform', (t) =>
    assertTrips(t, keyed('platform', newKeys), '200', whole),
  )
  await t.test('without a key, but with a budget', (t) => assertLeased(t, 'budgeted'))
  await t.test('with neither key, budget nor platform', (t) =>
    assertTrips(t, unkeyed('byok'), '200', ['take_token']),
  )
  await t.test('a replay', (t) =>
    assertTrips(
      t,
      keyed('byok', () => used),
      '200 replayed',
      ['take_token', 'look_at_slot'],
    ),
  )

  await t.test('a node that holds tokens asks nobody', async (t) => {
    // A new node takes none ahead until all others have counted it.
    await sleep(6_000)
    await unkeyed('leased', 600)()
    const trips: number[] = []
    for (let round = 0; round < 25; round++) {
      const counts = without(await monitor.during(unkeyed('leased', LEASED_CALLS)))
      t.same(
        Object.keys(counts).filter((name) => name !== 'take_token'),
        [],
      )
      trips.push(counts.take_token ?? 0)
    }
    // While tokens are fetched, calls that come then fetch their own.
    const sum = trips.reduce((total, count) => total + count, 0)
    const calls = trips.length * LEASED_CALLS
    t.ok(sum <= calls / 10, `at most one in ten calls: ${trips} of ${LEASED_CALLS} each`)
    t.ok(trips.includes(0), 'and none while it lasts')
  })

  await t.test('what a node does by itself does not grow with the load', async (t) => {
    const startedMs = performance.now()
    const counts = await monitor.during(async () => {
      while (performance.now() - startedMs < 4_000) await unkeyed('leased', 500)()
    })
    const seconds = (performance.now() - startedMs) / 1000
    const commands = onlyBackground(counts)
    // However short a span is, each may fall due at both of its ends.
    const most = BACKGROUND_PER_SECOND_MAX * seconds + BACKGROUND.length
    t.ok(commands <= most, `${commands} commands in ${seconds.toFixed(1)} s`)
    t.ok((counts.add_usage ?? 0) >= 2, 'the usage of the calls was written')
    t.ok((counts.note_node ?? 0) >= 1)
  })
})
