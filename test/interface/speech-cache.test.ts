import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import OpenAI from 'openai'
import { Stream as SseStream } from 'openai/streaming'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { assertStopsClean, type Gateway, startGateway } from '../support/gateway.ts'
import { serveHttp } from '../support/http-server.ts'
import { waitUntil } from '../support/wait-until.ts'

/** A provider of speech that makes other audio each time it is asked. */
interface Mouth {
  readonly url: string
  /** Requests to it, in order. */
  readonly asked: Readonly<Record<string, unknown>>[]
  /** Answers a request; the whole of its audio at once unless a test says otherwise. */
  answer: (response: ServerResponse, audio: Buffer) => void
}

const AUDIO_BYTES = 20_000

async function startMouth(t: Test): Promise<Mouth> {
  const asked: Record<string, unknown>[] = []
  const mouth = { asked, answer: (response: ServerResponse, audio: Buffer) => void response.end(audio) }
  const url = await serveHttp(t, (request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    request.on('end', () => {
      asked.push(JSON.parse(text) as Record<string, unknown>)
      response.writeHead(200, { 'content-type': 'audio/mpeg' })
      mouth.answer(response, randomBytes(AUDIO_BYTES))
    })
  })
  return Object.assign(mouth, { url: `${url}/v1` })
}

const KEYS = { acme: makeKey(), other: makeKey() }

function configOf(mouth: Pick<Mouth, 'url'>, more: { entry?: object; route?: object } = {}) {
  const entry = {
    provider: 'mouth',
    model: 'tts-1',
    capabilities: ['audio_output'],
    price: { per_1k_characters_usd: 1 },
    retention: 'zero',
    ...more.entry,
  }
  const workspaces = Object.entries(KEYS).map(([name, key]) => [
    name,
    {
      credits_usd: 1_000_000,
      grant_id: 'first',
      apps: { web: { route: name } },
      keys: [{ id: `key_${name}`, app: 'web', sha256: hashKey(key) }],
    },
  ])
  const routes = Object.keys(KEYS).map((name) => [
    name,
    { workspace: name, cache: { ttl_seconds: 3600 }, entries: [entry], ...more.route },
  ])
  return {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: { mouth: { kind: 'openai-compatible', base_url: mouth.url, access: 'platform' } },
    routes: Object.fromEntries(routes),
    workspaces: Object.fromEntries(workspaces),
  }
}

interface Heard {
  readonly status: number
  readonly cache: string | null
  readonly cost: string | null
  readonly characters: string | null
  readonly audio: Buffer
  readonly id: string | null
}

async function speak(
  gateway: Pick<Gateway, 'url'>,
  fields: object = {},
  { key = KEYS.acme, headers = {} as Record<string, string>, path = '/openai/v1/audio/speech' } = {},
): Promise<Heard> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      input: 'hello',
      ...(path.startsWith('/openai') && { model: 'x', voice: 'alloy' }),
      ...fields,
    }),
  })
  const header = (name: string) => response.headers.get(name)
  return {
    status: response.status,
    cache: header('x-lk-cache'),
    cost: header('x-lk-cost-usd'),
    characters: header('x-lk-usage-audio-output-characters'),
    audio: Buffer.from(await response.arrayBuffer()),
    id: header('x-lk-request-id'),
  }
}

t.test('one body in several formats, by the header Accept, is several answers', async (t) => {
  const mouth = await startMouth(t)
  const gateway = await startGateway(t, { config: configOf(mouth) })
  const hear = (accept: string) =>
    speak(gateway, { voice: 'alloy' }, { path: '/v1/speech', headers: { accept } })
  const [mpeg, wav] = [await hear('audio/mpeg'), await hear('audio/wav')]
  t.match([mpeg, wav], [{ cache: 'miss' }, { cache: 'miss' }])
  t.notOk(mpeg.audio.equals(wav.audio))
  // From the second on the body is known, with what was found out of it in the format before.
  for (let round = 0; round < 3; round += 1) {
    t.match(await hear('audio/mpeg'), { cache: 'hit', audio: mpeg.audio }, `MP3, round ${round}`)
    t.match(await hear('audio/wav'), { cache: 'hit', audio: wav.audio }, `WAV, round ${round}`)
  }
  t.match(await hear('audio/flac'), { cache: 'miss' }, 'a third one is made')
  t.same(
    mouth.asked.map(({ response_format: format }) => format),
    ['mp3', 'wav', 'flac'],
  )
})

