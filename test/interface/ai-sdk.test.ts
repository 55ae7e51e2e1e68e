import { createOpenAI } from '@ai-sdk/openai'
import {
  APICallError,
  generateObject,
  generateSpeech,
  generateText,
  isStepCount,
  jsonSchema,
  streamText,
  tool,
  transcribe,
} from 'ai'
import t from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { assertStopsClean, startGateway } from '../support/gateway.ts'
import { type ModelEntry, startModelGateway } from './model-gateway.ts'

const ALLOY_HERTZ = 600
const MORSE = '... --- ...'
const ENTRY: ModelEntry = {
  model: 'all',
  capabilities: ['text', 'vision', 'function_calling'],
  price: { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1 },
}

/** The AI SDK's OpenAI provider, changed in nothing but its base URL and key. */
function provider({ url, key }: { readonly url: string; readonly key: string }) {
  return createOpenAI({ baseURL: `${url}/openai/v1`, apiKey: key })
}

t.test('over the sandbox', { timeout: 60_000 }, async (t) => {
  const larkway = await startGateway(t)
  const openai = provider(larkway)
  for (const model of [openai('gpt-4o'), openai.chat('gpt-4o')]) {
    const whole = await generateText({ model, prompt: 'sos', maxOutputTokens: 50, temperature: 0 })
    t.match(whole, { text: MORSE, finishReason: 'stop', response: { modelId: 'morse-1' } }, model.provider)
    t.match(whole.usage, { inputTokens: 1, outputTokens: 3 })
    const stream = streamText({ model, prompt: 'sos' })
    const pieces: string[] = []
    for await (const piece of stream.textStream) pieces.push(piece)
    t.ok(pieces.length > 1)
    t.equal(pieces.join(''), MORSE)
    t.match(await stream.finishReason, 'stop')
  }
  const { audio } = await generateSpeech({
    model: openai.speech('tts-1'),
    text: 'hello world',
    voice: 'alloy',
    outputFormat: 'wav',
  })
  t.ok(
    Buffer.from(audio.uint8Array).equals(speak('hello world', ALLOY_HERTZ, 1)),
    'the bytes of the provider',
  )
  const heard = await transcribe({ model: openai.transcription('whisper-1'), audio: audio.uint8Array })
  t.match(heard, { text: 'hello world', durationInSeconds: 6 })
  await assertStopsClean(t, larkway)
})

t.test('functions, called until the model is content', { timeout: 60_000 }, async (t) => {
  const larkway = await startGateway(t)
  const openai = provider(larkway)
  const asked: unknown[] = []
  const weather = tool({
    description: 'what the weather is like',
    inputSchema: jsonSchema<{ city: string }>({
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    }),
    execute: ({ city }) => {
      asked.push(city)
      return 'sun'
    },
  })
  const ask = { prompt: 'the weather in Oslo', tools: { weather }, stopWhen: isStepCount(3) }
  for (const model of [openai('gpt-4o'), openai('gpt-6-luna'), openai.chat('gpt-4o')]) {
    const whole = await generateText({ model, ...ask })
    t.equal(whole.text, '... ..- -.', model.provider)
    t.equal(whole.steps.length, 2)
    const stream = streamText({ model, ...ask })
    t.equal(await stream.text, '... ..- -.', `${model.provider}, streamed`)
    t.same(asked.splice(0), ['the weather in Oslo', 'the weather in Oslo'])
  }
  await assertStopsClean(t, larkway)
})

t.test('over a vendor', { timeout: 60_000 }, async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const { upstream } = gateway
  const openai = provider(gateway)
  const model = openai('gpt-6-luna')
  upstream.behave('all', { message: { content: '{"city":"Oslo"}' } })
  const schema = jsonSchema<{ city: string }>({
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  })
  const { object } = await generateObject({ model, schema, schemaName: 'place', prompt: 'where?' })
  t.same(object, { city: 'Oslo' })
  t.match(upstream.received.at(-1)?.body, {
    response_format: { type: 'json_schema', json_schema: { name: 'place', strict: true } },
  })

  await t.test('a picture', async (t) => {
    upstream.behave('all', { message: { content: 'a lark' } })
    const image = Buffer.from('89504e470d0a1a0a', 'hex')
    const content = [
      { type: 'text' as const, text: 'what?' },
      { type: 'image' as const, image, mediaType: 'image/png' },
    ]
    const seen = await generateText({ model, messages: [{ role: 'user', content }] })
    t.equal(seen.text, 'a lark')
    t.match(upstream.received.at(-1)?.body, {
      messages: [{ content: [{ text: 'what?' }, { image_url: { url: /^data:image\/png;base64,/ } }] }],
    })
  })

  await t.test('a conversation that goes on', async (t) => {
    upstream.behave('all', { message: { content: 'well' } })
    const question = { role: 'user' as const, content: 'how are you?' }
    for (const [name, store] of [
      ['gpt-6-luna', undefined],
      ['gpt-4o', false],
      ['gpt-6-luna', false],
    ] as const) {
      const providerOptions = store === undefined ? {} : { openai: { store } }
      const ask = { model: openai(name), providerOptions }
      const first = await generateText({ ...ask, messages: [question] })
      await generateText({ ...ask, messages: [question, ...first.response.messages, question] })
      t.match(upstream.received.at(-1)?.body?.messages, [
        question,
        { role: 'assistant', content: 'well' },
        question,
      ])
    }
    const ask = { model: openai('gpt-4o'), maxRetries: 0 }
    const first = await generateText({ ...ask, messages: [question] })
    const refused = generateText({ ...ask, messages: [question, ...first.response.messages, question] })
    const error = await refused.then(
      () => null,
      (thrown: unknown) => thrown,
    )
    t.ok(APICallError.isInstance(error))
    t.match(error, {
      statusCode: 400,
      isRetryable: false,
      message: /input\[1\]\.id.*nothing is stored; send the item itself/,
    })
  })

  await t.test('a stream that breaks off', async (t) => {
    upstream.behave('all', { deltas: ['one ', 'two ', 'three'], cutAfter: 2 })
    const errors: unknown[] = []
    const stream = streamText({
      model,
      prompt: 'go',
      maxRetries: 0,
      onError: ({ error }) => void errors.push(error),
    })
    const pieces: string[] = []
    for await (const piece of stream.textStream) pieces.push(piece)
    t.equal(pieces.join(''), 'one two ')
    t.equal(errors.length, 1)
    t.match(JSON.stringify(errors), /UPSTREAM_ERROR/)
    t.equal(await stream.finishReason, 'error')
  })
  await assertStopsClean(t, gateway)
})
