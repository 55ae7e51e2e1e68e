import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Audio, Block } from '../../../src/contracts/audio.ts'
import { BLOCK_BYTES } from '../../../src/contracts/audio.ts'
import type { Entry, Principal, Shadow } from '../../../src/contracts/catalog.ts'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { newJobId } from '../../../src/contracts/ids.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import type { ShadowEnd, ShadowSkip } from '../../../src/contracts/shadow.ts'
import { type Failure, UpstreamFailure } from '../../../src/contracts/upstream.ts'
import { Shadows } from '../../../src/gateway/call/compare/shadow.ts'
import { CallContext } from '../../../src/gateway/call/context/call-context.ts'
import type { Services } from '../../../src/gateway/call/context/services.ts'
import type { Call } from '../../../src/gateway/call/facts/call.ts'
import { run } from '../../../src/gateway/call/pipeline.ts'
import { HeldBodies } from '../../../src/gateway/storage/body-holds.ts'
import { options, transcriptionCall } from '../../support/call.ts'
import { configuredProvider, entry, facts, principal, RICH, route } from '../../support/catalog.ts'
import { Dice } from '../../support/dice.ts'
import { gatewayRig } from '../../support/gateway-rig.ts'
import { serveHttp } from '../../support/http-server.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.setTimeout(120_000)

const SEED = Number(process.env.SHADOW_SEED ?? randomInt(2 ** 32))
const BATCHES = 50
/** So few that what a failure does to an entry's health lasts to the end of its batch. */
const CASES = 24
const WORDS = ['one', 'two', 'three', 'four', 'five', 'six']
const SOUND = memoryAudio(Buffer.alloc(4_000, 7), 'identity')

/** How an entry answers the next call. */
type Behaviour =
  | { readonly is: 'text'; readonly text: string }
  | { readonly is: 'status'; readonly status: number; readonly retryAfter?: number }
  | { readonly is: 'garbage' }
  | { readonly is: 'hang' }
  | { readonly is: 'cut' }

/** Counts what becomes of shadows. */
class Told {
  readonly skips: ShadowSkip[] = []
  readonly ends: ShadowEnd[] = []

  skipped(reason: ShadowSkip): void {
    this.skips.push(reason)
  }

  ended(end: ShadowEnd): void {
    this.ends.push(end)
  }

  referred(): void {}
}

/** A provider whose entries, by the first part of the path, answer as they are told. */
async function provider(t: Test, next: (place: string) => Behaviour) {
  const asked: string[] = []
  const origin = await serveHttp(t, (request, response) => {
    const place = request.url!.split('/')[1]!
    request.resume().on('error', () => {})
    request.on('end', () => {
      asked.push(place)
      const behaviour = next(place)
      if (behaviour.is === 'hang') return
      if (behaviour.is === 'cut') return response.destroy()
      if (behaviour.is === 'status') {
        const { status, retryAfter } = behaviour
        response.writeHead(status, retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) })
        return response.end('{"error":{"message":"no"}}')
      }
      response.writeHead(200, { 'content-type': 'application/json' })
      return response.end(behaviour.is === 'garbage' ? '{"text":' : JSON.stringify({ text: behaviour.text }))
    })
  })
  const entryOf = (place: string, overrides: Partial<Entry> = {}) => entryAt(origin, place, overrides)
  return { asked, entryOf }
}

/** An entry by the first part of its path. */
function entryAt(origin: string, place: string, overrides: Partial<Entry>): Entry {
  const provider = configuredProvider({ name: place, baseUrl: `${origin}/${place}/v1` })
  return entry({ provider, model: `model-${place}`, ...overrides })
}

/** The same without a connection, for very many calls. */
function sendTo(next: (place: string) => Behaviour): Services['send'] {
  return async ({ url }, { signal }) => {
    const behaviour = next(new URL(url).pathname.split('/')[1]!)
    if (behaviour.is === 'hang')
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    if (behaviour.is === 'cut' || behaviour.is === 'hang') throw new UpstreamFailure(CUT)
    const { status = 200, retryAfter } = {
      retryAfter: undefined,
      ...(behaviour.is === 'status' && behaviour),
    }
    const body = behaviour.is === 'text' ? JSON.stringify({ text: behaviour.text }) : '{"text":'
    return {
      status,
      headers: retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) },
      body: [Buffer.from(body)],
    }
  }
}

