import { createReadStream } from 'node:fs'
import { type ElevenLabs, ElevenLabsClient, ElevenLabsError } from '@elevenlabs/elevenlabs-js'
import t, { type Test } from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import { speechToText } from '../../src/gateway/api/elevenlabs/speech-to-text.ts'
import { SPEECH_OPTIONS, SPEECH_QUERY } from '../../src/gateway/api/elevenlabs/text-to-speech.ts'
import { speak } from '../../src/sandbox/speak.ts'
import { configuredProvider, entry } from '../support/catalog.ts'
import { openDoors } from '../support/doors-rig.ts'
import { startEdge } from '../support/edge.ts'
import { HERTZ, type LargeFile, rejectedWith, sendLargeFile } from '../support/large-file.ts'
import { secret, startRouteGateway } from '../support/route-gateway.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { CHARACTER_SECONDS, ELEVENLABS_KEY, elevenlabsDialect } from '../support/upstream/elevenlabs.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { publishedOptions } from '../support/vendor-options.ts'
import { filledWav } from '../support/wav.ts'

/** ElevenLabs' own client, changed in nothing but its address and key. */
function clientOf(url: string, apiKey: string) {
  return new ElevenLabsClient({ apiKey, baseUrl: `${url}/elevenlabs`, maxRetries: 0 })
}

/** A transcript of one channel, or of channels that are one. */
function single(response: unknown): ElevenLabs.SpeechToTextChunkResponseModel {
  if (typeof response === 'object' && response !== null && 'text' in response)
    return response as ElevenLabs.SpeechToTextChunkResponseModel
  throw new Error(`there is no transcript: ${JSON.stringify(response)}`)
}

const refused = (call: Promise<unknown>) => rejectedWith(ElevenLabsError, call)

function blobOf(bytes: Uint8Array): Blob {
  return new Blob([new Uint8Array(bytes)], { type: 'audio/wav' })
}

t.test('a file of 25 MB by its path and from memory, in flat memory', { timeout: 180_000 }, async (t) => {
  const convert = async ({ gateway }: LargeFile, file: Blob | ReturnType<typeof createReadStream>) =>
    single(await clientOf(gateway.url, gateway.key).speechToText.convert({ file, modelId: 'scribe_v2' }))
  const warm = (large: LargeFile) => convert(large, blobOf(speak('warm', HERTZ, 1)))
  const send = async (large: LargeFile) => {
    const { file, path, text } = large
    const fromPath = await convert(large, createReadStream(path))
    t.equal(fromPath.text, text)
    t.equal(fromPath.words.map((word) => word.text).join(''), text, 'its words and what is between them')
    t.same((await convert(large, blobOf(file))).words, fromPath.words, 'the same from memory')
  }
  await sendLargeFile(t, warm, send, 2)
})

/** A gateway with ElevenLabs as its vendor, and Deepgram after it for what the first cannot do here. */
async function startVendors(t: Test) {
  const elevenlabs = await startUpstream(t, { dialect: elevenlabsDialect() })
  const deepgram = await startUpstream(t, { dialect: deepgramDialect() })
  const gateway = await startRouteGateway(t, {
    providers: {
      elevenlabs: { kind: 'elevenlabs', base_url: elevenlabs.url, api_key: secret('XI_KEY') },
      deepgram: { kind: 'deepgram', base_url: deepgram.url, api_key: secret('DG_KEY') },
    },
    entries: [
      { provider: 'elevenlabs', model: 'scribe_v2' },
      { provider: 'elevenlabs', model: 'eleven_flash_v2_5', voices: { rachel: '21m00Tcm4TlvDq8ikWAM' } },
      { provider: 'deepgram', model: 'nova-3' },
    ],
    env: { XI_KEY: ELEVENLABS_KEY, DG_KEY: DEEPGRAM_KEY },
  })
  return { elevenlabs, deepgram, gateway, client: clientOf(gateway.url, gateway.key) }
}

