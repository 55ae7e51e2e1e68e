import { createReadStream } from 'node:fs'
import { type Deepgram, DeepgramClient, DeepgramError } from '@deepgram/sdk'
import t, { type Test } from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import { listenFile } from '../../src/gateway/api/deepgram/listen-file.ts'
import { SPEAK_OPTIONS } from '../../src/gateway/api/deepgram/speak.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { configuredProvider, entry } from '../support/catalog.ts'
import { openDoors } from '../support/doors-rig.ts'
import { startEdge } from '../support/edge.ts'
import { HERTZ, type LargeFile, rejectedWith, sendLargeFile } from '../support/large-file.ts'
import { secret, startRouteGateway } from '../support/route-gateway.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { publishedOptions } from '../support/vendor-options.ts'
import { filledWav } from '../support/wav.ts'

/** Deepgram's own client, changed in nothing but its address and key. */
function clientOf(url: string, apiKey: string) {
  return new DeepgramClient({ apiKey, baseUrl: `${url}/deepgram`, maxRetries: 0 })
}

/** An answer that is no mere acceptance. */
function heard(response: unknown): Deepgram.ListenV1Response {
  if (typeof response === 'object' && response !== null && 'results' in response)
    return response as Deepgram.ListenV1Response
  throw new Error(`there is no transcript: ${JSON.stringify(response)}`)
}

const refused = (call: Promise<unknown>) => rejectedWith(DeepgramError, call)

t.test('a file of 25 MB by its path and from memory, in flat memory', { timeout: 180_000 }, async (t) => {
  const mediaOf = ({ gateway }: LargeFile) => clientOf(gateway.url, gateway.key).listen.v1.media
  const warm = (large: LargeFile) => mediaOf(large).transcribeFile(speak('warm', HERTZ, 1), {})
  const send = async (large: LargeFile) => {
    const { file, path, text } = large
    const streamed = heard(
      await mediaOf(large).transcribeFile(createReadStream(path), { smart_format: true }),
    )
    t.equal(streamed.results.channels[0]?.alternatives?.[0]?.transcript, text)
    const held = heard(await mediaOf(large).transcribeFile(file, { smart_format: true }))
    t.same(held.results, streamed.results, 'the same from memory')
  }
  await sendLargeFile(t, warm, send, 2)
})

function startVendor(t: Test) {
  return startUpstream(t, { dialect: deepgramDialect() })
}

