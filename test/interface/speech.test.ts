import t, { type Test } from 'tap'
import { startSandbox } from '../../src/sandbox/server.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { serveHttp } from '../support/http-server.ts'
import { type RouteGateway, secret, startRouteGateway } from '../support/route-gateway.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { ELEVENLABS_KEY, elevenlabsDialect } from '../support/upstream/elevenlabs.ts'
import { startUpstream } from '../support/upstream/upstream.ts'

const KEYS = { XI_KEY: ELEVENLABS_KEY, DG_KEY: DEEPGRAM_KEY, OPENAI_KEY: 'sk-upstream' }
const MODELS = {
  sandbox: 'morse-1',
  openai: 'tts-1',
  elevenlabs: 'eleven_flash_v2_5',
  deepgram: 'aura-2',
} as const
type Name = keyof typeof MODELS

/** The request to OpenAI's own speech endpoint, told back as the audio. */
function startOpenaiSpeech(t: Test): Promise<string> {
  return serveHttp(t, (request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    request.on('end', () => {
      const { voice, response_format: format = 'mp3', speed = 1 } = JSON.parse(text) as Record<string, string>
      response.writeHead(200, { 'content-type': 'application/octet-stream' })
      response.end(`${voice} ${format} ${speed}`)
    })
  })
}

async function providersOf(t: Test): Promise<Record<Name, Record<string, unknown>>> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const openai = await startOpenaiSpeech(t)
  return {
    sandbox: { kind: 'sandbox', base_url: sandbox.url },
    openai: { kind: 'openai', base_url: `${openai}/v1`, api_key: secret('OPENAI_KEY') },
    elevenlabs: {
      kind: 'elevenlabs',
      base_url: (await startUpstream(t, { dialect: elevenlabsDialect() })).url,
      api_key: secret('XI_KEY'),
    },
    deepgram: {
      kind: 'deepgram',
      base_url: (await startUpstream(t, { dialect: deepgramDialect() })).url,
      api_key: secret('DG_KEY'),
    },
  }
}

const entryOf = (provider: Name, more: object = {}) => ({ provider, model: MODELS[provider], ...more })

interface Spoken {
  readonly status: number
  readonly error?: Record<string, unknown>
  readonly provider?: string
  readonly audio: string
  readonly mediaType?: string
  readonly body: Record<string, unknown>
}

async function speak(gateway: RouteGateway, fields: object): Promise<Spoken> {
  const response = await gateway.post('/v1/speech', { input: 'sos', ...fields })
  const body = (await response.json()) as Record<string, unknown>
  const [block] = (body.content_blocks ?? []) as { base64: string; media_type: string }[]
  const audio = Buffer.from(block?.base64 ?? '', 'base64').toString('latin1')
  return {
    status: response.status,
    audio,
    body,
    ...(block && { mediaType: block.media_type }),
    ...(body.error ? { error: body.error as Record<string, unknown> } : {}),
    ...(body.provider ? { provider: String(body.provider) } : {}),
  }
}

const FORMATS = ['mp3', 'wav', 'opus', 'flac', 'aac', 'pcm']
const NATIVE = ['mp3_44100_128', 'mp3_22050_32', 'opus_48000_96', 'pcm_16000', 'wav_44100', 'ulaw_8000']
const NOWHERE = ['ogg', 'MP3', 'mp3_44100', 'mp3_44100_999', 'mp3 ', 'constructor', '__proto__']

/** Formats that each provider makes, and their types; it refuses all others. */
const MAKES: Readonly<Record<Name, Readonly<Record<string, string>>>> = {
  sandbox: { wav: 'audio/wav', mp3: 'audio/mpeg' },
  openai: {
    mp3: 'audio/mpeg',
    wav: 'audio/wav',
    opus: 'audio/ogg',
    flac: 'audio/flac',
    aac: 'audio/aac',
    pcm: 'audio/pcm',
  },
  elevenlabs: {
    mp3: 'audio/mpeg',
    pcm: 'audio/pcm;rate=24000',
    mp3_44100_128: 'audio/mpeg',
    mp3_22050_32: 'audio/mpeg',
    opus_48000_96: 'audio/ogg',
    pcm_16000: 'audio/pcm;rate=16000',
    wav_44100: 'audio/wav',
    ulaw_8000: 'audio/basic',
  },
  deepgram: {
    mp3: 'audio/mpeg',
    wav: 'audio/wav',
    opus: 'audio/ogg',
    flac: 'audio/flac',
    aac: 'audio/aac',
    pcm: 'audio/pcm;rate=24000',
  },
}

