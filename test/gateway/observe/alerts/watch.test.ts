import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { AlertCondition, AlertTerms } from '../../../../src/contracts/alerts.ts'
import type { EndUserSettings, Route, Snapshot } from '../../../../src/contracts/catalog.ts'
import type { EndUserSample, NodeSample } from '../../../../src/contracts/console.ts'
import { createLogger } from '../../../../src/contracts/log.ts'
import type { State } from '../../../../src/contracts/state.ts'
import { systemClock } from '../../../../src/contracts/time.ts'
import { accountOfEndUser } from '../../../../src/gateway/call/context/end-users.ts'
import { ROOM } from '../../../../src/gateway/observe/alerts/room.ts'
import { type AlertWatch, createAlertWatch } from '../../../../src/gateway/observe/alerts/watch.ts'
import { SHIPPED } from '../../../../src/gateway/providers/facts.ts'
import { openEmbeddedState } from '../../../../src/gateway/state/embedded/state.ts'
import { configuredProvider, entry, principal, route } from '../../../support/catalog.ts'
import { nodeSample } from '../../../support/console-record.ts'
import { claimingOf, FAILURE, KEEP, specOf } from '../../../support/jobs-under-test.ts'
import { startRedis } from '../../../support/redis-server.ts'
import { openRedisState } from '../../../support/redis-state.ts'
import { tempFolder } from '../../../support/scratch.ts'
import { withoutServers } from '../../../support/servers.ts'
import { beginningOf, newToken, newWorkspace, reserve } from '../../../support/state-under-test.ts'
import { answering, type Behaviour, hanging, startReceiver } from '../../../support/webhook-receiver.ts'
import { startWebhookRig } from '../../../support/webhook-rig.ts'
import { isVerified } from '../../../support/webhook-signatures.ts'

t.setTimeout(120_000)

const SECRET = `whsec_${randomBytes(32).toString('base64')}`
const log = createLogger('silent')
const MINUTE_MS = 60_000
const RECOVER_MS = 5 * MINUTE_MS

interface Rig {
  readonly state: State
  readonly watch: AlertWatch
  /** On another node of the same state. */
  readonly another: () => AlertWatch
  /** Lets time pass on the clock of the nodes, in steps of a round, which all of them make. */
  pass(ms: number, during?: () => Promise<void>): Promise<void>
  readonly clock: { nowMs: number }
  /** What was told, in the order of time; of one moment what has the highest figure first. */
  told(): Promise<Record<string, unknown>[]>
  readonly catalog: {
    readonly workspace: string
    terms: AlertTerms | undefined
    routes: Route[]
    budgetMicros: number | null
    endUsers: EndUserSettings | undefined
    /** Other workspaces with the same budget. */
    others: number
  }
}

/** A state, and what is spent in it so far as that of a month that is over. */
interface Opened {
  readonly state: State
  readonly endMonth: (workspace: string, ids: readonly string[]) => Promise<void>
}

type Named = Readonly<Record<string, AlertCondition>>

function termsOf(named: Named, over: Partial<AlertTerms> = {}): AlertTerms {
  const rules = Object.entries(named).map(([name, rule]) => ({ name, ...rule }))
  return { url: 'https://hooks.example/alerts', secret: SECRET, recoverAfterMs: RECOVER_MS, rules, ...over }
}

const claiming = { limit: 100, leaseMs: 3_600_000, perWorkspace: 100, perAiling: 100 }

function rigOf(state: State, workspace: string, terms: AlertTerms): Rig {
  const clock = { nowMs: Date.now() }
  const whole = { routes: [], budgetMicros: 10_000_000, endUsers: undefined, others: 0 }
  const catalog: Rig['catalog'] = { workspace, terms, ...whole }
  const snapshot = () => {
    const whole = principal()
    const { budgetMicros, endUsers } = catalog
    const terms = { grant: null, trial: null, budgetMicros }
    const own = { ...whole.workspace, id: workspace, terms, ...(endUsers === undefined ? {} : { endUsers }) }
    const mine = {
      ...whole,
      workspace: own,
      key: { ...whole.key, id: 'key_capped', budgetMicros: 1_000_000 },
    }
    const others = Array.from({ length: catalog.others }, (_, at) => ({ ...own, id: `${workspace}-${at}` }))
    const parts: Partial<Snapshot> = {
      apps: new Map(
        [own, ...others].map((one) => [one.id, new Map([['web', { ...mine, workspace: one }]])] as const),
      ),
      keys: new Map([['hash', mine]]),
      ...(catalog.terms === undefined ? {} : { alerts: catalog.terms }),
    }
    return parts as Snapshot
  }
  const make = () =>
    createAlertWatch({
      state,
      snapshot,
      routes: () => catalog.routes,
      models: () => SHIPPED,
      log,
      onEvent: () => {},
      clock: { ...systemClock, wallNow: () => clock.nowMs },
    })
  const watch = make()
  const others: AlertWatch[] = []
  const events: Record<string, unknown>[] = []
  return {
    state,
    watch,
    clock,
    catalog,
    another: () => {
      const other = make()
      others.push(other)
      return other
    },
    async pass(ms, during = async () => {}) {
      for (let passed = 0; passed < ms; passed += 15_000) {
        clock.nowMs += 15_000
        await during()
        await watch.round()
        for (const other of others) await other.round()
      }
    },
    async told() {
      for (let claimed = await state.outbox.claim(claiming); claimed.length > 0; ) {
        for (const event of claimed) {
          if (event.body !== undefined) events.push(JSON.parse(event.body) as Record<string, unknown>)
          await state.outbox.end(event, { state: 'delivered' })
        }
        claimed = await state.outbox.claim(claiming)
      }
      return events.sort(
        (a, b) =>
          String(a.occurred_at).localeCompare(String(b.occurred_at)) || Number(b.value) - Number(a.value),
      )
    },
  }
}

