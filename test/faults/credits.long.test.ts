import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AccountTerms, AccountView } from '../../src/contracts/ledger.ts'
import type { Fleet, FleetOptions, WorkspaceOptions } from '../support/fleet.ts'
import { keyIdOf, startFleet } from '../support/fleet.ts'
import { ask, countsOf, keyedUpload, nameOf } from '../support/keyed-call.ts'
import { RawClient } from '../support/raw-client.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { nameOfPaid, type PaidAnswer, race } from './race.ts'

const USD = 1_000_000

/** Seven characters at 130 micro-USD each: what it costs is known before. */
const SPOKEN = { input: 'seven c' }
const SPOKEN_MICROS = 910

/** The provider tells of 10 tokens in and 50 out. The estimate takes four characters for one, and `max_tokens`. */
const QUESTION = 'forty characters are taken for ten token'
const TOLD_MICROS = 10 + 50 * 10
const supposedMicros = (maxTokens: number) => 10 + maxTokens * 10

const FACTS = {
  model: 'm',
  capabilities: ['text', 'audio_input', 'audio_output'],
  price: {
    per_1k_characters_usd: 0.13,
    per_1m_input_tokens_usd: 1,
    per_1m_output_tokens_usd: 10,
    per_hour_usd: 36,
  },
}
const PLATFORM = { provider: 'platform', ...FACTS }
const OWN = { provider: 'own', ...FACTS }

const credits = (micros: number) => ({ credits_usd: micros / USD, grant_id: 'initial' })
const budget = (micros: number) => ({ budget_usd: { per_month: micros / USD } })
const trial = (micros: number, expires_at: string) => ({ trial: { allowance_usd: micros / USD, expires_at } })
const [FUTURE, PAST] = ['2099-01-01T00:00:00Z', '2020-01-01T00:00:00Z']

const CALLS = process.env.LARKWAY_TEST_LONG === '1' ? 10_000 : 3_000
const PAID = 1_000
const UNDER_MICROS = 100_000
const MANY = 100_000 * SPOKEN_MICROS

const WORKSPACES: Readonly<Record<string, WorkspaceOptions>> = {
  exact: { entries: [PLATFORM], terms: credits(PAID * SPOKEN_MICROS) },
  over: { entries: [PLATFORM], terms: credits(300_000) },
  under: { entries: [PLATFORM], terms: credits(UNDER_MICROS) },
  keyed: { entries: [PLATFORM], terms: credits(MANY), key: budget(500 * SPOKEN_MICROS) },
  capped: { entries: [PLATFORM], terms: { ...credits(MANY), ...budget(500 * SPOKEN_MICROS) } },
  tried: { entries: [PLATFORM], terms: trial(100 * SPOKEN_MICROS, FUTURE) },
  late: { entries: [PLATFORM], terms: trial(100 * SPOKEN_MICROS, PAST) },
  both: {
    entries: [PLATFORM],
    terms: { ...trial(10 * SPOKEN_MICROS, FUTURE), ...credits(20 * SPOKEN_MICROS) },
  },
  plain: { entries: [PLATFORM], terms: credits(MANY) },
  mixed: { entries: [PLATFORM, OWN], terms: credits(10 * SPOKEN_MICROS) },
}

/** What the provider tells of every call. */
const CALL_USAGE = { prompt_tokens: 10, completion_tokens: 50, total_tokens: 60 }

/** The terms of an account that is only looked at. */
const NO_TERMS: AccountTerms = { grant: null, trial: null, budgetMicros: null }

/** Nodes that share a state, and a look into it from outside. */
interface PaidRig extends Fleet {
  readonly upstream: Upstream
  show(workspace: string): Promise<AccountView>
}

