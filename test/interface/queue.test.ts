import t from 'tap'
import type { Job } from '../../src/contracts/jobs.ts'
import { chatRequest, completeRequest, visionRequest } from '../../src/gateway/api/native/chat.ts'
import { embeddingsRequest } from '../../src/gateway/api/native/embeddings.ts'
import { imageRequest } from '../../src/gateway/api/native/image.ts'
import { speechRequest } from '../../src/gateway/api/native/speech.ts'
import { videoRequest } from '../../src/gateway/api/native/video.ts'
import { QUEUE_KEY, type QueueApi, startQueueApi } from './queue-api.ts'

const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** A body for each endpoint, with all fields that it knows. */
const PAYLOADS = {
  chat: [
    chatRequest,
    {
      messages: [
        { role: 'system', content: 'be brief' },
        {
          role: 'user',
          name: 'ann',
          content: [
            { type: 'text', text: 'Grüße 🐦 \u0000 \ud800' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}`, detail: 'low' } },
            { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
          ],
        },
        {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'find', arguments: '{"a":1' } }],
        },
        { role: 'tool', tool_call_id: 'call_1', content: 'found' },
      ],
      max_completion_tokens: 10,
      temperature: 0.25,
      top_p: 0.1,
      stop: 'end',
      seed: 7,
      stream: false,
      tools: [
        {
          type: 'function',
          function: {
            name: 'find',
            parameters: { type: 'object', properties: { __proto__x: { const: null } } },
          },
        },
        { type: 'function', function: { name: 'go', description: 'goes' } },
      ],
      tool_choice: { type: 'function', function: { name: 'find' } },
      modalities: ['text', 'audio'],
      audio: { voice: 'alloy' },
      response_schema: { type: 'object', default: { deep: [1e21, -0.5, null, true] } },
      unheard_of: 1,
    },
  ],
  complete: [completeRequest, { prompt: 'once upon', max_tokens: 5, stop: ['a', 'b'] }],
  vision: [
    visionRequest,
    {
      prompt: 'what is it?',
      images: [{ base64: PIXEL, media_type: 'image/png' }, 'https://example.com/a.png'],
    },
  ],
  embeddings: [embeddingsRequest, { input: ['a', 'b'], dimensions: 3 }],
  embed: [embeddingsRequest, { input: 'a' }],
  image: [
    imageRequest,
    { prompt: 'a lark', n: 2, size: '64x64', quality: 'high', output_format: 'png', seed: 1 },
  ],
  speech: [speechRequest, { input: 'hello', voice: 'alloy', response_format: 'wav', speed: 1.5, seed: -1 }],
  video: [videoRequest, { prompt: 'a lark', duration_seconds: 1.5, size: '64x64', seed: 0 }],
} as const

/** The call as a worker reads it back. */
async function readBack({ dependencies }: QueueApi, { work }: Job): Promise<unknown> {
  if ('audio' in work) throw new Error('it is about audio')
  const json = await dependencies.jobs.objects.open(work.payload)
  if (json === null) throw new Error('the payload is gone')
  return JSON.parse(json)
}

t.test('every endpoint: a job is accepted, and its worker reads the very call', async (t) => {
  const api = await startQueueApi(t)
  for (const [endpoint, [request, payload]] of Object.entries(PAYLOADS)) {
    const headers = {
      'x-lk-purpose': 'call-center',
      traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`,
    }
    const { status, headers: got, body } = await api.post({ endpoint, payload }, headers)
    t.equal(status, 202, `${endpoint}: ${JSON.stringify(body.error)}`)
    t.match(body, {
      queued: true,
      job: { id: /^qj_/, endpoint, mode: 'priority', status: 'queued', created_at: /^2.*\.\d{3}Z$/ },
    })
    t.strictSame(Object.keys(body.job ?? {}), ['id', 'endpoint', 'mode', 'status', 'created_at'])
    t.match(got.get('x-ratelimit-limit-requests'), /^\d+$/)
    t.match(got.get('x-lk-policy-version-id'), /^pv_/)
    t.equal(got.get('x-lk-idempotency'), null)

    const job = await api.jobs.get(body.job?.id ?? '')
    if (job === null) throw new Error('there is no job')
    t.match(job, {
      kind: 'queue',
      endpoint,
      workspace: 'acme',
      app: 'web',
      keyId: 'key_web',
      keyBudgetMicros: null,
      requestId: got.get('x-lk-request-id'),
      traceparent: headers.traceparent,
      selectors: { purpose: { label: 'call-center', source: 'header' }, responseProfile: null },
      eventId: null,
      status: 'queued',
    })
    t.equal(new Date(job.createdAtMs).toISOString(), body.job?.created_at)
    const read = request.read(payload, { headers: {} })
    t.equal(job.work.operation, request.operation)
    t.same(await readBack(api, job), read.payload, 'what the worker reads is what was read')
    t.strictSame(await readBack(api, job), structuredClone(read.payload), 'nothing of it is undefined')
    t.same(job.warnings, read.warnings)
  }
})

t.test('large payloads are kept as well, up to the limit', async (t) => {
  const api = await startQueueApi(t)
  const prompt = 'Fön 🐦 '.repeat(150_000)
  const job = await api.enqueued({ endpoint: 'complete', payload: { prompt } })
  t.match(await readBack(api, job), { prompt })
  t.equal((await api.kept()).length, 1, 'it is an object')
  t.equal(api.budgetUsed(), 0, 'no memory is held')
})

t.test('modes', async (t) => {
  const api = await startQueueApi(t)
  for (const mode of ['priority', 'standard', 'bulk', null, undefined]) {
    const { body } = await api.post({ endpoint: 'speech', payload: { input: 'a' }, mode })
    t.equal(body.job?.mode, mode ?? 'priority')
    t.equal((await api.jobs.get(body.job?.id ?? ''))?.mode, mode ?? 'priority')
  }
})

t.test('what is wrong with a request is refused, and nothing is stored', async (t) => {
  const api = await startQueueApi(t)
  const chat = { messages: [{ role: 'user', content: 'hi' }] }
  const cases: [string, unknown, string | null, RegExp?][] = [
    ['no JSON', '{"endpoint":"chat"', null],
    ['no object', '[]', null],
    ['nothing', {}, 'payload'],
    ['no payload', { endpoint: 'chat' }, 'payload'],
    ['no endpoint', { payload: chat }, 'endpoint'],
    ['no such endpoint', { endpoint: 'queue', payload: chat }, 'endpoint', /one of `chat`, .*`video`/],
    ['an endpoint by its path', { endpoint: '/v1/chat', payload: chat }, 'endpoint'],
    ['a payload that is text', { endpoint: 'chat', payload: JSON.stringify(chat) }, 'payload'],
    ['two payloads', '{"endpoint":"speech","payload":{"input":"a"},"payload":{"input":"b"}}', 'payload'],
    ['two endpoints', '{"endpoint":"speech","payload":{"input":"a"},"endpoint":"chat"}', 'endpoint'],
    [
      'no such mode',
      { endpoint: 'chat', payload: chat, mode: 'fast' },
      'mode',
      /`priority`, `standard`, `bulk`/,
    ],
    ['a key that is none', { endpoint: 'chat', payload: chat, idempotency_key: '' }, 'idempotency_key'],
    ['a long key', { endpoint: 'chat', payload: chat, idempotency_key: 'k'.repeat(257) }, 'idempotency_key'],
    ['a key with a space', { endpoint: 'chat', payload: chat, idempotency_key: 'a b' }, 'idempotency_key'],
    ['a key that is a number', { endpoint: 'chat', payload: chat, idempotency_key: 1 }, 'idempotency_key'],
    [
      'an empty payload',
      { endpoint: 'chat', payload: {} },
      'payload.messages',
      /^`payload\.messages` must be given$/,
    ],
    [
      'a deep fault',
      { endpoint: 'chat', payload: { messages: [{ role: 'user', content: 1 }] } },
      'payload.messages[0].content',
    ],
    ['a payload that is no JSON', '{"endpoint":"chat","payload":{"messages":nul}}', 'payload'],
    ['a stream of chat', { endpoint: 'chat', payload: { ...chat, stream: true } }, 'payload.stream'],
    ['a stream of anything', { endpoint: 'image', payload: { prompt: 'a', stream: true } }, 'payload.stream'],
    [
      'a stream of speech',
      { endpoint: 'audio', payload: { task: 'speech', input: 'a', stream: true } },
      'payload.stream',
    ],
    ['a job of a job', { endpoint: 'chat', payload: { ...chat, mode: 'async' } }, 'payload.mode'],
    ['no such task', { endpoint: 'audio', payload: { task: 'chat' } }, 'payload.task'],
    ['faults of speech by its task', { endpoint: 'audio', payload: { task: 'speech' } }, 'payload.input'],
  ]
  for (const [what, body, param, message = /./] of cases) {
    const answer = await api.post(body)
    t.equal(answer.status, 400, what)
    t.match(answer.body.error, { code: 'INVALID_REQUEST', param, message }, what)
  }
  const typed = await api.post('{}', { 'content-type': 'text/plain' })
  t.match([typed.status, typed.body.error?.code], [415, 'UNSUPPORTED_MEDIA_TYPE'])
  t.equal((await api.post({ endpoint: 'chat', payload: chat }, { 'idempotency-key': 'a b' })).status, 400)
  t.equal(await api.jobs.waiting(), 0)
  t.same(await api.kept(), [])
})

t.test('what no entry could serve is refused', async (t) => {
  const includes = new Set(['text', 'audio_output'] as const)
  const plan = {
    workspace: {
      id: 'acme',
      name: 'Acme',
      plan: 'small',
      includes,
      terms: { grant: null, trial: null, budgetMicros: null },
    },
  }
  const api = await startQueueApi(t)
  const planned = api.admit(plan)
  const refused = await api.post({ endpoint: 'video', payload: { prompt: 'a' } }, { authorization: planned })
  t.match([refused.status, refused.body.error?.code], [403, 'PLAN_NOT_ENTITLED'])
  const taken = await api.post({ endpoint: 'speech', payload: { input: 'a' } }, { authorization: planned })
  t.equal(taken.status, 202, 'money is for the time when it runs')
  t.equal(await api.jobs.waiting(), 1)
})

t.test('who may enqueue', async (t) => {
  const api = await startQueueApi(t)
  const body = { endpoint: 'speech', payload: { input: 'a' } }
  const without = api.admit({ key: { ...QUEUE_KEY, scopes: ['inference', 'jobs', 'admin'] } })
  const denied = await api.post(body, { authorization: without })
  t.match(
    [denied.status, denied.body.error],
    [403, { code: 'PERMISSION_DENIED', details: { scope: 'queue' } }],
  )
  const nobody = await api.post(body, { authorization: 'Bearer none' })
  t.match([nobody.status, nobody.body.error?.code], [401, 'UNAUTHENTICATED'])
  const busy = api.admit({
    key: { ...QUEUE_KEY, id: 'key_busy', rateLimit: { requestsPerMinute: 1, burst: 2 } },
  })
  const statuses = []
  for (let i = 0; i < 4; i++) statuses.push((await api.post(body, { authorization: busy })).status)
  t.same(statuses, [202, 202, 429, 429])
  for (const method of ['GET', 'PUT', 'DELETE']) {
    const response = await fetch(`${api.origin}/v1/queue`, {
      method,
      headers: { authorization: api.authorization },
    })
    t.same([response.status, response.headers.get('allow')], [405, 'POST'], method)
    await response.arrayBuffer()
  }
})

t.test('a signal tells who works in the same process', async (t) => {
  const api = await startQueueApi(t)
  let told = 0
  t.teardown(
    api.dependencies.jobs.signals.onQueued(() => {
      told += 1
    }),
  )
  const body = { endpoint: 'speech', payload: { input: 'a' }, idempotency_key: 'k' }
  await api.enqueued(body)
  t.equal(told, 1)
  await api.post(body)
  t.equal(told, 1, 'a replay is nothing new')
})

t.test('what is left out of a request and its payload is told', async (t) => {
  const api = await startQueueApi(t)
  const chat = { messages: [{ role: 'user', content: 'hi' }] }
  const warned = await api.post({
    endpoint: 'chat',
    payload: { ...chat, temprature: 1, fps: 2 },
    prioritty: 'bulk',
  })
  t.match(warned, {
    status: 202,
    body: {
      warnings: [
        'prioritty: unknown field, ignored',
        'temprature: unknown field, ignored; did you mean temperature?',
        'fps: unknown field, ignored',
      ],
    },
  })
  const plain = await api.post({ endpoint: 'chat', payload: chat })
  t.match(plain, { status: 202, body: { warnings: [] } })
})