/** A step of a node in which a model was called. */
function calls(node: string, atMs: number, of: number, failed: number, over: Partial<NodeSample> = {}) {
  const all = { requests: of, errors: failed, addedP50Ms: null, addedP95Ms: null, upstream: [] }
  const attempts = [['deepgram', 'nova-3', of, failed]] as const
  return nodeSample(node, atMs, { all, attempts, breakers: [], workspaces: [], ...over })
}

const KEEP_MS = 3_600_000
const typesOf = (told: readonly Record<string, unknown>[]) => told.map(({ type }) => type)

/** End users with a budget of a thousand micro-USD, and one with ten times that. */
const END_USERS: EndUserSettings = {
  isHashed: false,
  terms: { budgetMicros: 1_000, rateLimit: null },
  overrides: new Map([['vip', { budgetMicros: 10_000, rateLimit: null }]]),
}

async function spendFor({ state, catalog: { workspace } }: Rig, id: string, micros: number): Promise<void> {
  const endUser = { account: accountOfEndUser(id), budgetMicros: 1_000_000 }
  const token = newToken()
  const reservation = reserve(0, { spendMicros: micros, endUser })
  await state.ledger.begin(beginningOf(workspace, { token, reservation }))
  const charge = { platformMicros: 0, spendMicros: micros }
  await state.ledger.settle({ token, workspace, slot: null, charge, endUser: endUser.account })
}

/** A node says in a sample whom it has seen near the end of a budget. */
async function nameThem(rig: Rig, node: string, endUsers: readonly EndUserSample[]): Promise<void> {
  const atMs = rig.clock.nowMs - 1_000
  await rig.state.console.samples.add(calls(node, atMs, 0, 0, { endUsers }), KEEP_MS)
}

