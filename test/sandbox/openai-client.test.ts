import { createReadStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI from 'openai'
import t from 'tap'
import { startSandbox } from '../../src/sandbox/server.ts'

// That the sandbox speaks OpenAI's wire format is for OpenAI's own client to say.

const sandbox = await startSandbox()
t.teardown(() => sandbox.close())
const openai = new OpenAI({ baseURL: sandbox.url, apiKey: 'any', maxRetries: 0 })
const model = 'morse-1'

t.test('speech, and its transcript', async (t) => {
  const speech = await openai.audio.speech.create({
    model: 'tts-1',
    voice: 'alloy',
    input: 'sos',
    response_format: 'wav',
  })
  const path = join(t.testdir(), 'sos.wav')
  await writeFile(path, Buffer.from(await speech.arrayBuffer()))
  const file = () => createReadStream(path)
  t.match(await openai.audio.transcriptions.create({ model: 'whisper-1', file: file() }), { text: 'sos' })
  t.match(await openai.audio.translations.create({ model: 'whisper-1', file: file() }), { text: 'sos' })
})

t.test('chat, whole and streamed, with tools', async (t) => {
  const messages = [{ role: 'user' as const, content: 'use the lamp' }]
  const { choices } = await openai.chat.completions.create({ model, messages })
  t.match(choices[0]?.message.content, /^\.\.- /)
  const stream = await openai.chat.completions.create({
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  })
  let content = ''
  let tokens = 0
  for await (const chunk of stream) {
    content += chunk.choices[0]?.delta.content ?? ''
    tokens = chunk.usage?.total_tokens ?? tokens
  }
  t.equal(content, choices[0]?.message.content)
  t.ok(tokens > 0)
  const tools = [{ type: 'function' as const, function: { name: 'lamp', parameters: { type: 'object' } } }]
  const called = await openai.chat.completions.create({ model, messages, tools })
  t.match(called.choices[0], {
    finish_reason: 'tool_calls',
    message: { tool_calls: [{ function: { name: 'lamp' } }] },
  })
})

t.test('embeddings of tokens', async (t) => {
  const { data, usage } = await openai.embeddings.create({ model, input: [[1, 2, 3], [4]] })
  t.equal(data.length, 2)
  t.equal(usage.prompt_tokens, 4)
  const alone = await openai.embeddings.create({ model, input: [1, 2, 3] })
  t.same(alone.data[0]?.embedding, data[0]?.embedding)
  t.notSame(data[1]?.embedding, data[0]?.embedding)
  await t.rejects(openai.embeddings.create({ model, input: [[1], []] }), /^400 /)
})

t.test('embeddings, which the client asks for as base64', async (t) => {
  const { data } = await openai.embeddings.create({ model, input: ['a', 'b'] })
  t.equal(data.length, 2)
  const length = Math.hypot(...(data[0]?.embedding ?? []))
  t.ok(Math.abs(length - 1) < 1e-5)
})

t.test('images, models and refusals', async (t) => {
  const { data } = await openai.images.generate({ model: 'gpt-image-2', prompt: 'sos', size: '1024x1024' })
  t.match(data?.[0]?.b64_json, /^iVBORw0KGgo/)
  const ids: string[] = []
  for await (const { id } of openai.models.list()) ids.push(id)
  t.ok(ids.includes('whisper-1'))
  await t.rejects(openai.chat.completions.create({ model: 'gpt-9', messages: [] }), {
    status: 404,
    code: 'model_not_found',
  })
})
