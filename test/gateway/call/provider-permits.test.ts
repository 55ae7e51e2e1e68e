import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { ConfiguredProvider } from '../../../src/contracts/catalog.ts'
import { newJobId } from '../../../src/contracts/ids.ts'
import { audio, options } from '../../support/call.ts'
import { configuredProvider } from '../../support/catalog.ts'
import {
  chatCall,
  entryAt,
  gatewayRig,
  refusalOf,
  runForJob,
  runStreamed,
  runWhole,
  upstream,
} from '../../support/gateway-rig.ts'
import { serveHttp } from '../../support/http-server.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { waitUntil } from '../../support/wait-until.ts'

const SOUND = memoryAudio(Buffer.alloc(64), 'identity')
const ANSWER = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'hello' } }] })

/** A provider that answers when it is told to, and knows how many calls it had at once. */
async function openProvider(t: Test) {
  const open: ServerResponse[] = []
  let [most, asked] = [0, 0]
  const origin = await serveHttp(t, (request, response) => {
    request.resume().on('end', () => {
      asked += 1
      open.push(response)
      most = Math.max(most, open.length)
    })
  })
  const answerOne = async () => {
    if (!(await waitUntil(() => open.length > 0))) throw new Error('nobody asked')
    open.shift()?.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER)
  }
  return { origin, answerOne, open, most: () => most, asked: () => asked }
}

type Overrides = Partial<ConfiguredProvider>

function limitedEntry(origin: string, overrides: Overrides = {}) {
  const limits = { concurrency: 1, queueMs: 10_000, ...overrides }
  return entryAt(origin, { provider: configuredProvider({ baseUrl: `${origin}/v1`, ...limits }) })
}

t.test('an account has no more calls at once than it may, and those that wait are made', async (t) => {
  const provider = await openProvider(t)
  const rig = gatewayRig(t, { entries: [limitedEntry(provider.origin, { concurrency: 2 })] })
  const calls = Array.from({ length: 6 }, () => runWhole(rig.services, rig.request('chat', chatCall())))
  const permits = rig.services.state.permits
  t.ok(await waitUntil(() => permits.waiting('calls:first') === 4))
  for (let i = 0; i < 6; i += 1) await provider.answerOne()
  await Promise.all(calls)
  t.equal(provider.most(), 2)
  t.equal(permits.held('calls:first'), 0)
})

t.test('a call that waits too long goes to the next entry, and says why', async (t) => {
  const [first, second] = [await openProvider(t), await openProvider(t)]
  const entries = [
    limitedEntry(first.origin, { queueMs: 30 }),
    limitedEntry(second.origin, { name: 'second', concurrency: null }),
  ]
  const rig = gatewayRig(t, { entries })
  const slow = runWhole(rig.services, rig.request('chat', chatCall()))
  t.ok(await waitUntil(() => first.open.length === 1))
  const request = rig.request('chat', chatCall())
  const call = runWhole(rig.services, request)
  await second.answerOne()
  await call
  const [busy, answered] = request.context.routing.attempts
  t.match(busy, { provider: 'first', status: null, failure: { kind: 'busy' } })
  t.match(answered, { provider: 'second', status: 200 })
  t.equal(rig.services.health.view(entries[0]!, performance.now()).state, 'closed')
  await first.answerOne()
  await slow
  t.equal(first.asked(), 1)
})

t.test('when no account has room the call is refused, and nobody was asked', async (t) => {
  const provider = await openProvider(t)
  const rig = gatewayRig(t, { entries: [limitedEntry(provider.origin, { queueMs: 0 })] })
  const slow = runWhole(rig.services, rig.request('chat', chatCall()))
  t.ok(await waitUntil(() => provider.open.length === 1))
  const refusal = await refusalOf(runWhole(rig.services, rig.request('chat', chatCall())))
  t.equal(refusal.code, 'RATE_LIMITED')
  t.match(refusal.extra, {
    retryAfterMs: 1000,
    details: { attempts: [{ provider: 'first', reason: /at once/ }] },
  })
  await provider.answerOne()
  await slow
  const next = runWhole(rig.services, rig.request('chat', chatCall()))
  await provider.answerOne()
  await next
})

t.test('a failed attempt gives its permit back before the next one', async (t) => {
  const origin = await serveHttp(t, (request, response) => {
    request.resume().on('end', () => response.writeHead(500).end())
  })
  // Two entries of one account that has one permit.
  const rig = gatewayRig(t, { entries: [limitedEntry(origin), limitedEntry(origin)] })
  const refusal = await refusalOf(runWhole(rig.services, rig.request('chat', chatCall())))
  t.equal(refusal.code, 'UPSTREAM_ERROR')
  t.equal(rig.services.state.permits.held('calls:first'), 0)
})

