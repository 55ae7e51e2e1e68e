import { readFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import t, { type Test } from 'tap'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import type { ChatCall, ChatDelta } from '../../../src/contracts/chat.ts'
import type { Target } from '../../../src/contracts/provider.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { anthropic } from '../../../src/gateway/providers/anthropic/provider.ts'
import { factsOf, SHIPPED } from '../../../src/gateway/providers/facts.ts'
import { requestOf } from '../../support/form-of.ts'
import { serveHttp } from '../../support/http-server.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { fixture } from '../../support/replies.ts'

const KEY = 'sk-ant-secret'
const MODEL = 'claude-sonnet-5-5'
const once = { deadlineMs: 10_000, signal: new AbortController().signal, onHeld: () => {} }

const strict = <Properties extends Record<string, Type.TSchema>>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false })
const kind = <const Name extends string>(name: Name) => Type.Literal(name)

const Text = strict({ type: kind('text'), text: Type.String({ minLength: 1 }) })
const Image = strict({
  type: kind('image'),
  source: Type.Union([
    strict({
      type: kind('base64'),
      media_type: Type.Enum(['image/jpeg', 'image/png', 'image/gif', 'image/webp']),
      data: Type.String(),
    }),
    strict({ type: kind('url'), url: Type.String() }),
  ]),
})
const ToolUse = strict({
  type: kind('tool_use'),
  id: Type.String({ pattern: '^[a-zA-Z0-9_-]+$' }),
  name: Type.String(),
  input: Type.Object({}),
})
const ToolResult = strict({
  type: kind('tool_result'),
  tool_use_id: Type.String({ pattern: '^[a-zA-Z0-9_-]+$' }),
  content: Type.Optional(Type.Array(Type.Union([Text, Image]))),
})

/** `POST /v1/messages` of version 2026-10-21, as far as its documentation and the vendor's library tell. */
const MessagesRequest = strict({
  model: Type.String(),
  max_tokens: Type.Integer({ minimum: 1 }),
  system: Type.Optional(Type.Array(Text, { minItems: 1 })),
  messages: Type.Array(
    strict({
      role: Type.Enum(['user', 'assistant']),
      content: Type.Array(Type.Union([Text, Image, ToolUse, ToolResult]), { minItems: 1 }),
    }),
    { minItems: 1, maxItems: 100_000 },
  ),
  stop_sequences: Type.Optional(Type.Array(Type.String({ pattern: '\\S' }))),
  stream: Type.Optional(Type.Boolean()),
  tools: Type.Optional(
    Type.Array(
      strict({
        name: Type.String({ pattern: '^[a-zA-Z0-9_-]{1,128}$' }),
        description: Type.Optional(Type.String()),
        input_schema: Type.Object({ type: kind('object') }),
      }),
    ),
  ),
  tool_choice: Type.Optional(
    Type.Union([
      strict({ type: Type.Enum(['auto', 'any', 'none']) }),
      strict({ type: kind('tool'), name: Type.String() }),
    ]),
  ),
  output_config: Type.Optional(
    strict({ format: strict({ type: kind('json_schema'), schema: Type.Object({}) }) }),
  ),
})

const error = (type: string, message: string) => ({
  type: 'error',
  error: { type, message },
  request_id: 'req_1',
})

/** Answers as the provider does, and refuses what it would refuse. */
async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const answer = (status: number, body: unknown) => {
    response.writeHead(status, { 'content-type': 'application/json', 'request-id': 'req_1' })
    response.end(JSON.stringify(body))
  }
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const { headers, method, url } = request
  if (headers['x-api-key'] !== KEY) return answer(401, error('authentication_error', 'invalid x-api-key'))
  if (headers['anthropic-version'] !== '2026-10-21') {
    return answer(400, error('invalid_request_error', 'anthropic-version'))
  }
  if (method === 'GET' && url === '/v1/models?limit=1000') {
    const data = [{ type: 'model', id: 'claude-opus-5-5' }, { type: 'model', id: MODEL }, {}]
    return answer(200, { data, has_more: false, first_id: 'claude-opus-5-5', last_id: MODEL })
  }
  if (method !== 'POST' || url !== '/v1/messages') return answer(404, error('not_found_error', 'Not found'))
  if (headers['content-type'] !== 'application/json')
    return answer(400, error('invalid_request_error', 'type'))
  const body: unknown = JSON.parse(Buffer.concat(chunks).toString())
  if (!Value.Check(MessagesRequest, body)) {
    return answer(400, error('invalid_request_error', JSON.stringify(Value.Errors(MessagesRequest, body)[0])))
  }
  if (body.model !== MODEL) return answer(404, error('not_found_error', `model: ${body.model}`))
  if (!turnsFit(body.messages))
    return answer(400, error('invalid_request_error', 'messages: roles, tool results'))
  if (body.stream !== true) return answer(200, await fixture('anthropic/message.json'))
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  const stream = await readFile(new URL('../../fixtures/anthropic/message.sse', import.meta.url))
  for (let at = 0; at < stream.length; at += 97) response.write(stream.subarray(at, at + 97))
  response.end()
}

