import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { startSandbox } from '../../src/sandbox/server.ts'
import { speak, speakSamples } from '../../src/sandbox/speak.ts'
import { secret, startRouteGateway } from '../support/route-gateway.ts'
import type { Message } from '../support/socket-client.ts'
import { SpeechClient } from '../support/speech-rig.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { startUpstream } from '../support/upstream/upstream.ts'

// What LiveKit's agents and Pipecat send with their plugins for Deepgram and OpenAI, unchanged but for the address and
// the key: queries, headers, bodies and the order of messages, with the values that they send unless told otherwise.
// livekit/agents da6af86: livekit-plugins-deepgram stt.py, tts.py; livekit-plugins-openai stt.py, tts.py, embeddings.py
// pipecat-ai/pipecat acead05: services/deepgram stt.py, tts.py; services/openai stt.py, tts.py

const HERTZ = 600
const TEXT = 'sos it is me'
const WAV = new Uint8Array(speak('sos', HERTZ, 1))

/** A gateway that hears Morse code, live too, and has voices of Deepgram's. */
async function start(t: Test) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const upstream = await startUpstream(t, { dialect: deepgramDialect() })
  const voices = Object.fromEntries(
    ['aura-2-andromeda-en', 'aura-2-helena-en', 'ash', 'alloy'].map((name) => [name, 'orion-en']),
  )
  const gateway = await startRouteGateway(t, {
    providers: {
      ears: { kind: 'sandbox', base_url: sandbox.url },
      deepgram: { kind: 'deepgram', base_url: upstream.url, api_key: secret('DG_KEY') },
    },
    entries: [
      { provider: 'deepgram', model: 'aura-2', voices },
      { provider: 'ears', model: 'morse-1' },
    ],
    env: { DG_KEY: DEEPGRAM_KEY },
  })
  const connect = (path: string, headers: Readonly<Record<string, string>>) => {
    const socket = new WebSocket(`${gateway.url.replace('http:', 'ws:')}${path}`, { headers })
    const answer = new Promise<Readonly<Record<string, unknown>>>((resolve) =>
      socket.on('upgrade', ({ headers: given }) => socket.on('open', () => resolve(given))),
    )
    return { client: new SpeechClient(t, socket), answer }
  }
  return { gateway, connect }
}

/** 50 ms at a time, as both send it. */
function framesOf(rate: number): Buffer[] {
  const { buffer } = speakSamples(TEXT, HERTZ, 2, rate)
  const samples = Buffer.from(buffer)
  const bytes = (rate / 20) * 2
  return Array.from({ length: Math.ceil(samples.length / bytes) }, (_, at) =>
    samples.subarray(at * bytes, (at + 1) * bytes),
  )
}

interface Results extends Message {
  readonly is_final: boolean
  readonly channel: { readonly alternatives: { readonly transcript: string; readonly words: object[] }[] }
}

t.test("Deepgram's plugins listen live", { timeout: 60_000 }, async (t) => {
  const { gateway, connect } = await start(t)
  const livekit =
    'model=nova-3&punctuate=true&smart_format=false&no_delay=true&interim_results=true&encoding=linear16' +
    '&vad_events=true&sample_rate=16000&channels=1&endpointing=25&filler_words=true&profanity_filter=false' +
    '&numerals=false&mip_opt_out=false&language=en-US'
  const pipecat =
    'detect_entities=false&diarize=false&dictation=false&interim_results=true&numerals=false&profanity_filter=true' +
    '&punctuate=true&smart_format=false&model=nova-3-general&language=en&encoding=linear16&channels=1' +
    '&multichannel=false&sample_rate=16000'
  for (const [name, query, warned] of [
    ['LiveKit', livekit, '["filler_words: whether they are written, the entry decides"]'],
    ['Pipecat', pipecat, undefined],
  ] as const) {
    const { client, answer } = connect(`/deepgram/v1/listen?${query}`, {
      authorization: `Token ${gateway.key}`,
    })
    t.match(await answer, { 'dg-request-id': /^[0-9a-f-]{36}$/, 'x-lk-warnings': warned }, name)
    client.send({ type: 'KeepAlive' })
    for (const frame of framesOf(16_000)) client.send(frame)
    client.send({ type: 'Finalize' })
    client.send({ type: 'CloseStream' })
    t.equal(await client.closed, 1000, name)
    const finals = (client.of('Results') as Results[]).filter(({ is_final: isFinal }) => isFinal)
    // Each reads these without asking whether they are there.
    for (const { channel, metadata } of client.of('Results') as Results[]) {
      t.match(metadata, { request_id: /^[0-9a-f-]{36}$/ })
      t.match(channel.alternatives, [{ transcript: String, confidence: Number, words: Array }])
    }
    const heard = finals.map(({ channel }) => channel.alternatives[0]?.transcript).join(' ')
    t.equal(heard.trim().replaceAll(/ +/g, ' '), TEXT, name)
    t.match(client.messages.at(-1), { type: 'Metadata' })
  }
})