t.test('every format at every provider: made, or refused by name', { timeout: 120_000 }, async (t) => {
  const providers = await providersOf(t)
  for (const name of Object.keys(MODELS) as Name[]) {
    const gateway = await startRouteGateway(t, { providers, entries: [entryOf(name)], env: KEYS })
    for (const format of [...FORMATS, ...NATIVE, ...NOWHERE]) {
      const made = Object.hasOwn(MAKES[name], format) ? MAKES[name][format] : undefined
      const { status, mediaType, error, audio } = await speak(gateway, { response_format: format })
      const label = `${name} ${format}`
      if (made === undefined) {
        t.match({ status, error }, { status: 400, error: { code: 'INVALID_REQUEST' } }, label)
        t.equal(error?.param, 'response_format', label)
        t.match(error, { retryable: false, details: { policy_version_id: /^pv_/ } }, label)
      } else {
        t.same([status, mediaType], [200, made], `${label} ${JSON.stringify(error)}`)
        if (name === 'openai') t.match(audio, ` ${format} `, label)
      }
      const streamed = await gateway.post(
        '/v1/speech',
        { input: 'sos', response_format: format },
        { accept: 'audio/*' },
      )
      const type = streamed.headers.get('content-type')
      t.same([streamed.status, type], made === undefined ? [400, 'application/json'] : [200, made], label)
      t.ok((await streamed.arrayBuffer()).byteLength > 0)
    }
    await assertStopsClean(t, gateway)
  }
})

t.test('a format that only a later entry makes is made there', async (t) => {
  const providers = await providersOf(t)
  const entries = [entryOf('sandbox'), entryOf('elevenlabs'), entryOf('deepgram')]
  const gateway = await startRouteGateway(t, { providers, entries, env: KEYS })
  const rows: [string | null, string][] = [
    [null, 'sandbox'],
    ['wav', 'sandbox'],
    ['mp3_44100_128', 'elevenlabs'],
    ['wav_44100', 'elevenlabs'],
    ['flac', 'deepgram'],
  ]
  for (const [response_format, provider] of rows) {
    t.match(await speak(gateway, { response_format }), { status: 200, provider }, String(response_format))
  }
})

t.test('speed', async (t) => {
  const providers = await providersOf(t)
  const rows: [Name, number[], number[]][] = [
    ['sandbox', [0.25, 1, 4], [0.24, 4.01]],
    ['openai', [0.25, 1, 4], [0.2, 5]],
    ['elevenlabs', [0.7, 1, 1.2], [0.69, 1.21, 4]],
    ['deepgram', [0.7, 1, 1.5], [0.6, 1.51]],
  ]
  for (const [name, taken, refused] of rows) {
    const gateway = await startRouteGateway(t, { providers, entries: [entryOf(name)], env: KEYS })
    for (const speed of taken) t.equal((await speak(gateway, { speed })).status, 200, `${name} ${speed}`)
    for (const speed of [...refused, 0, -1, '1', true]) {
      const { status, error } = await speak(gateway, { speed })
      t.same([status, error?.code, error?.param], [400, 'INVALID_REQUEST', 'speed'], `${name} ${speed}`)
    }
  }
})

t.test('voices: each provider’s own default, and the caller’s by the map of the entry', async (t) => {
  const providers = await providersOf(t)
  const voices = { narrator: 'JBFqnCBsd6RMkjVDRZzb', guest: '21m00Tcm4TlvDq8ikWAM' }
  const eleven = entryOf('elevenlabs', { voices })
  const plain = (provider: Name) =>
    startRouteGateway(t, { providers, entries: [entryOf(provider)], env: KEYS })

  const defaults: [Name, RegExp][] = [
    ['openai', /^alloy /],
    ['elevenlabs', /^whole JBFqnCBsd6RMkjVDRZzb sos$/],
    ['deepgram', /^spoken aura-2-thalia-en sos$/],
  ]
  for (const [name, audio] of defaults) {
    const gateway = await plain(name)
    t.match(await speak(gateway, {}), { status: 200, audio }, name)
    const unknown = await speak(gateway, { voice: 'no such voice' })
    t.same([unknown.status, unknown.error?.param], [400, 'voice'], name)
  }

  // The first fails whenever it is asked, the second knows the voice by the map alone.
  const failing = entryOf('sandbox', { voices: { narrator: 'echo' }, options: { status: 500 } })
  const gateway = await startRouteGateway(t, { providers, entries: [failing, eleven], env: KEYS })
  t.match(await speak(gateway, { voice: 'narrator' }), {
    provider: 'elevenlabs',
    audio: /JBFqnCBsd6RMkjVDRZzb/,
  })
  t.match(await speak(gateway, { voice: 'guest' }), { provider: 'elevenlabs', audio: /21m00Tcm4TlvDq8ikWAM/ })
  const nobody = await speak(gateway, { voice: 'alloy' })
  t.equal(nobody.status, 502, 'the voice of one is not taken for another’s')
  t.match(nobody.error, { details: { attempts: [{ provider: 'sandbox' }] } })
})

t.test('the envelope, what is metered, and what is not known', async (t) => {
  const providers = await providersOf(t)
  const gateway = await startRouteGateway(t, { providers, entries: [entryOf('elevenlabs')], env: KEYS })
  const { body } = await speak(gateway, { input: 'Grüße 🐦', seed: 7, model: 'mine', pitch: 2 })
  t.match(body, {
    provider: 'elevenlabs',
    model: 'eleven_flash_v2_5',
    content: '',
    content_blocks: [{ type: 'output_audio', media_type: 'audio/mpeg' }],
    usage: { audio_output_characters: 7, total_tokens: 0 },
    cost_usd: 0.00035,
    determinism: { seed_honored: true },
    warnings: ['pitch: unknown field, ignored'],
  })
  t.match(await gateway.logLine(String(body.id)), {
    path: '/v1/speech',
    usage: { audio_output_characters: 7 },
    cost_usd: 0.00035,
  })
})
