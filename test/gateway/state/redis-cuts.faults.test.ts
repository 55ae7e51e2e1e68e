import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { newId } from '../../../src/contracts/ids.ts'
import type { State } from '../../../src/contracts/state.ts'
import type { StoredKey } from '../../../src/contracts/stored-keys.ts'
import { consoleSession, nodeSample, requestFilter, requestRecord } from '../../support/console-record.ts'
import { startRedisProxy } from '../../support/redis-proxy.ts'
import { startSentinels } from '../../support/redis-sentinel.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import {
  beginningOf,
  claimOf,
  figuresOf,
  LONG_MS,
  NO_TERMS,
  newDigest,
  newToken,
  newWorkspace,
  reserve,
  resultOf,
} from '../../support/state-under-test.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { CUTS, type CutState, insist, judge, startCutCluster, startCutServer } from './redis-cuts.ts'

/** What an operation is done to; each time another. */
interface Place {
  readonly workspace: string
  readonly token: string
  readonly slotId: string
  readonly keyId: string
}

interface Operation {
  /** What the proxy calls its command. */
  readonly command: string
  prepare?(state: State, place: Place): Promise<unknown>
  run(state: State, place: Place): Promise<unknown>
  /** What it answers when it has run before, where that is something else. */
  readonly again?: unknown
}

const newPlace = (): Place => ({
  workspace: newWorkspace(),
  token: newToken(),
  slotId: newDigest(),
  keyId: newId('key'),
})

const keyOf = ({ keyId, workspace }: Place): StoredKey => ({
  ...{ id: keyId, sha256: 'f'.repeat(64), prefix: 'lk_live_abcd', workspace, app: 'web', name: 'a key' },
  ...{ scopes: ['inference'], rateLimit: null, budgetMicros: null, expiresAtMs: null },
  ...{ createdAtMs: 1_900_000_000_000, revokedAtMs: null },
})
const webhookOf = (n: number) => ({ url: `https://example.com/${n}`, secret: `sealed:${n}`, createdAtMs: n })

const credits = ({ accounts }: State, { workspace }: Place) =>
  accounts.addCredits(workspace, { id: 'first', micros: 1000 })
const begin = ({ ledger }: State, { workspace, token, slotId }: Place) =>
  ledger.begin(beginningOf(workspace, { token, slot: claimOf(slotId), reservation: reserve(400) }))
const begun = async (state: State, place: Place) => {
  await credits(state, place)
  await begin(state, place)
}
const look = ({ ledger }: State, { workspace, slotId }: Place) => ledger.look(workspace, slotId)
const settling = (end: 'stored' | 'released' | 'burned'): Operation => ({
  command: 'settle_call',
  prepare: begun,
  run: ({ ledger }, { workspace, token, slotId }) =>
    ledger.settle({
      token,
      workspace,
      slot: { id: slotId, end: { state: end, result: resultOf('answer'), ttlMs: LONG_MS } },
      charge: { platformMicros: 150, spendMicros: 160 },
    }),
  again: { slotHeld: true, charged: false },
})

const BEGIN: Operation = { command: 'begin_call', prepare: credits, run: begin }
const SETTLE = settling('stored')
const BOOK: Operation = {
  command: 'add_credits',
  run: credits,
  again: { booked: false, creditsMicros: 1000 },
}
const CREATE: Operation = { command: 'create_key', run: ({ keys }, place) => keys.create(keyOf(place)) }
const PUT_DOMAINS: Operation = {
  command: 'set',
  run: ({ settings }, { workspace }) => settings.putAudioUrlDomains(workspace, ['a.example']),
}

const SAMPLED_AT_MS = Date.now()
const beginSession = (state: State, { slotId }: Place) =>
  state.console.sessions.begin(consoleSession({ id: slotId }), LONG_MS)
const addRequests = (state: State, { token, workspace }: Place) =>
  state.console.requests.add(token, [requestRecord(workspace, { id: 'req_1' })])
// Failed ones are kept apart: all of them together would be two commands.
const listRequests = (state: State, { workspace }: Place) =>
  state.console.requests.list(requestFilter(workspace, { outcome: 'ok' }))

