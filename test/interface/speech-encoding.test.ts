import { once } from 'node:events'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { startSandbox } from '../../src/sandbox/server.ts'
import { speak as spoken } from '../../src/sandbox/speak.ts'
import { decodeSpeech, heardIn, probed } from '../support/decoded-speech.ts'
import { serveHttp } from '../support/http-server.ts'
import { type RouteGateway, secret, startRouteGateway } from '../support/route-gateway.ts'
import { ELEVENLABS_KEY, elevenlabsDialect } from '../support/upstream/elevenlabs.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

const TEXT = 'hello world'

/** A route whose one entry makes wav files alone, unless others are given. */
async function wavGateway(
  t: Test,
  {
    encode = true,
    cache = false,
    entries,
  }: { encode?: boolean; cache?: boolean; entries?: readonly object[] } = {},
) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const wavOnly = { provider: 'sandbox', model: 'morse-1', limits: { speech_formats: ['wav'] } }
  return startRouteGateway(t, {
    providers: { sandbox: { kind: 'sandbox', base_url: sandbox.url } },
    entries: [],
    config: {
      routes: {
        main: {
          workspace: 'acme',
          ...(encode ? { encode } : {}),
          ...(cache ? { cache: {} } : {}),
          entries: entries ?? [wavOnly],
        },
      },
    },
  })
}

interface Asked {
  readonly path: string
  readonly body: object
  readonly headers?: Record<string, string>
}

/** The same in the formats of all doors. */
const DOORS: Readonly<Record<string, (gateway: RouteGateway, query?: string, fields?: object) => Asked>> = {
  openai: (_, query = '', fields = {}) => ({
    path: `/openai/v1/audio/speech${query}`,
    body: { model: 'tts-1', voice: 'alloy', input: TEXT, ...fields },
  }),
  elevenlabs: ({ key }, query = '', fields = {}) => ({
    path: `/elevenlabs/v1/text-to-speech/alloy${query}`,
    body: { text: TEXT, ...fields },
    headers: { 'xi-api-key': key },
  }),
  deepgram: ({ key }, query = '', fields = {}) => ({
    path: `/deepgram/v1/speak${query}`,
    body: { text: TEXT, ...fields },
    headers: { authorization: `Token ${key}` },
  }),
}

async function ask(gateway: RouteGateway, { path, body, headers }: Asked) {
  const response = await gateway.post(path, body, headers)
  return {
    response,
    bytes: Buffer.from(await response.arrayBuffer()),
    header: (name: string) => response.headers.get(name),
  }
}

t.test('a door answers in its vendor’s default format, whatever the entry makes', async (t) => {
  const [encoding, native] = [
    await wavGateway(t),
    await wavGateway(t, { entries: [{ provider: 'sandbox', model: 'morse-1' }] }),
  ]
  for (const gateway of [encoding, native])
    for (const [door, asked] of Object.entries(DOORS)) {
      const { response, bytes, header } = await ask(gateway, asked(gateway))
      t.same(
        [response.status, header('content-type')],
        [200, 'audio/mpeg'],
        `${door} ${bytes.toString('latin1', 0, 200)}`,
      )
      t.equal(header('x-lk-encoded-from'), gateway === encoding ? 'wav' : null, door)
      t.match(await probed(bytes), { format: 'mp3', channels: 1 }, door)
      t.equal(heardIn(await decodeSpeech(bytes, 'mp3')), TEXT, door)
      t.equal(header('x-lk-usage-audio-output-characters'), '11', door)
    }
  const { header, bytes } = await ask(native, {
    path: '/v1/speech',
    body: { input: TEXT },
    headers: { accept: 'audio/*' },
  })
  t.equal(header('content-type'), 'audio/wav', 'the native endpoint leaves it to the entry')
  t.ok(bytes.equals(spoken(TEXT, 600, 1)))
})

