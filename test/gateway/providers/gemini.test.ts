import { createHash, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import type { ChatCall } from '../../../src/contracts/chat.ts'
import type { EmbeddingsResult, ImageCall, ImageResult } from '../../../src/contracts/generation.ts'
import type { Operation, Step } from '../../../src/contracts/provider.ts'
import { createSender } from '../../../src/gateway/outbound/send.ts'
import { factsOf, SHIPPED } from '../../../src/gateway/providers/facts.ts'
import { gemini } from '../../../src/gateway/providers/gemini/provider.ts'
import { createAudioReader } from '../../../src/gateway/storage/audio-reader.ts'
import { decodeBase64 } from '../../../src/gateway/workers/base64.ts'
import { audio, options, speechCall } from '../../support/call.ts'
import { bytesOf, requestOf } from '../../support/form-of.ts'
import { memoryAudio, STANDINGS } from '../../support/memory-audio.ts'
import { fixture, reply } from '../../support/replies.ts'
import { type GeminiAnswers, geminiDialect } from '../../support/upstream/gemini.ts'
import { startUpstream } from '../../support/upstream/upstream.ts'
import { done } from './step-result.ts'

const BASE = 'https://generativelanguage.googleapis.com/v1beta'
const target = (model: string, baseUrl = BASE) => ({ model, baseUrl, credential: 'AIza-good', options: {} })

t.test('the facts are of models that the provider serves', async (t) => {
  t.equal(gemini.translation, undefined)
  const served = { audio_input: 'transcription', audio_output: 'speech', embeddings: 'embeddings' } as const
  for (const model of modelsOf('gemini')) {
    const facts = factsOf('gemini', model)
    t.notOk(facts?.translates, model)
    for (const [capability, operation] of Object.entries(served)) {
      if (facts?.capabilities.some((name) => name === capability)) t.ok(gemini[operation], model)
    }
  }
  t.same(factsOf('gemini', 'gemini-3.8-flash-tts')?.limits.speed, { min: 1, max: 1 })
})

t.test('embeddings', async (t) => {
  const call = { input: ['a', ''], dimensions: 2 }
  const request = requestOf(gemini.embeddings!.start(call, target('gemini-embedding-001')))
  t.equal(request.url, `${BASE}/models/gemini-embedding-001:batchEmbedContents`)
  const asked = (text: string) => ({
    model: 'models/gemini-embedding-001',
    content: { parts: [{ text }] },
    outputDimensionality: 2,
  })
  t.same(JSON.parse(bytesOf(request).toString()), { requests: [asked('a'), asked('')] })
  const next = (body: unknown, dimensions: number | null = 2): Step<EmbeddingsResult> =>
    gemini.embeddings!.next(null, reply(body), { ...call, dimensions }, target('gemini-embedding-001'))
  const good = { embeddings: [{ values: [0.5, -1] }, { values: [1e-9, 0] }] }
  const embeddings = [
    [0.5, -1],
    [1e-9, 0],
  ]
  t.same(done(next(good)), { embeddings, usage: null })
  t.same(done(next({ ...good, usageMetadata: { promptTokenCount: 3 } }, null)), {
    embeddings,
    usage: { input_tokens: 3, output_tokens: 0 },
  })
  const bad = [
    {},
    { embeddings: [] },
    { embeddings: [{ values: [1, 2] }] },
    { embeddings: [{ values: [1, 2] }, { values: [] }] },
    { embeddings: [{ values: [1, 2] }, { values: [1, 'x'] }] },
    { embeddings: [{ values: [1, 2] }, { values: [1, null] }] },
    { embeddings: [{ values: [1, 2] }, { values: [1, 2, 3] }] },
    { embeddings: [{ values: [1, 2] }, { values: [1, 2] }, { values: [1, 2] }] },
  ]
  for (const body of bad) {
    t.match(next(body), { kind: 'failed', failure: { kind: 'server' } }, JSON.stringify(body))
  }
  t.match(
    next('{"embeddings":[{"values":[1,2]},{"values":[1,1e999]}]}'),
    { kind: 'failed' },
    'no number is infinite',
  )
  t.match(next({ embeddings: [{ values: [1] }, { values: [] }] }, null), { kind: 'failed' })
})

t.test('pictures', async (t) => {
  const image = gemini.image!
  const call = (overrides: Partial<ImageCall> = {}): ImageCall => ({
    prompt: 'a boat',
    n: 1,
    size: null,
    quality: null,
    output_format: null,
    seed: null,
    ...overrides,
  })
  const to = target('gemini-3.1-flash-image')
  const sent = (overrides: Partial<ImageCall>) =>
    JSON.parse(bytesOf(requestOf(image.start(call(overrides), to))).toString())
  t.same(sent({}), {
    contents: [{ role: 'user', parts: [{ text: 'a boat' }] }],
    generationConfig: { responseModalities: ['IMAGE'] },
  })
  const sizes = factsOf('gemini', to.model)?.limits.image_sizes ?? []
  t.ok(sizes.length > 0)
  for (const size of sizes) t.type(sent({ size }).generationConfig.imageConfig, 'object')
  t.same(sent({ size: '2048x2048' }).generationConfig.imageConfig, { aspectRatio: '1:1', imageSize: '2K' })
  for (const overrides of [{ n: 2 }, { size: '1536x1024' }, { quality: 'high' }, { output_format: 'png' }]) {
    const step = image.start(call(overrides), to)
    t.match(step, { kind: 'failed', failure: { kind: 'model' } }, JSON.stringify(overrides))
  }
  const next = (parts: unknown[], finishReason = 'STOP'): Step<ImageResult> => {
    const usageMetadata = { promptTokenCount: 3, candidatesTokenCount: 1120 }
    const body = { candidates: [{ content: { parts }, finishReason }], usageMetadata }
    return image.next(null, reply(body), call(), to)
  }
  const picture = { inlineData: { mimeType: 'image/png', data: 'iVBORw0=' } }
  t.same(done(next([{ text: 'Here it is.' }, { ...picture, thought: true }, picture])), {
    images: [{ base64: 'iVBORw0=', url: null, media_type: 'image/png' }],
    usage: { input_tokens: 3, output_tokens: 1120 },
    warnings: [],
  })
  t.match(next([{ text: 'I cannot.' }]), { kind: 'failed', failure: { kind: 'server' } })
  t.match(next([{ inlineData: { mimeType: 'text/html', data: 'x' } }]), { failure: { kind: 'server' } })
  t.match(next([], 'IMAGE_SAFETY'), { kind: 'failed', failure: { kind: 'content' } })
  t.match(next([], 'NO_IMAGE'), { kind: 'failed', failure: { kind: 'server' } })
})

t.test('the list of models comes in pages', async (t) => {
  const to = target('')
  const models = gemini.models!
  t.equal(requestOf(models.start(null, to)).url, `${BASE}/models?pageSize=1000`)
  const page = (names: unknown[], nextPageToken?: string) =>
    reply({ models: names.map((name) => ({ name })), nextPageToken })
  const second = models.next([], page(['models/a', 7], 'a/b='), null, to)
  t.match(second, { kind: 'send', request: { url: `${BASE}/models?pageSize=1000&pageToken=a%2Fb%3D` } })
  const state = second.kind === 'send' ? JSON.parse(JSON.stringify(second.state)) : null
  t.same(done(models.next(state, page(['models/b', 'tunedModels/c']), null, to)), ['a', 'b', 'tunedModels/c'])
  let endless = models.start(null, to)
  let requests = 0
  for (; endless.kind === 'send' && requests < 100; requests++) {
    endless = models.next(endless.state, page(['models/x'], 'more'), null, to)
  }
  t.equal(requests, 10, 'a list without an end is cut')
  t.match(models.next([], reply({}), null, to), { kind: 'failed', failure: { kind: 'server' } })
  const key = models.next([], reply(await fixture('gemini/error.key.json'), 400), null, to)
  t.match(key, { kind: 'failed', failure: { kind: 'credential' } })
})

/** Speaks to a server that is as strict as Google, through the sender of the product. */
async function rig(t: Test, answers: GeminiAnswers) {
  const upstream = await startUpstream(t, { dialect: geminiDialect(answers) })
  const objects = {} as Parameters<typeof createAudioReader>[0]['objects']
  const reader = createAudioReader({ objects, decoder: { decode: decodeBase64 } })
  const sender = createSender({ reader })
  t.teardown(() => sender.close())
  const ask = { deadlineMs: 10_000, signal: new AbortController().signal, onHeld: () => {} }
  return {
    upstream,
    sender,
    ask,
    /** Drives an operation to its end, without its waits. */
    async run<Call, Result>(
      operation: Operation<Call, Result, never>,
      call: Call,
      model: string,
      key = 'AIza-good',
    ) {
      const to = { ...target(model, upstream.url), credential: key }
      let step = operation.start(call, to)
      while (step.kind === 'send' || step.kind === 'wait') {
        const answer = await sender.send(step.request, ask)
        step = operation.next(JSON.parse(JSON.stringify(step.state)), answer, call, to)
      }
      return step
    },
  }
}

const CHAT: ChatCall = {
  messages: [
    { role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] },
    { role: 'user', parts: [{ type: 'text', text: 'Weather?' }] },
    {
      role: 'assistant',
      parts: [],
      tool_calls: [
        { id: 'a1', name: 'get_weather', arguments: '{"city":"Köln"}' },
        { id: 'a2', name: 'get_time', arguments: '' },
      ],
    },
    { role: 'tool', tool_call_id: 'a1', parts: [{ type: 'text', text: 'grey' }] },
    { role: 'tool', tool_call_id: 'a2', parts: [{ type: 'text', text: 'noon' }] },
    {
      role: 'user',
      parts: [
        { type: 'text', text: 'And here?' },
        {
          type: 'image',
          source: { kind: 'base64', media_type: 'image/png', base64: 'iVBORw==' },
          detail: null,
        },
        { type: 'image', source: { kind: 'url', url: 'https://example.com/a.png' }, detail: null },
        { type: 'audio', base64: 'UklG', format: 'wav' },
      ],
    },
  ],
  tools: [{ name: 'get_weather', description: 'of a city', parameters: { type: 'object' } }],
  tool_choice: 'auto',
  modalities: ['text'],
  audio: null,
  response_schema: null,
  max_tokens: 100,
  temperature: 0.5,
  top_p: 0.9,
  stop: ['END'],
  seed: 7,
}