/** Every operation of the contracts. */
const OPERATIONS: readonly Operation[] = [
  BEGIN,
  { command: 'begin_call', run: begin },
  SETTLE,
  settling('released'),
  settling('burned'),
  {
    command: 'cancel_call',
    prepare: begun,
    run: ({ ledger }, { workspace, token, slotId }) => ledger.cancel({ workspace, token, slotId }),
  },
  { command: 'look_at_slot', prepare: begun, run: look },
  {
    command: 'show_account',
    prepare: begun,
    run: async ({ accounts }, { workspace }) =>
      figuresOf(await accounts.show(workspace, { ...NO_TERMS, grant: { id: 'granted', micros: 7 } })),
  },
  BOOK,
  {
    command: 'add_usage',
    run: ({ accounts }, { token, workspace }) =>
      accounts.addUsage({ token, workspace, spentMicros: { key_one: 5, key_two: 6 } }),
  },
  CREATE,
  {
    command: 'revoke_key',
    prepare: (state, place) => state.keys.create(keyOf(place)),
    run: async ({ keys }, { keyId }) => typeof (await keys.revoke(keyId))?.revokedAtMs,
  },
  {
    command: 'forget_key',
    prepare: (state, place) => state.keys.create({ ...keyOf(place), expiresAtMs: 1 }),
    run: ({ keys }, { keyId }) => keys.forget(keyId),
  },
  {
    command: 'page_keys',
    prepare: (state, place) => state.keys.create(keyOf(place)),
    run: async ({ keys }, { keyId }) => (await keys.page(null)).keys.some(({ id }) => id === keyId),
  },
  {
    command: 'changed_keys',
    prepare: (state, place) => state.keys.create(keyOf(place)),
    run: async ({ keys }) => (await keys.changes(await keys.version()))?.keys,
  },
  { command: 'hmget', run: async ({ keys }) => typeof (await keys.version()) },
  PUT_DOMAINS,
  { command: 'get', run: ({ settings }, { workspace }) => settings.audioUrlDomains(workspace) },
  {
    command: 'put_webhook',
    prepare: ({ settings }, { workspace }) => settings.putWebhook(workspace, webhookOf(1), LONG_MS),
    run: ({ settings }, { workspace }) => settings.putWebhook(workspace, webhookOf(2), LONG_MS),
  },
  {
    command: 'reseal_webhook',
    prepare: ({ settings }, { workspace }) => settings.putWebhook(workspace, webhookOf(1), LONG_MS),
    run: ({ settings }, { workspace }) =>
      settings.resealWebhook(
        workspace,
        { ...webhookOf(1), previous: null },
        { secret: 'sealed anew', previous: null },
      ),
  },
  {
    command: 'show_webhook',
    prepare: ({ settings }, { workspace }) => settings.putWebhook(workspace, webhookOf(1), LONG_MS),
    run: ({ settings }, { workspace }) => settings.webhook(workspace),
  },
  {
    command: 'remove_webhook',
    prepare: ({ settings }, { workspace }) => settings.putWebhook(workspace, webhookOf(1), LONG_MS),
    run: ({ settings }, { workspace }) => settings.removeWebhook(workspace),
    again: false,
  },
  { command: 'begin_session', run: beginSession },
  { command: 'del', prepare: beginSession, run: (state, { slotId }) => state.console.sessions.end(slotId) },
  { command: 'add_requests', run: addRequests },
  {
    command: 'xrevrange',
    prepare: addRequests,
    run: async (state, place) => (await listRequests(state, place)).length,
  },
  {
    command: 'add_sample',
    run: (state, { workspace }) => state.console.samples.add(nodeSample(workspace, SAMPLED_AT_MS), LONG_MS),
  },
  { command: 'note_key_uses', run: (state, { keyId }) => state.console.keyUses.note({ [keyId]: 1_000 }) },
]

/** All that a place shows, its names and moments left out. */
async function viewOf(state: State, place: Place): Promise<unknown> {
  const { ledger, accounts, keys, settings } = state
  const { workspace, slotId, keyId } = place
  const [key] = (await keys.list()).filter(({ id }) => id === keyId)
  const webhook = await settings.webhook(workspace)
  return {
    account: figuresOf(await accounts.show(workspace, NO_TERMS)),
    slot: await ledger.look(workspace, slotId),
    key: key && { isRevoked: key.revokedAtMs !== null },
    domains: await settings.audioUrlDomains(workspace),
    webhook: webhook && { ...webhook, previous: webhook.previous?.secret },
    ...(await consoleViewOf(state, place)),
  }
}