/** The providers `platform` and `own` are one and the same server; `own` belongs to the workspace `mixed`. */
async function startPaid(t: Test, servers: Pick<FleetOptions, 'nodes' | 'redis'>): Promise<PaidRig> {
  const upstream = await startUpstream(t, { script: { usage: CALL_USAGE } })
  const provider = { kind: 'openai-compatible', base_url: upstream.url }
  const fleet = await startFleet(t, {
    providers: {
      platform: { ...provider, access: 'platform' },
      own: { ...provider, access: 'byok', workspace: 'mixed' },
    },
    workspaces: WORKSPACES,
    ...servers,
  })
  const { accounts } = await fleet.openState()
  return { ...fleet, upstream, show: (workspace) => accounts.show(workspace, NO_TERMS) }
}

/** Looks at an account until it is stopped. */
function watch({ show }: PaidRig, workspace: string) {
  const views: AccountView[] = []
  let stopped = false
  const watching = (async () => {
    while (!stopped) {
      views.push(await show(workspace))
      await sleep(10)
    }
  })()
  return {
    /** @returns all that was seen */
    async stop(): Promise<readonly AccountView[]> {
      stopped = true
      await watching
      return views
    },
  }
}

const speech = (rig: PaidRig, workspace: string) => ({
  path: '/v1/speech',
  body: SPOKEN,
  authorization: rig.authorizationOf(workspace),
})

const chat = (rig: PaidRig, workspace: string, maxTokens: number) => ({
  path: '/v1/chat',
  body: { messages: [{ role: 'user', content: QUESTION }], max_tokens: maxTokens },
  authorization: rig.authorizationOf(workspace),
})

/** One before, one after and some meanwhile. Each waits its turn behind the calls of a race, which is soon over. */
const LOOKS_MIN = 3

/** The account once the nodes have reported what their calls came to. */
async function settled({ show }: PaidRig, workspace: string) {
  await waitUntil(async () => (await show(workspace)).reservedMicros === 0)
  return show(workspace)
}

const ofCosts = (answers: readonly PaidAnswer[]) =>
  answers.reduce((sum, { costUsd }) => sum + Math.round(costUsd * USD), 0)

/** Credits may be spent once, by however many calls at once. */
async function exactCredits(t: Test, rig: PaidRig, calls: number): Promise<void> {
  const watching = watch(rig, 'exact')
  const answers = await race(rig.nodes, speech(rig, 'exact'), calls)
  const views = await watching.stop()
  t.same(countsOf(answers.map(nameOfPaid)), { 200: PAID, '402 INSUFFICIENT_CREDITS': calls - PAID })
  t.equal(ofCosts(answers), PAID * SPOKEN_MICROS)
  t.ok(
    views.length >= LOOKS_MIN && views.every(({ creditsMicros }) => creditsMicros >= 0),
    `${views.length} looks: never below zero`,
  )
  t.match(await settled(rig, 'exact'), {
    creditsMicros: 0,
    reservedMicros: 0,
    overageMicros: 0,
    spentMicros: PAID * SPOKEN_MICROS,
  })
}

/** What was set aside and not needed comes back. */
async function highEstimates(t: Test, rig: PaidRig): Promise<void> {
  const call = chat(rig, 'over', 100)
  const watching = watch(rig, 'over')
  const answers = await race(rig.nodes, call, 1_000)
  // Until it is really used up: in the race some were refused for what others had only set aside.
  for (;;) {
    const [last] = await race(rig.nodes.slice(0, 1), call, 1)
    if (last === undefined) throw new Error('no answer')
    answers.push(last)
    if (last.status !== 200) break
  }
  const views = await watching.stop()
  const paid = answers.filter(({ status }) => status === 200)
  t.same([...new Set(answers.map(nameOfPaid))].sort(), ['200', '402 INSUFFICIENT_CREDITS'])
  t.equal(ofCosts(paid), paid.length * TOLD_MICROS, `${paid.length} answers`)
  t.ok(
    views.length >= LOOKS_MIN && views.every(({ creditsMicros }) => creditsMicros >= 0),
    `${views.length} looks: never below zero`,
  )
  const { creditsMicros, reservedMicros, spentMicros } = await settled(rig, 'over')
  t.equal(creditsMicros, 300_000 - ofCosts(paid), 'what is left is what was not spent')
  t.ok(creditsMicros < supposedMicros(100), 'and does not cover one more')
  t.same({ reservedMicros, spentMicros }, { reservedMicros: 0, spentMicros: ofCosts(paid) })
}

