import { LLMock } from '@copilotkit/aimock'
import t from 'tap'
import type { AudioReader } from '../../../src/contracts/audio.ts'
import type { Operation, Target } from '../../../src/contracts/provider.ts'
import type { Failure } from '../../../src/contracts/upstream.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { openai } from '../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../src/gateway/providers/openai-compatible.ts'
import { audio, chatCall, completeCall, options, say, speechCall, user, WEATHER } from '../../support/call.ts'

// A mock of OpenAI's API that others wrote, from their own reading of it: what both have misread alike would pass, all
// else would not.

const AUDIO = Buffer.from('RIFF some audio')
const PNG = 'iVBORw0KGgoAAAANSUhEUg=='
const STAYING = { deadlineMs: 20_000, signal: new AbortController().signal }

const reader: AudioReader = {
  async *bytes() {
    yield AUDIO
  },
  async *base64() {
    yield Buffer.from(AUDIO.toString('base64'))
  },
  range: async (_ref, start, end) => AUDIO.subarray(start, end),
}

const { send, open, close } = createSender({ reader })
const mock = new LLMock({ port: 0, chunkSize: 4 })
await mock.start()
t.teardown(async () => {
  await close()
  await mock.stop()
})

function target(model: string, overrides: Partial<Target> = {}): Target {
  return { model, baseUrl: `${mock.url}/v1`, credential: 'sk-mock', options: {}, ...overrides }
}

/** Drives an operation to its end, without its waits. */
async function run<Call, Result>(
  operation: Operation<Call, Result, never> | Operation<Call, Result, unknown>,
  call: Call,
  at: Target,
): Promise<Result | Failure> {
  let step = operation.start(call, at)
  for (let sent = 0; sent < 10; sent += 1) {
    if (step.kind === 'done') return step.result
    if (step.kind === 'failed') return step.failure
    const reply = await send(step.request, { ...STAYING, onHeld: () => {} })
    step = operation.next(step.state, reply, call, at)
  }
  throw new Error('the operation does not end')
}

async function stream<Call, Result, Delta>(
  { streamed }: Operation<Call, Result, Delta>,
  call: Call,
  at: Target,
) {
  const step = streamed!.start(call, at)
  if (step.kind !== 'send') throw new Error('nothing to send')
  const { chunks, ...head } = await open(step.request, STAYING)
  const reading = streamed!.read(head, call, at)
  const deltas: Delta[] = []
  for await (const chunk of chunks) {
    const pieces = reading.push(chunk)
    if ('kind' in pieces) return { deltas, end: pieces }
    deltas.push(...pieces)
  }
  return { deltas, end: reading.end() }
}

const asking = (text: string) => chatCall({ messages: [user(say(text))] })

t.test('chat and completion', async (t) => {
  mock.onMessage('hello', { content: 'Grüezi, Zürich!' }, { chunkSize: 3 })
  mock.onMessage('legacy', { content: 'and so on.' })
  const result = { content: 'Grüezi, Zürich!', finish_reason: 'stop', usage: { output_tokens: Number } }
  t.match(await run(openai.chat!, asking('hello'), target('gpt-4.1')), result)
  const { deltas, end } = await stream(openai.chat!, asking('hello'), target('gpt-4.1'))
  t.match(end, { result })
  t.ok(deltas.length > 2, 'in pieces')
  t.equal(deltas.map((delta) => (delta.type === 'text' ? delta.text : '')).join(''), 'Grüezi, Zürich!')
  const completed = await run(openai.complete!, completeCall({ prompt: 'legacy' }), target('gpt-4.1'))
  t.match(completed, { content: 'and so on.' })
})

t.test('tool calls', async (t) => {
  const toolCalls = [
    { name: 'get_weather', arguments: '{"city":"Bern"}' },
    { name: 'get_weather', arguments: '{"city":"Basel"}' },
  ]
  mock.onMessage('weather', { toolCalls })
  const call = { ...asking('weather'), tools: [WEATHER] }
  const expected = { finish_reason: 'tool_calls', tool_calls: toolCalls }
  t.match(await run(openai.chat!, call, target('gpt-4.1')), expected)
  t.match((await stream(openai.chat!, call, target('gpt-4.1'))).end, { result: expected })
})