t.test('what was made once is given again, free, and its characters are counted', async (t) => {
  const mouth = await startMouth(t)
  const gateway = await startGateway(t, { config: configOf(mouth) })
  const made = await speak(gateway)
  t.match(made, { status: 200, cache: 'miss', cost: '0.005', characters: '5' })
  const again = await speak(gateway)
  t.match(again, { status: 200, cache: 'hit', cost: '0', characters: '5' })
  t.ok(again.audio.equals(made.audio))

  const json = await fetch(`${gateway.url}/v1/speech`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEYS.acme}`, 'content-type': 'application/json' },
    body: JSON.stringify({ input: 'hello', voice: 'alloy', response_format: 'mp3' }),
  })
  t.equal(json.headers.get('x-lk-cache'), 'hit', 'also as JSON')
  const body = (await json.json()) as Record<string, unknown>
  t.match(body, { provider: 'mouth', model: 'tts-1', cost_usd: 0, usage: { audio_output_characters: 5 } })
  const [block] = body.content_blocks as { base64: string; media_type: string }[]
  t.ok(Buffer.from(block?.base64 ?? '', 'base64').equals(made.audio))
  t.equal(block?.media_type, 'audio/mpeg')

  const native = { path: '/v1/speech', headers: { accept: 'audio/*' } }
  const named = { voice: 'alloy', response_format: 'mp3' }
  t.match(await speak(gateway, named, native), { cache: 'hit', audio: made.audio })
  const deepgram = {
    path: '/deepgram/v1/speak?model=alloy',
    headers: { authorization: `Token ${KEYS.acme}` },
  }
  t.match(await speak(gateway, { input: undefined, text: 'hello' }, deepgram), {
    cache: 'hit',
    audio: made.audio,
  })
  const elevenlabs = { path: '/elevenlabs/v1/text-to-speech/alloy', headers: { 'xi-api-key': KEYS.acme } }
  t.match(await speak(gateway, { input: undefined, text: 'hello' }, elevenlabs), {
    cache: 'hit',
    audio: made.audio,
  })
  t.equal(mouth.asked.length, 1)

  const told = async (
    headers: Record<string, string>,
    fields: object = {},
    path = '/openai/v1/audio/speech',
  ) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEYS.acme}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ input: 'hello', model: 'x', voice: 'alloy', ...fields }),
    })
    await response.arrayBuffer()
    return Object.fromEntries(response.headers)
  }
  const plain = { 'x-lk-cache': 'hit', 'x-lk-warnings': undefined, 'x-lk-requested-purpose': undefined }
  t.match(await told({}), plain)
  const purposed = await told({ 'x-lk-purpose': 'night' })
  t.match(purposed, { ...plain, 'x-lk-requested-purpose': 'night' }, 'the same audio, and other facts')
  t.match(await told({}, { what: 1 }), { ...plain, 'x-lk-warnings': /what/ })
  t.match(await told({}), plain, 'each is told its own')
  const spoken = await told(
    { authorization: `Token ${KEYS.acme}` },
    { text: 'hello' },
    '/deepgram/v1/speak?model=alloy',
  )
  t.match(spoken, { 'x-lk-cache': 'hit', 'dg-model-name': 'tts-1', 'dg-char-count': '5' })
  t.equal(mouth.asked.length, 1)

  await waitUntil(() => gateway.log.some(({ request_id: id }) => id === again.id))
  const line = gateway.log.find(({ request_id: id }) => id === again.id)
  t.match(line, { cache: 'hit', cost_usd: 0, usage: { audio_output_characters: 5 } })
  t.notOk(line?.attempts, 'no one was asked')
  await assertStopsClean(t, gateway)
})

type SpeechEvent =
  | { readonly type: 'speech.audio.delta'; readonly audio: string }
  | { readonly type: 'speech.audio.done'; readonly usage: object }

async function listOf(events: AsyncIterable<SpeechEvent>): Promise<readonly SpeechEvent[]> {
  const all: SpeechEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

/** Speech in events, as OpenAI's client reads it. */
async function speakEvents({ url }: Pick<Gateway, 'url'>, leaving = new AbortController()) {
  const openai = new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: KEYS.acme, maxRetries: 0 })
  const asked = { model: 'x', input: 'hello', voice: 'alloy', stream_format: 'sse' } as const
  const response = await openai.audio.speech.create(asked, { signal: leaving.signal })
  const events = SseStream.fromSSEResponse<SpeechEvent>(response, leaving)
  return { cache: response.headers.get('x-lk-cache'), cost: response.headers.get('x-lk-cost-usd'), events }
}

t.test('events find what is kept, and fill it', async (t) => {
  const mouth = await startMouth(t)
  // More than goes into one event.
  const long = randomBytes(100_001)
  mouth.answer = (response) => void response.end(long)
  const gateway = await startGateway(t, { config: configOf(mouth) })
  const hear = async () => {
    const { cache, cost, events } = await speakEvents(gateway)
    const all = await listOf(events)
    const done = all.at(-1)
    const pieces = all.slice(0, -1).map((event) => ('audio' in event ? event.audio : ''))
    t.ok(
      cache === 'miss' || pieces.every(({ length }) => length > 0 && length <= 65_536),
      'no event is large',
    )
    t.same(done, { type: 'speech.audio.done', usage: { input_tokens: 0, output_tokens: 0, total_tokens: 0 } })
    return { cache, cost, audio: Buffer.concat(pieces.map((piece) => Buffer.from(piece, 'base64'))) }
  }
  t.match(await hear(), { cache: 'miss', cost: '0.005', audio: long })
  t.match(await speak(gateway), { cache: 'hit', audio: long })
  t.match(await hear(), { cache: 'hit', cost: '0', audio: long })
  t.equal(mouth.asked.length, 1)

  const rest: (() => void)[] = []
  mouth.answer = (response, audio) => {
    response.write(audio.subarray(0, 5_000))
    rest.push(() => response.end(audio.subarray(5_000)))
  }
  await t.test('one that joins a call hears it as it comes, whoever leaves', async (t) => {
    const config = configOf(mouth, { entry: { model: 'other' } })
    const joined = await startGateway(t, { config })
    const leaving = new AbortController()
    const leader = await speakEvents(joined, leaving)
    const follower = await speakEvents(joined)
    t.same([leader.cache, follower.cache, follower.cost], ['miss', 'hit', '0'])
    leaving.abort()
    rest[0]?.()
    const all = await listOf(follower.events)
    const bytes = all.map((event) => ('audio' in event ? Buffer.from(event.audio, 'base64').length : 0))
    t.equal(
      bytes.reduce((sum, each) => sum + each, 0),
      AUDIO_BYTES,
    )
    t.equal((await speakEvents(joined)).cache, 'hit')
    await assertStopsClean(t, joined)
  })
  await assertStopsClean(t, gateway)
})

t.test('every option, and the workspace, is told apart', async (t) => {
  const mouth = await startMouth(t)
  const gateway = await startGateway(t, { config: configOf(mouth) })
  const first = await speak(gateway)
  for (const fields of [
    { input: 'hello ' },
    { input: 'Hello' },
    { voice: 'echo' },
    { response_format: 'flac' },
    { response_format: 'wav' },
    { speed: 1.5 },
    { seed: 7 },
    { seed: 8 },
  ]) {
    const label = JSON.stringify(fields)
    const made = await speak(gateway, fields)
    t.match(made, { status: 200, cache: 'miss' }, label)
    t.match(await speak(gateway, fields), { cache: 'hit', audio: made.audio }, label)
  }
  const others = await speak(gateway, {}, { key: KEYS.other })
  t.equal(others.cache, 'miss', 'another workspace has its own')
  t.notOk(others.audio.equals(first.audio))
  t.match(await speak(gateway, {}, { key: KEYS.other }), { cache: 'hit', audio: others.audio })
  t.match(await speak(gateway), { cache: 'hit', audio: first.audio })

  const asked = mouth.asked.length
  const demanding = { headers: { 'x-lk-require': 'retention=zero' } }
  t.match(await speak(gateway, {}, demanding), { status: 200, cache: 'miss', cost: '0.005' })
  t.match(await speak(gateway, { input: 'secret' }, demanding), { status: 200, cache: 'miss' })
  t.match(await speak(gateway, { input: 'secret' }), { status: 200, cache: 'miss' }, 'nothing of it was kept')
  t.equal(mouth.asked.length, asked + 3, 'who demands that nothing is kept is neither given nor adds to it')
})

t.test('1,000 callers who ask for the same at once cost one call', { timeout: 120_000 }, async (t) => {
  const mouth = await startMouth(t)
  const held: (() => void)[] = []
  mouth.answer = (response, audio) => {
    response.write(audio.subarray(0, 100))
    held.push(() => response.end(audio.subarray(100)))
  }
  const gateway = await startGateway(t, { config: configOf(mouth) })
  const calls = Array.from({ length: 1_000 }, () => speak(gateway))
  await waitUntil(() => held.length === 1)
  await sleep(1_000)
  for (const end of held) end()
  const answers = await Promise.all(calls)
  t.equal(mouth.asked.length, 1)
  const [{ audio }] = answers as [Heard]
  t.equal(audio.length, AUDIO_BYTES)
  t.ok(
    answers.every((one) => one.status === 200 && one.audio.equals(audio)),
    'all have all of it',
  )
  t.equal(answers.filter(({ cache }) => cache === 'miss').length, 1)
  t.equal(answers.filter(({ cache, cost }) => cache === 'hit' && cost === '0').length, 999)
  await assertStopsClean(t, gateway)
})

t.test('followers hear audio as it comes, and a leader who leaves takes it from nobody', async (t) => {
  const mouth = await startMouth(t)
  const rest: (() => void)[] = []
  let sent: Buffer = Buffer.alloc(0)
  mouth.answer = (response, audio) => {
    sent = audio
    response.write(audio.subarray(0, 5_000))
    rest.push(() => response.end(audio.subarray(5_000)))
  }
  const gateway = await startGateway(t, { config: configOf(mouth) })
  const ask = (signal?: AbortSignal) =>
    fetch(`${gateway.url}/openai/v1/audio/speech`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEYS.acme}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'x', input: 'hello', voice: 'alloy' }),
      ...(signal && { signal }),
    })
  const leaving = new AbortController()
  const leader = await ask(leaving.signal)
  t.equal(leader.headers.get('x-lk-cache'), 'miss')
  const follower = await ask()
  t.equal(follower.headers.get('x-lk-cache'), 'hit')
  const reader = follower.body?.getReader()
  const first = await reader?.read()
  t.ok(
    sent.subarray(0, first?.value?.length).equals(first?.value ?? Buffer.alloc(0)),
    'its beginning is here',
  )
  leaving.abort()
  await leader.arrayBuffer().catch(() => {})
  await sleep(50)
  rest[0]?.()
  const chunks = [first?.value ?? Buffer.alloc(0)]
  for (let next = await reader?.read(); next?.done === false; next = await reader?.read())
    chunks.push(next.value)
  t.ok(Buffer.concat(chunks).equals(sent))
  t.match(await speak(gateway), { cache: 'hit', audio: sent })
  t.equal(mouth.asked.length, 1)
  await assertStopsClean(t, gateway)
})

t.test('a failure is told to all who wait, and is not kept', async (t) => {
  const mouth = await startMouth(t)
  const gateway = await startGateway(t, { config: configOf(mouth) })
  mouth.answer = (response) => void setTimeout(() => response.destroy(), 200)
  const failed = await Promise.all([1, 2, 3].map(() => speak(gateway)))
  t.same(new Set(failed.map(({ status }) => status)), new Set([502]))
  t.equal(mouth.asked.length, 1)
  mouth.answer = (response, audio) => {
    response.write(audio)
    setTimeout(() => response.destroy(), 200)
  }
  await Promise.all(
    [1, 2].map(() => t.rejects(speak(gateway, { input: 'cut short' }), 'it is cut short for both')),
  )
  mouth.answer = (response, audio) => void response.end(audio)
  const whole = await speak(gateway, { input: 'cut short' })
  t.match(whole, { status: 200, cache: 'miss' })
  t.equal(whole.audio.length, AUDIO_BYTES)
  await assertStopsClean(t, gateway)
})

t.test('it is there after a restart, but not of another version of the entry', async (t) => {
  const mouth = await startMouth(t)
  const dataFolder = t.testdir({})
  const first = await startGateway(t, { config: configOf(mouth), dataFolder })
  const made = await speak(first)
  t.equal(made.cache, 'miss')
  await assertStopsClean(t, first)

  const same = { route: { strategy: 'weighted' } }
  const second = await startGateway(t, { config: configOf(mouth, same), dataFolder })
  t.match(
    await speak(second),
    { cache: 'hit', audio: made.audio },
    'other settings of the route do not matter',
  )
  await assertStopsClean(t, second)

  const changed = { entry: { voices: { alloy: 'nova' } } }
  const third = await startGateway(t, { config: configOf(mouth, changed), dataFolder })
  const remade = await speak(third)
  t.match([remade.cache, mouth.asked.at(-1)?.voice], ['miss', 'nova'])
  const config = JSON.stringify(configOf(mouth, { route: { cache: undefined } }))
  await writeFile(join(dataFolder, 'larkway.yaml'), config)
  await waitUntil(async () => (await speak(third)).cache === null)
  t.equal((await speak(third)).cost, '0.005', 'without the setting every call is made')
  await assertStopsClean(t, third)
})

t.test('a queue job finds what is kept, and fills it', async (t) => {
  const mouth = await startMouth(t)
  const gateway = await startGateway(t, { config: configOf(mouth) })
  const enqueue = () =>
    fetch(`${gateway.url}/v1/queue`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEYS.acme}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        endpoint: 'speech',
        payload: { input: 'hello', voice: 'alloy', response_format: 'mp3' },
      }),
    })
  t.equal((await enqueue()).status, 202)
  const ended = () => gateway.log.filter(({ cache, job_id: id }) => cache !== undefined && id !== undefined)
  await waitUntil(() => ended().length === 1)
  t.equal((await speak(gateway)).cache, 'hit')
  t.equal((await enqueue()).status, 202)
  await waitUntil(() => ended().length === 2)
  t.same(
    ended().map(({ cache, cost_usd: cost }) => [cache, cost]),
    [
      ['miss', 0.005],
      ['hit', 0],
    ],
  )
  t.equal(mouth.asked.length, 1)
})

/** The part of an answer that is not of this one request alone. */
async function lasting(response: Response) {
  const own = /^(?:x-lk-request-id|x-request-id|x-ratelimit-.*|date)$/
  const headers = [...response.headers].filter(([name]) => !own.test(name))
  const text = await response.text()
  return { status: response.status, headers, text: text.replace(/"id":"req_\w+"/, '') }
}

t.test('a body whose answer was found before is answered as the first time, to whoever may', async (t) => {
  const mouth = await startMouth(t)
  const gateway = await startGateway(t, { config: configOf(mouth) })
  let sent = 0
  const send = async (path: string, body: string, more: Record<string, string> = {}) => {
    sent += 1
    const authorization = `Bearer ${KEYS.acme}`
    const headers = { authorization, 'content-type': 'application/json', ...more }
    return lasting(await fetch(`${gateway.url}${path}`, { method: 'POST', headers, body }))
  }
  const found = ({ headers }: Awaited<ReturnType<typeof send>>) => new Map(headers).get('x-lk-cache')
  const openai = '/openai/v1/audio/speech'
  const bodies: readonly (readonly [path: string, body: string, headers?: Record<string, string>])[] = [
    [openai, '{"model":"x","input":"hello","voice":"alloy"}'],
    [openai, '{"voice":"alloy", "input":"hello","model":"x"}'],
    [openai, '{"model":"x","input":"hello","voice":{"id":"alloy"},"instructions":"slowly","odd":1}'],
    [openai, '{"model":"x","input":"h\\u00e9llo","voice":"alloy","purpose":"none"}'],
    [openai, '{"model":"x","input":"héllo","voice":"alloy"}'],
    [openai, '{"model":"x","input":"hello","voice":"alloy"}', { 'x-lk-purpose': 'some' }],
    ['/v1/speech', '{"input":"hello","voice":"alloy","seed":3,"odd":[1]}'],
    ['/v1/speech', '{"input":"hello","voice":"alloy"}', { accept: 'audio/*' }],
    ['/v1/speech', `{"input":"${'hello '.repeat(300)}","voice":"alloy"}`],
  ]
  const requests = () => gateway.log.filter(({ msg }) => msg === 'request')
  const own = new Set(['time', 'request_id', 'milliseconds', 'first_byte_milliseconds', 'received_bytes'])
  const facts = (line: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(Object.entries(line).filter(([name]) => !own.has(name)))
  for (const [path, body, headers] of bodies) {
    const label = `${path} ${body.slice(0, 80)} ${JSON.stringify(headers ?? {})}`
    await send(path, body, headers)
    // Too large to be known.
    const read = await send(path, body + ' '.repeat(1_100), headers)
    t.match([read.status, found(read)], [200, 'hit'], label)
    for (const _ of [1, 2, 3]) t.same(await send(path, body, headers), read, label)
    await waitUntil(() => requests().length === sent)
    const [line, ...others] = requests().slice(-4).map(facts)
    t.match(line, { cache: 'hit', cost_usd: 0, status: 200, key_id: 'key_acme' })
    for (const other of others) t.same(other, line, label)
  }
  const [[path, body]] = bodies as [(typeof bodies)[number]]
  const asked = mouth.asked.length
  t.equal((await send(path, body, { authorization: `Bearer ${makeKey()}` })).status, 401)
  t.equal((await send(path, body, { 'content-type': 'text/plain' })).status, 415)
  t.equal((await send(path, body, { 'x-lk-require': 'odd' })).status, 400)
  t.equal((await send(path, body, { 'x-lk-require': 'region=eu' })).status, 422)
  t.equal((await send('/v1/speech', body)).status, 200, 'the same bytes at another door are read there')
  t.equal(mouth.asked.length, asked)
  t.equal(found(await send(path, body, { authorization: `Bearer ${KEYS.other}` })), 'miss')
  await assertStopsClean(t, gateway)
})