function watches(t: Test, open: (t: Test) => Promise<Opened>): void {
  const start = async (t: Test, rules: Named) => {
    const { state, endMonth } = await open(t)
    return { ...rigOf(state, newWorkspace(), termsOf(rules)), endMonth }
  }

  t.test('a budget at its share, once, and again when the next month is over it', async (t) => {
    const rig = await start(t, { budgets: { kind: 'budget', share: 0.8, workspace: null } })
    const { workspace } = rig.catalog
    const spend = (keyId: string, micros: number) =>
      rig.state.accounts.addUsage({ token: newToken(), workspace, spentMicros: { [keyId]: micros } })
    await spend('key_other', 7_900_000)
    await rig.watch.round()
    t.same(await rig.told(), [])
    await spend('key_capped', 850_000)
    await rig.watch.round()
    await rig.pass(2 * MINUTE_MS)
    const told = await rig.told()
    t.equal(told.length, 2)
    const ofKey = (key?: string) => told.find(({ subject }) => (subject as { key?: string }).key === key)
    t.match(ofKey(), { type: 'alert.opened', rule: 'budgets', kind: 'budget', subject: { workspace } })
    t.match(ofKey(), { value: 0.875, threshold: 0.8, incident_id: /^inc_/ })
    t.match(ofKey('key_capped'), { value: 0.85 })
    t.match(told, [{ exhausted: false }, { exhausted: false }])
    // The figure of now is kept, and untold until nothing is left.
    await spend('key_other', 450_000)
    await rig.watch.round()
    const shareOf = async () => {
      const open = await rig.state.alerts.open()
      return open.find(({ subject }) => subject.workspace === workspace && subject.key === undefined)?.value
    }
    t.equal(await shareOf(), 0.92)
    t.equal((await rig.told()).length, 2)
    await spend('key_other', 800_000)
    await rig.pass(2 * MINUTE_MS)
    t.match((await rig.told()).slice(2), [
      { type: 'alert.exhausted', subject: { workspace }, value: 1, threshold: 0.8, exhausted: true },
    ])
    t.equal((await rig.told())[2]?.incident_id, ofKey()?.incident_id)
    // A budget that was raised is well again.
    rig.catalog.budgetMicros = 100_000_000
    await rig.pass(RECOVER_MS + MINUTE_MS)
    t.match((await rig.told()).slice(3), [{ type: 'alert.recovered', subject: { workspace }, value: 0.1 }])
  })

  t.test('a budget of very many is well again when it is raised', async (t) => {
    const rig = await start(t, { budgets: { kind: 'budget', share: 0.8, workspace: null } })
    const { workspace } = rig.catalog
    await rig.state.accounts.addUsage({
      ...{ token: newToken(), workspace },
      spentMicros: { key_other: 9_000_000 },
    })
    await rig.watch.round()
    t.same(typesOf(await rig.told()), ['alert.opened'])
    // It was refused a call before it was raised. A round looks at some of them.
    const refused = { refusedBudgets: [{ workspace, key: null }] }
    await rig.state.console.samples.add(calls('one', rig.clock.nowMs, 0, 0, refused), KEEP_MS)
    rig.catalog.others = 250
    rig.catalog.budgetMicros = 100_000_000
    await rig.pass(RECOVER_MS + 2 * MINUTE_MS)
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.recovered'])
  })

  t.test('a budget that does not cover a call is exhausted, though something is left', async (t) => {
    const rig = await start(t, {
      budgets: { kind: 'budget', share: 0.8, workspace: null },
      customers: { kind: 'end_user_budget', share: 0.8, workspace: null },
    })
    const { workspace } = rig.catalog
    rig.catalog.endUsers = END_USERS
    const spentMicros = { key_capped: 980_000 }
    await rig.state.accounts.addUsage({ token: newToken(), workspace, spentMicros })
    await spendFor(rig, 'ann', 980)
    const ann: EndUserSample = { workspace, account: accountOfEndUser('ann'), id: 'ann' }
    await nameThem(rig, 'one', [ann])
    await rig.watch.round()
    t.match(await rig.told(), [{ exhausted: false }, { exhausted: false }])
    const sample = calls('one', rig.clock.nowMs, 0, 0, {
      refusedBudgets: [
        { workspace, key: 'key_capped' },
        { workspace: 'other', key: null },
      ],
      endUsers: [{ ...ann, isRefused: true }],
    })
    await rig.state.console.samples.add(sample, KEEP_MS)
    // Longer than nodes are listened to: callers give up, and the budget stays exhausted.
    await rig.pass(15 * MINUTE_MS)
    const told = (await rig.told()).slice(2)
    t.equal(told.length, 2)
    const subjects = told.map(({ subject }) => JSON.stringify(subject))
    for (const subject of [{ key: 'key_capped' }, { end_user: 'ann' }])
      t.ok(subjects.includes(JSON.stringify({ workspace, ...subject })), JSON.stringify(subject))
    t.match(told[0], { type: 'alert.exhausted', value: 0.98, exhausted: true })
    const areExhausted = async () => (await rig.state.alerts.open()).map(({ isExhausted }) => isExhausted)
    t.same(await areExhausted(), [true, true])
    // A call that was under way gives some back, and the next one is not covered either.
    await rig.state.accounts.addUsage({ token: newToken(), workspace, spentMicros: { key_capped: -50_000 } })
    await rig.pass(MINUTE_MS)
    await rig.state.console.samples.add({ ...sample, atMs: rig.clock.nowMs }, KEEP_MS)
    await rig.pass(MINUTE_MS)
    t.equal((await rig.told()).length, 4, 'it is the same exhaustion')
    await rig.state.accounts.addUsage({ token: newToken(), workspace, spentMicros: { key_capped: -100_000 } })
    await rig.pass(15 * MINUTE_MS)
    t.same((await areExhausted()).sort(), [false, true], 'well below its highest it is over')
  })

  t.test('a model in use is not well because nobody calls it', async (t) => {
    const rig = await start(t, {
      errors: { kind: 'error_share', share: 0.5, minCalls: 20, windowMs: MINUTE_MS, provider: null },
      breakers: { kind: 'breaker_open', forMs: MINUTE_MS, provider: null },
    })
    const used = entry({ provider: configuredProvider({ name: 'deepgram' }), model: 'nova-3' })
    rig.catalog.routes = [route([used])]
    const model = ['deepgram', 'nova-3'] as const
    const add = (of: number, failed: number, over: Partial<NodeSample>) => () =>
      rig.state.console.samples.add(calls('one', rig.clock.nowMs - 1_000, of, failed, over), KEEP_MS)
    await rig.pass(2 * MINUTE_MS, add(100, 90, { unwell: [model] }))
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.opened'])
    await rig.pass(20 * MINUTE_MS, add(0, 0, { untried: [model] }))
    t.equal((await rig.told()).length, 2, 'a breaker that nobody tries is not closed')
    await rig.pass(20 * MINUTE_MS)
    t.equal((await rig.told()).length, 2, 'no node says anything')
    await rig.pass(RECOVER_MS + MINUTE_MS, add(0, 0, {}))
    t.match((await rig.told()).slice(2), [{ type: 'alert.recovered', kind: 'breaker_open' }])
    await rig.pass(RECOVER_MS + MINUTE_MS, add(1, 0, {}))
    t.match((await rig.told()).slice(3), [{ type: 'alert.recovered', kind: 'error_share', value: 0 }])
    await rig.pass(2 * MINUTE_MS, add(100, 90, {}))
    rig.catalog.routes = []
    await rig.pass(RECOVER_MS + 2 * MINUTE_MS)
    t.match((await rig.told()).slice(4), [
      { type: 'alert.opened', kind: 'error_share' },
      { type: 'alert.recovered', kind: 'error_share', value: null },
    ])
  })

  t.test('end users at the share of their budgets: each once, and well in the next month', async (t) => {
    const rig = await start(t, { customers: { kind: 'end_user_budget', share: 0.8, workspace: null } })
    const { workspace } = rig.catalog
    rig.catalog.endUsers = END_USERS
    rig.another()
    const named = (id: string, isKept = true): EndUserSample => {
      return { workspace, account: accountOfEndUser(id), id: isKept ? id : null }
    }
    const spending = { ann: 900, ben: 700, vip: 900, cem: 850 }
    for (const [id, micros] of Object.entries(spending)) await spendFor(rig, id, micros)
    const all = [named('ann'), named('ben'), named('vip'), named('cem', false)]
    await rig.pass(MINUTE_MS, async () => {
      await nameThem(rig, 'one', all)
      await nameThem(rig, 'two', [named('ann'), { workspace: 'gone', account: 'a', id: 'a' }])
    })
    const digest = accountOfEndUser('cem')
    const opened = await rig.told()
    t.same(
      opened.map(({ type, kind, subject, value, threshold }) => ({ type, kind, subject, value, threshold })),
      [
        { subject: { workspace, end_user: 'ann' }, value: 0.9 },
        { subject: { workspace, end_user_digest: digest }, value: 0.85 },
      ].map((one) => ({ type: 'alert.opened', kind: 'end_user_budget', ...one, threshold: 0.8 })),
    )
    // Nobody names them any more, or by another name: their incidents are asked about.
    await rig.pass(20 * MINUTE_MS)
    await nameThem(rig, 'one', [named('cem')])
    await rig.pass(MINUTE_MS)
    t.equal((await rig.told()).length, 2)
    await spendFor(rig, 'ben', 50)
    await rig.pass(RECOVER_MS + MINUTE_MS)
    t.equal((await rig.told()).length, 2)
    await rig.endMonth(workspace, ['ann', 'ben', 'cem', 'vip'])
    await rig.pass(RECOVER_MS + MINUTE_MS)
    const over = (await rig.told()).slice(2)
    t.match(over, [
      { type: 'alert.recovered', value: 0 },
      { type: 'alert.recovered', value: 0 },
    ])
    t.same(new Set(over.map(({ incident_id: id }) => id)), new Set(opened.map(({ incident_id: id }) => id)))
  })

  t.test('an end user whose budget is raised, or gone, is well', async (t) => {
    const rig = await start(t, { customers: { kind: 'end_user_budget', share: 0.5, workspace: null } })
    const { workspace } = rig.catalog
    rig.catalog.endUsers = END_USERS
    const ids = ['ann', 'ben']
    for (const id of ids) await spendFor(rig, id, 600)
    const named = ids.map((id) => ({ workspace, account: accountOfEndUser(id), id }))
    await nameThem(rig, 'one', named)
    await rig.watch.round()
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.opened'])
    await nameThem(rig, 'two', [{ ...named[0]!, isRefused: true }])
    const raised = { budgetMicros: 6_000, rateLimit: null }
    rig.catalog.endUsers = { ...END_USERS, overrides: new Map([['ann', raised]]) }
    await rig.pass(RECOVER_MS + MINUTE_MS)
    t.match((await rig.told()).slice(2), [
      { type: 'alert.recovered', subject: { end_user: 'ann' }, value: 0.1 },
    ])
    rig.catalog.endUsers = undefined
    await rig.pass(RECOVER_MS + MINUTE_MS)
    t.match((await rig.told()).slice(3), [
      { type: 'alert.recovered', subject: { end_user: 'ben' }, value: null },
    ])
  })

  t.test('of very many end users the first have incidents, and one counts the others', async (t) => {
    const MORE = 5
    const rig = await start(t, { customers: { kind: 'end_user_budget', share: 0.8, workspace: null } })
    const { workspace } = rig.catalog
    rig.catalog.endUsers = END_USERS
    const ids = Array.from({ length: ROOM.ofEachWorkspace + MORE }, (_, index) => `customer-${index}`)
    await Promise.all(ids.map((id, index) => spendFor(rig, id, index < MORE ? 801 : 900 + (index % 90))))
    const all = ids.map((id) => ({ workspace, account: accountOfEndUser(id), id }))
    for (const [at, node] of ['one', 'two', 'three'].entries())
      await nameThem(rig, node, all.slice(at * 40, at * 40 + 40))
    await rig.watch.round()
    await rig.pass(MINUTE_MS)
    const told = await rig.told()
    t.equal(told.length, ROOM.ofEachWorkspace + 1)
    const subjects = told.map(({ subject }) => subject as Record<string, string>)
    t.match(
      told.filter((_, index) => subjects[index]?.end_user === undefined),
      [{ subject: { workspace, figure: 'more_end_users' }, value: MORE, threshold: 1 }],
    )
    const least = ids.slice(0, MORE)
    t.notOk(
      subjects.some(({ end_user: id = '' }) => least.includes(id)),
      'those who have spent the most come first',
    )
    await rig.endMonth(workspace, ids)
    await rig.pass(RECOVER_MS + MINUTE_MS)
    const recovered = (await rig.told()).filter(({ type }) => type === 'alert.recovered')
    t.equal(recovered.length, ROOM.ofEachWorkspace + 1)
  })

  t.test('errors of a model, of enough calls, without flapping', async (t) => {
    const rule = { kind: 'error_share', share: 0.5, minCalls: 20, windowMs: 60_000, provider: null } as const
    const rig = await start(t, { errors: rule })
    const { samples } = rig.state.console
    let share = 0.9
    let perStep = 3
    const sample = async () => {
      const failed = Math.round(perStep * share)
      for (const node of ['one', 'two'])
        await samples.add(calls(node, rig.clock.nowMs - 1_000, perStep, failed), KEEP_MS)
    }
    await rig.pass(MINUTE_MS / 2, sample)
    t.same(await rig.told(), [], 'too few calls')
    perStep = 100
    await rig.pass(MINUTE_MS, sample)
    t.match(await rig.told(), [{ type: 'alert.opened', subject: { provider: 'deepgram', model: 'nova-3' } }])
    // About the threshold: neither over nor anew.
    for (let turn = 0; turn < 6; turn += 1) {
      share = turn % 2 === 0 ? 0.47 : 0.55
      await rig.pass(2 * MINUTE_MS, sample)
    }
    // Well, but not for long enough.
    share = 0
    await rig.pass(4 * MINUTE_MS, sample)
    share = 0.9
    await rig.pass(2 * MINUTE_MS, sample)
    t.equal((await rig.told()).length, 1)
    share = 0
    await rig.pass(MINUTE_MS + RECOVER_MS + MINUTE_MS, sample)
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.recovered'])
    const [opened, recovered] = await rig.told()
    t.equal(opened?.incident_id, recovered?.incident_id)
    share = 1
    await rig.pass(MINUTE_MS, sample)
    const again = (await rig.told())[2]
    t.match(again, { type: 'alert.opened' })
    t.not(again?.incident_id, opened?.incident_id, 'another incident')
  })

  t.test('a breaker that stays open, on one of the nodes', async (t) => {
    const rig = await start(t, { breakers: { kind: 'breaker_open', forMs: 2 * MINUTE_MS, provider: null } })
    let isOpen = true
    const sample = async () => {
      const unwell = isOpen ? ([['deepgram', 'nova-3']] as const) : []
      await rig.state.console.samples.add(calls('one', rig.clock.nowMs - 1_000, 0, 0, { unwell }), KEEP_MS)
      await rig.state.console.samples.add(calls('two', rig.clock.nowMs - 1_000, 0, 0), KEEP_MS)
    }
    await rig.pass(MINUTE_MS, sample)
    isOpen = false
    await rig.pass(MINUTE_MS / 4, sample)
    isOpen = true
    await rig.pass(1.75 * MINUTE_MS, sample)
    t.same(await rig.told(), [], 'it closed in between')
    await rig.pass(MINUTE_MS, sample)
    const subject = { provider: 'deepgram', model: 'nova-3' }
    t.match(await rig.told(), [{ type: 'alert.opened', kind: 'breaker_open', subject, threshold: 120 }])
    isOpen = false
    await rig.pass(RECOVER_MS + MINUTE_MS, sample)
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.recovered'])
  })

  t.test('a breaker that nobody tries is no incident for ever once no route has the model', async (t) => {
    const rig = await start(t, { breakers: { kind: 'breaker_open', forMs: MINUTE_MS, provider: null } })
    const breaker = { workspace: 'acme', route: 'voice', provider: 'deepgram', model: 'nova-3' }
    const openedAtMs = rig.clock.nowMs
    const sample = async () => {
      const atMs = rig.clock.nowMs - 1_000
      const state = atMs - openedAtMs < 10_000 ? ('open' as const) : ('half_open' as const)
      const breakers = [{ ...breaker, state, sinceMs: openedAtMs + (state === 'open' ? 0 : 10_000) }]
      await rig.state.console.samples.add(calls('one', atMs, 0, 0, { breakers }), KEEP_MS)
    }
    await rig.pass(15 * MINUTE_MS, sample)
    t.same(typesOf(await rig.told()), ['alert.opened'], 'it may fail at the next trial')
    await rig.pass(RECOVER_MS + MINUTE_MS, sample)
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.recovered'])
  })

  t.test('a node that is gone leaves no breaker open', async (t) => {
    const rig = await start(t, { breakers: { kind: 'breaker_open', forMs: MINUTE_MS, provider: 'deepgram' } })
    const breaker = {
      workspace: 'acme',
      route: 'voice',
      provider: 'deepgram',
      model: 'nova-3',
      state: 'open',
    } as const
    await rig.pass(2 * MINUTE_MS, async () =>
      rig.state.console.samples.add(
        calls('one', rig.clock.nowMs - 1_000, 0, 0, { breakers: [breaker] }),
        KEEP_MS,
      ),
    )
    await rig.pass(RECOVER_MS + MINUTE_MS)
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.recovered'])
  })

  t.test('webhooks that were given up, of the last while', async (t) => {
    const rule = { kind: 'dead_webhooks', events: 2, windowMs: 10 * MINUTE_MS, workspace: null } as const
    const rig = await start(t, { dead: rule })
    const [dead, fine] = [newWorkspace(), newWorkspace()]
    const giveUp = async (workspace: string) => {
      const spec = specOf(workspace, { kind: 'transcription' })
      await rig.state.jobs.submit({ spec, slot: null })
      await rig.state.jobs.cancel(spec.id, spec, KEEP)
      const [event] = await rig.state.outbox.claim(claiming)
      if (event === undefined) throw new Error('there is no event')
      await rig.state.outbox.end(event, {
        state: 'given_up',
        reason: 'status 410',
        keepMs: 7 * 24 * 3_600_000,
      })
    }
    for (const workspace of [dead, fine, dead]) await giveUp(workspace)
    await rig.watch.round()
    t.match(await rig.told(), [
      { type: 'alert.opened', subject: { workspace: dead }, value: 2, threshold: 2 },
    ])
    await rig.pass(10 * MINUTE_MS + RECOVER_MS + MINUTE_MS)
    t.match((await rig.told())[1], { type: 'alert.recovered', value: null })
  })

  t.test('jobs that wait', async (t) => {
    const rig = await start(t, { backlog: { kind: 'backlog', jobs: 3, ageMs: null } })
    const workspace = newWorkspace()
    for (let index = 0; index < 3; index += 1)
      await rig.state.jobs.submit({ spec: specOf(workspace, { kind: 'transcription' }), slot: null })
    await rig.watch.round()
    t.match(await rig.told(), [
      { subject: { queue: 'transcription', figure: 'jobs' }, value: 3, threshold: 3 },
    ])
    for (const { job } of await rig.state.jobs.claim(claimingOf({ limit: 10 })))
      await rig.state.jobs.end(job.id, job.fence, FAILURE, KEEP)
    await rig.pass(RECOVER_MS + MINUTE_MS)
    const ends = (await rig.told()).filter(
      ({ kind, type }) => kind === 'backlog' && type === 'alert.recovered',
    )
    t.equal(ends.length, 1)
  })

  t.test('a model whose end is announced, by the table or by the configuration', async (t) => {
    const rig = await start(t, { ends: { kind: 'model_ends', days: 30 } })
    // Long before the end in the built-in table, whatever day it is.
    rig.clock.nowMs = Date.parse('2026-06-01T00:00:00Z')
    const at = (days: number) => new Date(rig.clock.nowMs + days * 86_400_000).toISOString().slice(0, 10)
    const provider = configuredProvider({ name: 'dg' })
    rig.catalog.routes = [
      route([
        entry({ provider, model: 'soon', endsOn: at(10) }),
        entry({ provider, model: 'over', endsOn: at(-2) }),
        entry({ provider, model: 'later', endsOn: at(90) }),
        entry({ provider, model: 'never' }),
        entry({ provider: configuredProvider({ name: 'oa', kind: 'openai' }), model: 'whisper-1' }),
      ]),
    ]
    await rig.watch.round()
    const models = () =>
      rig.told().then((told) => told.map(({ subject }) => (subject as { model: string }).model))
    t.same((await models()).sort(), ['over', 'soon'])
    rig.clock.nowMs = Date.parse('2027-02-20T00:00:00Z')
    await rig.watch.round()
    t.ok((await models()).includes('whisper-1'), 'as the built-in table has it')
    rig.catalog.routes = []
    await rig.pass(RECOVER_MS + MINUTE_MS)
    t.equal(typesOf(await rig.told()).filter((type) => type === 'alert.recovered').length, 4)
  })

  t.test('an end that a workspace says itself is told in its name', async (t) => {
    const rig = await start(t, { ends: { kind: 'model_ends', days: 30 } })
    rig.clock.nowMs = Date.parse('2027-02-20T00:00:00Z')
    const platform = configuredProvider({ name: 'oa', kind: 'openai' })
    const own = configuredProvider({ name: 'beta.oa', kind: 'openai', access: 'byok', workspace: 'beta' })
    const whisper = { model: 'whisper-1' }
    rig.catalog.routes = [
      route([entry({ provider: platform, ...whisper })]),
      route([entry({ provider: platform, ...whisper, endsOn: '2020-01-01' })], { workspace: 'evil' }),
      route([entry({ provider: own, ...whisper })], { workspace: 'beta' }),
    ]
    await rig.watch.round()
    const subjects = (await rig.told()).map(({ subject }) => subject as Record<string, string>)
    t.same(
      new Set(
        subjects.map(({ workspace = null, provider, ends_on: end }) => `${workspace} ${provider} ${end}`),
      ),
      new Set(['null oa 2027-02-26', 'evil oa 2020-01-01', 'beta beta.oa 2027-02-26']),
    )
  })

  t.test(
    'a workspace that makes very many incidents takes none from others and from other rules',
    async (t) => {
      const MORE = 1_000
      const ends = { kind: 'model_ends', days: 30 } as const
      const rig = await start(t, { ends, budgets: { kind: 'budget', share: 0.8, workspace: null } })
      const ended = Array.from({ length: ROOM.ofEachWorkspace + MORE }, (_, at) =>
        entry({ model: `m-${at}`, endsOn: '2020-01-01' }),
      )
      rig.catalog.routes = [route(ended, { workspace: 'evil' })]
      await rig.watch.round()
      t.equal((await rig.state.alerts.open()).length, ROOM.ofEachWorkspace + 1)
      const told = [...(await rig.told())]
      t.match(
        told.filter(({ subject }) => (subject as { model?: string }).model === undefined),
        [{ subject: { workspace: 'evil', figure: 'more_incidents' }, value: MORE, threshold: 1 }],
      )
      // Another node takes over, and knows only what the state has kept.
      await rig.watch.stop()
      const heir = rig.another()
      await heir.round()
      t.equal((await rig.told()).length, told.length)
      const platform = entry({
        provider: configuredProvider({ name: 'oa', kind: 'openai' }),
        model: 'whisper-1',
      })
      rig.catalog.routes = [...rig.catalog.routes, route([platform])]
      // Not before today, whose month the state counts.
      rig.clock.nowMs = Math.max(Date.parse('2027-02-20T00:00:00Z'), Date.now())
      const { workspace } = rig.catalog
      await rig.state.accounts.addUsage({
        token: newToken(),
        workspace,
        spentMicros: { key_other: 9_000_000 },
      })
      await heir.round()
      t.same(
        new Set((await rig.told()).slice(told.length).map(({ rule }) => rule)),
        new Set(['ends', 'budgets']),
        'there is room for the platform, and for other rules',
      )
      rig.catalog.routes = [route([platform]), route(ended.slice(0, 1), { workspace: 'evil' })]
      for (const ms of [0, RECOVER_MS]) {
        rig.clock.nowMs += ms
        await heir.round()
      }
      const over = (await rig.told()).filter(({ type }) => type === 'alert.recovered')
      t.equal(over.length, ROOM.ofEachWorkspace)
      t.match(
        over.filter(({ subject }) => (subject as { model?: string }).model === undefined),
        [{ subject: { workspace: 'evil', figure: 'more_incidents' }, value: null }],
      )
      await heir.stop()
    },
  )

  t.test('a rule that is narrowed ends what it no longer covers', async (t) => {
    const rule = { kind: 'error_share', share: 0.5, minCalls: 20, windowMs: 60_000, provider: null } as const
    const rig = await start(t, { errors: rule })
    rig.catalog.routes = [
      route([entry({ provider: configuredProvider({ name: 'deepgram' }), model: 'nova-3' })]),
    ]
    const sample = () =>
      rig.state.console.samples.add(calls('one', rig.clock.nowMs - 1_000, 100, 90), KEEP_MS)
    await rig.pass(MINUTE_MS, sample)
    t.same(typesOf(await rig.told()), ['alert.opened'])
    rig.catalog.terms = termsOf({ errors: { ...rule, provider: 'another' } })
    await rig.pass(RECOVER_MS + MINUTE_MS, sample)
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.recovered'])
  })

  t.test('a rule that looks further back reads what it has not read yet', async (t) => {
    const rig = await start(t, { breakers: { kind: 'breaker_open', forMs: MINUTE_MS, provider: null } })
    const unwell = [['deepgram', 'nova-3']] as const
    const sample = () =>
      rig.state.console.samples.add(calls('one', rig.clock.nowMs - 1_000, 0, 0, { unwell }), KEEP_MS)
    await rig.pass(12 * MINUTE_MS, sample)
    t.same(typesOf(await rig.told()), ['alert.opened'])
    rig.catalog.terms = termsOf({ breakers: { kind: 'breaker_open', forMs: 10 * MINUTE_MS, provider: null } })
    await rig.pass(RECOVER_MS + MINUTE_MS, sample)
    t.same(typesOf(await rig.told()), ['alert.opened'], 'it was open all the while')
  })

  t.test('a rule that is gone ends what it began', async (t) => {
    const rig = await start(t, { ends: { kind: 'model_ends', days: 30 } })
    rig.catalog.routes = [route([entry({ endsOn: '2020-01-01' })])]
    await rig.watch.round()
    rig.catalog.terms = termsOf({ others: { kind: 'model_ends', days: 1 } })
    await rig.watch.round()
    const told = await rig.told()
    t.same(told.map(({ type, rule }) => `${type} ${rule}`).sort(), [
      'alert.opened ends',
      'alert.opened others',
      'alert.recovered ends',
    ])
  })

  t.test('two nodes tell once, also when both believe that they are the one', async (t) => {
    const rig = await start(t, { ends: { kind: 'model_ends', days: 30 } })
    rig.catalog.routes = [route([entry({ endsOn: '2020-01-01' })])]
    const permits = { ...rig.state.permits, take: async () => ({ lease: { release() {} } }) }
    const rude = createAlertWatch({
      state: { ...rig.state, permits },
      snapshot: () =>
        ({ alerts: rig.catalog.terms, apps: new Map(), keys: new Map() }) as unknown as Snapshot,
      routes: () => rig.catalog.routes,
      models: () => SHIPPED,
      log,
      onEvent: () => {},
      clock: { ...systemClock, wallNow: () => rig.clock.nowMs },
    })
    const second = rig.another()
    for (let turn = 0; turn < 3; turn += 1)
      await Promise.all([rig.watch.round(), rude.round(), second.round()])
    t.same(typesOf(await rig.told()), ['alert.opened'])
    rig.catalog.routes = []
    for (let turn = 0; turn < 3; turn += 1) {
      rig.clock.nowMs += RECOVER_MS
      await Promise.all([rig.watch.round(), rude.round(), second.round()])
    }
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.recovered'])
  })

  t.test('who comes after tells nothing again, and ends it', async (t) => {
    const rig = await start(t, { ends: { kind: 'model_ends', days: 30 } })
    rig.catalog.routes = [route([entry({ endsOn: '2020-01-01' })])]
    await rig.watch.round()
    const heir = rig.another()
    await heir.round()
    await rig.watch.stop()
    await heir.round()
    t.same(typesOf(await rig.told()), ['alert.opened'])
    rig.catalog.routes = []
    for (const ms of [0, RECOVER_MS]) {
      rig.clock.nowMs += ms
      await heir.round()
    }
    t.same(typesOf(await rig.told()), ['alert.opened', 'alert.recovered'])
    await heir.stop()
  })

  t.test('figures that cannot be read begin and end nothing', async (t) => {
    const rig = await start(t, {
      ends: { kind: 'model_ends', days: 30 },
      backlog: { kind: 'backlog', jobs: 1, ageMs: null },
    })
    rig.catalog.routes = [route([entry({ endsOn: '2020-01-01' })])]
    await rig.state.jobs.submit({ spec: specOf(newWorkspace(), { kind: 'transcription' }), slot: null })
    await rig.watch.round()
    await rig.watch.stop()
    t.equal((await rig.told()).filter(({ type }) => type === 'alert.opened').length, 2)
    const jobs = { figures: () => Promise.reject(new Error('away')) }
    const blind = createAlertWatch({
      state: { ...rig.state, jobs: jobs as unknown as State['jobs'] },
      snapshot: () =>
        ({ alerts: rig.catalog.terms, apps: new Map(), keys: new Map() }) as unknown as Snapshot,
      routes: () => [],
      models: () => SHIPPED,
      log,
      onEvent: () => {},
      clock: { ...systemClock, wallNow: () => rig.clock.nowMs },
    })
    for (const ms of [0, RECOVER_MS, RECOVER_MS]) {
      rig.clock.nowMs += ms
      await blind.round()
    }
    await blind.stop()
    const ended = (await rig.told()).filter(({ type }) => type === 'alert.recovered')
    t.match(ended, [{ rule: 'ends' }], 'only what could be looked at')
  })
}

