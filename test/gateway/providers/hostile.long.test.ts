import fc from 'fast-check'
import t from 'tap'
import type { ChatMessage } from '../../../src/contracts/chat.ts'
import { CAPABILITY_OF, type OperationName } from '../../../src/contracts/operations.ts'
import type { Operation, Step, StreamReader } from '../../../src/contracts/provider.ts'
import type { Failure, FailureKind, UpstreamRequest } from '../../../src/contracts/upstream.ts'
import { FAILURE_KINDS } from '../../../src/contracts/upstream.ts'
import { factsOf, SHIPPED } from '../../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { audio, chatCall, completeCall, options, say, speechCall, user, WEATHER } from '../../support/call.ts'
import { reply } from '../../support/replies.ts'
import { sse, streamOf } from '../../support/stream-of.ts'
import { changed, hostileJson as json, RAW_JSON, trueAnswers, hostileValue as value } from './hostile-json.ts'

const RUNS = { numRuns: 150 }
const BASE = 'https://p.example/v1'

/** Calls of each operation: a plain one, and one that asks for as much as there is. */
const CALLS = {
  transcription: [
    { audio: audio(), options: options() },
    {
      audio: audio({ channels: 2 }),
      options: options({ diarization: true, multichannel: true, timestamps: 'both', redaction: ['pii'] }),
    },
  ],
  translation: [{ audio: audio(), options: options({ response_format: 'srt' }) }],
  speech: [speechCall().payload, speechCall({ response_format: 'mp3' }).payload],
  chat: [
    chatCall(),
    chatCall({
      tools: [WEATHER],
      tool_choice: 'required',
      modalities: ['text', 'audio'],
      response_schema: {},
    }),
  ],
  complete: [completeCall()],
  embeddings: [{ input: ['a'], dimensions: null }],
  image: [{ prompt: 'a', n: 2, size: null, quality: null, output_format: null, seed: null }],
  video: [{ prompt: 'a', duration_seconds: null, size: null, seed: 1 }],
  models: [null],
} as const
type Name = keyof typeof CALLS

const FAILED = {
  kind: 'failed',
  failure: { kind: 'server', status: 200, reason: 'x', retryAfterMs: null, providerMessage: null },
}
const JOB = { id: 'a', everyMs: 2_000, troubles: 0 }
/** Where an operation may stand when an answer comes, for those that ask more than once. */
const STATES: Readonly<Record<string, readonly unknown[]>> = {
  'assemblyai transcription': [
    { stage: 'upload' },
    { stage: 'create' },
    { stage: 'poll', id: 'a', polls: 1, troubles: 0 },
    { stage: 'delete', id: 'a', ending: FAILED },
  ],
  'gemini models': [[], [['a']]],
  'gemini video': [null, JOB],
  'openai-compatible video': [null, JOB],
  'runway video': [null, JOB],
  'sandbox video': [null, JOB],
}

interface Subject {
  readonly label: string
  readonly operation: Operation<unknown, unknown, unknown>
  readonly calls: readonly unknown[]
  readonly target: { model: string; baseUrl: string; credential: string; options: Record<string, unknown> }
}

/** A model of the tables that is for the operation, so that the answer is read as that model's. */
function modelFor(kind: string, name: Name): string {
  const models = SHIPPED.all().flatMap((one) => (one.kind === kind ? [one.model] : []))
  const capability = name === 'models' ? null : CAPABILITY_OF[name satisfies OperationName]
  return models.find((model) => factsOf(kind, model)?.capabilities.some((one) => one === capability)) ?? 'm'
}

const SUBJECTS: readonly Subject[] = [...PROVIDERS].flatMap(([kind, provider]) =>
  (Object.keys(CALLS) as Name[]).flatMap((name) => {
    const operation = provider[name] as Subject['operation'] | undefined
    if (operation === undefined) return []
    const options = kind === 'assemblyai' ? { delete_after: true } : {}
    const target = { model: modelFor(kind, name), baseUrl: BASE, credential: 'k', options }
    return [{ label: `${kind} ${name}`, operation, calls: CALLS[name], target }]
  }),
)

const body = fc.oneof(
  { arbitrary: value.map(json), weight: 8 },
  { arbitrary: value.map((given) => json(given).slice(0, -1)), weight: 1 },
  { arbitrary: fc.string(), weight: 1 },
)
const headers = fc.record({
  'content-type': fc.constantFrom('application/json', 'text/html', 'audio/mpeg', 'audio/../x', ''),
  'retry-after': fc.constantFrom(
    '',
    '1e999',
    '-1',
    '9'.repeat(20),
    '12',
    'Fri, 99 Nov 2026 10:00:00 GMT',
    'p0ison',
  ),
})