t.test('without `encode` a default that no entry makes is refused, with all that they make', async (t) => {
  const entries = ['wav', 'flac'].map((format) => ({
    ...{ provider: 'sandbox', model: 'morse-1', limits: { speech_formats: [format, 'aac'] } },
  }))
  const gateway = await wavGateway(t, { encode: false, entries })
  for (const [door, asked] of Object.entries(DOORS)) {
    const { response, bytes } = await ask(gateway, asked(gateway))
    t.equal(response.status, 400, door)
    const text = bytes.toString()
    t.match(text, /response_format/, door)
    t.match(text, /the entries of the route make wav, aac, flac, not mp3/, door)
  }
  const { bytes } = await ask(gateway, {
    path: '/v1/speech',
    body: { input: TEXT, response_format: 'mp3_22050_32' },
  })
  t.match(JSON.parse(bytes.toString()), {
    error: { code: 'INVALID_REQUEST', param: 'response_format', message: /wav, aac, flac, not mp3_22050_32/ },
  })
})

t.test('what voice frameworks ask for is made at any entry', async (t) => {
  const gateway = await wavGateway(t)
  const rows: [keyof typeof DOORS, string, string, string][] = [
    ['elevenlabs', '?output_format=mp3_22050_32', 'mp3_22050_32', 'audio/mpeg'],
    ['elevenlabs', '/stream?output_format=pcm_24000', 'pcm_24000', 'audio/pcm;rate=24000'],
    ['elevenlabs', '/stream?output_format=ulaw_8000', 'ulaw_8000', 'audio/basic'],
    ['elevenlabs', '/stream?output_format=opus_48000_32', 'opus_48000_32', 'audio/ogg'],
    ['deepgram', '?encoding=linear16&sample_rate=16000&container=none', 'pcm_16000', 'audio/pcm;rate=16000'],
    ['deepgram', '?encoding=linear16&sample_rate=48000&container=wav', 'wav_48000', 'audio/wav'],
    ['deepgram', '?encoding=opus&container=ogg', 'opus', 'audio/ogg'],
    ['deepgram', '?encoding=mulaw&container=none', 'ulaw_8000', 'audio/basic'],
  ]
  for (const [door, query, format, type] of rows) {
    const { response, bytes, header } = await ask(gateway, DOORS[door]!(gateway, query))
    t.same(
      [response.status, header('content-type'), header('x-lk-encoded-from')],
      [200, type, 'wav'],
      `${door} ${query}`,
    )
    t.equal(heardIn(await decodeSpeech(bytes, format)), TEXT, `${door} ${query}`)
  }
  const { response, bytes } = await ask(gateway, DOORS.openai!(gateway, '', { response_format: 'flac' }))
  t.equal(response.status, 400, 'what cannot be made is refused')
  t.match(bytes.toString(), /the entry makes wav, mp3, opus, pcm, not flac/)
})

