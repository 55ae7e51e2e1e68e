import type { ServerResponse } from 'node:http'
import t from 'tap'
import { errorReply } from '../../../src/contracts/errors.ts'
import type { Upstream } from '../../support/gateway-rig.ts'
import { chatCall, entryAt, gatewayRig, refusalOf, runWhole, upstream } from '../../support/gateway-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

/** Nobody listens there. */
const NOWHERE = 'http://127.0.0.1:1'
/** Failures in a row that open a breaker. */
const BREAKER_FAILURES = 5

const answers = (text: string) => (response: ServerResponse) => {
  const choice = { index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }
  const usage = { prompt_tokens: 100, completion_tokens: 10 }
  response.setHeader('content-type', 'application/json').end(JSON.stringify({ choices: [choice], usage }))
}

const refuses =
  (status: number, error: object = {}, headers: Record<string, string> = {}) =>
  (response: ServerResponse) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(JSON.stringify({ error: { message: 'sk-secret', ...error } }))
  }

const breaksOff = (response: ServerResponse) => void response.destroy()

t.test('every kind of failure: who answers, and what the breaker makes of it', async (t) => {
  const rows: [string, ((response: ServerResponse) => void) | null, 'cured' | 'final', string][] = [
    ['429', refuses(429), 'cured', 'open'],
    ['429 with Retry-After', refuses(429, {}, { 'retry-after': '60' }), 'cured', 'cooling'],
    ['503', refuses(503), 'cured', 'open'],
    ['500', refuses(500), 'cured', 'open'],
    ['no JSON', (response) => void response.end('<html>'), 'cured', 'open'],
    ['no connection', null, 'cured', 'open'],
    ['a broken connection', breaksOff, 'cured', 'open'],
    ['401', refuses(401), 'cured', 'open'],
    ['402', refuses(402), 'cured', 'open'],
    ['429 without quota', refuses(429, { code: 'insufficient_quota' }), 'cured', 'open'],
    ['404', refuses(404, { code: 'model_not_found' }), 'cured', 'open'],
    ['400', refuses(400), 'final', 'closed'],
    ['400 for the content', refuses(400, { code: 'content_policy_violation' }), 'final', 'closed'],
  ]
  const good = await upstream(t, answers('well'))
  for (const [name, answer, outcome, state] of rows) {
    const bad: Upstream = answer === null ? { origin: NOWHERE, requests: [] } : await upstream(t, answer)
    const entries = [entryAt(bad.origin), entryAt(good.origin)]
    const { services, request } = gatewayRig(t, { entries })
    const before = good.requests.length

    for (let times = 0; times < BREAKER_FAILURES; times += 1) {
      const one = request('chat', chatCall())
      if (outcome === 'cured') {
        const { result, release } = await runWhole(services, one)
        t.equal(result.content, 'well', name)
        release()
      } else {
        t.equal((await refusalOf(runWhole(services, one))).code, 'UPSTREAM_REJECTED', name)
      }
    }
    t.equal(services.health.view(entries[0]!, performance.now()).state, state, `${name}: the breaker`)
    t.equal(good.requests.length - before, outcome === 'cured' ? BREAKER_FAILURES : 0, `${name}: the second`)
    t.equal(services.health.view(entries[1]!, performance.now()).state, 'closed')
    t.equal(services.budget.used, 0, `${name}: nothing is held`)

    const alone = gatewayRig(t, { entries: [entries[0]!] })
    const refusal = await refusalOf(runWhole(alone.services, alone.request('chat', chatCall())))
    t.equal(refusal.code, outcome === 'cured' ? 'UPSTREAM_ERROR' : 'UPSTREAM_REJECTED', `${name}: alone`)
    t.notMatch(JSON.stringify(errorReply(refusal, 'req_1')), /sk-secret|127\.0\.0\.1/, name)
  }
})

t.test('a POST that broke off is not sent again', async (t) => {
  const bad = await upstream(t, breaksOff)
  const { services, request } = gatewayRig(t, { entries: [entryAt(bad.origin)] })
  await refusalOf(runWhole(services, request('chat', chatCall())))
  t.same(bad.requests, ['POST /v1/chat/completions'])
})

t.test('an entry that asked to be left alone is left alone', async (t) => {
  const busy = await upstream(t, refuses(429, {}, { 'retry-after': '60' }))
  const good = await upstream(t, answers('well'))
  const entries = [entryAt(busy.origin), entryAt(good.origin)]
  const { services, request } = gatewayRig(t, { entries })
  for (let times = 0; times < 3; times += 1) {
    const call = request('chat', chatCall())
    ;(await runWhole(services, call)).release()
    t.equal(call.context.routing.attempts.length, times === 0 ? 2 : 1, 'no line for one that was not asked')
  }
  t.equal(busy.requests.length, 1)

  const alone = gatewayRig(t, { entries: [entries[0]!] })
  await refusalOf(runWhole(alone.services, alone.request('chat', chatCall())))
  const refusal = await refusalOf(runWhole(alone.services, alone.request('chat', chatCall())))
  t.equal(refusal.code, 'PROVIDERS_COOLING_DOWN')
  t.equal(busy.requests.length, 2, 'nor is the only one')
})