/** What a call costs above its reservation is noted, and taken from nobody. */
async function lowEstimates(t: Test, rig: PaidRig): Promise<void> {
  const answers = await race(rig.nodes, chat(rig, 'under', 10), 1_500)
  const paid = answers.filter(({ status }) => status === 200).length
  t.equal(paid, Math.floor(UNDER_MICROS / supposedMicros(10)))
  t.match(await settled(rig, 'under'), {
    creditsMicros: UNDER_MICROS - paid * supposedMicros(10),
    overageMicros: paid * (TOLD_MICROS - supposedMicros(10)),
    spentMicros: paid * TOLD_MICROS,
    reservedMicros: 0,
  })
}

async function budgets(t: Test, rig: PaidRig): Promise<void> {
  for (const [workspace, whose] of [
    ['keyed', 'key'],
    ['capped', 'workspace'],
  ] as const) {
    const watching = watch(rig, workspace)
    const answers = await race(rig.nodes, speech(rig, workspace), 1_000)
    const views = await watching.stop()
    t.same(countsOf(answers.map(nameOfPaid)), { 200: 500, '402 BUDGET_EXCEEDED': 500 })
    const refused = answers.filter(({ status }) => status !== 200)
    t.ok(
      refused.every(({ details }) => details.budget === whose),
      `the budget of the ${whose}`,
    )
    const cap = 500 * SPOKEN_MICROS
    const spent = views.map(({ spentMicros, spentByKey }) =>
      Math.max(spentMicros, spentByKey[keyIdOf(workspace)] ?? 0),
    )
    t.ok(
      views.length >= LOOKS_MIN && spent.every((micros) => micros <= cap),
      `${views.length} looks: never above the cap`,
    )
    t.match(await settled(rig, workspace), { spentMicros: cap, creditsMicros: MANY - cap, reservedMicros: 0 })
  }
}

async function trials(t: Test, rig: PaidRig): Promise<void> {
  const tried = await race(rig.nodes, speech(rig, 'tried'), 500)
  t.same(countsOf(tried.map(nameOfPaid)), { 200: 100, '402 TRIAL_EXHAUSTED': 400 })
  t.match(await settled(rig, 'tried'), {
    trialSpentMicros: 100 * SPOKEN_MICROS,
    creditsMicros: 0,
    reservedMicros: 0,
  })
  const late = await race(rig.nodes, speech(rig, 'late'), 3)
  t.same(countsOf(late.map(nameOfPaid)), { '402 TRIAL_EXHAUSTED': 3 }, 'a trial that is over')
  const both = await race(rig.nodes, speech(rig, 'both'), 50)
  t.same(countsOf(both.map(nameOfPaid)), { 200: 30, '402 INSUFFICIENT_CREDITS': 20 }, 'a trial and credits')
  t.match(await rig.show('both'), { trialSpentMicros: 10 * SPOKEN_MICROS, creditsMicros: 0 })
}

/** What the workspace `plain` has spent, once nothing is set aside any more. */
async function spentByPlain({ show }: PaidRig): Promise<number> {
  await waitUntil(async () => (await show('plain')).reservedMicros === 0)
  const { creditsMicros, spentMicros, reservedMicros } = await show('plain')
  if (reservedMicros !== 0) throw new Error('something stays set aside')
  if (MANY - creditsMicros !== spentMicros) throw new Error('the purse and the sum of the month differ')
  return spentMicros
}