t.test('in base64 in the envelope, as events, by `Accept`, and with the times of the provider', async (t) => {
  const gateway = await wavGateway(t)
  const whole = await ask(gateway, { path: '/v1/speech', body: { input: TEXT, response_format: 'mp3' } })
  const envelope = JSON.parse(whole.bytes.toString())
  t.equal(whole.header('x-lk-encoded-from'), 'wav')
  t.match(envelope, {
    content_blocks: [{ media_type: 'audio/mpeg' }],
    usage: { audio_output_characters: 11 },
    warnings: [],
  })
  const mp3 = Buffer.from(envelope.content_blocks[0].base64, 'base64')
  t.equal(heardIn(await decodeSpeech(mp3, 'mp3')), TEXT)

  const opus = await ask(gateway, {
    path: '/v1/speech',
    body: { input: TEXT },
    headers: { accept: 'audio/ogg' },
  })
  t.equal(opus.header('content-type'), 'audio/ogg')
  t.equal(heardIn(await decodeSpeech(opus.bytes, 'opus')), TEXT)

  const events = await ask(gateway, DOORS.openai!(gateway, '', { stream_format: 'sse' }))
  const deltas = events.bytes
    .toString()
    .split('\n\n')
    .flatMap((text) => {
      const { type, audio } = JSON.parse(text.replace(/^[^{]*/, '') || '{}') as Record<string, string>
      return type === 'speech.audio.delta' ? [Buffer.from(audio!, 'base64')] : []
    })
  t.ok(deltas.length > 1)
  t.equal(heardIn(await decodeSpeech(Buffer.concat(deltas), 'mp3')), TEXT)

  const plain = await ask(gateway, DOORS.elevenlabs!(gateway, '/with-timestamps?output_format=wav_24000'))
  const times = JSON.parse(plain.bytes.toString()).alignment
  for (const path of ['/with-timestamps', '/stream/with-timestamps']) {
    const timed = await ask(gateway, DOORS.elevenlabs!(gateway, `${path}?output_format=pcm_24000`))
    t.equal(timed.response.status, 200, path)
    const lines = timed.bytes
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    const pcm = Buffer.concat(lines.map(({ audio_base64: audio }) => Buffer.from(audio, 'base64')))
    t.equal(heardIn(await decodeSpeech(pcm, 'pcm_24000')), TEXT, path)
    t.equal(pcm.length, 6 * 24_000 * 2, `${path}: as long as the sound of the provider`)
    t.same(
      lines.flatMap(({ alignment }) => alignment ?? []),
      [times],
      path,
    )
  }
})

/** A speech server that says half, and the rest when it is told to. */
async function startHalting(t: Test, audio: Buffer) {
  let go = (): void => {}
  const state = { asked: [] as string[], closed: false, release: () => go() }
  const url = await serveHttp(t, (request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    request.on('end', () => {
      state.asked.push((JSON.parse(text) as Record<string, string>).response_format ?? 'none')
      response.writeHead(200, { 'content-type': 'audio/wav' })
      response.write(audio.subarray(0, audio.length / 2))
      response.once('close', () => {
        state.closed = true
      })
      go = () => response.end(audio.subarray(audio.length / 2))
    })
  })
  return { url, state }
}

function haltingGateway(t: Test, url: string, more: object = {}) {
  return startRouteGateway(t, {
    providers: { mouth: { kind: 'openai', base_url: `${url}/v1`, api_key: secret('KEY') } },
    entries: [],
    env: { KEY: 'sk' },
    config: {
      routes: {
        main: {
          ...{ workspace: 'acme', encode: true, ...more },
          entries: [{ provider: 'mouth', model: 'tts-1', limits: { speech_formats: ['wav'] } }],
        },
      },
    },
  })
}

t.test('the first of it goes out before the provider has said all', async (t) => {
  const audio = spoken(TEXT, 600, 1)
  const { url, state } = await startHalting(t, audio)
  const gateway = await haltingGateway(t, url)
  for (const response_format of ['mp3_22050_32', 'opus', 'pcm_16000']) {
    const response = await gateway.post('/v1/speech', { input: TEXT, response_format }, { accept: 'audio/*' })
    const reader = response.body!.getReader()
    const first = await reader.read()
    t.ok((first.value?.length ?? 0) > 0, `${response_format}: the provider has said half`)
    state.release()
    const rest: Uint8Array[] = []
    for (let next = await reader.read(); !next.done; next = await reader.read()) rest.push(next.value)
    const whole = Buffer.concat([first.value!, ...rest])
    t.equal(heardIn(await decodeSpeech(whole, response_format)), TEXT, response_format)
  }
  t.same(new Set(state.asked), new Set(['wav']))
})

t.test('a caller who leaves ends it at the provider', async (t) => {
  const { url, state } = await startHalting(t, spoken(TEXT, 600, 1))
  const gateway = await haltingGateway(t, url)
  const leaving = new AbortController()
  const response = await fetch(`${gateway.url}/v1/speech`, {
    method: 'POST',
    headers: { ...gateway.authorization, accept: 'audio/mpeg', 'content-type': 'application/json' },
    body: JSON.stringify({ input: TEXT }),
    signal: leaving.signal,
  })
  await response.body!.getReader().read()
  leaving.abort()
  await waitUntil(() => state.closed)
  t.ok(state.closed)
})

t.test('speech that cannot be encoded is a failure of its entry: the next one is asked', async (t) => {
  const broken = await serveHttp(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'audio/wav' })
    response.end(Buffer.alloc(5_000, 1))
  })
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const limits = { speech_formats: ['wav'] }
  const start = (entries: readonly object[]) =>
    startRouteGateway(t, {
      providers: {
        broken: { kind: 'openai', base_url: `${broken}/v1`, api_key: secret('KEY') },
        sandbox: { kind: 'sandbox', base_url: sandbox.url },
      },
      entries: [],
      env: { KEY: 'sk' },
      config: { routes: { main: { workspace: 'acme', encode: true, entries } } },
    })
  const bad = { provider: 'broken', model: 'tts-1', limits }
  const both = await start([bad, { provider: 'sandbox', model: 'morse-1', limits }])
  const alone = await start([bad])
  for (const accept of ['audio/mpeg', 'application/json']) {
    const headers = { accept }
    const body = { input: TEXT, response_format: 'mp3' }
    const good = await ask(both, { path: '/v1/speech', body, headers })
    t.equal(good.response.status, 200, accept)
    const line = await both.logLine(good.header('x-lk-request-id'))
    t.match(line.attempts, [{ provider: 'broken' }, { provider: 'sandbox' }], accept)
    const refused = await ask(alone, { path: '/v1/speech', body, headers })
    t.equal(refused.response.status, 502, accept)
    t.match(refused.bytes.toString(), /cannot be encoded/, accept)
  }
})