async function consoleViewOf(state: State, place: Place): Promise<object> {
  const { sessions, samples, keyUses } = state.console
  const { workspace, slotId, keyId } = place
  return {
    session: (await sessions.find(slotId))?.csrfToken,
    requests: (await listRequests(state, place)).length,
    samples: (await samples.since(0)).filter(({ node }) => node === workspace).length,
    usedAtMs: (await keyUses.read([keyId]))[keyId],
  }
}

const arrivals = ({ proxies }: CutState, command: string) =>
  proxies.reduce((sum, proxy) => sum + proxy.arrived(command), 0)
const executions = ({ proxies }: CutState, command: string) =>
  proxies.reduce((sum, proxy) => sum + proxy.executed(command), 0)

async function breaks(
  t: Test,
  rig: CutState,
  operation: Operation,
  cut: (typeof CUTS)[number],
): Promise<void> {
  const { state, direct } = rig
  const { command } = operation
  const [place, clean] = [newPlace(), newPlace()]
  for (const each of [place, clean]) await operation.prepare?.(direct, each)
  const once = await operation.run(direct, clean)
  // Where the connection broke before, the nodes of a cluster are found again one by one.
  await insist(() => look(state, place))

  const [arrived, executed] = [arrivals(rig, command), executions(rig, command)]
  judge(rig, command, cut)
  const startMs = performance.now()
  const failure = await operation.run(state, place).then(
    (answer) => answer,
    (error: unknown) => error,
  )
  const tookMs = performance.now() - startMs
  judge(rig, command, 'pass')
  t.match(failure, { code: 'DEPENDENCY_UNAVAILABLE', cause: Error }, 'the caller is told')
  t.ok(tookMs < 10_000, `after ${tookMs} ms`)
  const has = cut === 'cut after' || cut === 'cut inside the answer'
  t.equal(executions(rig, command) - executed, has ? 1 : 0, 'executed')
  // A health check would write, as some of the operations do.
  await waitUntil(() => state.clockMs().then(Number.isFinite, () => false))
  await sleep(20)
  // A node of a cluster that does not know the script yet is sent it whole.
  t.ok(arrivals(rig, command) - arrived <= (rig.proxies.length === 1 ? 1 : 2), 'not sent again')
  t.equal(executions(rig, command) - executed, has ? 1 : 0, 'not sent again')

  const answer = await insist(() => operation.run(state, place))
  t.same(answer, has && operation.again !== undefined ? operation.again : once, 'repeated')
  t.same(await viewOf(direct, place), await viewOf(direct, clean), 'as if it had run once')
}

/** A begin that the server reads when its sender has long cancelled it. */
async function comesLate(t: Test, rig: CutState): Promise<void> {
  const { state, direct, proxies } = rig
  const place = newPlace()
  const { workspace, token, slotId } = place
  await credits(direct, place)
  const before = await viewOf(direct, place)
  await insist(() => look(state, place))
  const executed = executions(rig, 'begin_call')
  judge(rig, 'begin_call', 'leave behind')
  const startMs = performance.now()
  await t.rejects(begin(state, place), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.ok(performance.now() - startMs < 10_000)
  await insist(() => state.ledger.cancel({ workspace, token, slotId }))
  for (const proxy of proxies) proxy.letGo()
  t.ok(await waitUntil(() => executions(rig, 'begin_call') > executed), 'it arrives after all')
  t.same(await viewOf(direct, place), before, 'and nothing is held')
}

async function survives(t: Test, rig: CutState, operations: readonly Operation[]): Promise<void> {
  for (const operation of operations)
    for (const cut of CUTS)
      await t.test(`${operation.command}: ${cut}`, (t) => breaks(t, rig, operation, cut))
  await t.test('a begin that comes after its cancellation', (t) => comesLate(t, rig))
}

t.test('one server: every operation, cut at every step', { skip: withoutServers }, async (t) => {
  await survives(t, await startCutServer(t), OPERATIONS)
})

const WRITES = [BEGIN, SETTLE, BOOK, CREATE, PUT_DOMAINS]

t.test('by Sentinels: writes, cut at every step', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t)
  const proxy = await startRedisProxy(t, redis.port)
  const { url } = await startSentinels(t, Number(new URL(proxy.url).port))
  const [direct, state] = [await openRedisState(t, redis.url), await openRedisState(t, url)]
  await survives(t, { state, direct, proxies: [proxy] }, WRITES)
})

t.test('a cluster: writes, cut at every step', { skip: withoutServers }, async (t) => {
  await survives(t, await startCutCluster(t), WRITES)
})
