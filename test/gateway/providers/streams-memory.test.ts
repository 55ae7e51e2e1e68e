import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { chatCall } from '../../support/call.ts'

const TOKENS = 60_000
const TOKEN = 'token'
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } }
const TARGET = { model: 'any', baseUrl: 'http://a/v1', credential: null, options: {} }
const END = 'the end'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** Memory that is kept of a stream of tokens, bytes, while the reader is used on. */
function keptOf(
  kind: string,
  tokens: readonly object[],
): { readonly kept: number; readonly result: unknown } {
  const { streamed } = PROVIDERS.get(kind)!.chat!
  const reader = streamed!.read(HEAD, chatCall(), TARGET)
  const push = (event: object) => {
    const pushed = reader.push(Buffer.from(`data: ${JSON.stringify(event)}\n\n`))
    if ('kind' in pushed) throw new Error(pushed.reason)
  }
  const [token, ...last] = tokens
  collectGarbage()
  const before = process.memoryUsage().heapUsed
  for (let count = 0; count < TOKENS; count += 1) push(token!)
  collectGarbage()
  const kept = process.memoryUsage().heapUsed - before
  for (const event of last) push(event)
  return { kept, result: reader.end() }
}

const openai = (delta: object, end: string | null) => ({ choices: [{ index: 0, delta, finish_reason: end }] })
const tool = (piece: object) => openai({ tool_calls: [{ index: 0, ...piece }] }, null)
const anthropic = (delta: object) => ({ type: 'content_block_delta', index: 0, delta })
const gemini = (text: string, more: object) => ({
  candidates: [{ index: 0, content: { role: 'model', parts: [{ text }] }, ...more }],
})
const ENDS = [
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } },
  { type: 'message_stop' },
]

const STREAMS: readonly [kind: string, tokens: readonly object[]][] = [
  ['openai', [openai({ content: TOKEN }, null), openai({ content: END }, 'stop')]],
  [
    'openai',
    [tool({ id: 'a', function: { name: 'f', arguments: TOKEN } }), openai({ content: END }, 'stop')],
  ],
  [
    'anthropic',
    [anthropic({ type: 'text_delta', text: TOKEN }), anthropic({ type: 'text_delta', text: END }), ...ENDS],
  ],
  ['gemini', [gemini(TOKEN, {}), gemini(END, { finishReason: 'STOP' })]],
]

for (const [kind, tokens] of STREAMS) {
  t.test(
    `of a stream of ${kind} little more is kept than its text: ${JSON.stringify(tokens[0])}`,
    async (t) => {
      const { kept, result } = keptOf(kind, tokens)
      const text = TOKEN.repeat(TOKENS)
      const isKept = JSON.stringify(result).includes(text)
      t.ok(isKept, JSON.stringify(result).slice(0, 300))
      t.ok(kept < 3 * text.length, `${(kept / text.length).toFixed(1)} times the text`)
    },
  )
}