const CUT: Failure = {
  kind: 'ambiguous',
  status: null,
  reason: 'the connection broke off',
  retryAfterMs: null,
  providerMessage: null,
}

function shadowOf(entry: Entry, overrides: Partial<Shadow> = {}): Shadow {
  return {
    entry,
    share: 1,
    operations: ['transcription', 'translation'],
    purposes: [],
    references: null,
    ...overrides,
  }
}

/** Audio in memory that its owner gives back by way of `holds`. */
function heldAudio(holds: HeldBodies, overrides: Partial<Audio> = {}): Audio {
  const { source } = SOUND.audio
  assert(source.kind === 'memory')
  const own = { kind: 'memory' as const, blocks: source.blocks.map((block) => block.subarray(0, 8_192)) }
  holds.admit(own)
  return { ...SOUND.audio, source: own, format: 'wav', durationSeconds: 10, channels: 1, ...overrides }
}

interface RigOptions {
  readonly random?: () => number
  readonly services?: Partial<Services>
}

function rigOf(t: Test, { random, services: changed }: RigOptions = {}) {
  const told = new Told()
  const holds = new HeldBodies()
  const log = createLogger('silent')
  const shadows = new Shadows({ holds, log, watches: [told], ...(random ? { random } : {}) })
  const rig = gatewayRig(t, { entries: [entry()], reader: SOUND.reader })
  t.teardown(() => shadows.close())
  const services: Services = { ...rig.services, shadows, ...changed }
  const settled = () => waitUntil(() => shadows.pending === 0)
  return { services, shadows, holds, told, settled }
}

const MODES = ['whole', 'streamed', 'job', 'idempotent'] as const
type Mode = (typeof MODES)[number]

/** Makes a call in one of the ways there are. @returns what its caller gets, as text */
async function answerTo(services: Services, caller: Principal, call: Call<'transcription'>, mode: Mode) {
  const { signal } = new AbortController()
  const context = new CallContext({ requestId: 'req_given', signal }).identify(caller)
  let got: unknown
  try {
    if (mode === 'streamed') {
      const streaming = await run(services, context, { mode, call })
      const deltas: string[] = []
      for await (const delta of streaming.deltas) deltas.push(delta)
      const { envelope, result, release } = streaming.outcome()
      got = { deltas, envelope, result }
      release()
    } else if (mode === 'idempotent') {
      const once = { slotId: newJobId('tj', 'acme'), fingerprint: 'f' }
      const render = ({ envelope, result }: { envelope: object; result: object }) => ({
        status: 200,
        headers: {},
        text: JSON.stringify({ envelope, result }),
      })
      got = await run(services, context, { mode, call, ...once, render })
    } else {
      const job = { id: newJobId('tj', 'acme'), claim: 1, retries: 0, deadlineMs: 20_000 }
      const { envelope, result, release } = await run(
        services,
        context,
        mode === 'job' ? { mode, call, job: { ...job, progress: null, note: () => {} } } : { mode, call },
      )
      got = { envelope, result }
      release()
    }
  } catch (error) {
    assert(error instanceof GatewayError, error as Error)
    const { details } = error.extra
    got = { code: error.code, message: error.message, details: withoutTimes(details) }
  }
  const attempts = context.routing.attempts.map(({ provider, model, status, reason }) => [
    provider,
    model,
    status,
    reason,
  ])
  return {
    got,
    attempts,
    usage: context.money.usage,
    cost: context.money.costUsd,
    version: context.routing.policyVersionId,
  }
}

/** Times differ from run to run. */
function withoutTimes(details: unknown): unknown {
  return JSON.parse(
    JSON.stringify(details ?? null, (name, value) => (/milliseconds|_ms$/.test(name) ? 0 : value)),
  )
}

function drawBehaviour(dice: Dice, isShadow: boolean): Behaviour {
  const text = Array.from({ length: dice.below(8) }, () => dice.one(WORDS)).join(' ')
  if (dice.chance(0.75)) return { is: 'text', text }
  if (dice.chance(0.3)) return { is: 'garbage' }
  if (dice.chance(0.3)) return { is: isShadow ? 'hang' : 'cut' }
  const status = dice.one([400, 401, 404, 422, 429, 500, 503])
  return { is: 'status', status, ...(dice.chance(0.3) ? { retryAfter: 3_600 } : {}) }
}

