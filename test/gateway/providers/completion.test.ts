import t from 'tap'
import type { Target } from '../../../src/contracts/provider.ts'
import { completionByChat } from '../../../src/gateway/providers/completion.ts'
import { openai } from '../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../src/gateway/providers/openai-compatible.ts'
import { completeCall } from '../../support/call.ts'
import { bytesOf, requestOf } from '../../support/form-of.ts'
import { fixture, reply } from '../../support/replies.ts'
import { sse, streamFixture, streamOf } from '../../support/stream-of.ts'

const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } }
const ALL = { max_tokens: 9, temperature: 0.5, top_p: 0.9, stop: ['\n'], seed: 3 }

function target(options: Target['options'] = {}): Target {
  return { model: 'qwen3-8b', baseUrl: 'http://vllm/v1', credential: null, options }
}

const ENDPOINT = target({ completion_endpoint: true })

t.test('a prompt is a user’s message to a chat model', async (t) => {
  const at = { ...target(), model: 'gpt-4.1', baseUrl: 'https://api.openai.com/v1' }
  const request = requestOf(openai.complete!.start(completeCall(ALL), at))
  t.equal(request.url, 'https://api.openai.com/v1/chat/completions')
  t.same(JSON.parse(bytesOf(request).toString()), {
    model: 'gpt-4.1',
    messages: [{ role: 'user', content: 'Once upon a time' }],
    max_completion_tokens: 9,
    temperature: 0.5,
    top_p: 0.9,
    stop: ['\n'],
    seed: 3,
  })
  const step = openai.complete!.next(null, reply(await fixture('openai/chat.json')), completeCall(), at)
  t.match(step, { kind: 'done', result: { content: 'Hello! How can I assist you today?' } })
  const streamed = openai.complete!.streamed!
  t.match(JSON.parse(bytesOf(requestOf(streamed.start(completeCall(), at))).toString()), { stream: true })
  t.equal(streamed.applies?.(completeCall(), at), true)
  const body = await streamFixture('openai/chat.stream.txt')
  t.match(streamOf(streamed.read(HEAD, completeCall(), at), body), { result: { finish_reason: 'stop' } })
})

t.test('a chat that cannot be streamed makes a completion that cannot', async (t) => {
  const { streamed: _streamed, takesSeed: _takesSeed, ...chat } = openai.chat!
  const complete = completionByChat(chat)
  t.notOk('streamed' in complete)
  t.notOk('takesSeed' in complete)
  t.equal(complete.start(completeCall(), target()).kind, 'send')
})

t.test('a compatible server is asked by chat unless its entry names the endpoint', async (t) => {
  for (const options of [{}, { completion_endpoint: false }]) {
    const request = requestOf(openaiCompatible.complete!.start(completeCall(), target(options)))
    t.equal(request.url, 'http://vllm/v1/chat/completions')
  }
  const request = requestOf(openaiCompatible.complete!.start(completeCall(ALL), ENDPOINT))
  t.equal(request.url, 'http://vllm/v1/completions')
  t.same(JSON.parse(bytesOf(request).toString()), { model: 'qwen3-8b', prompt: 'Once upon a time', ...ALL })
  const bare = requestOf(openaiCompatible.complete!.start(completeCall(), ENDPOINT))
  t.same(JSON.parse(bytesOf(bare).toString()), { model: 'qwen3-8b', prompt: 'Once upon a time' })
})

t.test('the endpoint’s answers', async (t) => {
  const next = (body: unknown, status = 200) =>
    openaiCompatible.complete!.next(null, reply(body, status), completeCall(), ENDPOINT)
  t.same(next(await fixture('openai/completion.json')), {
    kind: 'done',
    result: {
      content: ' there was a gateway.',
      tool_calls: [],
      finish_reason: 'length',
      audio: null,
      usage: { input_tokens: 5, output_tokens: 7 },
      warnings: [],
    },
  })
  t.match(next({ choices: [] }), { kind: 'failed', failure: { kind: 'server' } })
  t.match(next({ error: { message: 'x' } }, 404), { kind: 'failed', failure: { kind: 'model' } })
})

t.test('the endpoint’s answers, streamed', async (t) => {
  const streamed = openaiCompatible.complete!.streamed!
  const request = requestOf(streamed.start(completeCall(), ENDPOINT))
  t.equal(request.url, 'http://vllm/v1/completions')
  t.match(JSON.parse(bytesOf(request).toString()), { stream: true, stream_options: { include_usage: true } })
  const choice = (text: string, reason: string | null) => ({
    choices: [{ index: 0, text, finish_reason: reason }],
  })
  const usage = { choices: [], usage: { prompt_tokens: 4, completion_tokens: 2, total_tokens: 6 } }
  const body = sse(choice(' there', null), choice(' was', 'stop'), usage, '[DONE]')
  t.match(streamOf(streamed.read(HEAD, completeCall(), ENDPOINT), body), {
    deltas: [
      { type: 'text', text: ' there' },
      { type: 'text', text: ' was' },
    ],
    result: { content: ' there was', finish_reason: 'stop', usage: { input_tokens: 4, output_tokens: 2 } },
  })
  const cut = streamOf(streamed.read(HEAD, completeCall(), ENDPOINT), sse(choice('a', null)))
  t.match(cut, { failure: { kind: 'ambiguous' } })
  t.match(streamed.refused(reply({ error: { message: 'x' } }, 503)), { kind: 'rate' })
})
