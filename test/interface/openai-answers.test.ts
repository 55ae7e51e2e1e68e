import { createOpenAI } from '@ai-sdk/openai'
import { generateText, transcribe } from 'ai'
import type { TranscriptionDiarized } from 'openai/resources/audio/transcriptions'
import t from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { type RouteGateway, secret, startRouteGateway } from '../support/route-gateway.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { TOKEN } from '../support/upstream/openai.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { type DoorClient, doorClient, wavFile } from './openai-door.ts'

const PRICE = { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1, per_image_usd: 1 }
const HOURLY = { per_hour_usd: 1 }
const CAPABILITIES = ['text', 'completion', 'function_calling', 'image', 'audio_input']
const FACTS = { system_fingerprint: 'fp_1', service_tier: 'flex', unknown: 'kept to itself' }
const USAGE = {
  ...{ prompt_tokens: 11, completion_tokens: 40, total_tokens: 51 },
  prompt_tokens_details: { cached_tokens: 4, audio_tokens: 0, unknown: 'x' },
  completion_tokens_details: { reasoning_tokens: 30 },
}
const ASK = { model: 'gpt-4o', messages: [{ role: 'user' as const, content: 'hello' }] }

interface Rig extends DoorClient {
  readonly upstream: Upstream
  readonly gateway: RouteGateway
}