t.test(`${BATCHES * CASES} calls with and without a shadow`, async (t) => {
  t.comment(`SHADOW_SEED=${SEED}`)
  const dice = new Dice(SEED)
  let script = new Map<string, Behaviour>()
  const asked = new Set<string>()
  const send = sendTo((place) => {
    asked.add(place)
    return place.startsWith('s') ? drawBehaviour(dice, true) : script.get(place)!
  })
  const entryOf = (place: string, overrides: Partial<Entry> = {}): Entry =>
    entryAt('http://127.0.0.1:1', place, overrides)
  const seen = { drawn: 0, refused: 0, failovers: 0, compared: 0, failed: 0 }
  // Draws of the routes, counted: one more or less would change what comes after.
  const draws = [new Dice(SEED), new Dice(SEED)] as const
  const plain = rigOf(t, { services: { send, random: () => draws[0].roll() } })
  const shadowed = rigOf(t, { random: () => dice.roll(), services: { send, random: () => draws[1].roll() } })
  for (let batch = 0; batch < BATCHES; batch += 1) {
    const entries = Array.from({ length: 1 + dice.below(3) }, (_, index) =>
      entryOf(`e${index}`, { weight: 1 + dice.below(3), retryEmpty: dice.chance(0.3) }),
    )
    const strategy = dice.one(['priority', 'weighted'] as const)
    const shadow = shadowOf(dice.chance(0.2) ? entries[0]! : entryOf('s', { facts: drawFacts(dice) }), {
      share: dice.one([1, 0.5, 0]),
      operations: dice.chance(0.1) ? ['translation'] : ['transcription'],
    })
    // An entry that is its own shadow would be told what to do by the same script.
    const beside = { ...shadow, entry: shadow.entry === entries[0] ? entryOf('same') : shadow.entry }
    const callers = [null, beside].map((one) =>
      principal({ route: route(entries, { strategy, shadow: one }) }),
    )
    for (let index = 0; index < CASES; index += 1) {
      script = new Map(entries.map(({ provider: { name } }) => [name, drawBehaviour(dice, false)]))
      script.set('same', drawBehaviour(dice, true))
      const mode = dice.one(MODES)
      const given = { options: { diarization: dice.chance(0.1), language: dice.one([null, 'en']) } }
      const answers = []
      for (const [at, rig] of [plain, shadowed].entries()) {
        const call = transcriptionCall(given)
        const audio = heldAudio(rig.holds)
        const payload = { ...call.payload, audio }
        answers.push(await answerTo(rig.services, callers[at]!, { ...call, payload }, mode))
        rig.holds.free(audio.source as never, () => {})
      }
      assert.deepEqual(answers[1], answers[0], `batch ${batch}, call ${index} of seed ${SEED}`)
      assert.equal(JSON.stringify(answers[1]), JSON.stringify(answers[0]))
      if (JSON.stringify(answers[0]).includes('"code"')) seen.refused += 1
      if (answers[0]!.attempts.length > 1) seen.failovers += 1
    }
    const nowMs = performance.now()
    const states = [plain, shadowed].map(({ services: { health } }) =>
      entries.map((one) => health.view(one, nowMs).state),
    )
    assert.deepEqual(states[1], states[0], `health after batch ${batch} of seed ${SEED}`)
    assert.equal(draws[1].roll(), draws[0].roll(), 'as many draws')
    await settle(shadowed)
  }
  const accounts = []
  for (const { services } of [plain, shadowed]) {
    await services.usage.close()
    await services.moneyLeases.close()
    await services.settlements.close()
    const { grants: _, ...account } = await services.state.accounts.show('acme', RICH)
    accounts.push(account)
  }
  t.same(accounts[1], accounts[0], 'the same was charged')
  t.equal(plain.told.ends.length + plain.told.skips.length, 0)
  const { told, shadows, services } = shadowed
  for (const { outcome } of told.ends) {
    if (outcome === 'ok') seen.compared += 1
    else seen.failed += 1
  }
  seen.drawn = told.ends.length + told.skips.length
  t.comment(JSON.stringify({ ...seen, skips: Object.groupBy(told.skips, (one) => one) }).slice(0, 300))
  for (const [what, count] of Object.entries(seen)) t.ok(count >= 30, `${what}: ${count}`)
  t.ok(asked.has('s') && asked.has('same'))
  t.equal(shadows.heldBytes, 0)
  t.equal(services.budget.used, 0, 'nothing is held')
})