t.test('over the wire: chat, whole and streamed', async (t) => {
  const events = (await fixture('gemini/chat.stream.json')) as unknown[]
  const path = 'POST /models/gemini-3.8-flash'
  const { upstream, sender, ask, run } = await rig(t, {
    [`${path}:generateContent`]: [{ json: await fixture('gemini/chat.json') }],
    [`${path}:streamGenerateContent?alt=sse`]: [{ events }],
  })
  const whole = await run(gemini.chat as Operation<ChatCall, unknown>, CHAT, 'gemini-3.8-flash')
  t.match(whole, { kind: 'done', result: { content: 'Hello! How can I help?' } })
  const schema = { ...CHAT, tools: [], tool_choice: null, response_schema: { type: 'object' } }
  const prose = await run(gemini.chat as Operation<ChatCall, unknown>, schema, 'gemini-3.8-flash')
  t.match(prose, { kind: 'failed', failure: { reason: /JSON/ } }, 'the request was taken, the answer was not')
  const to = target('gemini-3.8-flash', upstream.url)
  const streamed = gemini.chat!.streamed!
  const stream = await sender.open(requestOf(streamed.start(CHAT, to)), ask)
  const reader = streamed.read(stream, CHAT, to)
  const texts: string[] = []
  for await (const chunk of stream.chunks) {
    const deltas = reader.push(chunk)
    if ('kind' in deltas) throw new Error(deltas.reason)
    texts.push(...deltas.flatMap((delta) => (delta.type === 'text' ? [delta.text] : [])))
  }
  t.equal(texts.join(''), 'Grüezi 👋, I look.')
  t.match(reader.end(), { result: { finish_reason: 'tool_calls', usage: { input_tokens: 8 } } })
  t.equal(upstream.received.length, 3)
})