t.test('embedded', async (t) =>
  watches(t, async (t) => {
    const file = join(await tempFolder(t), 'state.sqlite')
    const state = await openEmbeddedState({ file, log })
    t.teardown(() => state.close())
    const endMonth = async () => {
      const db = new DatabaseSync(file)
      db.exec("UPDATE end_user_spending SET month = '2020-01'")
      db.close()
    }
    return { state, endMonth }
  }),
)

t.test('Redis', { skip: withoutServers }, async (t) =>
  watches(t, async (t) => {
    const { url } = await startRedis(t)
    const endMonth = async (workspace: string, ids: readonly string[]) => {
      const redis = new Redis(url)
      for (const id of ids) {
        const key = `lk:{${workspace}}:end-user:${accountOfEndUser(id)}`
        const [, micros] = (await redis.get(key))?.split(' ') ?? []
        await redis.set(key, `2020-01 ${micros}`, 'KEEPTTL')
      }
      redis.disconnect()
    }
    return { state: await openRedisState(t, url), endMonth }
  }),
)

t.test(
  'it is told to a receiver that refuses, breaks off and hangs, until it is taken; signed',
  async (t) => {
    const behaviours: Behaviour[] = [
      answering(500),
      hanging,
      answering(429, 'Retry-After: 0'),
      answering(204),
    ]
    const receiver = await startReceiver(t, (line, delivery) =>
      (behaviours[Math.min(receiver.received.length, behaviours.length) - 1] ?? hanging)(line, delivery),
    )
    const terms = termsOf({ ends: { kind: 'model_ends', days: 30 } })
    const hooks = startWebhookRig(t, {
      internet: { '8.8.8.8': receiver },
      post: { timing: { totalMs: 300, bodyMs: 100 } },
      alertTarget: () => ({ url: terms.url, secrets: [terms.secret] }),
    })
    const rig = rigOf(hooks.state, newWorkspace(), terms)
    rig.catalog.routes = [route([entry({ endsOn: '2020-01-01' })])]
    await rig.watch.round()
    hooks.start()
    t.ok(await hooks.settled())
    t.equal(receiver.received.length, 4)
    t.equal(new Set(receiver.received.map(({ body }) => body)).size, 1)
    t.equal(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size, 1)
    for (const delivery of receiver.received) t.ok(isVerified(SECRET, delivery))
    t.same(await hooks.state.outbox.list(null, 10), [])
  },
)

t.test('what nobody is told any more is dropped', async (t) => {
  const hooks = startWebhookRig(t, { internet: {} })
  const rig = rigOf(hooks.state, newWorkspace(), termsOf({ ends: { kind: 'model_ends', days: 30 } }))
  rig.catalog.routes = [route([entry({ endsOn: '2020-01-01' })])]
  await rig.watch.round()
  hooks.start()
  t.ok(await hooks.settled())
  t.same(await hooks.state.outbox.list(null, 10), [])
})

t.test('without alerts nothing is read', async (t) => {
  t.plan(1)
  const state = new Proxy({} as State, {
    get(_, name) {
      if (name === 'console') return {}
      throw new Error('the state was asked')
    },
  })
  const rig = rigOf(state, 'acme', termsOf({}))
  rig.catalog.terms = undefined
  await rig.watch.round()
  await rig.watch.stop()
  t.pass('and nobody was asked')
})
