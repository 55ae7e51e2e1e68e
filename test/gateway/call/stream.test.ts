import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { ChatDelta } from '../../../src/contracts/chat.ts'
import type { Provider } from '../../../src/contracts/provider.ts'
import type { WatchedAttempt } from '../../../src/contracts/watch.ts'
import type { Streaming } from '../../../src/gateway/call/attempt/stream.ts'
import { openaiCompatible } from '../../../src/gateway/providers/openai-compatible.ts'
import { audio, options } from '../../support/call.ts'
import { chatCall, entryAt, gatewayRig, refusalOf, runStreamed, upstream } from '../../support/gateway-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.setTimeout(60_000)

type Answer = (response: ServerResponse) => unknown

const BREAKER_FAILURES = 5

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`
}

const piece = (content: string) => event({ choices: [{ index: 0, delta: { content } }] })
const END =
  event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }) +
  event({ choices: [], usage: { prompt_tokens: 100, completion_tokens: 10 } }) +
  'data: [DONE]\n\n'

const sse = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' })
/** Says the pieces, then what `then` does; by itself the end. */
const streams =
  (pieces: readonly string[], then: Answer = (response) => response.end(END)): Answer =>
  (response) => {
    sse(response).flushHeaders()
    for (const text of pieces) response.write(piece(text))
    return then(response)
  }
const cut: Answer = (response) => setImmediate(() => response.destroy())
const hang: Answer = () => {}

/** `hello` and an answer of the usual length. */
const ESTIMATED = { usage: { input_tokens: 2, output_tokens: 1_000 }, costUsd: 0.010_002 }

async function textOf(deltas: AsyncIterable<ChatDelta>): Promise<string> {
  let text = ''
  for await (const delta of deltas) if (delta.type === 'text') text += delta.text
  return text
}

t.test('an answer piece by piece, metered at its end', async (t) => {
  const { origin } = await upstream(t, streams(['he', 'llo']))
  const { services, request } = gatewayRig(t, { entries: [entryAt(origin)] })
  const call = request('chat', chatCall({ seed: 1 }))
  const streaming = await runStreamed(services, call)
  t.match(streaming.head, { id: 'req_given', provider: 'first', model: 'model', lk_purpose_source: 'none' })
  t.notOk('usage' in streaming.head)
  t.equal(call.context.routing.policyVersionId, 'pv_0123456789abcdef')
  t.equal(call.context.money.usage, null, 'not metered yet')
  t.throws(() => streaming.outcome(), 'nor is there an outcome')

  t.equal(await textOf(streaming.deltas), 'hello')
  const { envelope, result, release } = streaming.outcome()
  t.equal(result.content, 'hello')
  t.match(envelope, {
    usage: { input_tokens: 100, output_tokens: 10, total_tokens: 110 },
    cost_usd: 0.0002,
    determinism: { seed_honored: true },
  })
  t.same(call.context.money.usage, envelope.usage)
  t.equal(call.context.money.costUsd, 0.0002)
  t.match(call.context.routing.attempts, [{ provider: 'first', status: 200, reason: 'ok' }])
  t.equal(services.budget.used, 5, 'what the pieces hold')
  release()
  t.equal(services.budget.used, 0)
  await streaming.deltas.return()
  t.equal(services.budget.used, 0)
})

t.test('another entry answers as long as there is no piece', async (t) => {
  const rows: [string, Answer | null][] = [
    ['no connection', null],
    ['500', (response) => response.writeHead(500).end('{"error":{}}')],
    ['429 with a long body', (response) => response.writeHead(429).end('x'.repeat(300_000))],
    ['broken off before the head', (response) => response.destroy()],
    ['broken off behind the head', streams([], cut)],
    ['an error as the first event', streams([], (response) => response.end(event({ error: { code: 500 } })))],
    ['no stream at all', (response) => sse(response).end('data: {{{\n\n')],
    ['an end without a piece', (response) => sse(response).end()],
    ['silence behind the head', streams([], hang)],
    ['silence', hang],
  ]
  const good = await upstream(t, streams(['well']))
  for (const [name, answer] of rows) {
    const origin = answer === null ? 'http://127.0.0.1:1' : (await upstream(t, answer)).origin
    const entries = [entryAt(origin), entryAt(good.origin)]
    // Only where it is met is the deadline short; on a busy machine nothing else may meet it.
    const isSilent = name.startsWith('silence')
    const { services, request } = gatewayRig(t, { entries, deadlineMs: isSilent ? 3_000 : 30_000 })
    const call = request('chat', chatCall())
    const streaming = await runStreamed(services, call)
    t.equal(await textOf(streaming.deltas), 'well', name)
    streaming.outcome().release()
    t.equal(services.budget.used, 0, name)
    const [first, second] = call.context.routing.attempts
    t.equal(call.context.routing.attempts.length, 2, `${name}: ${first?.reason}`)
    t.not(first?.failure, null)
    t.equal(second?.reason, 'ok')

    const alone = gatewayRig(t, { entries: [entryAt(origin)], deadlineMs: isSilent ? 1_000 : 30_000 })
    const refusal = await refusalOf(runStreamed(alone.services, alone.request('chat', chatCall())))
    const code = isSilent ? 'UPSTREAM_TIMEOUT' : 'UPSTREAM_ERROR'
    t.equal(refusal.code, code, `${name}: alone`)
  }
  const refusing = await upstream(t, (response) => response.writeHead(400).end('{"error":{"message":"no"}}'))
  const { services, request } = gatewayRig(t, { entries: [entryAt(refusing.origin), entryAt(good.origin)] })
  const refusal = await refusalOf(runStreamed(services, request('chat', chatCall())))
  t.equal(refusal.code, 'UPSTREAM_REJECTED', 'the caller’s own fault')
})

t.test('behind the first piece a break is told, and counts against the entry', async (t) => {
  let continues = () => {}
  // What comes in one packet with the first piece would make the next entry answer.
  const onceRead =
    (answer: Answer): Answer =>
    (response) => {
      continues = () => answer(response)
    }
  const failed = event({ error: { code: 500 } })
  const rows: [string, Answer, string][] = [
    [
      'cut',
      streams(
        ['he'],
        onceRead((response) => response.destroy()),
      ),
      'UPSTREAM_ERROR',
    ],
    [
      'ended early',
      streams(
        ['he'],
        onceRead((response) => response.end()),
      ),
      'UPSTREAM_ERROR',
    ],
    [
      'an error event',
      streams(
        ['he'],
        onceRead((response) => response.end(failed)),
      ),
      'UPSTREAM_ERROR',
    ],
    ['the deadline', streams(['he'], hang), 'UPSTREAM_TIMEOUT'],
  ]
  for (const [name, answer, code] of rows) {
    const bad = await upstream(t, answer)
    const good = await upstream(t, streams(['well']))
    const entries = [entryAt(bad.origin), entryAt(good.origin)]
    const { services, request } = gatewayRig(t, {
      entries,
      deadlineMs: code === 'UPSTREAM_TIMEOUT' ? 1_000 : 30_000,
    })
    for (let times = 0; times < BREAKER_FAILURES; times += 1) {
      const call = request('chat', chatCall())
      const { deltas, outcome } = await runStreamed(services, call)
      t.same(await deltas.next(), { done: false, value: { type: 'text', text: 'he' } })
      continues()
      const broken = await refusalOf(deltas.next())
      t.equal(broken.code, code, name)
      t.throws(outcome)
      t.match(call.context.routing.attempts, [{ provider: 'first', failure: { reason: String } }], 'one line')
      t.not(
        call.context.routing.attempts[0]?.reason,
        'ok',
        `${name}: ${call.context.routing.attempts[0]?.reason}`,
      )
      t.equal(call.context.money.usage, null)
      t.match(call.context.money.estimate?.metered(), ESTIMATED, 'what it is supposed to have come to')
      t.same(await deltas.next(), { done: true, value: undefined })
    }
    t.equal(good.requests.length, 0)
    t.equal(services.health.view(entries[0]!, performance.now()).state, 'open', `${name}: the breaker`)
    t.equal(services.budget.used, 0)
  }
})

t.test('leaving ends the request at the provider', async (t) => {
  let gone = 0
  const { origin } = await upstream(t, (response) => {
    response.on('close', () => {
      gone += 1
    })
    streams(['he'], hang)(response)
  })
  const entries = [entryAt(origin)]
  const { services, request } = gatewayRig(t, { entries })
  const leaving = new AbortController()
  const ways: [string, (streaming: Streaming<'chat'>) => Promise<unknown>][] = [
    ['before the first step', async ({ deltas }) => deltas.return()],
    [
      'behind a piece',
      async ({ deltas }) => {
        for await (const _ of deltas) break
      },
    ],
    [
      'while it waits for one',
      async ({ deltas }) => {
        await deltas.next()
        const waiting = deltas.next()
        await sleep(20)
        await deltas.return()
        t.same(await waiting, { done: true, value: undefined })
      },
    ],
    [
      'by its signal',
      async ({ deltas }) => {
        await deltas.next()
        const waiting = deltas.next()
        leaving.abort(new Error('left'))
        await t.rejects(waiting, { message: 'left' })
      },
    ],
  ]
  for (const [index, [name, leave]] of ways.entries()) {
    const call = request('chat', chatCall(), leaving.signal)
    const streaming = await runStreamed(services, call)
    await leave(streaming)
    t.ok(await waitUntil(() => gone === index + 1, 5_000), name)
    t.equal(services.budget.used, 0, `${name}: nothing is held`)
    t.match(call.context.routing.attempts, [{ reason: 'ok' }])
    t.equal(call.context.money.usage, null)
    t.match(call.context.money.estimate?.metered(), ESTIMATED, `${name}: metered at its estimate`)
    t.same(await streaming.deltas.next(), { done: true, value: undefined })
  }
  t.equal(services.health.view(entries[0]!, performance.now()).state, 'closed')
})

t.test('a slow reader is not read ahead for', async (t) => {
  const block = piece('x'.repeat(64 * 1024))
  let written = 0
  const { origin } = await upstream(t, (response) => {
    sse(response)
    const pour = () => {
      while (written < 64 * 1024 * 1024 && !response.destroyed) {
        written += block.length
        if (!response.write(block)) return void response.once('drain', pour)
      }
    }
    pour()
  })
  const { services, request } = gatewayRig(t, { entries: [entryAt(origin)] })
  const { deltas } = await runStreamed(services, request('chat', chatCall()))
  for (let count = 0; count < 5; count += 1) await deltas.next()
  await sleep(300)
  // What the sockets on both sides hold.
  t.ok(written < 16 * 1024 * 1024, `${written} bytes were written`)
  t.ok(services.budget.used < 8 * 64 * 1024, `${services.budget.used} bytes are held`)
  await deltas.return()
  t.equal(services.budget.used, 0)
})

t.test('the figures of tokens are held as what they take, not as their text', async (t) => {
  const others = Array.from({ length: 20 }, (_, at) => ({ token: 'a', logprob: -at, bytes: [97] }))
  const content = [{ token: 'a', logprob: -1, bytes: [97], top_logprobs: others }]
  const chunk = { choices: [{ index: 0, delta: { content: 'a' }, logprobs: { content } }] }
  const { origin } = await upstream(t, (response) => {
    sse(response)
    for (let count = 0; count < 100; count += 1) response.write(`data: ${JSON.stringify(chunk)}\n\n`)
    response.end('data: [DONE]\n\n')
  })
  const { services, request } = gatewayRig(t, { entries: [entryAt(origin)] })
  const asked = chatCall({ extras: [{ name: 'logprobs', value: true, required: true }] })
  const { deltas } = await runStreamed(services, request('chat', asked))
  for (let count = 0; count < 50; count += 1) await deltas.next()
  const held = services.budget.used
  t.ok(held > 50 * 21 * 200, `${held} bytes are held for the figures of ${50 * 21} tokens`)
  await deltas.return()
  t.equal(services.budget.used, 0)
})

t.test('an answer without an end in sight is broken off at 64 MiB', async (t) => {
  const comment = `: ${'x'.repeat(1024 * 1024)}\n\n`
  const { origin } = await upstream(t, (response) => {
    sse(response)
    const pour = () => {
      while (!response.destroyed && response.write(comment));
      response.once('drain', pour)
    }
    pour()
  })
  const { services, request } = gatewayRig(t, { entries: [entryAt(origin)] })
  const call = request('chat', chatCall())
  t.equal((await refusalOf(runStreamed(services, call))).code, 'UPSTREAM_ERROR')
  t.match(call.context.routing.attempts, [{ reason: 'its answer is over 64 MiB' }])
  t.equal(services.budget.used, 0)
})

t.test('an entry that does not stream answers in one piece', async (t) => {
  const { streamed: _, ...whole } = openaiCompatible.chat!
  const plain: Provider = { ...openaiCompatible, kind: 'plain', chat: whole }
  const called = { id: 'c1', type: 'function', function: { name: 'add', arguments: '{}' } }
  const message = { role: 'assistant', content: 'hello', tool_calls: [called] }
  const { origin } = await upstream(t, (response) => {
    const usage = { prompt_tokens: 100, completion_tokens: 10 }
    const other = { index: 1, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' }, other]
    response.end(JSON.stringify({ choices, usage }))
  })
  const bad = await upstream(t, (response) => response.writeHead(500).end())
  const at = (url: string) => entryAt(url, { kind: 'plain' })
  const { services, request } = gatewayRig(t, { entries: [at(bad.origin), at(origin)], providers: [plain] })
  const tools = [{ name: 'add', description: null, parameters: null }]
  const call = request('chat', chatCall({ tools, extras: [{ name: 'n', value: 2, required: true }] }))
  const attempts: WatchedAttempt[] = []
  const watch = {
    attempted: (one: WatchedAttempt) => void attempts.push(one),
    waited() {},
    doubted() {},
    metered() {},
    charged() {},
  }
  const { deltas, outcome } = await runStreamed({ ...services, watch }, call)
  const pieces: ChatDelta[] = []
  for await (const delta of deltas) pieces.push(delta)
  t.same(pieces, [
    { type: 'text', text: 'hello' },
    { type: 'tool_call', index: 0, id: 'c1', name: 'add', arguments: '{}' },
    { type: 'text', text: 'hi', choice: 1 },
  ])
  t.equal(call.context.routing.attempts.length, 2)
  t.match(attempts, [
    { outcome: 'server', failover: false },
    { outcome: 'ok', failover: true },
  ])
  t.same(
    attempts.map(({ firstDeltaMs: firstPieceMs }) => firstPieceMs),
    [null, null],
    'what comes whole has no first piece',
  )
  outcome().release()
  t.equal(services.budget.used, 0)
})

t.test('speech and transcripts, streamed and whole', async (t) => {
  const sound = await upstream(t, (response) => {
    response.writeHead(200, { 'content-type': 'audio/mpeg' })
    response.write('first ')
    setTimeout(() => response.end('second'), 30)
  })
  const { services, request } = gatewayRig(t, { entries: [entryAt(sound.origin)] })
  const spoken = request('speech', {
    input: 'hello',
    voice: null,
    response_format: 'mp3',
    speed: null,
    seed: null,
  })
  const speaking = await runStreamed(services, spoken)
  t.same(speaking.expected, { usage: { audio_output_characters: 5, total_tokens: 0 }, cost_usd: null })
  let heard = ''
  for await (const { bytes, mediaType } of speaking.deltas) {
    heard += Buffer.from(bytes).toString()
    t.equal(mediaType, 'audio/mpeg')
  }
  t.equal(heard, 'first second')
  const { result, envelope, release } = speaking.outcome()
  t.same(result, { audio: [], mediaType: 'audio/mpeg' }, 'what has gone out is not kept')
  t.same(envelope.usage, speaking.expected.usage)
  release()
  t.equal(services.budget.used, 0)

  const bytes = Buffer.alloc(1000, 1)
  const reader = {
    async *bytes() {
      yield bytes
    },
    base64: () => {
      throw new Error('not asked for')
    },
    range: () => Promise.reject(new Error('not asked for')),
  }
  const writer = await upstream(t, (response) => response.end('{"text":"hello world"}'))
  const deaf = await upstream(t, (response) => response.end('{"text":" "}'))
  const entries = [entryAt(deaf.origin, { retryEmpty: true }), entryAt(writer.origin)]
  const rig = gatewayRig(t, { entries, reader })
  const call = rig.request('transcription', { audio: audio({ decodedBytes: 1000 }), options: options() })
  const transcribing = await runStreamed(rig.services, call)
  let text = ''
  for await (const delta of transcribing.deltas) text += delta
  t.equal(text, 'hello world')
  t.match(call.context.routing.attempts, [{ reason: 'an empty transcript' }, { reason: 'ok' }])
  t.equal(transcribing.outcome().envelope.cost_usd, 0.001)
  transcribing.outcome().release()
  t.equal(rig.services.budget.used, 0)
})