t.test('refusals and streams that are cut', async (t) => {
  const error = { message: 'over', type: 'rate_limit_error', code: 'rate_limit_exceeded' }
  mock.onMessage('refused', { error, status: 429, retryAfter: 7 })
  const refused = await run(openai.chat!, asking('refused'), target('gpt-4.1'))
  t.match(refused, { kind: 'rate', status: 429, retryAfterMs: 7000 })
  mock.onMessage('cut', { content: 'a longer answer that is cut' }, { truncateAfterChunks: 2, chunkSize: 3 })
  const cut = stream(openai.chat!, asking('cut'), target('gpt-4.1'))
  const thrown = await cut.catch((error: unknown) => error)
  t.match(thrown, { name: 'UpstreamFailure', failure: { kind: 'ambiguous' } }, 'the connection breaks')
})

t.test('embeddings', async (t) => {
  mock.onEmbedding(/./, { embedding: [0.1, -0.5, 1] })
  const call = { input: ['a', 'b'], dimensions: null }
  for (const provider of [openai, openaiCompatible]) {
    const result = await run(provider.embeddings!, call, target('text-embedding-3-small'))
    const vector = [Math.fround(0.1), -0.5, 1]
    const embeddings = 'embeddings' in result ? result.embeddings : []
    t.same(
      embeddings.map((embedding) => Array.from(embedding, Math.fround)),
      [vector, vector],
      provider.kind,
    )
  }
})

t.test('pictures', async (t) => {
  mock.onImage('a cat', { images: [{ b64Json: PNG }, { b64Json: PNG }] })
  const call = { prompt: 'a cat', n: 2, size: '1024x1024', quality: null, output_format: null, seed: null }
  const picture = { base64: PNG, url: null, media_type: 'image/png' }
  t.match(await run(openai.image!, call, target('gpt-image-2')), { images: [picture, picture] })
})

t.test('speech', async (t) => {
  mock.onSpeech('hello', { audio: AUDIO.toString('base64'), format: 'wav' })
  const call = speechCall({ response_format: 'wav' }).payload
  const result = await run(openai.speech!, call, target('gpt-4o-mini-tts'))
  t.match(result, { mediaType: 'audio/wav' })
  const { deltas, end } = await stream(openai.speech!, call, target('gpt-4o-mini-tts'))
  t.same(Buffer.concat(deltas.map(({ bytes }) => bytes)), AUDIO)
  t.match(end, { result: { mediaType: 'audio/wav' } })
})

t.test('transcription and translation', async (t) => {
  const words = [{ word: 'Hello', start: 0, end: 0.5 }]
  const segments = [{ id: 0, text: 'Hello there.', start: 0, end: 1 }]
  const transcription = { text: 'Hello there.', language: 'english', duration: 1, words, segments }
  mock.onTranscription({ transcription })
  mock.onTranslation({ transcription: { text: 'Hello.', language: 'english', duration: 1 } })
  const call = {
    audio: audio({ decodedBytes: AUDIO.length, length: AUDIO.length }),
    options: options({ timestamps: 'both' }),
  }
  t.match(await run(openai.transcription!, call, target('whisper-1')), {
    text: 'Hello there.',
    language: 'en',
    words,
    segments: [{ text: 'Hello there.', start: 0, end: 1 }],
  })
  const plain = { ...call, options: options() }
  t.match(await run(openai.translation!, plain, target('whisper-1')), { text: 'Hello.', durationSeconds: 1 })
  const { deltas, end } = await stream(openai.transcription!, plain, target('gpt-transcribe'))
  t.equal(deltas.join(''), 'Hello there.')
  t.match(end, { result: { text: 'Hello there.' } })
})

t.test('videos', async (t) => {
  mock.onVideo('a cat', { video: { id: 'video_1', status: 'completed' } })
  mock.onVideo('a dog', { video: { id: 'video_2', status: 'failed' } })
  const call = { prompt: 'a cat', duration_seconds: 4, size: '1280x720', seed: null }
  const url = `${mock.url}/v1/videos/video_1/content?variant=video`
  const made = await run(openaiCompatible.video!, call, target('sora-2'))
  t.match(made, { videos: [{ kind: 'fetch', request: { url } }] })
  const failed = await run(openaiCompatible.video!, { ...call, prompt: 'a dog' }, target('sora-2'))
  t.match(failed, { kind: 'server' })
})

t.test('the list of models', async (t) => {
  const models = await run(openai.models!, null, target('any'))
  t.ok(Array.isArray(models) && models.length > 0)
})