const wav = Buffer.from('RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0', 'latin1')
const samples = Buffer.from('\0\0\0\0\x02\0\x10\0data\x02\0\0\0\0\0', 'latin1')
/** Two WAV files in one answer, of a rate that is fine and of one that cannot be. */
const SPOKEN = ['\xc0\x5d\0\0', '\xff\xff\xff\xff', '\0\0\0\0'].map((rate) => {
  const data = Buffer.concat([wav, Buffer.from(rate, 'latin1'), samples]).toString('base64')
  const part = { inlineData: { mimeType: 'audio/wav', data } }
  return { candidates: [{ content: { parts: [part, part] }, finishReason: 'STOP' }] }
})

/** Below the provider's own address, whatever an answer named. */
function isInside({ url }: UpstreamRequest): boolean {
  const { origin, pathname, username } = new URL(url)
  return `${origin}${pathname}`.startsWith(`${BASE}/`) && username === ''
}

function isFailure({ kind, reason, retryAfterMs, providerMessage, status }: Failure): boolean {
  const patient = retryAfterMs === null || (retryAfterMs >= 0 && retryAfterMs <= 24 * 3_600_000)
  const short = Buffer.byteLength(providerMessage ?? '') <= 2_048
  const ours = reason.length < 300 && !reason.includes('p0ison')
  return FAILURE_KINDS.includes(kind) && patient && short && ours && (status === null || status >= 100)
}

/** Every number is one, so that what is metered can be priced. */
function isCountable(result: unknown): boolean {
  if (typeof result === 'number') return Number.isFinite(result)
  if (typeof result !== 'object' || result === null || ArrayBuffer.isView(result)) return true
  return Object.values(result).every(isCountable)
}

/** A video that only our credential opens is fetched by us: from the provider and nobody else. */
function leadsAway(result: unknown): boolean {
  const { videos = [] } = (result ?? {}) as { videos?: { kind: string; request?: UpstreamRequest }[] }
  return videos.some(
    ({ request }) => request !== undefined && new URL(request.url).origin !== new URL(BASE).origin,
  )
}

function isSound(step: Step<unknown>, { operation, target }: Subject): boolean {
  if (step.kind === 'done') return isCountable(step.result) && !leadsAway(step.result)
  if (step.kind === 'failed') return isFailure(step.failure)
  const last = operation.abandon?.(step.state, target) ?? null
  const waits = step.kind === 'wait' ? step.waitMs >= 0 && Number.isFinite(step.waitMs) : true
  return waits && isInside(step.request) && (last === null || isInside(last))
}

t.test('whatever a provider answers is a step, and leads nowhere but to the provider', async (t) => {
  for (const subject of SUBJECTS) {
    const { label, operation, calls, target } = subject
    const property = fc.property(
      body,
      fc.constantFrom(200, 201, 302, 400, 401, 404, 422, 429, 500, 502),
      headers,
      fc.constantFrom(...(STATES[label] ?? [null])),
      fc.constantFrom(...calls),
      (text, status, head, state, call) =>
        isSound(operation.next(state, reply(text, status, head), call, target), subject),
    )
    t.doesNotThrow(() => fc.assert(property, RUNS), label)
  }
})

t.test('a true answer with something else in one place of it', async (t) => {
  for (const subject of SUBJECTS) {
    const { label, operation, calls, target } = subject
    const answers = [...(await trueAnswers(label.split(' ')[0] ?? '')), ...SPOKEN]
    const property = fc.property(
      fc.constantFrom(...answers),
      fc.nat(),
      value,
      fc.constantFrom(...(STATES[label] ?? [null])),
      fc.constantFrom(...calls),
      (answer, place, by, state, call) => {
        const text = json(changed(answer, place, by))
        return isSound(operation.next(state, reply(text), call, target), subject)
      },
    )
    t.doesNotThrow(() => fc.assert(property, RUNS), label)
  }
})

t.test('whatever a provider streams comes to an end', async (t) => {
  for (const { label, operation, calls, target } of SUBJECTS) {
    const { streamed } = operation
    if (streamed === undefined) continue
    const event = fc.oneof(value.map(json), fc.constantFrom('[DONE]', '{"', ': ping'))
    const events = fc.array(event, { maxLength: 5 }).map((given) => Buffer.from(sse(...given)))
    const bytes = fc.oneof({ arbitrary: events, weight: 4 }, fc.uint8Array())
    const size = fc.oneof(fc.integer({ min: 30, max: 100 }), fc.constant(1_000_000))
    const property = fc.property(
      bytes,
      size,
      headers,
      fc.constantFrom(...calls),
      (given, size, head, call) => {
        const reader: StreamReader<unknown, unknown> = streamed.read(
          { status: 200, headers: head },
          call,
          target,
        )
        const { result, failure } = streamOf(reader, given, size)
        return failure === null ? isCountable(result) : isFailure(failure)
      },
    )
    t.doesNotThrow(() => fc.assert(property, RUNS), label)
  }
})