t.test('over the wire: a transcription, with the audio out of memory however it stands there', async (t) => {
  const path = 'POST /models/gemini-3.5-transcribe:generateContent'
  const { upstream, run } = await rig(t, {
    [path]: [{ json: await fixture('gemini/transcript.speakers.json') }],
  })
  const bytes = randomBytes(1_500_001)
  const digest = createHash('sha256').update(bytes).digest('hex')
  for (const standing of STANDINGS) {
    const heard: Audio = { ...audio({ format: 'mp3' }), ...memoryAudio(bytes, standing).audio }
    const call = { audio: heard, options: options({ diarization: true, timestamps: 'both', language: 'en' }) }
    const step = await run(
      gemini.transcription as Operation<typeof call, unknown>,
      call,
      'gemini-3.5-transcribe',
    )
    t.match(step, { kind: 'done', result: { segments: [{ speaker: 'speaker_0' }, {}, {}] } }, standing)
    const body = upstream.received.at(-1)?.body as {
      contents: [{ parts: [{ inlineData: { mimeType: string; data: string } }] }]
      generationConfig: unknown
    }
    const { mimeType, data } = body.contents[0].parts[0].inlineData
    t.equal(mimeType, 'audio/mp3')
    t.equal(createHash('sha256').update(Buffer.from(data, 'base64')).digest('hex'), digest, standing)
    t.same(body.generationConfig, {
      audioTranscriptionConfig: { languageCodes: ['en'], wordTimestamp: true, diarization: true },
    })
  }
})

