import { createReadStream, createWriteStream } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import t from 'tap'
import { speak } from '../../src/sandbox/speak.ts'
import { decodeSpeech, heardIn } from '../support/decoded-speech.ts'
import { startDemoProcess } from '../support/demo-route.ts'
import { assertStopsClean, startGateway } from '../support/gateway.ts'
import { tempFolder } from '../support/scratch.ts'
import { doorClient, rejected, wavFile } from './openai-door.ts'

const ALLOY_HERTZ = 600
const MIB = 1024 * 1024
const WEATHER = {
  type: 'function' as const,
  function: {
    name: 'weather',
    description: 'what the weather is like',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

t.test('a recording of 20 MB, in flat memory', { timeout: 180_000 }, async (t) => {
  const text = Array.from({ length: 280 }, (_, index) => `lark ${index}`).join(' ')
  const file = speak(text, ALLOY_HERTZ, 1)
  t.ok(file.length > 20_000_000 && file.length < 26_214_400, `${file.length} bytes`)
  const path = join(await tempFolder(t), 'larks.wav')
  await writeFile(path, file)
  const gateway = await startDemoProcess(t, { env: { LARKWAY_MEMORY_MIB: '8' } })
  const { openai } = doorClient(gateway)
  const transcribe = (bytes: Uint8Array) =>
    openai.audio.transcriptions.create({ file: wavFile(bytes), model: 'whisper-1' })
  for (let call = 0; call < 3; call += 1) await transcribe(speak('warm', ALLOY_HERTZ, 1))
  // The kernel's own peak misses nothing, however busy this process is.
  const before = await gateway.peakRssMiB()
  const heard = await openai.audio.transcriptions.create({ file: createReadStream(path), model: 'whisper-1' })
  t.ok(heard.text === text, 'every word is there')
  t.same(await transcribe(file), heard, 'the same from memory')
  const grownMiB = (await gateway.peakRssMiB()) - before
  t.ok(
    grownMiB < 48,
    `grown by ${Math.round(grownMiB)} MiB over ${Math.round((2 * file.length) / MIB)} MiB of files`,
  )
  await assertStopsClean(t, gateway)
})

t.test('audio', { timeout: 60_000 }, async (t) => {
  const larkway = await startGateway(t)
  const { openai, headers } = doorClient(larkway)
  const path = join(await tempFolder(t), 'speech.wav')
  const asked = { model: 'tts-1', voice: 'alloy', input: 'hello world' }
  const unnamed = await openai.audio.speech.create(asked)
  t.equal(unnamed.headers.get('content-type'), 'audio/mpeg')
  const mp3 = await decodeSpeech(new Uint8Array(await unnamed.arrayBuffer()), 'mp3')
  t.equal(heardIn(mp3), 'hello world', 'the default of OpenAI')
  const speech = await openai.audio.speech.create({ ...asked, response_format: 'wav' })
  t.equal(speech.headers.get('content-type'), 'audio/wav')
  t.equal(speech.headers.get('transfer-encoding'), 'chunked')
  t.equal(speech.headers.get('x-lk-usage-audio-output-characters'), '11')
  await pipeline(Readable.fromWeb(speech.body as never), createWriteStream(path))
  t.ok((await readFile(path)).equals(speak('hello world', ALLOY_HERTZ, 1)), 'the bytes of the provider')

  const ask = { model: 'gpt-4o-transcribe' }
  const file = () => createReadStream(path)
  const usage = { type: 'duration', seconds: 6 }
  t.same(await openai.audio.transcriptions.create({ ...ask, file: file() }), { text: 'hello world', usage })
  t.equal(headers().get('x-lk-provider'), 'sandbox')
  t.equal(headers().get('x-lk-usage-audio-seconds'), '6')
  t.equal(headers().get('x-request-id'), headers().get('x-lk-request-id'))

  const verbose = await openai.audio.transcriptions.create({
    ...ask,
    file: file(),
    response_format: 'verbose_json',
    timestamp_granularities: ['word', 'segment'],
  })
  t.match(verbose, {
    task: 'transcribe',
    language: 'english',
    duration: 6,
    text: 'hello world',
    words: [{ word: 'hello' }, { word: 'world' }],
    segments: [{ id: 0, seek: 0, text: 'hello world', tokens: [] }],
    usage,
  })
  const words = await openai.audio.transcriptions.create({
    ...ask,
    file: file(),
    response_format: 'verbose_json',
    timestamp_granularities: ['word'],
  })
  t.equal(words.words?.length, 2)
  t.notOk('segments' in words, 'which was not asked for')
  t.match(
    await openai.audio.transcriptions.create({ ...ask, file: file(), response_format: 'diarized_json' }),
    {
      task: 'transcribe',
      duration: 6,
      segments: [{ type: 'transcript.text.segment', id: 'seg_0', speaker: 'A', text: 'hello world' }],
    },
  )
  const rendered = async (response_format: 'text' | 'srt' | 'vtt') => {
    const text = await openai.audio.transcriptions.create({ ...ask, file: file(), response_format })
    return [text, headers().get('content-type')]
  }
  const plain = 'text/plain; charset=utf-8'
  t.same(await rendered('text'), ['hello world', plain])
  t.same(await rendered('srt'), ['1\n00:00:00,336 --> 00:00:05,664\nhello world\n', plain])
  const cue = '00:00:00.336 --> 00:00:05.664\nhello world\n'
  t.same(await rendered('vtt'), [`WEBVTT\n\n${cue}`, 'text/vtt; charset=utf-8'])

  const cut = { ...ask, response_format: 'srt', subtitle_line_length: 10, subtitle_lines: 1 } as const
  t.match(
    await openai.audio.transcriptions.create({ ...cut, file: file() }),
    /^1\n.* --> .*\nhello\n\n2\n.* --> .*\nworld\n$/,
    'by rules of ours',
  )

  t.same(await openai.audio.translations.create({ model: 'whisper-1', file: file() }), {
    text: 'hello world',
  })
  t.match(
    await openai.audio.translations.create({
      model: 'whisper-1',
      file: file(),
      response_format: 'verbose_json',
    }),
    { task: 'translate', language: 'english', duration: 6, text: 'hello world', segments: [{ id: 0 }] },
  )

  const events = []
  const stream = await openai.audio.transcriptions.create({ ...ask, file: file(), stream: true })
  t.equal(headers().get('x-lk-provider'), 'sandbox')
  for await (const event of stream) events.push(event)
  t.same(events, [
    { type: 'transcript.text.delta', delta: 'hello world' },
    { type: 'transcript.text.done', text: 'hello world' },
  ])
  const spoken = []
  const diarized = await openai.audio.transcriptions.create({
    ...ask,
    file: file(),
    stream: true,
    response_format: 'diarized_json',
  })
  for await (const event of diarized) spoken.push(event)
  t.match(spoken, [
    { type: 'transcript.text.delta' },
    { type: 'transcript.text.segment', id: 'seg_0', speaker: 'A', text: 'hello world' },
    { type: 'transcript.text.done', text: 'hello world' },
  ])
  await assertStopsClean(t, larkway)
})

t.test('text', { timeout: 60_000 }, async (t) => {
  const larkway = await startGateway(t)
  const { openai, headers } = doorClient(larkway)
  const ask = { model: 'gpt-4o', messages: [{ role: 'user' as const, content: 'sos' }] }
  const morse = '... --- ...'

  const whole = await openai.chat.completions.create(ask)
  t.match(whole, {
    id: headers().get('x-request-id') ?? '',
    object: 'chat.completion',
    model: 'morse-1',
    choices: [
      { index: 0, message: { role: 'assistant', content: morse, refusal: null }, finish_reason: 'stop' },
    ],
    usage: { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 },
  })
  t.ok(Math.abs(whole.created - Date.now() / 1000) < 60)
  t.equal(headers().get('x-lk-usage-total-tokens'), '4')
  t.equal(headers().get('x-lk-cost-usd'), '0')

  const chunks = []
  const include = { stream: true, stream_options: { include_usage: true } } as const
  for await (const chunk of await openai.chat.completions.create({ ...ask, ...include })) chunks.push(chunk)
  const [first] = chunks
  t.match(first, {
    object: 'chat.completion.chunk',
    model: 'morse-1',
    choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }],
    usage: null,
  })
  t.ok(chunks.every(({ id, created }) => id === first?.id && created === first.created))
  t.equal(chunks.map(({ choices: [choice] }) => choice?.delta.content ?? '').join(''), morse)
  t.match(chunks.at(-2), { choices: [{ delta: {}, finish_reason: 'stop' }], usage: null })
  t.same(chunks.at(-1)?.choices, [])
  t.same(chunks.at(-1)?.usage, whole.usage)

  // The client's own readers of streams: they put the chunks together, and fail at what they do not understand.
  const final = await openai.chat.completions.stream(ask).finalChatCompletion()
  t.match(final.choices, [{ message: { role: 'assistant', content: morse }, finish_reason: 'stop' }])

  await t.test('tools, called and answered until the model is content', async (t) => {
    const cities: unknown[] = []
    const tool = {
      ...WEATHER,
      function: {
        ...WEATHER.function,
        parse: JSON.parse,
        function: ({ city }: { city: string }) => {
          cities.push(city)
          return 'sun'
        },
      },
    }
    for (const stream of [false, true]) {
      const messages = [{ role: 'user' as const, content: 'the weather in Oslo' }]
      const asked = { model: 'gpt-4o', messages, tools: [tool] }
      const runner = stream
        ? openai.chat.completions.runTools({ ...asked, stream })
        : openai.chat.completions.runTools({ ...asked, stream: false })
      t.equal(await runner.finalContent(), '... ..- -.', stream ? 'streamed' : 'whole')
      t.same(cities.splice(0), ['the weather in Oslo'])
    }
    const forced = await openai.chat.completions.create({
      ...ask,
      tools: [WEATHER],
      tool_choice: { type: 'function', function: { name: 'weather' } },
    })
    t.match(forced.choices, [
      {
        message: { content: null, tool_calls: [{ type: 'function', function: { name: 'weather' } }] },
        finish_reason: 'tool_calls',
      },
    ])
  })

  await t.test('completions', async (t) => {
    const prompt = { model: 'davinci', prompt: ['sos'] }
    t.match(await openai.completions.create(prompt), {
      object: 'text_completion',
      choices: [{ index: 0, text: morse, finish_reason: 'stop', logprobs: null }],
      usage: { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 },
    })
    const pieces = []
    for await (const piece of await openai.completions.create({ ...prompt, ...include })) pieces.push(piece)
    t.equal(pieces.map(({ choices: [choice] }) => choice?.text ?? '').join(''), morse)
    t.match(pieces.at(-2), { object: 'text_completion', choices: [{ text: '', finish_reason: 'stop' }] })
    t.match(pieces.at(-1), { choices: [], usage: { total_tokens: 4 } })
  })
  await assertStopsClean(t, larkway)
})