/** A gateway in front of one server of OpenAI's format, and OpenAI's client. */
async function startRig(t: Parameters<typeof startRouteGateway>[0]): Promise<Rig> {
  const upstream = await startUpstream(t)
  const gateway = await startRouteGateway(t, {
    providers: { models: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [
      {
        ...{ provider: 'models', model: 'all', capabilities: CAPABILITIES, features: ['diarization'] },
        ...{ price: PRICE, options: { completion_endpoint: true } },
      },
      {
        ...{ provider: 'models', model: 'whisper-1', capabilities: ['audio_input'], price: HOURLY },
        features: ['segment_timestamps', 'word_timestamps'],
      },
    ],
  })
  return { ...doorClient(gateway), upstream, gateway }
}

t.test('several choices, figures of tokens, and facts of the provider come back', async (t) => {
  const { upstream, gateway, openai, headers } = await startRig(t)
  upstream.behave('all', { message: { content: 'lark' }, facts: FACTS, usage: USAGE })
  const chat = await openai.chat.completions.create({ ...ASK, n: 3, logprobs: true, top_logprobs: 1 })
  const logprobs = { content: [{ ...TOKEN, top_logprobs: [TOKEN] }], refusal: null }
  t.same(
    chat.choices,
    [0, 1, 2].map((index) => ({
      ...{ index, message: { role: 'assistant', content: 'lark', refusal: null }, finish_reason: 'stop' },
      logprobs,
    })),
  )
  t.match(chat, { system_fingerprint: 'fp_1', service_tier: 'flex' })
  t.notOk('unknown' in chat)
  t.same(chat.usage, {
    ...{ prompt_tokens: 11, completion_tokens: 40, total_tokens: 51 },
    prompt_tokens_details: { cached_tokens: 4, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 30 },
  })
  t.equal(headers().get('x-lk-usage-output-tokens'), '40', 'the tokens of all choices are metered')

  const text = await openai.completions.create({ model: 'x', prompt: 'a', n: 2, logprobs: 1 })
  t.match(text.choices, [
    { index: 0, text: 'lark', logprobs: { tokens: ['lark'], token_logprobs: [-0.25] } },
    { index: 1, text: 'lark', logprobs: { top_logprobs: [{ lark: -0.25 }], text_offset: [0] } },
  ])

  const include = ['message.output_text.logprobs' as const]
  const response = await openai.responses.create({ model: 'x', input: 'a', include })
  t.match(response, { service_tier: 'flex', parallel_tool_calls: true })
  t.match(response.usage, {
    input_tokens_details: { cached_tokens: 4 },
    output_tokens_details: { reasoning_tokens: 30 },
  })
  t.match(response.output, [{ content: [{ text: 'lark', logprobs: logprobs.content }] }])
  await assertStopsClean(t, gateway)
})

t.test('streams have them, too', async (t) => {
  const { upstream, gateway, openai } = await startRig(t)
  upstream.behave('all', { deltas: ['one ', 'lark'], facts: FACTS, usage: USAGE })
  const asked = { ...ASK, n: 2, logprobs: true, stream_options: { include_usage: true }, store: true }
  const stream = await openai.chat.completions.create({ ...asked, stream: true })
  const texts = ['', '']
  const tokens: string[][] = [[], []]
  const ended: number[] = []
  const last: object[] = []
  for await (const chunk of stream) {
    last.push(chunk)
    for (const { index, delta, logprobs, finish_reason: reason } of chunk.choices) {
      texts[index] += delta.content ?? ''
      tokens[index]?.push(...(logprobs?.content ?? []).map(({ token }) => token))
      if (reason !== null) ended.push(index)
    }
  }
  t.same(texts, ['one lark', 'one lark'])
  t.same(tokens, [
    ['one ', 'lark'],
    ['one ', 'lark'],
  ])
  t.same(ended, [0, 1])
  t.match(last.at(-2), {
    ...{ system_fingerprint: 'fp_1', service_tier: 'flex' },
    warnings: ['store: nothing is stored'],
  })
  t.match(last.at(-1), { choices: [], usage: { completion_tokens_details: { reasoning_tokens: 30 } } })

  const whole = openai.chat.completions.stream({ ...ASK, n: 2, logprobs: true })
  const { choices } = await whole.finalChatCompletion()
  t.match(choices, [
    { index: 0, message: { content: 'one lark' } },
    { index: 1, message: { content: 'one lark' }, logprobs: { content: [{}, { token: 'lark' }] } },
  ])

  const text = await openai.completions.create({ model: 'x', prompt: 'a', n: 2, logprobs: 1, stream: true })
  const said = ['', '']
  for await (const chunk of text)
    for (const choice of chunk.choices) {
      said[choice.index] += choice.text
      if (choice.text !== '') t.same(choice.logprobs?.tokens, [choice.text])
    }
  t.same(said, ['one lark', 'one lark'])

  const events = openai.responses.stream({ model: 'x', input: 'a', top_logprobs: 1 })
  const figures: unknown[] = []
  for await (const event of events)
    if (event.type === 'response.output_text.delta') figures.push(event.logprobs?.[0]?.token)
  t.same(figures, ['one ', 'lark'])
  t.match((await events.finalResponse()).output, [{ content: [{ logprobs: [{}, { token: 'lark' }] }] }])
  await assertStopsClean(t, gateway)
})

t.test('an answer with fewer choices than were asked for is no answer', async (t) => {
  const { upstream, gateway } = await startRig(t)
  upstream.behave('all', { body: JSON.stringify({ choices: [{ message: { content: 'one' } }] }) })
  const response = await gateway.post('/openai/v1/chat/completions', { ...ASK, n: 2 })
  t.equal(response.status, 502)
  t.match(await response.json(), { error: { details: { attempts: [{ reason: /lacks choices/ }] } } })
  await assertStopsClean(t, gateway)
})

t.test('what frameworks send with every call works', async (t) => {
  const { upstream, gateway, openai, headers } = await startRig(t)
  const tools = [{ type: 'function' as const, function: { name: 'look', parameters: {} } }]
  for (const more of [
    { parallel_tool_calls: true, n: 1, store: false, logprobs: false, metadata: {}, stop: null },
    { tools, parallel_tool_calls: false, n: 1, stream_options: null },
    { parallel_tool_calls: false },
  ]) {
    await openai.chat.completions.create({ ...ASK, ...more })
    t.equal(headers().get('x-lk-warnings'), null, JSON.stringify(more))
  }
  t.notOk('parallel_tool_calls' in (upstream.received.at(-1)?.body ?? {}), 'there are no tools')
  t.equal(upstream.received.at(-2)?.body?.parallel_tool_calls, false)
  const ai = createOpenAI({ baseURL: `${gateway.url}/openai/v1`, apiKey: gateway.key })
  const options = { reasoningEffort: 'low', parallelToolCalls: false, logprobs: 1, serviceTier: 'flex' }
  for (const model of [ai('gpt-4o'), ai.chat('gpt-4o')]) {
    const { text } = await generateText({ model, prompt: 'hi', providerOptions: { openai: options } })
    t.equal(text, 'whole answer', model.provider)
  }
  await assertStopsClean(t, gateway)
})

t.test("Whisper's figures, log probabilities and known speakers", async (t) => {
  const { upstream, gateway, openai } = await startRig(t)
  const file = wavFile(speak('sos', 600, 1))
  const figures = { seek: 0, tokens: [50_364, 264], temperature: 0.2, avg_logprob: -1.5 }
  const doubtful = { ...figures, compression_ratio: 3.1, no_speech_prob: 0.93 }
  upstream.behave('whisper-1', { facts: doubtful })
  const asked = { model: 'whisper-1', response_format: 'verbose_json' as const }
  const verbose = await openai.audio.transcriptions.create({ file, ...asked })
  t.match(verbose.segments, [doubtful])
  t.notOk('warnings' in verbose)
  upstream.behave('whisper-1', { facts: { ...figures, no_speech_prob: 'much' } })
  const vague = await openai.audio.transcriptions.create({ file, ...asked })
  t.notOk('no_speech_prob' in (vague.segments?.[0] ?? {}))
  t.match(vague, { warnings: ['segments: the provider does not tell compression_ratio, no_speech_prob'] })

  const counted = await openai.audio.transcriptions.create({ file, model: 'x', include: ['logprobs'] })
  t.same(counted.logprobs, [TOKEN])
  const body = { segments: [{ start: 0, end: 1, text: 'hi', speaker: 'Ann' }], text: 'hi' }
  const other = { ...body.segments[0], speaker: 'A' }
  upstream.behave('all', { body: JSON.stringify({ ...body, segments: [...body.segments, other] }) })
  const known = (await openai.audio.transcriptions.create({
    file,
    model: 'x',
    response_format: 'diarized_json',
    known_speaker_names: ['Ann'],
    known_speaker_references: ['data:audio/wav;base64,UklGRg=='],
  })) as TranscriptionDiarized
  t.same(
    known.segments.map(({ speaker }) => speaker),
    ['Ann', 'A'],
  )
  await assertStopsClean(t, gateway)
})

t.test('segments of other providers have no figures, and the AI SDK reads them all the same', async (t) => {
  const upstream = await startUpstream(t, { dialect: deepgramDialect() })
  const gateway = await startRouteGateway(t, {
    providers: { deepgram: { kind: 'deepgram', base_url: upstream.url, api_key: secret('KEY') } },
    entries: [{ provider: 'deepgram', model: 'nova-3' }],
    env: { KEY: DEEPGRAM_KEY },
  })
  const { openai, headers } = doorClient(gateway)
  const wav = speak('sos', 600, 1)
  const verbose = await openai.audio.transcriptions.create({
    ...{ file: wavFile(wav), model: 'x', response_format: 'verbose_json' },
  })
  t.ok((verbose.segments?.length ?? 0) > 0)
  for (const segment of verbose.segments ?? [])
    for (const name of ['seek', 'tokens', 'temperature', 'compression_ratio', 'no_speech_prob'])
      t.notOk(name in segment, name)
  t.match(headers().get('x-lk-warnings'), /segments: the provider does not tell seek, tokens/)
  const ai = createOpenAI({ baseURL: `${gateway.url}/openai/v1`, apiKey: gateway.key })
  const heard = await transcribe({ model: ai.transcription('whisper-1'), audio: wav })
  t.equal(heard.segments.length, verbose.segments?.length)
  await assertStopsClean(t, gateway)
})

t.test('pictures in events', async (t) => {
  const { gateway, openai, headers } = await startRig(t)
  const stream = await openai.images.generate({ model: 'x', prompt: 'a', stream: true, partial_images: 2 })
  const events = []
  for await (const event of stream) events.push(event)
  t.match(events, [{ type: 'image_generation.completed', b64_json: /^iVBORw0KGgo/, warnings: Array }])
  t.match(headers().get('x-lk-warnings'), /partial_images: pictures come whole/)
  await assertStopsClean(t, gateway)
})