t.test('transcripts, and what the vendor behind them was asked', { timeout: 60_000 }, async (t) => {
  const { gateway, client } = await startVendors(t)
  const file = blobOf(filledWav(64_000))
  const { data, rawResponse } = await client.speechToText
    .convert({
      file,
      modelId: 'scribe_v2',
      diarize: true,
      numSpeakers: 2,
      languageCode: 'en',
      keyterms: ['Larkway', 'skylark'],
      temperature: 0.5,
    })
    .withRawResponse()
  const heard = single(data)
  t.match(heard, {
    languageCode: 'en',
    languageProbability: Number,
    transcriptionId: rawResponse.headers.get('request-id') ?? '',
    audioDurationSecs: 1.999,
  })
  t.equal(heard.words.map(({ text }) => text).join(''), heard.text)
  t.match(heard.words, [
    { type: 'word', speakerId: 'speaker_0' },
    { type: 'spacing', text: ' ' },
  ])
  t.equal(rawResponse.headers.get('x-lk-provider'), 'elevenlabs')
  t.equal(rawResponse.headers.get('x-lk-warnings'), '["temperature: not passed on"]')

  await t.test('refusals, as the client reads them', async (t) => {
    const edited = await refused(
      client.speechToText.convert({ file, modelId: 'scribe_v2', transcriptEdit: 'short' }),
    )
    t.equal(edited.statusCode, 400)
    t.match(edited.body, {
      detail: { code: 'INVALID_REQUEST', param: 'transcript_edit', request_id: /^req_/ },
      error: { code: 'INVALID_REQUEST' },
    })
    const stranger = clientOf(gateway.url, 'lk_live_wrong')
    const unknown = await refused(stranger.speechToText.convert({ file, modelId: 'scribe_v2' }))
    t.match(unknown, { statusCode: 401, body: { detail: { code: 'UNAUTHENTICATED' } } })
    const redacted = await refused(
      client.speechToText.convert({
        file,
        modelId: 'scribe_v2',
        languageCode: 'de',
        entityRedaction: ['numbers'],
      }),
    )
    t.match(redacted, {
      name: 'UnprocessableEntityError',
      body: { detail: { code: 'REQUIRED_FEATURE_UNAVAILABLE' } },
    })
    const none = await refused(client.speechToText.convert({ modelId: 'scribe_v2' }))
    t.match(none.body, { detail: { param: 'file', message: /^send the audio as `file`/ } })
    const two = await refused(
      client.speechToText.convert({ modelId: 'scribe_v2', file, sourceUrl: 'https://cdn.example.com/a.wav' }),
    )
    t.match(two.body, { detail: { param: 'source_url' } })
  })
})

t.test('characters and sounds, by entries that tell them', { timeout: 60_000 }, async (t) => {
  const file = blobOf(filledWav(64_000))
  const asked = {
    ...{ file, modelId: 'scribe_v2' },
    timestampsGranularity: 'character',
    tagAudioEvents: true,
  } as const
  const { elevenlabs, client } = await startVendors(t)
  const { data, rawResponse } = await client.speechToText.convert(asked).withRawResponse()
  const { text, words } = single(data)
  t.match(text, /\(laughter\)$/)
  t.equal(words.map((word) => word.text).join(''), text)
  t.same([...new Set(words.map(({ type }) => type))], ['word', 'spacing', 'audio_event'])
  for (const { type, text: written, characters } of words) {
    if (type === 'word') t.equal(characters?.map((one) => one.text).join(''), written)
    else t.equal(characters, undefined)
  }
  t.match(words[0]?.characters, [
    { text: 'h', start: 0, end: 0.001 },
    { text: 'e', start: 0.001 },
  ])
  t.equal(rawResponse.headers.get('x-lk-warnings'), null)
  t.equal(elevenlabs.received.length, 1)

  const deepgram = await startUpstream(t, { dialect: deepgramDialect() })
  const other = await startRouteGateway(t, {
    providers: { deepgram: { kind: 'deepgram', base_url: deepgram.url, api_key: secret('DG_KEY') } },
    entries: [{ provider: 'deepgram', model: 'nova-3' }],
    env: { DG_KEY: DEEPGRAM_KEY },
  })
  const { speechToText: scribe } = clientOf(other.url, other.key)
  const lacked = await refused(scribe.convert(asked))
  t.match(lacked, {
    name: 'UnprocessableEntityError',
    body: { detail: { code: 'REQUIRED_FEATURE_UNAVAILABLE', message: /character_timestamps/ } },
  })
  t.equal(deepgram.received.length, 0)
  const { rawResponse: soundless } = await scribe
    .convert({ file, modelId: 'scribe_v2', tagAudioEvents: true })
    .withRawResponse()
  t.equal(
    soundless.headers.get('x-lk-warnings'),
    '["tag_audio_events: left out, nova-3 does not support this hint here"]',
  )
})

