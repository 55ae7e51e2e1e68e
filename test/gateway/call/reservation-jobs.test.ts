import type { ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { newJobId } from '../../../src/contracts/ids.ts'
import type { AccountTerms } from '../../../src/contracts/ledger.ts'
import type { CallWatch } from '../../../src/contracts/watch.ts'
import { Interrupted } from '../../../src/gateway/call/facts/call.ts'
import { configuredProvider, facts, principal } from '../../support/catalog.ts'
import type { GatewayRig } from '../../support/gateway-rig.ts'
import { chatCall, entryAt, gatewayRig, runForJob, upstream } from '../../support/gateway-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

type Answer = (response: ServerResponse) => unknown

const USD = 1_000_000
/** `hello` and an answer of the usual length, at 1 and 10 USD for a million tokens. */
const ESTIMATE = 2 + 1_000 * 10
/** What the provider tells: 100 tokens in and 10 out. */
const COST = 100 + 10 * 10

const choices = [{ index: 0, message: { role: 'assistant', content: 'well' }, finish_reason: 'stop' }]
const answers: Answer = (response) =>
  response.end(JSON.stringify({ choices, usage: { prompt_tokens: 100, completion_tokens: 10 } }))
const fails: Answer = (response) => response.writeHead(500).end('{"error":{}}')
const hangs: Answer = () => {}

const TERMS: AccountTerms = { grant: { id: 'initial', micros: USD }, trial: null, budgetMicros: null }

/** A provider of the platform that answers one call after another as told, and a job that is sent there. */
async function rigOf(t: Test, ...script: Answer[]) {
  const { origin, requests } = await upstream(t, (response) => script.shift()?.(response))
  const provider = configuredProvider({ name: 'platform', access: 'platform', baseUrl: `${origin}/v1` })
  const price = { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 10 }
  const entries = [entryAt(origin, { provider, facts: facts({ capabilities: ['text'], price }) })]
  const caller = { workspace: { ...principal().workspace, terms: TERMS } }
  const rig = gatewayRig(t, { entries, caller })
  let counted = 0
  const charged: CallWatch['charged'] = (_, micros) => {
    counted += micros
  }
  const services = {
    ...rig.services,
    watch: { attempted() {}, waited() {}, doubted() {}, metered() {}, charged },
  }
  const id = newJobId('tj', 'acme')
  const claim = (number: number, signal = new AbortController().signal) => {
    const request = rig.request('chat', chatCall(), signal)
    const job = { id, claim: number, retries: 0, deadlineMs: 20_000, progress: null, note: () => {} }
    return runForJob(services, request, job).then(({ release }) => release())
  }
  return { rig, claim, requests, counted: () => counted }
}

async function left({ services }: GatewayRig) {
  if (!(await waitUntil(() => services.settlements.pending === 0))) throw new Error('a call is under way')
  const { creditsMicros, reservedMicros, spentMicros } = await services.state.accounts.show('acme', TERMS)
  return { creditsMicros, reservedMicros, spentMicros }
}

const paid = (micros: number, reserved = 0) => ({
  creditsMicros: USD - micros - reserved,
  reservedMicros: reserved,
  spentMicros: micros + reserved,
})

t.test('a job that is taken over is charged once, for what its last claim came to', async (t) => {
  const { rig, claim, requests } = await rigOf(t, hangs, answers)
  const taken = new AbortController()
  const first = claim(1, taken.signal)
  await waitUntil(() => requests.length === 1)
  taken.abort(new Interrupted())
  await t.rejects(first, Interrupted)
  t.same(await left(rig), paid(0, ESTIMATE), 'what was set aside waits for the next claim')
  await claim(2)
  t.same(await left(rig), paid(COST))
})

t.test('a job that was charged is free when it runs again', async (t) => {
  const { rig, claim } = await rigOf(t, answers, answers, fails)
  await claim(1)
  await claim(2)
  t.same(await left(rig), paid(COST), 'its worker died before it could say that it is done')
  await t.rejects(claim(3), { code: 'UPSTREAM_ERROR' })
  t.same(await left(rig), paid(COST))
})

t.test('a claim that came back from the dead ends nothing', async (t) => {
  const held: ServerResponse[] = []
  const { rig, claim, requests } = await rigOf(t, (response) => held.push(response), hangs)
  const stale = claim(1)
  await waitUntil(() => requests.length === 1)
  const leaving = new AbortController()
  const current = claim(2, leaving.signal)
  await waitUntil(() => requests.length === 2)
  answers(held[0]!)
  await stale
  t.same(await left(rig), paid(0, ESTIMATE), 'it is for the second one to say what it came to')
  leaving.abort(new GatewayError('CLIENT_CLOSED'))
  await t.rejects(current)
  t.same(await left(rig), paid(ESTIMATE), 'the cancelled one is metered at its estimate, and nothing else')
})

t.test('a failure gives back what was set aside, and the next try sets it aside again', async (t) => {
  const { rig, claim } = await rigOf(t, fails, answers)
  await t.rejects(claim(1), { code: 'UPSTREAM_ERROR' })
  t.same(await left(rig), paid(0))
  await claim(2)
  t.same(await left(rig), paid(COST))
})

t.test('what is counted as spent is what the account gave', async (t) => {
  await t.test('for a job that runs again after it was charged', async (t) => {
    const { rig, claim, counted } = await rigOf(t, answers, answers)
    await claim(1)
    await claim(2)
    t.same(await left(rig), paid(COST))
    t.equal(counted(), COST)
  })

  await t.test('for one that two workers have at a time', async (t) => {
    const held: ServerResponse[] = []
    const { rig, claim, requests, counted } = await rigOf(t, (response) => held.push(response), answers)
    const stale = claim(1)
    await waitUntil(() => requests.length === 1)
    await claim(2)
    answers(held[0]!)
    await stale
    t.same(await left(rig), paid(COST))
    t.equal(counted(), COST)
  })

  await t.test('for one that fails and is tried again', async (t) => {
    const { rig, claim, counted } = await rigOf(t, fails, answers)
    await t.rejects(claim(1), { code: 'UPSTREAM_ERROR' })
    await claim(2)
    t.same(await left(rig), paid(COST))
    t.equal(counted(), COST)
  })
})
