import t, { type Test } from 'tap'
import type { ChatDelta } from '../../../../src/contracts/chat.ts'
import { gemini } from '../../../../src/gateway/providers/gemini/provider.ts'
import { chatCall } from '../../../support/call.ts'
import { fixture } from '../../../support/replies.ts'

const BASE = 'https://generativelanguage.googleapis.com/v1beta'
const TARGET = { model: 'gemini-3.8-flash', baseUrl: BASE, credential: 'AIza-secret', options: {} }
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } }

/** As Google writes a stream of events. */
function sse(events: readonly unknown[]): Buffer {
  return Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\r\n\r\n`).join(''))
}

function read(chunks: readonly Uint8Array[]) {
  const reader = gemini.chat!.streamed!.read(HEAD, chatCall(), TARGET)
  const deltas: ChatDelta[] = []
  for (const chunk of chunks) {
    const pushed = reader.push(chunk)
    if ('kind' in pushed) return { deltas, end: pushed }
    deltas.push(...pushed)
  }
  return { deltas, end: reader.end() }
}

/** But for the ids that are made for calls without one. */
function textOf(found: ReturnType<typeof read>): string {
  return JSON.stringify(found).replaceAll(/call_lk[0-9a-f]{16}/g, 'call')
}

function sameStream(t: Test, { deltas, end }: ReturnType<typeof read>, where: string): void {
  const [, , call] = deltas
  const id = call?.type === 'tool_call' ? call.id : null
  t.match(id, /^call_lk[0-9a-f]{16}$/)
  t.same(
    deltas,
    [
      { type: 'text', text: 'Grüezi 👋' },
      { type: 'text', text: ', I look.' },
      { type: 'tool_call', index: 0, id, name: 'get_weather', arguments: '{"city":"Zürich"}' },
      { type: 'tool_call', index: 1, id: 'q8x', name: 'get_time', arguments: '{}' },
    ],
    where,
  )
  t.same(
    end,
    {
      result: {
        content: 'Grüezi 👋, I look.',
        tool_calls: [
          { id, name: 'get_weather', arguments: '{"city":"Zürich"}' },
          { id: 'q8x', name: 'get_time', arguments: '{}' },
        ],
        finish_reason: 'tool_calls',
        audio: null,
        usage: { input_tokens: 8, output_tokens: 43 },
        warnings: [],
      },
    },
    where,
  )
}

t.test('a stream cut at every byte', async (t) => {
  const bytes = sse((await fixture('gemini/chat.stream.json')) as unknown[])
  for (let at = 0; at <= bytes.length; at++) {
    const found = read([bytes.subarray(0, at), bytes.subarray(at)])
    const wrong = textOf(found) !== textOf(read([bytes]))
    if (wrong) t.fail(`cut at ${at}`)
  }
  sameStream(t, read([bytes]), 'whole')
  sameStream(t, read(Array.from(bytes, (byte) => Uint8Array.of(byte))), 'byte by byte')
})

t.test('a stream that ends at any byte before its last event is broken off', async (t) => {
  const events = (await fixture('gemini/chat.stream.json')) as unknown[]
  const bytes = sse(events)
  // Its very last byte is the LF of a CR LF, without which the line ends just as well.
  for (let at = 0; at < bytes.length - 1; at++) {
    const { end } = read([bytes.subarray(0, at)])
    if (!('kind' in end) || end.kind !== 'ambiguous') t.fail(`ended at ${at}`)
  }
  t.match(read([sse(events.slice(0, -1))]).end, { kind: 'ambiguous', status: 200 })
})

t.test('a stream that goes wrong', async (t) => {
  const events = (await fixture('gemini/chat.stream.json')) as unknown[]
  const overloaded = { error: { code: 503, message: 'overloaded', status: 'UNAVAILABLE' } }
  const { deltas, end } = read([sse([...events.slice(0, 2), overloaded])])
  t.same(deltas, [], 'an error in one chunk with what came before it')
  t.match(end, { kind: 'rate' })
  const [first, second] = [sse(events.slice(0, 2)), sse([overloaded])]
  t.match(read([first, second]), { deltas: [{ text: 'Grüezi 👋' }], end: { kind: 'rate' } })
  t.match(read([Buffer.from('data: nonsense\n\n')]).end, { kind: 'server' })
  t.match(read([Buffer.from('data: [1]\n\n')]).end, { kind: 'server' })
  const cut = { candidates: [{ content: { parts: [{ text: 'x' }] } }] }
  const withheld = { candidates: [{ finishReason: 'SAFETY' }] }
  t.match(read([sse([cut, withheld])]).end, { result: { content: 'x', finish_reason: 'content_filter' } })
  t.match(read([sse([withheld])]).end, { kind: 'content' })
  t.match(read([sse([{ promptFeedback: { blockReason: 'SAFETY' } }])]).end, { kind: 'content' })
})