t.test('a failure says when the first of those that could serve may be tried, asked or not', async (t) => {
  const busy = await upstream(t, refuses(429, {}, { 'retry-after': '60' }))
  const broken = await upstream(t, refuses(500))
  const entries = [entryAt(broken.origin), entryAt(busy.origin)]
  const alone = gatewayRig(t, { entries: entries.slice(1) })
  const told = await refusalOf(runWhole(alone.services, alone.request('chat', chatCall())))
  t.match(told, {
    code: 'UPSTREAM_ERROR',
    extra: { retryAfterMs: 60_000, details: { retry_after_ms: 60_000 } },
  })

  const both = gatewayRig(t, { entries })
  const mixed = await refusalOf(runWhole(both.services, both.request('chat', chatCall())))
  t.equal(mixed.extra.retryAfterMs, undefined, 'the one that failed may be asked at once')

  const tired = gatewayRig(t, { entries })
  const rate = { kind: 'rate', status: 429, reason: '', retryAfterMs: 5_000, providerMessage: null } as const
  tired.services.health.failed(entries[0]!, rate, performance.now())
  const sooner = await refusalOf(runWhole(tired.services, tired.request('chat', chatCall())))
  t.equal(sooner.code, 'UPSTREAM_ERROR')
  const waitMs = sooner.extra.retryAfterMs ?? 0
  t.ok(waitMs > 1_000 && waitMs <= 5_000, `${waitMs} ms: what cools down already is the sooner`)
})

t.test('a route whose every breaker is open is tried all the same', async (t) => {
  const bad = await upstream(t, refuses(500))
  const { services, request } = gatewayRig(t, { entries: [entryAt(bad.origin)] })
  for (let times = 1; times <= BREAKER_FAILURES + 2; times += 1) {
    const refusal = await refusalOf(runWhole(services, request('chat', chatCall())))
    t.equal(refusal.code, 'UPSTREAM_ERROR')
    t.equal(bad.requests.length, times)
  }
})

t.test('one trial for a half-open breaker, whoever else comes asks the next', async (t) => {
  const slow = await upstream(t, (response) => void setTimeout(() => answers('slow')(response), 300))
  const good = await upstream(t, answers('well'))
  const entries = [entryAt(slow.origin), entryAt(good.origin)]
  const { services, request } = gatewayRig(t, { entries })
  // Opened long ago: half-open by now.
  const failure = {
    kind: 'server',
    status: 500,
    reason: 'test',
    retryAfterMs: null,
    providerMessage: null,
  } as const
  for (let times = 0; times < BREAKER_FAILURES; times += 1) {
    services.health.failed(entries[0]!, failure, performance.now() - 60_000)
  }
  const calls = Array.from({ length: 5 }, () => runWhole(services, request('chat', chatCall())))
  const contents = (await Promise.all(calls)).map(({ result }) => result.content)
  t.same(contents.sort(), ['slow', 'well', 'well', 'well', 'well'])
  t.equal(slow.requests.length, 1)
  t.equal(services.health.view(entries[0]!, performance.now()).state, 'closed')
})

t.test('a caller who leaves is no failure of the entry', async (t) => {
  const hanging = await upstream(t, () => {})
  const entries = [entryAt(hanging.origin)]
  const { services, request } = gatewayRig(t, { entries })
  for (let times = 0; times < BREAKER_FAILURES; times += 1) {
    const leaving = new AbortController()
    const call = request('chat', chatCall(), leaving.signal)
    const ended = runWhole(services, call)
    ended.catch(() => {})
    t.ok(await waitUntil(() => hanging.requests.length === times + 1))
    leaving.abort(new Error('left'))
    await t.rejects(ended, { message: 'left' })
    t.match(call.context.routing.attempts, [{ status: null, reason: 'the caller left' }])
  }
  t.equal(services.health.view(entries[0]!, performance.now()).state, 'closed')
  t.equal(services.budget.used, 0)
})

t.test('a call that an adapter refuses by itself says nothing of the entry', async (t) => {
  const good = await upstream(t, answers('well'))
  const entries = [entryAt(good.origin, { kind: 'openai' })]
  const { services, request } = gatewayRig(t, { entries })
  // More stop sequences than OpenAI takes.
  const call = chatCall({ stop: ['a', 'b', 'c', 'd', 'e', 'f'] })
  for (let times = 0; times < BREAKER_FAILURES; times += 1) {
    const { code, extra } = await refusalOf(runWhole(services, request('chat', call)))
    t.equal(code, 'UPSTREAM_REJECTED', 'and sending it again would not help')
    t.match(extra.details, { attempts: [{ status: null, reason: /stop/ }] })
  }
  t.equal(services.health.view(entries[0]!, performance.now()).state, 'closed')
  t.equal(good.requests.length, 0)
})

t.test('usage, price and seed of the answer', async (t) => {
  const good = await upstream(t, answers('well'))
  const { services, request } = gatewayRig(t, { entries: [entryAt(good.origin)] })
  const { envelope } = await runWhole(services, request('chat', chatCall({ seed: 7 })))
  t.same(envelope.usage, { input_tokens: 100, output_tokens: 10, total_tokens: 110 })
  t.equal(envelope.cost_usd, 0.0002)
  t.equal(envelope.determinism.seed_honored, true)
  const { envelope: unseeded } = await runWhole(services, request('chat', chatCall()))
  t.equal(unseeded.determinism.seed_honored, false)
})