/** Each use of a tool is answered in the turn that follows, before anything else there. */
function turnsFit(messages: Type.Static<typeof MessagesRequest>['messages']): boolean {
  return messages.every(({ role, content }, index) => {
    const results = content.findLastIndex(({ type }) => type === 'tool_result')
    const uses = messages[index - 1]?.content.filter(({ type }) => type === 'tool_use').length ?? 0
    return role !== messages[index - 1]?.role && (role === 'assistant' || results + 1 === uses)
  })
}

const call: ChatCall = {
  messages: [
    { role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] },
    {
      role: 'user',
      parts: [
        { type: 'text', text: 'Where is this?' },
        {
          type: 'image',
          source: { kind: 'base64', media_type: 'image/png', base64: 'iVBORw0=' },
          detail: null,
        },
      ],
    },
    {
      role: 'assistant',
      parts: [],
      tool_calls: [{ id: 'toolu_1', name: 'find', arguments: '{"q":"peak"}' }],
    },
    { role: 'tool', tool_call_id: 'toolu_1', parts: [{ type: 'text', text: 'Chur' }] },
    { role: 'user', parts: [{ type: 'text', text: 'And the weather?' }] },
  ],
  max_tokens: null,
  temperature: 0.7,
  top_p: null,
  stop: ['END'],
  seed: 1,
  tools: [{ name: 'get_weather', description: null, parameters: null }],
  tool_choice: 'auto',
  modalities: ['text'],
  audio: null,
  response_schema: null,
}

async function connect(t: Test) {
  const baseUrl = await serveHttp(t, (request, response) => void serve(request, response))
  const { reader } = memoryAudio(new Uint8Array(0), 'identity')
  const sender = createSender({ reader })
  t.teardown(() => sender.close())
  const target: Target = { model: MODEL, baseUrl, credential: KEY, options: {} }
  return { sender, target }
}

t.test('a chat over a socket', async (t) => {
  const { sender, target } = await connect(t)
  const chat = anthropic.chat!
  const ask = async (at: Target) =>
    chat.next(null, await sender.send(requestOf(chat.start(call, at)), once), call, at)
  t.match(await ask(target), {
    kind: 'done',
    result: {
      content: 'Let me look up the weather in Chur.',
      finish_reason: 'tool_calls',
      warnings: [/^temperature: /],
    },
  })
  const rows: [Partial<Target>, string][] = [
    [{ credential: 'wrong' }, 'credential'],
    [{ model: 'claude-2' }, 'model'],
    [{ options: { version: '2023-06-01' } }, 'caller'],
  ]
  for (const [changed, kind] of rows) {
    t.match(await ask({ ...target, ...changed }), { kind: 'failed', failure: { kind } }, kind)
  }
})

t.test('a streamed chat over a socket', async (t) => {
  const { sender, target } = await connect(t)
  const streamed = anthropic.chat!.streamed!
  const { chunks, status, headers } = await sender.open(requestOf(streamed.start(call, target)), once)
  const reader = streamed.read({ status, headers }, call, target)
  const deltas: ChatDelta[] = []
  for await (const chunk of chunks) {
    const pushed = reader.push(chunk)
    if ('kind' in pushed) throw new Error(pushed.reason)
    deltas.push(...pushed)
  }
  t.equal(deltas.length, 7)
  t.match(reader.end(), { result: { content: 'Grüezi, ich schaue nach 🏔.', finish_reason: 'tool_calls' } })
})

t.test('the models of a credential', async (t) => {
  const { sender, target } = await connect(t)
  const models = anthropic.models!
  const list = async (at: Target) =>
    models.next(null, await sender.send(requestOf(models.start(null, at)), once), null, at)
  t.same(await list(target), { kind: 'done', result: ['claude-opus-5-5', MODEL] })
  t.match(await list({ ...target, credential: 'wrong' }), { kind: 'failed', failure: { kind: 'credential' } })
  const other = { status: 200, headers: {}, body: [Buffer.from('{"data":7}')] }
  t.match(models.next(null, other, null, target), { kind: 'failed', failure: { kind: 'server' } })
})

t.test('the table is of chat models', async (t) => {
  for (const model of modelsOf('anthropic')) {
    t.match(factsOf('anthropic', model), {
      capabilities: ['text', 'completion', 'vision', 'function_calling'],
      features: [],
      translates: false,
    })
  }
  t.match(factsOf('anthropic', 'claude-opus-5-5')?.price, {
    per_1m_input_tokens_usd: 4,
    per_1m_output_tokens_usd: 20,
  })
})

function modelsOf(kind: string): string[] {
  return SHIPPED.all().flatMap((one) => (one.kind === kind ? [one.model] : []))
}