t.test('a stream means the same however it is cut', async (t) => {
  for (const kind of ['openai', 'anthropic', 'gemini']) {
    const { operation, calls, target } = subject(`${kind} chat`)
    const read = (text: string, size: number) => {
      const reader = operation.streamed!.read({ status: 200, headers: {} }, calls[0], target)
      const { result, failure } = streamOf(reader, text, size)
      return JSON.stringify([result, failure])
    }
    const property = fc.property(
      fc.array(value, { maxLength: 4 }),
      fc.integer({ min: 1, max: 30 }),
      (given, size) => {
        const text = sse(...given.filter((event) => event !== '' && !json(event).includes('[[[')), '[DONE]')
        return read(text, size) === read(text, 1_000_000)
      },
    )
    t.doesNotThrow(() => fc.assert(property, RUNS), kind)
  }
})

t.test('what is nested thousands of levels deep', async (t) => {
  const deep = (before: string, after: string) => `${before}${RAW_JSON['@deep object']}${after}`
  const inError = deep('{"error":{"message":"m","details":', '}}')
  const inCall = {
    openai: deep('{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":', '}}]}}]}'),
    anthropic: deep('{"type":"message","content":[{"type":"tool_use","name":"f","input":', '}]}'),
    gemini: deep('{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":', '}}]}}]}'),
  }
  for (const [kind, text] of Object.entries(inCall)) {
    const { operation, calls, target } = subject(`${kind} chat`)
    const called = operation.next(null, reply(text), calls[0], target)
    t.match(called, { kind: 'done', result: { tool_calls: [{ name: 'f', arguments: '' }] } }, kind)
    t.match(operation.next(null, reply(inError), calls[0], target), { kind: 'failed' }, kind)
  }

  const inLength = `{"id":"video_1","status":"completed","seconds":${RAW_JSON['@deep']}}`
  const { operation, calls, target } = subject('openai-compatible video')
  const made = operation.next(null, reply(inLength), calls[0], target)
  t.match(made, { kind: 'done', result: { seconds: null } }, 'a length that is none')
})

function subject(label: string): Subject {
  return SUBJECTS.find((one) => one.label === label)!
}

t.test('what no address, amount or file can be', async (t) => {
  const rows: [label: string, answer: string, kind: FailureKind][] = [
    ['runway video', '{"id":"\\ud800"}', 'ambiguous'],
    ['gemini video', '{"id":"\\ud800","status":"in_progress"}', 'ambiguous'],
    ['openai-compatible video', '{"id":"a\\udfffb","status":"queued"}', 'ambiguous'],
    ['openai-compatible video', '{"id":"..","status":"queued"}', 'ambiguous'],
    ['assemblyai transcription', '{"id":"../x","status":"queued"}', 'server'],
    ['gemini speech', json(SPOKEN[1]), 'server'],
    ['gemini speech', json(SPOKEN[2]), 'server'],
  ]
  for (const [label, answer, kind] of rows) {
    const { operation, calls, target } = subject(label)
    const state = label.startsWith('assemblyai') ? { stage: 'create' } : null
    t.match(operation.next(state, reply(answer), calls[0], target), { failure: { kind } }, label + answer)
  }
  const { operation, calls, target } = subject('runway video')
  const made = '{"status":"SUCCEEDED","output":["https://x/1.mp4"],"cost":{"credits":1e999}}'
  t.match(operation.next(JOB, reply(made), calls[0], target), { result: { credits: null } })
  const models = subject('gemini models')
  const page = '{"models":[{"name":"models/a"}],"nextPageToken":"\\ud800"}'
  t.match(models.operation.next([], reply(page), null, models.target), { result: ['a'] })
})

t.test('chats of very many messages and parts', { timeout: 60_000 }, async (t) => {
  const PARTS = 200_000
  const parts = Array.from({ length: PARTS }, () => say('a'))
  const called = Array.from({ length: 20_000 }, (_, index): ChatMessage[] => [
    { role: 'assistant', parts: [], tool_calls: [{ id: `c${index}`, name: 'f', arguments: '{}' }] },
    { role: 'tool', tool_call_id: `c${index}`, parts: [say('1')] },
  ]).flat()
  const chats: Record<string, ChatMessage[]> = {
    'a message of many parts': [user(...parts.slice(0, 2)), { role: 'user', parts }],
    'a system message of many parts': [{ role: 'system', parts }, user(say('a'))],
    'many calls of tools': [user(say('a')), ...called],
  }
  for (const label of ['openai chat', 'anthropic chat', 'gemini chat']) {
    for (const [what, messages] of Object.entries(chats)) {
      const { operation, target } = subject(label)
      const startMs = performance.now()
      t.equal(operation.start(chatCall({ messages }), target).kind, 'send', `${label}, ${what}`)
      // Looking through all messages for each takes half a minute.
      t.ok(performance.now() - startMs < 5_000, `${performance.now() - startMs} ms`)
    }
  }
})
