import fc from 'fast-check'
import t from 'tap'
import { PROVIDERS } from '../../../src/providers/index.ts'
import type { Operation, StreamReader } from '../../../src/schema/provider.ts'
import { audio, options, speechCall } from '../../support/call.ts'
import { chatCall, completeCall, WEATHER } from '../../support/chat-call.ts'
import { reply } from '../../support/replies.ts'
import { sse, streamOf } from '../../support/stream-of.ts'

const RUNS = { numRuns: 300 }
const TARGET = { model: 'gpt-4o-transcribe-diarize', baseUrl: 'http://p/v1', credential: 'k', options: {} }
const HEAD = { status: 200, headers: {} }

const CALLS = {
  transcription: { audio: audio(), options: options({ diarization: true }) },
  translation: { audio: audio(), options: options() },
  speech: speechCall().payload,
  chat: chatCall({ tools: [WEATHER], modalities: ['audio'] }),
  complete: completeCall(),
  embeddings: { input: ['a'], dimensions: null },
  image: { prompt: 'a', n: 1, size: null, quality: null, output_format: null, seed: null },
  video: { prompt: 'a', duration_seconds: null, size: null, seed: null },
  models: null,
} as const
type Name = keyof typeof CALLS

/** Names that the readers look at, with anything in them. */
const KNOWN = [
  ...['choices', 'message', 'delta', 'content', 'refusal', 'audio', 'data', 'transcript', 'tool_calls'],
  ...['function', 'name', 'arguments', 'index', 'id', 'finish_reason', 'usage', 'x_groq', 'prompt_tokens'],
  ...['error', 'code', 'type', 'text', 'segments', 'start', 'end', 'speaker', 'languages', 'words'],
  ...['embedding', 'b64_json', 'url', 'output_format', 'status', 'seconds', 'output', 'cost', 'credits'],
]

const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(null, true, 0, -1, 1e308, '', 'stop', 'completed', 'SUCCEEDED', 'AAA=', '\ud800'),
    fc.constantFrom('transcript.text.delta', 'transcript.text.segment', 'transcript.text.done'),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...KNOWN), fc.string()), tie('value'), { maxKeys: 6 }),
  ),
}))

const operations = ['openai', 'openai-compatible', 'groq', 'runway'].flatMap((kind) => {
  const provider = PROVIDERS.get(kind)!
  return (Object.keys(CALLS) as Name[]).flatMap((name) => {
    const operation = provider[name] as Operation<unknown, unknown, unknown> | undefined
    return operation === undefined ? [] : [{ label: `${kind} ${name}`, operation, call: CALLS[name] }]
  })
})

t.test('whatever a provider answers is a step', async (t) => {
  for (const { label, operation, call } of operations) {
    const states = [null, { id: 'a', everyMs: 2000, troubles: 0 }]
    const statuses = fc.constantFrom(200, 201, 400, 404, 429, 500, 502)
    const property = fc.property(value, statuses, fc.constantFrom(...states), (body, status, state) => {
      const step = operation.next(state, reply(body, status), call, TARGET)
      return ['done', 'failed', 'wait'].includes(step.kind)
    })
    t.doesNotThrow(() => fc.assert(property, RUNS), label)
  }
})

t.test('whatever a provider streams comes to an end', async (t) => {
  for (const { label, operation, call } of operations) {
    const { streamed } = operation
    if (streamed === undefined) continue
    const events = fc.array(fc.oneof(value, fc.constantFrom('[DONE]', '{"', ': ping')), { maxLength: 5 })
    const property = fc.property(events, fc.integer({ min: 1, max: 40 }), (given, size) => {
      const reader: StreamReader<unknown, unknown> = streamed.read(HEAD, call, TARGET)
      const { result, failure } = streamOf(reader, sse(...given), size)
      return (result === null) !== (failure === null)
    })
    t.doesNotThrow(() => fc.assert(property, RUNS), label)
  }
})

t.test('a stream means the same however it is cut', async (t) => {
  const { operation, call } = operations.find(({ label }) => label === 'openai chat')!
  const read = (body: string, size: number) => {
    const { result, failure } = streamOf(operation.streamed!.read(HEAD, call, TARGET), body, size)
    return JSON.stringify([result, failure])
  }
  const property = fc.property(
    fc.array(value, { maxLength: 4 }),
    fc.integer({ min: 1, max: 30 }),
    (given, size) => {
      const body = sse(...given.filter((event) => event !== ''), '[DONE]')
      return read(body, size) === read(body, 1_000_000)
    },
  )
  t.doesNotThrow(() => fc.assert(property, RUNS))
})