t.test('over the wire: speech', async (t) => {
  const samples = Buffer.from([1, 0, 2, 0])
  const inlineData = { mimeType: 'audio/L16;codec=pcm;rate=24000', data: samples.toString('base64') }
  const clip = { type: 'audio', mime_type: 'audio/mp3', data: Buffer.from('ID3').toString('base64') }
  const { upstream, run } = await rig(t, {
    'POST /models/gemini-3.8-flash-tts:generateContent': [
      { json: { candidates: [{ content: { parts: [{ inlineData }] }, finishReason: 'STOP' }] } },
    ],
    'POST /interactions': [
      { json: { id: 'v1_x', status: 'completed', steps: [{ type: 'model_output', content: [clip] }] } },
    ],
  })
  const speech = gemini.speech as Operation<unknown, { mediaType: string; audio: Uint8Array[] }>
  const rows: [string, string, string][] = [
    ['pcm', 'audio/pcm', samples.toString('latin1')],
    ['wav', 'audio/wav', 'RIFF'],
    ['mp3', 'audio/mpeg', 'ID3'],
  ]
  for (const [response_format, mediaType, beginning] of rows) {
    const result = done(await run(speech, speechCall({ response_format }).payload, 'gemini-3.8-flash-tts'))
    t.equal(result.mediaType, mediaType)
    t.ok(Buffer.concat(result.audio).toString('latin1').startsWith(beginning), response_format)
  }
  t.match(upstream.received.at(-1)?.body, { store: false, model: 'gemini-3.8-flash-tts' })
})

t.test('over the wire: a video, ordered, asked for, fetched, and one that is given up', async (t) => {
  const id = 'v1_ChdUZXN0SW50ZXJhY3Rpb24'
  const completed = (await fixture('gemini/video.completed.json')) as object
  const files: Record<string, { file: Buffer }[]> = {
    'GET /files/abc-123:download?alt=media': [{ file: Buffer.from('mp4') }],
  }
  const jobs: { json: unknown }[] = [{ json: { id, status: 'in_progress' } }]
  const { upstream, sender, ask, run } = await rig(t, {
    ...files,
    'POST /interactions': [{ json: { id, status: 'queued' } }],
    [`GET /interactions/${id}`]: jobs,
    [`POST /interactions/${id}/cancel`]: [{ json: { id, status: 'cancelled' } }],
  })
  jobs.push({ json: JSON.parse(JSON.stringify(completed).replace(BASE, upstream.url)) })
  const call = { prompt: 'a paper boat', duration_seconds: 8, size: '1280x720', seed: null }
  const { videos } = done(await run(gemini.video!, call, 'gemini-omni-1.1-flash'))
  const [made] = videos
  if (made?.kind !== 'fetch') throw new Error('the video needs the key')
  const file = await sender.send(made.request, ask)
  t.equal(Buffer.concat(file.body).toString(), 'mp4')
  const to = target('gemini-omni-1.1-flash', upstream.url)
  const cancel = gemini.video!.abandon!({ id, everyMs: 5000, troubles: 0 }, to)
  t.equal((await sender.send(cancel!, ask)).status, 200)
  t.same(upstream.lines(), [
    'POST /interactions',
    `GET /interactions/${id}`,
    `GET /interactions/${id}`,
    'GET /files/abc-123:download?alt=media',
    `POST /interactions/${id}/cancel`,
  ])
})

