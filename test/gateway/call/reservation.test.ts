import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import type { AudioReader } from '../../../src/contracts/audio.ts'
import type { Principal } from '../../../src/contracts/catalog.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { AccountTerms, AccountView } from '../../../src/contracts/ledger.ts'
import type { OperationName } from '../../../src/contracts/operations.ts'
import { type Failure, UpstreamFailure } from '../../../src/contracts/upstream.ts'
import { failOver } from '../../../src/gateway/call/attempt/failover.ts'
import { openAttempt } from '../../../src/gateway/call/attempt/stream.ts'
import { type Reservation, reserve } from '../../../src/gateway/call/context/reservation.ts'
import { activate, selectEntries } from '../../../src/gateway/call/pipeline.ts'
import { type Selection, without } from '../../../src/gateway/call/select/selection.ts'
import { audio, options } from '../../support/call.ts'
import { configuredProvider, facts, principal } from '../../support/catalog.ts'
import {
  chatCall,
  entryAt,
  type GatewayRig,
  gatewayRig,
  type RigRequest,
  refusalOf,
  runStreamed,
  runWhole,
  upstream,
} from '../../support/gateway-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.setTimeout(120_000)

type Access = 'platform' | 'byok'
type Answer = (response: ServerResponse) => unknown

const USD = 1_000_000
/** `hello` and an answer of the usual length, at 1 and 10 USD for a million tokens. */
const ESTIMATE = 2 + 1_000 * 10
/** What the provider tells: 100 tokens in and 10 out. */
const COST = 100 + 10 * 10
const DEADLINE_MS = 1_000
/** For calls that do not wait for theirs, however slow the machine is. */
const LONG_MS = 60_000

const json = (response: ServerResponse, body: object) => response.end(JSON.stringify(body))
const choices = [{ index: 0, message: { role: 'assistant', content: 'well' }, finish_reason: 'stop' }]
const usage = { prompt_tokens: 100, completion_tokens: 10 }
const answers: Answer = (response) => json(response, { choices, usage })
const tellsNoUsage: Answer = (response) => json(response, { choices })
const refuses =
  (status: number): Answer =>
  (response) =>
    response.writeHead(status).end('{"error":{}}')