t.test('channels come apart or together, whichever vendor hears them', { timeout: 60_000 }, async (t) => {
  const upstream = await startUpstream(t, { dialect: deepgramDialect() })
  const gateway = await startRouteGateway(t, {
    providers: { deepgram: { kind: 'deepgram', base_url: upstream.url, api_key: secret('DG_KEY') } },
    entries: [{ provider: 'deepgram', model: 'nova-3' }],
    env: { DG_KEY: DEEPGRAM_KEY },
  })
  const { speechToText: scribe } = clientOf(gateway.url, gateway.key)
  const ask = { file: blobOf(filledWav(64_000)), modelId: 'scribe_v2', useMultiChannel: true }
  const { transcripts } = (await scribe.convert(
    ask,
  )) as unknown as ElevenLabs.MultichannelSpeechToTextResponseModel
  t.match(transcripts, [
    { channelIndex: 0, text: /^Heard/ },
    { channelIndex: 1, text: /^Heard/ },
  ])
  const combined = single(await scribe.convert({ ...ask, multichannelOutputStyle: 'combined' }))
  const channels = combined.words.filter(({ type }) => type === 'word').map((word) => word.channelIndex)
  t.same(new Set(channels), new Set([0, 1]))
})

t.test('audio by URL is fetched by the gateway, under its rules', async (t) => {
  const upstream = await startUpstream(t, { dialect: elevenlabsDialect() })
  const provider = configuredProvider({
    kind: 'elevenlabs',
    baseUrl: upstream.url,
    credential: ELEVENLABS_KEY,
  })
  const wav = filledWav(64_000)
  const { dependencies, authorization } = await openDoors(t, {
    entries: [entry({ provider, model: 'scribe_v2' })],
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
  const { origin } = await startEdge(t, [speechToText.route(dependencies)])
  const { speechToText: scribe } = clientOf(origin, authorization.slice('Bearer '.length))
  const url = 'https://cdn.example.com/a.wav'
  for (const source of [{ sourceUrl: url }, { cloudStorageUrl: url }])
    t.ok(single(await scribe.convert({ modelId: 'scribe_v2', ...source })).text)
  const both = await refused(scribe.convert({ modelId: 'scribe_v2', sourceUrl: url, cloudStorageUrl: url }))
  t.match(both.body, { detail: { param: 'cloud_storage_url' } })
})

t.test('speech, voices and models', { timeout: 60_000 }, async (t) => {
  const { elevenlabs, gateway, client } = await startVendors(t)
  const text = 'Hello ✓'
  const heardOf = async (stream: ReadableStream<Uint8Array>) =>
    Buffer.from(await new Response(stream).arrayBuffer())
  const { data, rawResponse } = await client.textToSpeech
    .convert('rachel', { text, modelId: 'eleven_v3', outputFormat: 'mp3_44100_128' })
    .withRawResponse()
  t.equal(String(await heardOf(data)), `streamed 21m00Tcm4TlvDq8ikWAM ${text}`)
  t.match(Object.fromEntries(rawResponse.headers as unknown as Iterable<[string, string]>), {
    'content-type': 'audio/mpeg',
    'transfer-encoding': 'chunked',
    'x-character-count': '7',
    'request-id': /^req_/,
    'x-lk-provider': 'elevenlabs',
  })
  const streamed = await client.textToSpeech.stream('JBFqnCBsd6RMkjVDRZzb', { text })
  t.equal(String(await heardOf(streamed)), `streamed JBFqnCBsd6RMkjVDRZzb ${text}`)

  await t.test('each option becomes what its row says', async (t) => {
    const folder = '@elevenlabs/elevenlabs-js/api/resources/textToSpeech/client/requests'
    const published = publishedOptions(`${folder}/BodyTextToSpeechFull.d.ts`, 'BodyTextToSpeechFull')
    const rows = { ...SPEECH_QUERY, ...SPEECH_OPTIONS }
    const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    t.same(
      Object.keys(rows).sort(),
      published
        .filter((name) => name !== 'text')
        .map(snake)
        .sort(),
    )
    const samples: Readonly<Record<string, unknown>> = {
      output_format: 'pcm_16000',
      optimize_streaming_latency: '1',
      voice_settings: { speed: 1.1 },
      pronunciation_dictionary_locators: [{ pronunciation_dictionary_id: 'd1' }],
      seed: 7,
      previous_request_ids: ['a'],
      next_request_ids: ['a'],
      use_pvc_as_ivc: true,
      apply_language_text_normalization: true,
      audio_effects: { pan: 1 },
      enable_logging: false,
    }
    const ask = async (name: string, sample = samples[name] ?? 'auto') => {
      const query = Object.hasOwn(SPEECH_QUERY, name) ? `?${name}=${String(sample)}` : ''
      const answer = await fetch(`${gateway.url}/elevenlabs/v1/text-to-speech/rachel${query}`, {
        method: 'POST',
        headers: { 'xi-api-key': gateway.key, 'content-type': 'application/json' },
        body: JSON.stringify({ text, ...(query === '' && name !== '' ? { [name]: sample } : {}) }),
      })
      const body = await answer.text()
      const { path, body: sent } = elevenlabs.received.at(-1) ?? {}
      const warnings = JSON.parse(answer.headers.get('x-lk-warnings') ?? '[]') as string[]
      return { status: answer.status, body, asked: JSON.stringify([path, sent]), warnings }
    }
    const plain = await ask('')
    t.equal(plain.status, 200)
    t.same(await ask('pronunciation_dictionary_locators', []), plain, 'an empty list asks for nothing')
    for (const [name, { fate, note }] of Object.entries(rows)) {
      const { status, body, asked, warnings } = await ask(name)
      if (fate === 'refused') {
        t.match(JSON.parse(body), { detail: { code: 'INVALID_REQUEST', param: name } }, name)
        continue
      }
      if (name === 'enable_logging') {
        t.equal(status, 422, 'no entry promises it')
        t.match(JSON.parse(body), { detail: { code: 'REQUIRED_FEATURE_UNAVAILABLE', message: /retention$/ } })
        continue
      }
      t.equal(status, 200, name)
      // The model is the entry's, whatever is sent.
      t.equal(asked !== plain.asked, fate === 'kept' && name !== 'model_id', name)
      t.same(warnings, fate === 'warned' ? [`${name}: ${note}`] : [], name)
    }
    const faulty = [
      [client.textToSpeech.convert('rachel', { text, voiceSettings: { speed: 3 } }), 'voice_settings.speed'],
      [client.textToSpeech.convert('rachel', { text: '' }), 'text'],
    ] as const
    for (const [call, param] of faulty)
      t.match((await refused(call)).body, { detail: { code: 'INVALID_REQUEST', param } }, param)
    const settled = await client.textToSpeech
      .convert('rachel', { text, voiceSettings: { speed: 1.1, stability: 0.5 } })
      .withRawResponse()
    t.equal(settled.rawResponse.headers.get('x-lk-warnings'), '["voice_settings.stability: not passed on"]')
    await heardOf(settled.data)
  })

  await t.test('with times, of the entry that tells them alone', async (t) => {
    const characters = [...text]
    const endsOf = (from: number, to: number) =>
      characters.slice(from, to).map((_, at) => (from + at + 1) * CHARACTER_SECONDS)
    const asked = { text, modelId: 'eleven_v3', outputFormat: 'pcm_16000' } as const
    const whole = await client.textToSpeech.convertWithTimestamps('rachel', asked).withRawResponse()
    t.equal(Buffer.from(whole.data.audioBase64, 'base64').toString(), text)
    t.match(whole.data, {
      alignment: { characters, characterEndTimesSeconds: endsOf(0, 7) },
      normalizedAlignment: { characters, characterStartTimesSeconds: [0, CHARACTER_SECONDS] },
    })
    t.equal(
      elevenlabs.received.at(-1)?.path,
      '/v1/text-to-speech/21m00Tcm4TlvDq8ikWAM/with-timestamps?output_format=pcm_16000',
    )
    const headers = { 'x-character-count': '7', 'x-lk-usage-audio-output-characters': '7' }
    t.match(Object.fromEntries(whole.rawResponse.headers as unknown as Iterable<[string, string]>), headers)

    const streamed = await client.textToSpeech.streamWithTimestamps('rachel', asked).withRawResponse()
    const pieces: ElevenLabs.StreamingAudioChunkWithTimestampsResponse[] = []
    for await (const piece of streamed.data) pieces.push(piece)
    t.same(
      pieces.map(({ audioBase64 }) => Buffer.from(audioBase64, 'base64').toString()),
      ['Hello ', '✓'],
    )
    t.match(pieces, [
      { alignment: { characterEndTimesSeconds: endsOf(0, 6) }, normalizedAlignment: Object },
      { alignment: { characters: ['✓'], characterEndTimesSeconds: endsOf(6, 7) } },
    ])
    t.notOk(pieces[1]?.normalizedAlignment)
    t.match(
      Object.fromEntries(streamed.rawResponse.headers as unknown as Iterable<[string, string]>),
      headers,
    )
    t.match(elevenlabs.received.at(-1)?.path, /\/stream\/with-timestamps\?output_format=pcm_16000$/)
  })

  const { voices } = await client.voices.getAll()
  t.match(voices, [{ voiceId: 'rachel', name: 'rachel', highQualityBaseModelIds: ['eleven_flash_v2_5'] }])
  t.same((await client.voices.search()).voices, voices)
  t.same(await client.voices.get('rachel'), voices[0])
  t.equal((await refused(client.voices.get('nobody'))).statusCode, 404)
  t.match(await client.models.list(), [
    { modelId: 'scribe_v2', canDoTextToSpeech: false },
    { modelId: 'eleven_flash_v2_5', canDoTextToSpeech: true, description: 'elevenlabs' },
    { modelId: 'nova-3' },
  ])
})

t.test('speech with times fails closed', { timeout: 60_000 }, async (t) => {
  const elevenlabs = await startUpstream(t, { dialect: elevenlabsDialect() })
  const deepgram = await startUpstream(t, { dialect: deepgramDialect() })
  const text = 'Hello you'
  const provider = { kind: 'elevenlabs', base_url: elevenlabs.url, api_key: secret('XI_KEY') }
  const silent = { provider: 'silent', model: 'aura-2', voices: { rachel: 'thalia-en' } }
  const start = (entries: readonly Readonly<Record<string, unknown>>[]) =>
    startRouteGateway(t, {
      providers: {
        elevenlabs: provider,
        silent: { kind: 'deepgram', base_url: deepgram.url, api_key: secret('DG_KEY') },
      },
      entries,
      env: { XI_KEY: ELEVENLABS_KEY, DG_KEY: DEEPGRAM_KEY },
    })
  const voices = { rachel: '21m00Tcm4TlvDq8ikWAM' }
  const both = await start([{ provider: 'elevenlabs', model: 'eleven_flash_v2_5', voices }, silent])
  const client = clientOf(both.url, both.key)

  elevenlabs.behaveAll({ status: 503 })
  const { rawResponse } = await client.textToSpeech.convert('rachel', { text }).withRawResponse()
  t.equal(rawResponse.headers.get('x-lk-provider'), 'silent', 'without times another entry does')
  for (const ask of [
    () => client.textToSpeech.convertWithTimestamps('rachel', { text }),
    () => client.textToSpeech.streamWithTimestamps('rachel', { text }),
  ]) {
    const { body, statusCode } = await refused(ask())
    t.equal(statusCode, 502)
    t.match(body, { detail: { code: 'UPSTREAM_ERROR' } })
  }
  t.equal(deepgram.received.length, 1, 'and for the times no one else was asked')

  const other = await start([silent])
  for (const path of ['with-timestamps', 'stream/with-timestamps']) {
    const answer = await fetch(`${other.url}/elevenlabs/v1/text-to-speech/rachel/${path}`, {
      method: 'POST',
      headers: { 'xi-api-key': other.key, 'content-type': 'application/json' },
      body: JSON.stringify({ text }),
    })
    t.equal(answer.status, 422)
    t.match(await answer.json(), {
      detail: { code: 'REQUIRED_FEATURE_UNAVAILABLE', message: /: character_timestamps$/ },
      error: { details: { entries: [{ provider: 'silent', missing: ['character_timestamps'] }] } },
    })
  }
})