/** Some lack what calls need. */
function drawFacts(dice: Dice) {
  return facts(dice.chance(0.3) ? { features: [] } : {})
}

/** Waits for shadows; one that hangs is given up as at the end of a node. */
async function settle({ shadows }: ReturnType<typeof rigOf>): Promise<void> {
  const untilMs = performance.now() + 20
  while (shadows.pending > 0 && performance.now() < untilMs) await sleep(5)
  await shadows.giveUp('the test goes on')
}

t.test('two answers are compared', async (t) => {
  const { entryOf } = await provider(t, (place) => ({
    is: 'text',
    text: place === 's' ? 'One two, tree!' : 'one two three four',
  }))
  const { services, holds, told, settled } = rigOf(t)
  const shadow = shadowOf(entryOf('s', { facts: facts({ price: { per_hour_usd: 0.18 } }) }))
  const caller = principal({ route: route([entryOf('e')], { shadow }) })
  const call = transcriptionCall()
  await answerTo(
    services,
    caller,
    { ...call, payload: { ...call.payload, audio: heldAudio(holds) } },
    'whole',
  )
  await settled()
  const [end] = told.ends
  t.match(end, {
    pair: {
      workspace: 'acme',
      route: 'voice',
      operation: 'transcription',
      provider: 'e',
      shadowProvider: 's',
    },
    outcome: 'ok',
    comparison: { words: 4, errors: 2, costUsd: { entry: 0.001, shadow: 0.0005 } },
  })
  t.ok(end!.comparison!.milliseconds!.entry > 0 && end!.comparison!.milliseconds!.shadow > 0)
})

t.test('what is not drawn, not meant or not fit is not sent', async (t) => {
  const { asked, entryOf } = await provider(t, () => ({ is: 'text', text: 'one' }))
  const zero = { regions: [], retentionDays: 0, noTraining: false }
  const abroad = { regions: [['eu']], retentionDays: null, noTraining: false }
  const promising = { region: 'eu', retention: 'zero' } as const
  const cases: [
    string,
    Partial<Shadow>,
    Partial<Call<'transcription'>['selectors']>,
    Partial<Audio>,
    string?,
  ][] = [
    ['a share of none', { share: 0 }, {}, {}],
    ['another operation', { operations: ['translation'] }, {}, {}],
    ['another purpose', { purposes: ['legal'] }, {}, {}],
    [
      'an entry that takes no such audio',
      { entry: entryOf('s', { facts: facts({ limits: { max_audio_seconds: 5 } }) }) },
      {},
      {},
      'entry',
    ],
    ['another region', { entry: entryOf('s') }, { require: abroad }, {}, 'entry'],
    [
      'nothing may be kept',
      { entry: entryOf('s', { facts: facts(promising) }) },
      { require: zero },
      {},
      'retention',
    ],
    ['a body that nobody can keep', {}, {}, { source: { kind: 'memory', blocks: [newBlock()] } }, 'audio'],
  ]
  for (const [name, changed, selectors, audio, skip] of cases) {
    const { services, holds, told, settled } = rigOf(t)
    const shadow = shadowOf(entryOf('s'), changed)
    const entries = [entryOf('e', { facts: facts(promising) })]
    const caller = principal({ route: route(entries, { shadow }) })
    const call = transcriptionCall({}, selectors)
    const payload = { ...call.payload, audio: { ...heldAudio(holds), ...audio } }
    const { got } = await answerTo(services, caller, { ...call, payload }, 'whole')
    t.match(got, { envelope: { provider: 'e' } }, name)
    await settled()
    t.same(told.skips, skip === undefined ? [] : [skip], name)
    t.equal(told.ends.length, 0, name)
  }
  t.notOk(asked.includes('s'))
})