const breaks: Answer = (response) => response.destroy()
const hangs: Answer = () => {}

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`
const piece = event({ choices: [{ index: 0, delta: { content: 'he' } }] })
const stop = event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
const streams =
  (...rest: readonly (string | Answer)[]): Answer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    for (const part of rest) typeof part === 'string' ? response.write(part) : part(response)
  }
const ends: Answer = (response) => response.end('data: [DONE]\n\n')
const told = event({ choices: [], usage })
const cut: Answer = (response) => setTimeout(() => response.destroy(), 20)

/** An entry that is the platform's, or the customer's own. */
function at(origin: string, access: Access, price = PRICE) {
  const workspace = access === 'byok' ? 'acme' : null
  const provider = configuredProvider({ name: access, access, workspace, baseUrl: `${origin}/v1` })
  const capabilities = ['text', 'audio_input', 'image'] as const
  return entryAt(origin, { provider, facts: facts({ capabilities, price }) })
}
const PRICE: ReturnType<typeof facts>['price'] = {
  per_hour_usd: 36,
  per_1m_input_tokens_usd: 1,
  per_1m_output_tokens_usd: 10,
}

const terms = (overrides: Partial<AccountTerms> = {}): AccountTerms => {
  return { grant: { id: 'initial', micros: USD }, trial: null, budgetMicros: null, ...overrides }
}

function caller(of: AccountTerms = terms(), keyBudgetMicros: number | null = null): Partial<Principal> {
  const { workspace, key } = principal()
  return { workspace: { ...workspace, terms: of }, key: { ...key, budgetMicros: keyBudgetMicros } }
}

/** How the account stands when nothing is under way any more. */
async function booked({ services }: GatewayRig, of = terms()): Promise<AccountView> {
  const { settlements, moneyLeases, usage, state } = services
  if (!(await waitUntil(() => settlements.pending === 0))) throw new Error('a call is still under way')
  await usage.close()
  await moneyLeases.giveBack('acme')
  return state.accounts.show('acme', of)
}

async function assertBooked(t: Test, rig: GatewayRig, access: Access, micros: number, what: string) {
  const creditsMicros = USD - (access === 'platform' ? micros : 0)
  const { creditsMicros: left, spentMicros, spentByKey, reservedMicros } = await booked(rig)
  t.same([left, spentMicros, reservedMicros], [creditsMicros, micros, 0], `${what}: what is left, and spent`)
  t.equal(spentByKey.key_web ?? 0, micros)
  t.equal(rig.services.budget.used, 0, `${what}: nothing is held`)
}

const LEFT = new GatewayError('CLIENT_CLOSED')

/** One call at an upstream, up to its end. @returns the code of its failure; null: it was answered */
type Act = (rig: GatewayRig, arrived: () => Promise<unknown>) => Promise<string | null>

const codeOf = (ended: Promise<unknown>) =>
  ended.then(
    () => null,
    (error: unknown) => (error instanceof GatewayError ? error.code : String(error)),
  )

const asks: Act = ({ services, request }) =>
  codeOf(runWhole(services, request('chat', chatCall())).then(({ release }) => release()))

const leaves: Act = async ({ services, request }, arrived) => {
  const leaving = new AbortController()
  const ended = codeOf(runWhole(services, request('chat', chatCall(), leaving.signal)))
  await arrived()
  leaving.abort(LEFT)
  return ended
}

const leftBefore: Act = ({ services, request }) =>
  codeOf(runWhole(services, request('chat', chatCall(), AbortSignal.abort(LEFT))))

const reads: Act = ({ services, request }) =>
  codeOf(
    runStreamed(services, request('chat', chatCall())).then(async ({ deltas, outcome }) => {
      for await (const _ of deltas);
      outcome().release()
    }),
  )

const leavesAStream: Act = async ({ services, request }, arrived) => {
  const leaving = new AbortController()
  const opened = codeOf(runStreamed(services, request('chat', chatCall(), leaving.signal)))
  await arrived()
  leaving.abort(LEFT)
  return opened
}

const leavesUnread: Act = async ({ services, request }) => {
  const { deltas } = await runStreamed(services, request('chat', chatCall()))
  return codeOf(deltas.return())
}

const leavesBehindAPiece: Act = async ({ services, request }) => {
  const { deltas } = await runStreamed(services, request('chat', chatCall()))
  await deltas.next()
  return codeOf(deltas.return())
}

t.test('what every ending of a call is booked as, whoever owns the provider', async (t) => {
  const rows: [what: string, answer: Answer, act: Act, code: string | null, micros: number][] = [
    ['an answer', answers, asks, null, COST],
    ['an answer that does not tell its tokens', tellsNoUsage, asks, null, ESTIMATE],
    ['500', refuses(500), asks, 'UPSTREAM_ERROR', 0],
    ['400', refuses(400), asks, 'UPSTREAM_REJECTED', 0],
    ['a broken connection', breaks, asks, 'UPSTREAM_ERROR', 0],
    ['the deadline', hangs, asks, 'UPSTREAM_TIMEOUT', 0],
    ['the caller leaves while the provider works', hangs, leaves, 'CLIENT_CLOSED', ESTIMATE],
    ['the caller left before one was asked', hangs, leftBefore, 'CLIENT_CLOSED', 0],
    ['a stream', streams(piece, stop, told, ends), reads, null, COST],
    ['a stream that does not tell its tokens', streams(piece, stop, ends), reads, null, ESTIMATE],
    ['a stream that is refused', refuses(500), reads, 'UPSTREAM_ERROR', 0],
    ['a stream that breaks off before its first piece', streams(cut), reads, 'UPSTREAM_ERROR', 0],
    ['a stream that breaks off behind it', streams(piece, cut), reads, 'UPSTREAM_ERROR', ESTIMATE],
    ['a stream that stops behind it', streams(piece), reads, 'UPSTREAM_TIMEOUT', ESTIMATE],
    ['a stream left while it is waited for', streams(), leavesAStream, 'CLIENT_CLOSED', ESTIMATE],
    ['a stream that nobody begins to read', streams(piece), leavesUnread, null, ESTIMATE],
    ['a stream left behind a piece', streams(piece), leavesBehindAPiece, null, ESTIMATE],
  ]
  for (const access of ['platform', 'byok'] as const) {
    for (const [what, answer, act, code, micros] of rows) {
      const { origin, requests } = await upstream(t, answer)
      const entries = [at(origin, access)]
      const deadlineMs = code === 'UPSTREAM_TIMEOUT' ? DEADLINE_MS : LONG_MS
      const rig = gatewayRig(t, { entries, caller: caller(), deadlineMs })
      t.equal(await act(rig, () => waitUntil(() => requests.length > 0)), code, `${access}: ${what}`)
      await assertBooked(t, rig, access, micros, `${access}: ${what}`)
    }
  }
})

t.test('a failover is paid to whoever answered, or was left', async (t) => {
  type Side = [access: Access, answer: Answer]
  const rows: [what: string, first: Side, second: Side, act: Act, paid: Access, micros: number][] = [
    ['own behind the platform', ['platform', refuses(500)], ['byok', answers], asks, 'byok', COST],
    ['the platform behind own', ['byok', breaks], ['platform', answers], asks, 'platform', COST],
    ['nobody', ['byok', breaks], ['platform', refuses(400)], asks, 'platform', 0],
    ['own is left', ['platform', refuses(500)], ['byok', hangs], leaves, 'byok', ESTIMATE],
    ['the platform is left', ['byok', refuses(500)], ['platform', hangs], leaves, 'platform', ESTIMATE],
  ]
  for (const [what, first, second, act, paid, micros] of rows) {
    const servers = await Promise.all([upstream(t, first[1]), upstream(t, second[1])])
    const entries = [at(servers[0].origin, first[0]), at(servers[1].origin, second[0])]
    const rig = gatewayRig(t, { entries, caller: caller(), deadlineMs: 5_000 })
    await act(rig, () => waitUntil(() => servers[1].requests.length > 0))
    await assertBooked(t, rig, paid, micros, what)
  }
})

t.test('a store that fails while the audio is sent costs nothing', async (t) => {
  const { origin } = await upstream(t, hangs)
  const failing = (): never => {
    throw new GatewayError('DEPENDENCY_UNAVAILABLE')
  }
  const reader: AudioReader = {
    async *bytes() {
      yield Buffer.alloc(10)
      failing()
    },
    base64: failing,
    range: failing,
  }
  const rig = gatewayRig(t, { entries: [at(origin, 'platform')], caller: caller(), reader })
  const call = rig.request('transcription', { audio: audio(), options: options() })
  t.equal(await codeOf(runWhole(rig.services, call)), 'DEPENDENCY_UNAVAILABLE')
  t.equal(call.context.money.estimate, null, 'nor is it logged as if it did')
  await assertBooked(t, rig, 'platform', 0, 'a body that is cut short')
})

t.test('the purse that pays', async (t) => {
  const trial = (allowanceMicros: number, expiresAtMs = Date.now() + 60_000) => ({
    allowanceMicros,
    expiresAtMs,
  })
  const grant = (micros: number) => ({ id: 'initial', micros })
  const rows: [what: string, of: AccountTerms, spent: { trial: number; credits: number; overage: number }][] =
    [
      ['credits', terms(), { trial: 0, credits: COST, overage: 0 }],
      ['the trial first', terms({ trial: trial(ESTIMATE) }), { trial: COST, credits: 0, overage: 0 }],
      [
        'a trial that does not suffice',
        terms({ trial: trial(ESTIMATE - 1) }),
        { trial: 0, credits: COST, overage: 0 },
      ],
      ['a trial that is over', terms({ trial: trial(USD, 1) }), { trial: 0, credits: COST, overage: 0 }],
      ['just enough', terms({ grant: grant(ESTIMATE) }), { trial: 0, credits: COST, overage: 0 }],
    ]
  const { origin } = await upstream(t, answers)
  for (const [what, of, spent] of rows) {
    const rig = gatewayRig(t, { entries: [at(origin, 'platform')], caller: caller(of) })
    t.equal(await asks(rig, async () => {}), null, what)
    const view = await booked(rig, of)
    const credits = (of.grant?.micros ?? 0) - view.creditsMicros
    t.same({ trial: view.trialSpentMicros, credits, overage: view.overageMicros }, spent, what)
    t.equal(view.spentMicros, COST)
  }

  const rig = gatewayRig(t, { entries: [at(origin, 'platform')], caller: caller() })
  const short = rig.request('chat', chatCall({ max_tokens: 1 }))
  t.equal(await codeOf(runWhole(rig.services, short)), null)
  t.match(
    await booked(rig),
    { creditsMicros: USD - 12, overageMicros: COST - 12, spentMicros: COST },
    'what a call comes to above its reservation is noted, and taken from nobody',
  )
})

t.test('who cannot pay is refused before a provider is asked', async (t) => {
  const { origin, requests } = await upstream(t, answers)
  const trial = { allowanceMicros: ESTIMATE - 1, expiresAtMs: Date.now() + 60_000 }
  const poor = { id: 'initial', micros: ESTIMATE - 1 }
  const rows: [who: Partial<Principal>, access: Access, code: string, budget?: string][] = [
    [caller(terms({ grant: null })), 'platform', 'INSUFFICIENT_CREDITS'],
    [caller(terms({ grant: poor })), 'platform', 'INSUFFICIENT_CREDITS'],
    [caller(terms({ grant: null, trial })), 'platform', 'TRIAL_EXHAUSTED'],
    [caller(terms({ grant: poor, trial })), 'platform', 'INSUFFICIENT_CREDITS'],
    [caller(terms({ budgetMicros: ESTIMATE - 1 })), 'platform', 'BUDGET_EXCEEDED', 'workspace'],
    [caller(terms({ budgetMicros: ESTIMATE - 1 })), 'byok', 'BUDGET_EXCEEDED', 'workspace'],
    [caller(terms(), ESTIMATE - 1), 'byok', 'BUDGET_EXCEEDED', 'key'],
  ]
  for (const [who, access, code, budget] of rows) {
    const rig = gatewayRig(t, { entries: [at(origin, access)], caller: who })
    const refusal = await refusalOf(runWhole(rig.services, rig.request('chat', chatCall())))
    t.equal(refusal.code, code)
    t.equal(refusal.extra.details?.budget, budget)
    t.match(await booked(rig, who.workspace?.terms), {
      spentMicros: 0,
      reservedMicros: 0,
      trialSpentMicros: 0,
    })
  }
  t.equal(requests.length, 0)
})

t.test('own providers serve whom the credits do not reach, within the budget', async (t) => {
  const { origin } = await upstream(t, answers)
  const entries = [at(origin, 'platform'), at(origin, 'byok')]
  const of = terms({ grant: null, budgetMicros: ESTIMATE + COST })
  const rig = gatewayRig(t, { entries, caller: caller(of) })
  for (const micros of [COST, 2 * COST]) {
    const { envelope, release } = await runWhole(rig.services, rig.request('chat', chatCall()))
    release()
    t.match(envelope, { provider: 'byok', warnings: [/^credits:/] })
    t.match(await booked(rig, of), { creditsMicros: 0, spentMicros: micros, reservedMicros: 0 })
  }
  const refusal = await refusalOf(runWhole(rig.services, rig.request('chat', chatCall())))
  t.match(refusal, { code: 'BUDGET_EXCEEDED', extra: { details: { budget: 'workspace' } } })
})

t.test('what nobody can tell beforehand is not for nothing', async (t) => {
  const image = { prompt: 'a', n: 1, size: null, quality: null, output_format: null, seed: null }
  const { origin, requests } = await upstream(t, (response) =>
    json(response, { data: [{ b64_json: 'aGk=' }], usage: { input_tokens: 100, output_tokens: 10 } }),
  )
  const entries = [at(origin, 'platform')]
  const broke = gatewayRig(t, { entries, caller: caller(terms({ grant: null })) })
  const refusal = await refusalOf(runWhole(broke.services, broke.request('image', image)))
  t.equal(refusal.code, 'INSUFFICIENT_CREDITS')
  t.equal(requests.length, 0)
  const rig = gatewayRig(t, { entries, caller: caller() })
  const { envelope, release } = await runWhole(rig.services, rig.request('image', image))
  release()
  t.equal(envelope.cost_usd, COST / USD)
  await assertBooked(t, rig, 'platform', COST, 'what it came to is known afterwards')
})

/** The same rig with a ledger whose `begin` is somebody else's. */
function withBegin(rig: GatewayRig, begin: GatewayRig['services']['state']['ledger']['begin']) {
  const { state } = rig.services
  return { ...rig.services, state: { ...state, ledger: { ...state.ledger, begin } } }
}

t.test('the state is asked only for whom it is needed, and waited for at a stop', async (t) => {
  const { origin } = await upstream(t, answers)
  const ask = <K extends OperationName>(services: GatewayRig['services'], request: RigRequest<K>) =>
    codeOf(runWhole(services, request))
  const away = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))

  const own = gatewayRig(t, { entries: [at(origin, 'byok')], caller: caller() })
  t.equal(await ask(withBegin(own, away), own.request('chat', chatCall())), null, 'own providers go on')

  const rig = gatewayRig(t, { entries: [at(origin, 'platform')], caller: caller() })
  t.equal(
    await ask(withBegin(rig, away), rig.request('chat', chatCall())),
    'DEPENDENCY_UNAVAILABLE',
    'credits cannot be looked at',
  )
  t.ok(await waitUntil(() => rig.services.settlements.pending === 0), 'what may have begun is taken back')

  const gate = Promise.withResolvers<void>()
  const slow = withBegin(rig, async (beginning) => {
    await gate.promise
    return rig.services.state.ledger.begin(beginning)
  })
  const leaving = new AbortController()
  const ended = ask(slow, rig.request('chat', chatCall(), leaving.signal))
  leaving.abort(LEFT)
  await new Promise(setImmediate)
  t.equal(rig.services.settlements.pending, 1, 'a stop waits for what is beginning')
  gate.resolve()
  t.equal(await ended, 'CLIENT_CLOSED')
  await assertBooked(t, rig, 'platform', 0, 'left while it began')
})

/** The phases behind the selection of one call that is streamed, for whoever repeats them. */
function phasesOf({ services, request }: GatewayRig) {
  const { context, call } = request('chat', chatCall())
  const nowMs = performance.now()
  const asked = { mode: 'streamed', call } as const
  const selection = selectEntries(services, context, asked, nowMs)
  const active = { ...activate(services, context, asked, nowMs), call }
  const open = (among: Selection) => failOver(active, among, openAttempt)
  return { context, open, slice: async () => reserve(active, selection) }
}

t.test('one call can reserve slice after slice, and go on with another provider when one dies', async (t) => {
  const dying = await upstream(t, streams(piece, cut))
  const other = await upstream(t, streams(piece, stop, told, ends))
  const entries = [at(dying.origin, 'platform'), at(other.origin, 'platform')]
  const rig = gatewayRig(t, { entries, caller: caller() })
  const { context, open, slice } = phasesOf(rig)
  const first = await slice()
  const dead = await open(first.selection)
  const failure = await refusalOfStream(dead.got.rest)
  dead.recorder.failed(failure, true)
  dead.got.release()
  const { entry } = dead.recorder.candidate

  const second = await slice()
  const { accounts } = rig.services.state
  t.equal((await accounts.show('acme', terms())).reservedMicros, 2 * ESTIMATE, 'each slice has its own money')
  await first.settle(entry, 100 / USD)
  t.match(await accounts.show('acme', terms()), { reservedMicros: ESTIMATE, spentMicros: ESTIMATE + 100 })

  const rest = without(second.selection, (candidate) => candidate.entry === entry)
  if (rest === null) throw new Error('there is another entry')
  const alive = await open(rest)
  t.equal(alive.recorder.candidate.entry, entries[1])
  for (let next = alive.got.first; next.done !== true; next = await alive.got.rest.next());
  alive.recorder.succeeded()
  alive.got.release()
  await second.settle(alive.recorder.candidate.entry, 200 / USD)
  t.equal(
    without(rest, () => true),
    null,
    'and nobody when nobody is left',
  )
  t.equal(context.routing.attempts.length, 2, 'both stand on its context')
  t.equal(dying.requests.length, 1, 'the dead one is not asked again')
  await assertBooked(t, rig, 'platform', 300, 'what both slices came to')
})

t.test('a slice that the credits do not cover goes on with the own providers alone', async (t) => {
  const { origin } = await upstream(t, hangs)
  const entries = [at(origin, 'platform'), at(origin, 'byok')]
  const of = terms({ grant: { id: 'initial', micros: ESTIMATE } })
  const rig = gatewayRig(t, { entries, caller: caller(of) })
  const { slice } = phasesOf(rig)
  const accessOf = ({ selection }: Reservation) =>
    selection.candidates.map((one) => one.entry.provider.access)
  const first = await slice()
  t.same(accessOf(first), ['platform', 'byok'])
  const second = await slice()
  t.same(accessOf(second), ['byok'])
  t.match(second.selection.warnings, [/^credits:/])
  await first.settle(entries[0]!, 1 / USD)
  await second.settle(entries[1]!, 2 / USD)
  t.match(await booked(rig, of), { creditsMicros: ESTIMATE - 1, spentMicros: 3, reservedMicros: 0 })
})

/** With what the rest of an answer breaks off. */
async function refusalOfStream(rest: AsyncIterator<unknown>): Promise<Failure> {
  try {
    while ((await rest.next()).done !== true);
  } catch (error) {
    if (error instanceof UpstreamFailure) return error.failure
    throw error
  }
  throw new Error('it came to its end')
}