t.test('its answers, and what the vendor behind it was asked', { timeout: 60_000 }, async (t) => {
  const upstream = await startVendor(t)
  const gateway = await startRouteGateway(t, {
    providers: {
      deepgram: {
        ...{ kind: 'deepgram', base_url: upstream.url, api_key: secret('DG_KEY') },
        ...{ retention: 'zero', training: 'never' },
      },
    },
    entries: [{ provider: 'deepgram', model: 'nova-3' }],
    env: { DG_KEY: DEEPGRAM_KEY },
  })
  const { media } = clientOf(gateway.url, gateway.key).listen.v1
  const wav = filledWav(64_000)
  const { data, rawResponse } = await media
    .transcribeFile(wav, {
      model: 'nova-3',
      diarize_model: 'latest',
      utterances: true,
      utt_split: 0.5,
      paragraphs: true,
      redact: 'pci',
      keyterm: ['Larkway', 'skylark'],
      tag: 'night',
      extra: 'call:7',
      mip_opt_out: true,
    })
    .withRawResponse()
  t.match(heard(data), {
    metadata: {
      request_id: rawResponse.headers.get('dg-request-id') ?? '',
      channels: 1,
      models: ['nova-3'],
      model_info: { 'nova-3': { name: 'nova-3', arch: 'deepgram' } },
      tags: ['night'],
      extra: { call: '7' },
    },
    results: {
      channels: [
        {
          alternatives: [
            {
              transcript: /^Heard \w+ as audio\/wav\.$/,
              confidence: 0.9,
              words: [{ word: 'heard', punctuated_word: 'Heard', start: 0, speaker: 0 }],
              paragraphs: { paragraphs: [{ num_words: 4, speaker: 0 }] },
            },
          ],
        },
      ],
      utterances: [{ transcript: 'Heard', speaker: 0, channel: 0 }],
    },
  })
  t.equal(rawResponse.headers.get('x-lk-provider'), 'deepgram')
  t.equal(rawResponse.headers.get('x-lk-warnings'), null)
  const asked = new URL(upstream.received.at(-1)?.path ?? '', 'http://a').searchParams
  t.same(asked.getAll('keyterm'), ['Larkway', 'skylark'])
  t.same(
    ['language', 'diarize_model', 'redact', 'tag'].map((name) => asked.get(name)),
    ['en', 'latest', 'pci', null],
  )

  const two = heard(await media.transcribeFile(wav, { multichannel: true, detect_language: true }))
  t.equal(two.metadata.channels, 2)
  t.match(two.results.channels, [{ detected_language: 'en' }, { detected_language: 'en' }])

  const bearer = await fetch(`${gateway.url}/deepgram/v1/listen`, {
    method: 'POST',
    headers: { authorization: `Token ${gateway.key}`, 'content-type': 'video/quicktime' },
    body: new Uint8Array(wav),
  })
  t.equal(bearer.status, 200, 'bytes of any content type')

  await t.test('refusals, as the client reads them', async (t) => {
    const searched = await refused(media.transcribeFile(wav, { search: 'lark' }))
    t.equal(searched.statusCode, 400)
    t.match(searched.body, {
      err_code: 'INVALID_REQUEST',
      err_msg: '`search` must be left out; there is no search by sound',
      request_id: /^[0-9a-f-]{36}$/,
      error: { code: 'INVALID_REQUEST', param: 'search' },
    })
    t.match(searched.rawResponse?.headers.get('dg-error'), /^`search`/)
    const stranger = await refused(
      clientOf(gateway.url, 'lk_live_wrong').listen.v1.media.transcribeFile(wav, {}),
    )
    t.equal(stranger.statusCode, 401)
    t.match(stranger.body, { err_code: 'UNAUTHENTICATED' })
    const unheard = await refused(media.transcribeFile(Buffer.from('no audio at all'), {}))
    t.equal(unheard.statusCode, 415)
    const nowhere = await refused(media.transcribeUrl({ url: 'https://elsewhere.example/a.wav' }))
    t.match(nowhere.body, {
      err_code: 'AUDIO_URL_REJECTED',
      error: { details: { reason: 'host_not_allowed' } },
    })
    const empty = await refused(media.transcribeUrl({} as never))
    t.match(empty.body, { err_msg: 'send the audio as the body, or JSON with its `url`' })
  })
})