t.test('an entry that fails is followed by one that makes something else', async (t) => {
  const elevenlabs = await startUpstream(t, { dialect: elevenlabsDialect() })
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const gateway = await startRouteGateway(t, {
    providers: {
      elevenlabs: { kind: 'elevenlabs', base_url: elevenlabs.url, api_key: secret('XI_KEY') },
      sandbox: { kind: 'sandbox', base_url: sandbox.url },
    },
    entries: [],
    env: { XI_KEY: ELEVENLABS_KEY },
    config: {
      routes: {
        main: {
          ...{ workspace: 'acme', encode: true },
          entries: [
            {
              provider: 'elevenlabs',
              model: 'eleven_flash_v2_5',
              voices: { rachel: '21m00Tcm4TlvDq8ikWAM' },
            },
            { provider: 'sandbox', model: 'morse-1', voices: { rachel: 'alloy' } },
          ],
        },
      },
    },
  })
  elevenlabs.behaveAll({ status: 503 })
  for (const format of ['mp3_22050_32', 'pcm_24000', 'mp3_44100_128']) {
    const asked = {
      path: `/elevenlabs/v1/text-to-speech/rachel/stream?output_format=${format}`,
      body: { text: TEXT },
    }
    const { response, bytes, header } = await ask(gateway, {
      ...asked,
      headers: { 'xi-api-key': gateway.key },
    })
    t.same([response.status, header('x-lk-provider')], [200, 'sandbox'], format)
    // Mp3, as others call it, is the default of this door.
    t.equal(header('x-lk-encoded-from'), format === 'mp3_44100_128' ? null : 'wav', format)
    t.equal(heardIn(await decodeSpeech(bytes, format)), TEXT, format)
  }
})

t.test('speech is kept in the format that was asked for', async (t) => {
  const gateway = await wavGateway(t, { cache: true })
  const hear = async (response_format: string) => {
    const body = { input: TEXT, response_format }
    const { bytes, header } = await ask(gateway, { path: '/v1/speech', body, headers: { accept: 'audio/*' } })
    return { bytes, cache: header('x-lk-cache'), from: header('x-lk-encoded-from') }
  }
  const mp3 = await hear('mp3')
  t.match(mp3, { cache: 'miss', from: 'wav' })
  t.match(await hear('wav'), { cache: 'miss', from: null })
  t.match(await hear('pcm_16000'), { cache: 'miss', from: 'wav' })
  await waitUntil(async () => (await hear('mp3')).cache === 'hit')
  t.match(await hear('mp3'), { cache: 'hit', from: 'wav', bytes: mp3.bytes })
})

t.test('a live session speaks every sentence in its one format', { timeout: 60_000 }, async (t) => {
  const gateway = await wavGateway(t)
  const spoken = async (format: string) => {
    const url = `${gateway.url.replace('http', 'ws')}/v1/speech/stream?response_format=${format}`
    const socket = new WebSocket(url, 'larkway.v1', { headers: gateway.authorization })
    const audio: Buffer[] = []
    socket.on('message', (data: Buffer, isBinary: boolean) => isBinary && audio.push(data))
    await once(socket, 'open')
    for (const message of [{ type: 'text', text: 'hello. world. ' }, { type: 'end' }])
      socket.send(JSON.stringify(message))
    await once(socket, 'close')
    return Buffer.concat(audio)
  }
  for (const format of ['pcm_16000', 'mp3_22050_32', 'ulaw_8000'])
    t.equal(heardIn(await decodeSpeech(await spoken(format), format)), 'hello. world.', format)
})