t.test('an answer that streams holds its permit until its end, or until its caller leaves', async (t) => {
  let streams: ServerResponse[] = []
  const origin = await serveHttp(t, (request, response) => {
    request.resume().on('end', () => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: 'hello' } }] })}\n\n`)
      streams.push(response)
    })
  })
  const rig = gatewayRig(t, { entries: [limitedEntry(origin)] })
  const held = () => rig.services.state.permits.held('calls:first')
  const begin = () => runStreamed(rig.services, rig.request('chat', chatCall()))
  const whole = await begin()
  t.match(await whole.deltas.next(), { value: { text: 'hello' } })
  t.equal(held(), 1)
  const last = { choices: [{ delta: {}, finish_reason: 'stop' }] }
  streams[0]?.end(`data: ${JSON.stringify(last)}\n\ndata: [DONE]\n\n`)
  for await (const _ of whole.deltas);
  t.equal(held(), 0)
  streams = []
  const left = await begin()
  await left.deltas.next()
  t.equal(held(), 1)
  await left.deltas.return()
  t.ok(await waitUntil(() => held() === 0))
})

t.test('a caller who leaves while it waits takes nothing', async (t) => {
  const provider = await openProvider(t)
  const entries = [limitedEntry(provider.origin)]
  const rig = gatewayRig(t, { entries })
  const slow = runWhole(rig.services, rig.request('chat', chatCall()))
  t.ok(await waitUntil(() => provider.open.length === 1))
  const caller = new AbortController()
  const left = runWhole(rig.services, rig.request('chat', chatCall(), caller.signal))
  t.ok(await waitUntil(() => rig.services.state.permits.waiting('calls:first') === 1))
  caller.abort(new Error('left'))
  await t.rejects(left, { message: 'left' })
  await provider.answerOne()
  await slow
  t.equal(provider.asked(), 1)
  t.equal(rig.services.state.permits.held('calls:first'), 0)
})

t.test('a caller who leaves while units of the account are asked for pays for nothing', async (t) => {
  const provider = await openProvider(t)
  const entries = [
    limitedEntry(provider.origin, { concurrency: null, unitRates: { tokensPerMinute: 5_000 } }),
  ]
  const rig = gatewayRig(t, { entries })
  const caller = new AbortController()
  const { state } = rig.services
  let taken = 0
  const take: typeof state.unitLimiter.take = async (buckets, units, isDue) => {
    taken += units
    caller.abort(new Error('left'))
    return state.unitLimiter.take(buckets, units, isDue)
  }
  const services = { ...rig.services, state: { ...state, unitLimiter: { ...state.unitLimiter, take } } }
  const call = rig.request('chat', chatCall(), caller.signal)
  await t.rejects(runWhole(services, call), { message: 'left' })
  t.same([call.context.money.spent, taken, provider.asked()], [null, 0, 0], 'units are given back')
})

t.test('an answer that is refused has used up units of its account', async (t) => {
  const says = (text: string) => upstream(t, (response) => void response.end(JSON.stringify({ text })))
  const [empty, good] = [await says(''), await says('one')]
  const limited = limitedEntry(empty.origin, { concurrency: null, unitRates: { audioSecondsPerMinute: 15 } })
  const entries = [{ ...limited, retryEmpty: true }, entryAt(good.origin)]
  const { services, request } = gatewayRig(t, { entries, reader: SOUND.reader })
  for (const asked of [1, 1]) {
    const of = { ...audio(), ...SOUND.audio, durationSeconds: 10 }
    const { result, release } = await runWhole(
      services,
      request('transcription', { audio: of, options: options() }),
    )
    t.same([result.text, empty.requests.length], ['one', asked])
    release()
  }
})

t.test('a job waits longer than a caller would', async (t) => {
  const provider = await openProvider(t)
  const rig = gatewayRig(t, { entries: [limitedEntry(provider.origin, { queueMs: 0 })] })
  const slow = runWhole(rig.services, rig.request('chat', chatCall()))
  t.ok(await waitUntil(() => provider.open.length === 1))
  const id = newJobId('tj', 'acme')
  const job = { id, claim: 1, retries: 0, deadlineMs: 20_000, progress: null, note: () => {} }
  const waits = runForJob(rig.services, rig.request('chat', chatCall()), job)
  await sleep(100)
  t.equal(provider.asked(), 1)
  await provider.answerOne()
  await slow
  await provider.answerOne()
  ;(await waits).release()
})