t.test('speech and models', { timeout: 60_000 }, async (t) => {
  const upstream = await startVendor(t)
  const gateway = await startRouteGateway(t, {
    providers: { deepgram: { kind: 'deepgram', base_url: upstream.url, api_key: secret('DG_KEY') } },
    entries: [
      { provider: 'deepgram', model: 'aura-2', voices: { luna: 'orion-en' } },
      { provider: 'deepgram', model: 'nova-3' },
    ],
    env: { DG_KEY: DEEPGRAM_KEY },
  })
  const { speak, manage } = clientOf(gateway.url, gateway.key)
  const text = 'Hello ✓'
  const { data, rawResponse } = await speak.v1.audio
    .generate({ text, model: 'aura-2-orion-en', encoding: 'linear16', container: 'wav' })
    .withRawResponse()
  t.equal(Buffer.from(await data.arrayBuffer()).toString(), 'spoken aura-2-orion-en Hello ✓')
  const { headers } = rawResponse
  t.match(Object.fromEntries(headers as unknown as Iterable<[string, string]>), {
    'content-type': /^audio\/wav/,
    'transfer-encoding': 'chunked',
    'dg-model-name': 'aura-2',
    'dg-char-count': '7',
    'dg-request-id': /^[0-9a-f-]{36}$/,
    'x-lk-provider': 'deepgram',
  })

  await t.test('each option becomes what its row says', async (t) => {
    const file =
      '@deepgram/sdk/dist/cjs/api/resources/speak/resources/v1/resources/audio/client/requests/SpeakV1Request.d.ts'
    const published = publishedOptions(file, 'SpeakV1Request').filter((name) => name !== 'text')
    t.same(Object.keys(SPEAK_OPTIONS).sort(), published.sort())
    const samples: Readonly<Record<string, object>> = {
      callback: { callback: 'https://hooks.example.com' },
      callback_method: { callback_method: 'PUT' },
      mip_opt_out: { mip_opt_out: true },
      tag: { tag: 'night' },
      bit_rate: { bit_rate: 48_000 },
      container: { encoding: 'linear16', container: 'none' },
      encoding: { encoding: 'flac' },
      model: { model: 'luna' },
      sample_rate: { encoding: 'linear16', sample_rate: 24_000 },
      speed: { speed: 1.2 },
    }
    const asked = async (sample: object) => {
      const answer = await speak.v1.audio.generate({ text, ...sample }).withRawResponse()
      const warnings = answer.rawResponse.headers.get('x-lk-warnings')
      await answer.data.arrayBuffer()
      return { path: upstream.received.at(-1)?.path, warnings: JSON.parse(warnings ?? '[]') as string[] }
    }
    const plain = await asked({})
    for (const [name, { fate, note }] of Object.entries(SPEAK_OPTIONS)) {
      const sample = samples[name] ?? {}
      if (fate === 'refused') {
        const { body } = await refused(speak.v1.audio.generate({ text, ...sample }))
        t.match(body, { error: { code: 'INVALID_REQUEST', param: name } }, name)
        continue
      }
      if (name === 'mip_opt_out') {
        const { statusCode, body } = await refused(speak.v1.audio.generate({ text, ...sample }))
        t.equal(statusCode, 422, 'no entry promises it')
        t.match(body, { err_code: 'REQUIRED_FEATURE_UNAVAILABLE', err_msg: /retention, training$/ })
        continue
      }
      const { path, warnings } = await asked(sample)
      t.equal(path !== plain.path, fate === 'kept', name)
      t.same(warnings, fate === 'warned' ? [`${name}: ${note}`] : [], name)
    }
    const faulty = [
      [{ encoding: 'mp4' }, 'encoding'],
      [{ encoding: 'linear16', sample_rate: 8_000 }, 'encoding'],
      [{ encoding: 'mulaw', container: 'wav' }, 'container'],
      [{ encoding: 'mp3', sample_rate: 22_050 }, 'sample_rate'],
      [{ model: 'Nobody Knows' }, 'model'],
      [{ text: '' }, 'text'],
    ] as const
    for (const [sample, param] of faulty) {
      const { body } = await refused(speak.v1.audio.generate({ text, ...sample }))
      t.match(body, { err_code: 'INVALID_REQUEST', error: { param } }, JSON.stringify(sample))
    }
  })

  const demanded = await fetch(`${gateway.url}/deepgram/v1/speak?require=training%3Dnever`, {
    method: 'POST',
    headers: { authorization: `Token ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ text }),
  })
  t.match(await demanded.json(), { error: { code: 'INVALID_REQUEST', param: 'require' } })

  const { stt, tts } = await manage.v1.models.list()
  t.match(stt, [{ canonical_name: 'nova-3', architecture: 'deepgram', batch: true, streaming: true }])
  t.match(
    tts?.map(({ canonical_name: name }) => name),
    ['aura-2', 'luna'],
  )
  const luna = await manage.v1.models.get('luna')
  t.match(luna, { name: 'luna', architecture: 'aura-2', uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/ })
  t.same(await manage.v1.models.get(luna.uuid ?? ''), luna, 'by its id')
  t.equal((await refused(manage.v1.models.get('aura-9'))).statusCode, 404)
})

t.test('audio by URL is fetched by the gateway, under its rules', async (t) => {
  const upstream = await startVendor(t)
  const provider = configuredProvider({ kind: 'deepgram', baseUrl: upstream.url, credential: DEEPGRAM_KEY })
  const wav = filledWav(64_000)
  const { dependencies, authorization } = await openDoors(t, {
    entries: [entry({ provider, model: 'nova-3' })],
    audioUrlDomains: ['cdn.example.com'],
    async fetchAudio(url) {
      if (url !== 'https://cdn.example.com/a.wav') throw new GatewayError('AUDIO_URL_REJECTED')
      return {
        length: wav.length,
        mediaType: 'audio/wav',
        chunks: (async function* () {
          yield wav
        })(),
      }
    },
  })
  const { origin } = await startEdge(t, [listenFile.route(dependencies)])
  const client = clientOf(origin, authorization.slice('Bearer '.length))
  const response = await client.listen.v1.media.transcribeUrl({
    url: 'https://cdn.example.com/a.wav',
    model: 'nova-3',
    utterances: true,
    utt_split: 0.5,
  })
  t.match(heard(response), { results: { utterances: [{ transcript: 'Heard' }] } })
})