t.test('a shadow that hangs holds up nobody, and little is held for it', async (t) => {
  const { entryOf } = await provider(t, (place) =>
    place === 's' ? { is: 'hang' } : { is: 'text', text: 'one' },
  )
  const { services, shadows, holds, told } = rigOf(t)
  const caller = principal({ route: route([entryOf('e')], { shadow: shadowOf(entryOf('s')) }) })
  const freed: number[] = []
  for (let index = 0; index < 30; index += 1) {
    const call = transcriptionCall()
    const audio = heldAudio(holds)
    const { got } = await answerTo(
      services,
      caller,
      { ...call, payload: { ...call.payload, audio } },
      'whole',
    )
    t.match(got, { envelope: { provider: 'e' } })
    holds.free(audio.source as never, () => freed.push(index))
  }
  t.same(shadows.pending, 20, 'four under way, and sixteen that wait')
  t.same(told.skips, Array(10).fill('busy'))
  t.same(freed, [20, 21, 22, 23, 24, 25, 26, 27, 28, 29], 'the bodies of the others were given back at once')
  await shadows.close()
  t.equal(freed.length, 30, 'at the end of the node all of them are')
  t.equal(shadows.heldBytes, 0)
  t.equal(services.budget.used, 0)
  const call = transcriptionCall()
  const payload = { ...call.payload, audio: heldAudio(holds) }
  await answerTo(services, caller, { ...call, payload }, 'whole')
  t.equal(shadows.pending, 0, 'nothing is begun any more')
})

t.test('a large body is held while memory is not short', async (t) => {
  const { entryOf } = await provider(t, (place) =>
    place === 's' ? { is: 'hang' } : { is: 'text', text: 'one' },
  )
  const { services, shadows, holds, told } = rigOf(t)
  const caller = principal({ route: route([entryOf('e')], { shadow: shadowOf(entryOf('s')) }) })
  const ask = async (blocks: number) => {
    const source = { kind: 'memory' as const, blocks: [...Array(blocks)].map(() => newBlock()) }
    holds.admit(source)
    const call = transcriptionCall()
    const payload = { ...call.payload, audio: { ...heldAudio(holds), source } }
    await answerTo(services, caller, { ...call, payload }, 'whole')
  }
  // The rig has 64 MiB, of which shadows may hold 4.
  await ask(5)
  t.same(told.skips, ['memory'])
  await ask(3)
  await ask(2)
  t.same(told.skips, ['memory', 'memory'])
  t.equal(shadows.heldBytes, 3 * BLOCK_BYTES)
  services.budget.charge(50 * BLOCK_BYTES)
  await ask(1)
  t.same(told.skips.length, 3, 'and none while there is little left')
  services.budget.refund(50 * BLOCK_BYTES)
  await shadows.close()
  t.equal(shadows.heldBytes, 0)
})

function newBlock(): Block {
  return new Uint8Array(new SharedArrayBuffer(BLOCK_BYTES))
}

t.test('a shadow that fails is left alone for a while, and entries of its provider are not', async (t) => {
  const { asked, entryOf } = await provider(t, (place) =>
    place === 's' ? { is: 'status', status: 500 } : { is: 'text', text: 'one' },
  )
  const { services, holds, told, settled } = rigOf(t)
  const failing = entryOf('s')
  const caller = principal({ route: route([entryOf('e'), failing], { shadow: shadowOf(failing) }) })
  for (let index = 0; index < 8; index += 1) {
    const call = transcriptionCall({ options: options() })
    const payload = { ...call.payload, audio: heldAudio(holds) }
    await answerTo(services, caller, { ...call, payload }, 'whole')
    await settled()
  }
  t.equal(told.ends.length, 5)
  t.ok(told.ends.every(({ outcome, comparison }) => outcome === 'server' && comparison === null))
  t.same(told.skips, ['health', 'health', 'health'])
  t.equal(asked.filter((place) => place === 's').length, 5)
  t.equal(services.health.view(failing, performance.now()).state, 'closed', 'though it is the very entry')
})

t.test('a shadow is sent what is left of the minute of its account, and counts there', async (t) => {
  let status = 500
  const { entryOf } = await provider(t, (place) =>
    place === 's' && status !== 200 ? { is: 'status', status } : { is: 'text', text: 'one' },
  )
  const { services, holds, told, settled } = rigOf(t)
  const { provider: account, ...others } = entryOf('s')
  const limited = { ...others, provider: { ...account, unitRates: { audioSecondsPerMinute: 15 } } }
  const caller = principal({ route: route([entryOf('e')], { shadow: shadowOf(limited) }) })
  for (const answered of [500, 500, 200, 200]) {
    status = answered
    const call = transcriptionCall()
    const payload = { ...call.payload, audio: heldAudio(holds) }
    t.match(await answerTo(services, caller, { ...call, payload }, 'whole'), { got: { envelope: {} } })
    await settled()
  }
  t.same(
    told.ends.map(({ outcome }) => outcome),
    ['server', 'server', 'ok'],
  )
  t.same(told.skips, ['busy'], 'ten seconds are gone, and five are left')
})
