import { test } from 'tap'
import { ApiError } from '../../../src/console/page/api.ts'
import { chatBody, chunksOf, readChat } from '../../../src/console/page/views/playground/chat-stream.ts'

async function* pieces(text: string, length: number): AsyncGenerator<Uint8Array> {
  const bytes = new TextEncoder().encode(text)
  for (let at = 0; at < bytes.length; at += length) yield bytes.slice(at, at + length)
}

const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const DONE = {
  type: 'done',
  ...{ id: 'req_1', provider: 'house', model: 'm', content: 'Größe 👋', finish_reason: 'length' },
  ...{ usage: { input_tokens: 3, output_tokens: 5, total_tokens: 8 }, cost_usd: 0.00002, warnings: [] },
}

test('an answer is read however its events are cut', async (t) => {
  const text = [
    event({ type: 'delta', content: 'Größe ' }),
    event({ type: 'tool_call_delta', index: 0 }),
    event({ type: 'delta', content: '👋' }),
    event(DONE),
    'data: [DONE]\n\n',
  ].join('')
  for (const length of [1, 2, 7, 64, 100_000]) {
    const seen: string[] = []
    const reply = await readChat(pieces(text, length), (all) => void seen.push(all))
    t.same(seen, ['Größe ', 'Größe 👋'], `${length} bytes at a time`)
    t.match(reply, {
      text: 'Größe 👋',
      finish: 'length',
      facts: { provider: 'house', costUsd: 0.00002, requestId: 'req_1' },
    })
    t.match(reply.facts?.usage, [
      ['input_tokens', 3],
      ['output_tokens', 5],
      ['total_tokens', 8],
    ])
  }
})

test('a failure after the first words is an error, and so is an answer without an end', async (t) => {
  const begun = event({ type: 'delta', content: 'so far' })
  const failure = { code: 'UPSTREAM_ERROR', message: 'it broke', request_id: 'req_2', details: {} }
  const failed = readChat(pieces(begun + event({ type: 'error', error: failure }), 9), () => {})
  await t.rejects(failed, { code: 'UPSTREAM_ERROR', message: 'it broke' })
  const cut = await readChat(pieces(`${begun}data: {"type"`, 9), () => {}).catch((error: unknown) => error)
  t.ok(cut instanceof ApiError)
  t.match(cut, { code: 'UNREACHABLE' })
})

test('a connection that is lost in the middle of an answer says so', async (t) => {
  const broken = (reason: unknown) =>
    new ReadableStream<Uint8Array>({
      start: (controller) =>
        controller.enqueue(new TextEncoder().encode(event({ type: 'delta', content: 'so' }))),
      pull: (controller) => controller.error(reason),
    })
  const seen: string[] = []
  const lost = readChat(chunksOf(broken(new TypeError('network error'))), (all) => void seen.push(all))
  await t.rejects(lost, { name: 'ApiError', code: 'UNREACHABLE', message: /can’t reach the server/ })
  t.same(seen, ['so'])
  const aborted = new DOMException('aborted', 'AbortError')
  await t.rejects(
    readChat(chunksOf(broken(aborted)), () => {}),
    aborted,
  )
})

test('only what was filled in is sent', async (t) => {
  const options = { system: ' ', user: 'hi', temperature: '', maxTokens: '' }
  const side = { purpose: '', profile: null }
  t.same(chatBody(options, side), { messages: [{ role: 'user', content: 'hi' }], stream: true })
  t.same(
    chatBody(
      { ...options, system: 'Be short.', temperature: ' 0.5', maxTokens: 'many' },
      { purpose: 'notes', profile: 'fast' },
    ),
    {
      messages: [
        { role: 'system', content: 'Be short.' },
        { role: 'user', content: 'hi' },
      ],
      ...{ temperature: 0.5, max_tokens: 'many', purpose: 'notes', response_profile: 'fast', stream: true },
    },
  )
})