t.test('over the wire: embeddings, a picture, the list of models, and a key that is none', async (t) => {
  const picture = { inlineData: { mimeType: 'image/png', data: 'iVBORw==' } }
  const { run } = await rig(t, {
    'POST /models/gemini-embedding-2:batchEmbedContents': [{ json: { embeddings: [{ values: [1, 2] }] } }],
    'POST /models/gemini-3.1-flash-image:generateContent': [
      { json: { candidates: [{ content: { parts: [picture] }, finishReason: 'STOP' }] } },
    ],
    'GET /models?pageSize=1000': [{ json: { models: [{ name: 'models/a' }], nextPageToken: 't' } }],
    'GET /models?pageSize=1000&pageToken=t': [{ json: { models: [{ name: 'models/b' }] } }],
  })
  const texts = { input: ['a'], dimensions: 2 }
  t.match(done(await run(gemini.embeddings!, texts, 'gemini-embedding-2')), { embeddings: [[1, 2]] })
  const drawn = { prompt: 'a boat', n: 1, size: '1024x1024', quality: null, output_format: null, seed: null }
  const images = done(await run(gemini.image!, drawn, 'gemini-3.1-flash-image')).images
  t.match(images, [{ media_type: 'image/png' }])
  t.same(done(await run(gemini.models!, null, '')), ['a', 'b'])
  const bad = await run(gemini.models!, null, '', 'AIza-bad')
  t.match(bad, { kind: 'failed', failure: { kind: 'credential', status: 400 } })
  const gone = await run(gemini.embeddings!, texts, 'gemini-1.0')
  t.match(gone, { kind: 'failed', failure: { kind: 'model', status: 404 } })
})

t.test('the server of these tests refuses what Google refuses', async (t) => {
  const { upstream, sender, ask } = await rig(t, {})
  const hello = { parts: [{ text: 'x' }], role: 'user' }
  const call = { parts: [{ functionCall: { name: 'f', args: {} } }], role: 'model' }
  const signed = { parts: [{ ...call.parts[0], thoughtSignature: 'x' }], role: 'model' }
  const config = (audioTranscriptionConfig: object) => ({
    contents: [hello],
    generationConfig: { audioTranscriptionConfig },
  })
  const bodies: unknown[] = [
    {},
    { contents: [] },
    { contents: [{ role: 'user', parts: [] }] },
    { contents: [{ ...hello, role: 'assistant' }] },
    { contents: [hello], tone: 'x' },
    { contents: [hello], generationConfig: { max_tokens: 5 } },
    { contents: [hello, call, hello] },
    { contents: [hello, signed, hello] },
    { contents: [{ role: 'user', parts: [{ inlineData: { mimeType: 'audio/wav', data: 'a b' } }] }] },
    config({ mode: 'SMART', diarization: true }),
    config({ customVocabulary: ['x'], wordTimestamp: true }),
  ]
  const url = `${upstream.url}/models/m:generateContent`
  const headers = { 'x-goog-api-key': 'AIza-good', 'content-type': 'application/json' }
  for (const body of bodies) {
    const request = { method: 'POST', url, headers, body: [Buffer.from(JSON.stringify(body))] } as const
    t.equal((await sender.send(request, ask)).status, 400, JSON.stringify(body))
  }
})

function modelsOf(kind: string): string[] {
  return SHIPPED.all().flatMap((one) => (one.kind === kind ? [one.model] : []))
}