t.test("Deepgram's plugins hear a file, and speak", { timeout: 60_000 }, async (t) => {
  const { gateway } = await start(t)
  const ask = (path: string, body: Uint8Array<ArrayBuffer> | string, type: string) =>
    fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Token ${gateway.key}`, accept: 'application/json', 'content-type': type },
      body,
    })
  const query =
    'model=nova-3&punctuate=true&detect_language=false&smart_format=false&profanity_filter=false&numerals=false' +
    '&mip_opt_out=false&language=en-US'
  const heard = await ask(`/deepgram/v1/listen?${query}`, WAV, 'audio/wav')
  t.match(await heard.json(), {
    metadata: { request_id: /^[0-9a-f-]{36}$/ },
    results: {
      channels: [{ alternatives: [{ transcript: 'sos', confidence: Number, words: [{ word: 'sos' }] }] }],
    },
  })
  for (const voice of ['aura-2-andromeda-en', 'aura-2-helena-en']) {
    const speaking = `encoding=linear16&container=none&model=${voice}&sample_rate=24000&mip_opt_out=false`
    const spoken = await ask(
      `/deepgram/v1/speak?${speaking}`,
      JSON.stringify({ text: TEXT }),
      'application/json',
    )
    t.equal(await spoken.text(), `spoken aura-2-orion-en ${TEXT}`, voice)
    t.match(spoken.headers.get('content-type'), /^audio\/pcm/)
  }
})

t.test("Deepgram's plugins speak live", { timeout: 60_000 }, async (t) => {
  const { gateway, connect } = await start(t)
  const open = async (query: string) => {
    const authorization = `Token ${gateway.key}`
    const { client, answer } = connect(`/deepgram/v1/speak?${query}`, { authorization })
    // LiveKit logs headers of this name.
    t.match(await answer, { 'dg-request-id': /^[0-9a-f-]{36}$/, 'x-lk-warnings': undefined })
    return client
  }
  const spoken = (...texts: string[]) => texts.map((text) => `spoken aura-2-orion-en ${text}`).join('')
  /** Pipecat plays each message by itself. */
  const isWhole = (what: string | number) => typeof what === 'string' || what % 2 === 0

  // A word at a time, and `Flush` at the end of a segment. The socket is kept for the next one; on its way out it is
  // flushed and closed, and one more message is waited for.
  const livekit = await open(
    'encoding=linear16&model=aura-2-andromeda-en&sample_rate=24000&mip_opt_out=false',
  )
  const segments = ['Hello, there. How are we now?', 'Fine.']
  for (const [at, segment] of segments.entries()) {
    for (const word of segment.split(' ')) livekit.send({ type: 'Speak', text: `${word} ` })
    livekit.send({ type: 'Flush' })
    t.match(await livekit.message('Flushed', at + 1), { sequence_id: at })
  }
  livekit.send({ type: 'Flush' })
  livekit.send({ type: 'Close' })
  t.equal(await livekit.closed, 1000)
  t.equal(livekit.audio.toString(), spoken('Hello, there.', 'How are we now?', 'Fine.'))
  t.ok(livekit.order.every(isWhole), 'samples are not cut, as they come')
  t.same(
    livekit.messages.map(({ type }) => type),
    ['Metadata', 'Flushed', 'Flushed', 'Flushed'],
  )

  // A sentence at a time, with a space behind it. `Clear` when somebody interrupts; `Close` and the close of the
  // socket come at once.
  const pipecat = await open('model=aura-2-helena-en&encoding=linear16&sample_rate=24000')
  pipecat.send({ type: 'Speak', text: 'Hello, there. ' })
  pipecat.send({ type: 'Flush' })
  await pipecat.message('Flushed')
  pipecat.send({ type: 'Speak', text: 'This is interrupted ' })
  pipecat.send({ type: 'Clear' })
  pipecat.send({ type: 'Speak', text: 'Sure? ' })
  pipecat.send({ type: 'Flush' })
  t.match(await pipecat.message('Flushed', 2), { sequence_id: 2 })
  t.match(pipecat.of('Cleared'), [{ sequence_id: 1 }])
  t.equal(pipecat.audio.toString(), spoken('Hello, there.', 'Sure?'))
  t.ok(pipecat.order.every(isWhole))
  pipecat.send({ type: 'Close' })
  pipecat.socket.close()
  t.ok([1000, 1005].includes(await pipecat.closed))
})

t.test("OpenAI's plugins listen live", { timeout: 60_000 }, async (t) => {
  const { gateway, connect } = await start(t)
  const headers = { authorization: `Bearer ${gateway.key}`, 'user-agent': 'LiveKit Agents' }
  const update = (model: string, turns: object | null) => ({
    type: 'session.update',
    session: {
      type: 'transcription',
      audio: {
        input: {
          format: { rate: 24_000, type: 'audio/pcm' },
          transcription: { model, language: 'en' },
          turn_detection: turns,
        },
      },
    },
  })
  const vad = { type: 'server_vad', threshold: 0.5, prefix_padding_ms: 600, silence_duration_ms: 350 }
  const completed = 'conversation.item.input_audio_transcription.completed'
  const listen = async (query: string, event: object, commits: boolean) => {
    const { client } = connect(`/openai/v1/realtime?${query}`, headers)
    await client.message('session.created')
    client.send(event)
    await client.message('session.updated')
    for (const frame of framesOf(24_000))
      client.send({ type: 'input_audio_buffer.append', audio: frame.toString('base64') })
    // With the server's detection the end of a turn is silence, which a microphone goes on to send.
    for (let quiet = 0; !commits && quiet < 40; quiet += 1)
      client.send({ type: 'input_audio_buffer.append', audio: Buffer.alloc(2_400).toString('base64') })
    if (commits) client.send({ type: 'input_audio_buffer.commit' })
    let text = ''
    for (let count = 1; text.trim() !== TEXT; count += 1)
      text = `${text} ${(await client.message(completed, count)).transcript}`
    t.equal(client.of('error').length, 0)
    client.socket.close()
    await client.closed
  }
  const model = 'gpt-4o-mini-transcribe'
  await listen(`intent=transcription&model=${model}`, update(model, vad), false)
  await listen('intent=transcription', update('gpt-realtime-whisper', null), true)
})

t.test("OpenAI's plugins hear a file, and speak", { timeout: 60_000 }, async (t) => {
  const { gateway } = await start(t)
  const authorization = `Bearer ${gateway.key}`
  const form = new FormData()
  form.append('file', new Blob([WAV], { type: 'audio/wav' }), 'file.wav')
  form.append('model', 'gpt-4o-mini-transcribe')
  form.append('language', 'en')
  form.append('response_format', 'json')
  const heard = await fetch(`${gateway.url}/openai/v1/audio/transcriptions`, {
    ...{ method: 'POST', headers: { authorization }, body: form },
  })
  t.match(await heard.json(), { text: 'sos' })

  const say = (body: object) =>
    fetch(`${gateway.url}/openai/v1/audio/speech`, {
      method: 'POST',
      headers: { authorization, accept: 'application/octet-stream', 'content-type': 'application/json' },
      body: JSON.stringify({ input: TEXT, model: 'gpt-4o-mini-tts', ...body }),
    })
  const pipecat = await say({ voice: 'alloy', response_format: 'pcm' })
  t.equal(await pipecat.text(), `spoken aura-2-orion-en ${TEXT}`)
  const livekit = await say({ voice: 'ash', response_format: 'mp3', speed: 1, stream_format: 'sse' })
  t.equal(livekit.headers.get('content-type'), 'text/event-stream')
  t.equal(livekit.headers.get('x-lk-provider'), 'deepgram')
  const lines = (await livekit.text()).split('\n').filter((line) => line.startsWith('data: '))
  const events = lines.map((line) => JSON.parse(line.slice(6)) as { type: string; audio?: string })
  const audio = events.flatMap((event) => (event.type === 'speech.audio.delta' ? [event.audio ?? ''] : []))
  t.equal(
    Buffer.concat(audio.map((part) => Buffer.from(part, 'base64'))).toString(),
    `spoken aura-2-orion-en ${TEXT}`,
  )
  t.match(events.at(-1), { type: 'speech.audio.done', usage: { total_tokens: 0 } })
  const refused = await say({ voice: 'nobody', stream_format: 'sse' })
  t.equal(refused.status, 400, 'a refusal is a status')
})
