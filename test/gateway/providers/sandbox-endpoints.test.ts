import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { AudioReader } from '../../../src/contracts/audio.ts'
import type { Operation, Target } from '../../../src/contracts/provider.ts'
import type { Failure } from '../../../src/contracts/upstream.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { sandbox } from '../../../src/gateway/providers/sandbox.ts'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { chatCall, completeCall, say, user, WEATHER } from '../../support/call.ts'

// The operations that carry no audio, against the sandbox over real sockets: what one writes, the other, which
// shares no code with it, reads.

const HELLO = '.... . .-.. .-.. ---'
const STAYING = { deadlineMs: 20_000, signal: new AbortController().signal }
/** The sandbox works faster than it is polled. */
const WAIT_MAX_MS = 400

const NO_AUDIO: AudioReader = { async *bytes() {}, async *base64() {}, range: async () => Buffer.alloc(0) }

async function start(t: Test) {
  const { url, close } = await startSandbox()
  const sender = createSender({ reader: NO_AUDIO })
  t.teardown(async () => {
    await sender.close()
    await close()
  })
  const target = (options: Target['options'] = {}): Target => ({
    model: 'morse-1',
    baseUrl: url,
    credential: null,
    options,
  })
  /** Drives an operation to its end. */
  const run = async <Call, Result>(
    operation: Pick<Operation<Call, Result>, 'start' | 'next'>,
    call: Call,
    at = target(),
  ): Promise<Result | Failure> => {
    let step = operation.start(call, at)
    for (let sent = 0; sent < 50; sent += 1) {
      if (step.kind === 'done') return step.result
      if (step.kind === 'failed') return step.failure
      if (step.kind === 'wait') await sleep(Math.min(step.waitMs, WAIT_MAX_MS))
      const reply = await sender.send(step.request, { ...STAYING, onHeld: () => {} })
      step = operation.next(step.state, reply, call, at)
    }
    throw new Error('the operation does not end')
  }
  const stream = async <Call, Result, Delta>(
    { streamed }: Operation<Call, Result, Delta>,
    call: Call,
    at = target(),
  ) => {
    const step = streamed!.start(call, at)
    if (step.kind !== 'send') throw new Error('nothing to send')
    const { chunks, ...head } = await sender.open(step.request, STAYING)
    const reader = streamed!.read(head, call, at)
    const deltas: Delta[] = []
    for await (const chunk of chunks) {
      const pieces = reader.push(chunk)
      if ('kind' in pieces) return { deltas, end: pieces }
      deltas.push(...pieces)
    }
    return { deltas, end: reader.end() }
  }
  return { sender, target, run, stream }
}

const asking = (text: string) => chatCall({ messages: [user(say(text))] })

t.test('chat, whole and streamed', async (t) => {
  const { run, stream } = await start(t)
  const result = { content: HELLO, finish_reason: 'stop', usage: { input_tokens: 2, output_tokens: Number } }
  t.match(await run(sandbox.chat!, asking('hello')), result)
  const { deltas, end } = await stream(sandbox.chat!, asking('hello'))
  t.match(end, { result })
  t.ok(deltas.length > 1)
  t.equal(deltas.map((delta) => (delta.type === 'text' ? delta.text : '')).join(''), HELLO)
  t.match(await run(sandbox.chat!, { ...asking('hello'), max_tokens: 1 }), { finish_reason: 'length' })
})

t.test('tools, whole and streamed', async (t) => {
  const { run, stream } = await start(t)
  const call = chatCall({
    messages: [user(say('what is the weather'))],
    tools: [WEATHER],
    tool_choice: 'required',
  })
  const expected = {
    finish_reason: 'tool_calls',
    tool_calls: [{ name: 'get_weather', arguments: '{"city":"what is the weather"}' }],
  }
  t.match(await run(sandbox.chat!, call), expected)
  t.match(await stream(sandbox.chat!, call), { end: { result: expected }, deltas: [{ type: 'tool_call' }] })
})

t.test('a spoken answer is made whole', async (t) => {
  const { run, target } = await start(t)
  const call = chatCall({ modalities: ['text', 'audio'] })
  t.equal(sandbox.chat!.streamed!.applies?.(call, target()), false)
  const answer = await run(sandbox.chat!, call)
  t.match(answer, { audio: { media_type: 'audio/wav' } })
  const audio = 'audio' in answer ? answer.audio : null
  t.equal(Buffer.from(audio?.base64 ?? '', 'base64').toString('latin1', 0, 4), 'RIFF')
})

t.test('completion', async (t) => {
  const { run, stream } = await start(t)
  t.match(await run(sandbox.complete!, completeCall({ prompt: 'hello' })), { content: HELLO })
  const { end } = await stream(sandbox.complete!, completeCall({ prompt: 'hello' }))
  t.match(end, { result: { content: HELLO } })
})

t.test('embeddings', async (t) => {
  const { run } = await start(t)
  const answer = await run(sandbox.embeddings!, { input: ['a cat', 'cats', 'zzz'], dimensions: 64 })
  const embeddings = 'embeddings' in answer ? answer.embeddings : []
  t.same(
    embeddings.map((embedding) => embedding.length),
    [64, 64, 64],
  )
  const one = await run(sandbox.embeddings!, { input: ['cats'], dimensions: 64 })
  t.same('embeddings' in one ? one.embeddings[0] : null, embeddings[1], 'each text has its own')
})

t.test('pictures', async (t) => {
  const { run } = await start(t)
  const call = { prompt: 'sos', n: 2, size: '64x64', quality: null, output_format: null, seed: null }
  const picture = { url: null, media_type: 'image/png' }
  t.match(await run(sandbox.image!, call), { images: [picture, picture], warnings: [] })
  t.match(await run(sandbox.image!, { ...call, size: '1x1' }), { kind: 'caller', status: 400 })
})

t.test('a film, ordered, polled for and fetched', async (t) => {
  const { run, sender } = await start(t)
  const call = { prompt: 'sos', duration_seconds: 4, size: '32x32', seed: null }
  const made = await run(sandbox.video!, call)
  t.match(made, { seconds: 4, videos: [{ kind: 'fetch', media_type: 'video/quicktime' }] })
  const video = 'videos' in made ? made.videos[0] : undefined
  if (video?.kind !== 'fetch') return t.fail('there is nothing to fetch')
  const content = await sender.send(video.request, { ...STAYING, onHeld: () => {} })
  t.equal(content.headers['content-type'], video.media_type)
  t.equal(Buffer.concat(content.body).toString('latin1', 4, 8), 'ftyp')
  t.match(await run(sandbox.video!, { ...call, prompt: '~' }), { kind: 'server', status: 200 }, 'it failed')
  t.match(await run(sandbox.video!, { ...call, duration_seconds: 5 }), { kind: 'caller' })
})

t.test('faults come through each of them', async (t) => {
  const { run, stream, target } = await start(t)
  const at = target({ status: 429, code: 'insufficient_quota' })
  const expected = { kind: 'credential', status: 429 }
  t.match(await run(sandbox.chat!, asking('hello'), at), expected)
  t.match(await run(sandbox.embeddings!, { input: ['a'], dimensions: null }, at), expected)
  t.match(await run(sandbox.models!, null, target()), ['morse-1'])
  const cut = await stream(sandbox.chat!, asking('hello hello hello'), target({ cut: true })).catch(
    (error: unknown) => error,
  )
  t.match(cut, { name: 'UpstreamFailure', failure: { kind: 'ambiguous' } })
})