t.test('vectors, pictures and models', { timeout: 60_000 }, async (t) => {
  const larkway = await startGateway(t)
  const { openai } = doorClient(larkway)
  const own = async (path: string, body: object) => {
    const headers = { authorization: `Bearer ${larkway.key}`, 'content-type': 'application/json' }
    const response = await fetch(`${larkway.url}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    return (await response.json()) as { embeddings: number[][]; content_blocks: { base64: string }[] }
  }
  const input = ['the lark', 'at break of day', 'Grüße 🐦']
  const { embeddings } = await own('/v1/embeddings', { input })
  const ask = { model: 'text-embedding-3-small', input }
  for (const encoding of [{}, { encoding_format: 'float' as const }]) {
    const { data, usage, object, model } = await openai.embeddings.create({ ...ask, ...encoding })
    t.same([object, model], ['list', 'morse-1'])
    t.same(
      data.map(({ embedding }) => [...embedding]),
      embeddings,
      JSON.stringify(encoding),
    )
    t.same(
      data.map(({ index, object: kind }) => [index, kind]),
      [0, 1, 2].map((index) => [index, 'embedding']),
    )
    t.equal(usage.total_tokens, usage.prompt_tokens)
  }
  const packed = await openai.embeddings.create({ ...ask, encoding_format: 'base64' })
  const bytes = Buffer.from(packed.data[0]?.embedding as string, 'base64')
  t.same([...new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4)], embeddings[0])
  const few = await openai.embeddings.create({ ...ask, dimensions: 3 })
  t.same(
    few.data.map(({ embedding }) => embedding.length),
    [3, 3, 3],
  )

  const picture = { prompt: 'sos', model: 'gpt-image-2', size: 'auto' as const, quality: 'auto' as const }
  const images = await openai.images.generate({ ...picture, n: 2 })
  const made = await own('/v1/image', { prompt: 'sos', n: 2 })
  t.same(
    images.data,
    made.content_blocks.map(({ base64 }) => ({ b64_json: base64 })),
  )
  t.ok(Math.abs(images.created - Date.now() / 1000) < 60)

  const models = []
  for await (const model of openai.models.list()) models.push(model)
  const morse = { id: 'morse-1', object: 'model', created: 0, owned_by: 'sandbox' }
  t.same(models, [morse])
  t.same(await openai.models.retrieve('morse-1'), morse)
  for (const id of ['gpt-4o', 'org/model', 'a b?', '%']) {
    t.match(await rejected(openai.models.retrieve(id)), { status: 404, code: 'NOT_FOUND' }, id)
  }
  await assertStopsClean(t, larkway)
})