async function failures(t: Test, rig: PaidRig): Promise<void> {
  const { upstream } = rig
  // A grant is booked with the first call.
  await race(rig.nodes, speech(rig, 'plain'), 1)
  const before = await spentByPlain(rig)
  t.equal(before, SPOKEN_MICROS)
  upstream.behaveAll({ status: 500 })
  const refused = await race(rig.nodes, speech(rig, 'plain'), 4)
  upstream.behaveAll({ fate: 'cut' })
  const broken = await race(rig.nodes, chat(rig, 'plain', 100), 4)
  upstream.behaveAll({ usage: CALL_USAGE })
  t.same(countsOf([...refused, ...broken].map(nameOfPaid)), { '502 UPSTREAM_ERROR': 8 })
  t.equal(await spentByPlain(rig), before, 'a provider that fails costs nothing')
  t.match(await rig.show('plain'), { creditsMicros: MANY - before })
}

async function leaving(t: Test, rig: PaidRig): Promise<void> {
  const { upstream } = rig
  const { port } = rig.node()
  const authorization = rig.authorizationOf('plain')
  const before = await spentByPlain(rig)
  const body = JSON.stringify(chat(rig, 'plain', 100).body)
  const head =
    `POST /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`
  const leave = async (bytes: string | Buffer) => {
    upstream.holdAt('whole')
    const client = await RawClient.connect(port)
    await client.send(bytes)
    t.ok(await waitUntil(() => upstream.held === 1), 'the provider works')
    client.destroy()
    return client
  }
  await leave(head + body)
  t.ok(await waitUntil(() => upstream.held === 0), 'the call of a caller who left is given up')
  upstream.letGo()
  t.equal(await spentByPlain(rig), before + supposedMicros(100), 'and paid as it was estimated')

  const upload = keyedUpload('left', authorization)
  await leave(Buffer.concat([upload.head, upload.body]))
  upstream.holdAt(null)
  upstream.letGo()
  t.ok(
    await waitUntil(async () => nameOf(await ask(port, upload)) === '200 replayed'),
    'with a key it goes on',
  )
  t.equal(await spentByPlain(rig), before + supposedMicros(100) + 500, 'and is paid once')
}

/** Whom credits do not reach, the workspace's own providers serve. */
async function withoutCredits(t: Test, rig: PaidRig): Promise<void> {
  const answers = await race(rig.nodes, speech(rig, 'mixed'), 50)
  t.same(countsOf(answers.map(({ status, provider }) => `${status} ${provider}`)), {
    '200 platform': 10,
    '200 own': 40,
  })
  const warned = answers.filter(({ warnings }) => warnings.some((warning) => warning.startsWith('credits:')))
  t.same(countsOf(warned.map(({ provider }) => String(provider))), { own: 40 }, 'and are told so')
  t.match(await rig.show('mixed'), { creditsMicros: 0, reservedMicros: 0 })
  t.ok(
    await waitUntil(async () => (await rig.show('mixed')).spentMicros === 50 * SPOKEN_MICROS),
    'what the others cost is counted, too',
  )
}

const STATES = [
  { name: 'two processes on one Redis', skip: withoutServers, servers: { nodes: 2, redis: {} } },
  { name: 'one process with its file', skip: false, servers: {} },
]

for (const { name, skip, servers } of STATES) {
  t.test(name, { skip, timeout: 200_000 }, async (t) => {
    const rig = await startPaid(t, servers)
    await t.test('credits for a thousand', (t) => exactCredits(t, rig, CALLS))
    await t.test('estimates of twice the cost', (t) => highEstimates(t, rig))
    await t.test('estimates below the cost', (t) => lowEstimates(t, rig))
    await t.test('budgets', (t) => budgets(t, rig))
    await t.test('trials', (t) => trials(t, rig))
    await t.test('providers that fail', (t) => failures(t, rig))
    await t.test('callers who leave', (t) => leaving(t, rig))
    await t.test('own providers behind the platform', (t) => withoutCredits(t, rig))
  })
}
