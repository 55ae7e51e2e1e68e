import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { type ReceivedCall, startSandbox } from '../../src/sandbox/server.ts'
import { framesOf, type LiveAudio, liveAudio, silence, timesOff } from '../support/live-audio.ts'
import { LiveClient, type Message, refusedHandshake } from '../support/live-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { wavHead } from '../support/wav.ts'

const TEXT = 'the quick brown fox, is it?'
const RAW = 'encoding=linear16&sample_rate=16000'

async function start(t: Test) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const origin = sandbox.url.replace('/v1', '')
  const url = (query: string, before = '') => `${origin.replace('http', 'ws')}${before}/v1/listen?${query}`
  return {
    url,
    open: (query = RAW, headers: Record<string, string> = {}) =>
      new LiveClient(url(query), [], { headers }).open(),
    calls: async () =>
      ((await (await fetch(`${origin}/sandbox/calls`)).json()) as { calls: ReceivedCall[] }).calls,
  }
}

interface Word {
  readonly word: string
  readonly start: number
  readonly end: number
  readonly speaker?: number
}
interface Results extends Message {
  readonly channel_index: readonly [number, number]
  readonly start: number
  readonly duration: number
  readonly is_final: boolean
  readonly speech_final: boolean
  readonly from_finalize: boolean
  readonly channel: { readonly alternatives: readonly { transcript: string; words: readonly Word[] }[] }
}

const resultsOf = (client: LiveClient) => client.ofType('Results') as Results[]
const textOf = ({ channel }: Results) => channel.alternatives[0]!.transcript
const wordsOf = (results: readonly Results[]) =>
  results.filter((of) => of.is_final).flatMap(({ channel }) => channel.alternatives[0]!.words)
const said = (results: readonly Results[]) =>
  wordsOf(results)
    .map(({ word }) => word)
    .join(' ')

function send(client: LiveClient, audio: LiveAudio, frameMs = 100): void {
  for (const frame of framesOf(audio, frameMs)) client.send(frame)
}

async function transcribe(client: LiveClient, audio: LiveAudio, frameMs = 100): Promise<Results[]> {
  send(client, audio, frameMs)
  client.send({ type: 'CloseStream' })
  await client.ended
  return resultsOf(client)
}

t.test('a recording at every rate: words, their times, and windows without a hole', async (t) => {
  const { url } = await start(t)
  for (const sampleRate of [8000, 16_000, 24_000, 44_100]) {
    const audio = liveAudio(TEXT, { sampleRate })
    const query = `encoding=linear16&sample_rate=${sampleRate}`
    const results = await transcribe(await new LiveClient(url(query)).open(), audio, 20)
    t.equal(said(results), TEXT)
    const off = timesOff(wordsOf(results), audio.words)
    t.ok(off <= 0.005, `${sampleRate} Hz: ${off} s off`)
    t.ok(
      results.every(({ is_final }) => is_final),
      'no interim results unless they are asked for',
    )
    let settled = 0
    for (const { start, duration } of results) {
      t.ok(Math.abs(start - settled) < 0.0021, `${start} follows ${settled}`)
      settled = start + duration
    }
    t.ok(audio.seconds - settled < 0.02, 'all is settled')
  }
})

t.test('interim results grow by characters, and finals come at the gap behind a word', async (t) => {
  const { open, calls } = await start(t)
  const client = await open(`${RAW}&interim_results=true`)
  const audio = liveAudio('sos e')
  const results = await transcribe(client, audio)
  const texts = results.filter(({ is_final }) => !is_final).map(textOf)
  t.same([...new Set(texts)], ['s', 'so', 'sos', 'e'])
  const final = results.findIndex(({ is_final }) => is_final)
  t.equal(textOf(results[final]!), 'sos')
  t.ok(results.findIndex((of) => textOf(of) === 'e') > final)
  const metadata = client.messages.at(-1)!
  t.match(metadata, { type: 'Metadata', channels: 1 })
  t.ok(Math.abs(Number(metadata.duration) - audio.seconds) < 0.001)
  const [call] = await calls()
  const sha256 = createHash('sha256').update(audio.pcm).digest('hex')
  t.equal(metadata.sha256, sha256)
  t.match(call, {
    method: 'GET',
    path: '/v1/listen',
    status: 101,
    model: 'nova-3',
    sha256,
    bytes: audio.pcm.length,
  })
  t.match(call?.live, { words: 2, end: { by: 'sandbox', code: 1000 } })
  t.match(call?.fields, { encoding: ['linear16'], interim_results: ['true'] })
})

t.test('how audio is cut into frames changes nothing that is final', async (t) => {
  const { open } = await start(t)
  const audio = liveAudio(TEXT)
  const finals = async (cuts: Iterable<Buffer>) => {
    const client = await open()
    for (const frame of cuts) client.send(frame)
    client.send({ type: 'CloseStream' })
    await client.ended
    return resultsOf(client).map(({ start, duration, channel }) => ({ start, duration, channel }))
  }
  const whole = await finals([audio.pcm])
  t.same(await finals(framesOf(audio, 20)), whole)
  const odd = Array.from({ length: Math.ceil(audio.pcm.length / 777) }, (_, at) =>
    audio.pcm.subarray(at * 777, (at + 1) * 777),
  )
  t.same(await finals(odd), whole, 'also within a sample')
})

t.test('audio that begins at a gap between words: the next words are right from the first', async (t) => {
  const { open } = await start(t)
  const audio = liveAudio('alpha bravo charlie')
  for (const from of [0, 1]) {
    const gapSeconds = (audio.words[from]!.end + audio.words[from + 1]!.start) / 2
    const at = Math.round(gapSeconds * 16_000)
    const rest = { ...audio, pcm: audio.pcm.subarray(at * 2) }
    const results = await transcribe(await open(), rest)
    const words = wordsOf(results).map(({ word, start, end }) => ({
      word,
      start: start + at / 16_000,
      end: end + at / 16_000,
    }))
    const expected = audio.words.slice(from + 1)
    t.same(
      words.map(({ word }) => word),
      expected.map(({ word }) => word),
    )
    t.ok(timesOff(words, expected) <= 0.005)
  }
})

t.test('endpointing, utterances, and silence', async (t) => {
  const { open } = await start(t)
  const query = `${RAW}&interim_results=true&endpointing=700&utterance_end_ms=1000&vad_events=true`
  const client = await open(query)
  client.send(silence(4))
  send(client, liveAudio('so it'))
  client.send(silence(2))
  send(client, liveAudio('is'))
  client.send({ type: 'CloseStream' })
  await client.ended
  const finals = resultsOf(client).filter(({ is_final }) => is_final)
  t.same(
    finals.map((of) => [textOf(of), of.speech_final]).filter(([text, end]) => text !== '' || end),
    [
      ['so', false],
      ['it', false],
      ['', true],
      ['is', false],
      ['', true],
    ],
  )
  t.ok(finals[0]!.start === 0 && finals[0]!.duration > 2.9 && textOf(finals[0]!) === '', 'silence is settled')
  t.equal(client.ofType('SpeechStarted').length, 2)
  t.match(client.ofType('UtteranceEnd'), [{ channel: [0, 1] }])
  const last = wordsOf(finals)[1]!
  t.equal(client.ofType('UtteranceEnd')[0]!.last_word_end, last.end)
})

t.test('Finalize settles what was sent, also in the middle of a word', async (t) => {
  const { open } = await start(t)
  const client = await open()
  const audio = liveAudio('hello world')
  const middle = Math.round((audio.words[0]!.end + 0.15) * 16_000) * 2
  client.send(audio.pcm.subarray(0, middle))
  client.send({ type: 'Finalize' })
  const first = (await client.until('Results')) as Results
  t.match(first, { is_final: true, speech_final: true, from_finalize: true })
  t.equal(textOf(first), 'hello')
  client.send({ type: 'Finalize' })
  t.match(
    await client.until('Results', 2),
    { from_finalize: true },
    'answered although there is nothing left',
  )
  client.send(audio.pcm.subarray(middle))
  client.send(Buffer.alloc(0))
  t.match(await client.ended, { code: 1000 }, 'an empty frame ends the stream')
  t.equal(said(resultsOf(client)), 'hello world')
  t.match(client.messages.at(-1), { type: 'Metadata' })
})

t.test('channels, speakers and other encodings', async (t) => {
  const { open, url } = await start(t)
  const [left, right] = [liveAudio('left'), liveAudio('right', { hertz: 850 })]
  const frames = Math.max(left.pcm.length, right.pcm.length) / 2
  const stereo = Buffer.alloc(frames * 4)
  for (const [channel, { pcm }] of [left, right].entries())
    for (let at = 0; at < pcm.length / 2; at += 1) pcm.copy(stereo, at * 4 + channel * 2, at * 2, at * 2 + 2)
  const both = { ...left, pcm: stereo }
  const results = await transcribe(await open(`${RAW}&channels=2&multichannel=true`), both)
  for (const [channel, text] of ['left', 'right'].entries()) {
    const own = results.filter(({ channel_index }) => channel_index[0] === channel)
    t.equal(said(own), text)
    t.ok(own.every(({ channel_index }) => channel_index[1] === 2))
  }
  const turns = Buffer.concat([left.pcm, right.pcm, liveAudio('again').pcm])
  const spoken = await transcribe(await open(`${RAW}&diarize=true`), { ...left, pcm: turns })
  t.same(
    wordsOf(spoken).map(({ word, speaker }) => [word, speaker]),
    [
      ['left', 0],
      ['right', 1],
      ['again', 0],
    ],
  )

  const telephone = liveAudio('telephone', { sampleRate: 8000 })
  for (const [encoding, encode] of Object.entries({ mulaw: toMuLaw, alaw: toALaw })) {
    const pcm = Buffer.from(
      Array.from({ length: telephone.pcm.length / 2 }, (_, at) => encode(telephone.pcm.readInt16LE(at * 2))),
    )
    const client = await new LiveClient(url(`encoding=${encoding}&sample_rate=8000`)).open()
    const heard = await transcribe(client, { ...telephone, pcm })
    t.equal(said(heard), 'telephone', encoding)
    t.ok(timesOff(wordsOf(heard), telephone.words) <= 0.005)
  }
  const secret = await transcribe(await open(`${RAW}&redact=pci`), liveAudio('card 42'))
  t.equal(said(secret), 'card [redacted]')
  const wav = Buffer.concat([wavHead({ sampleRate: 16_000 }), left.pcm])
  t.equal(
    said(await transcribe(await new LiveClient(url('')).open(), { ...left, pcm: wav })),
    'left',
    'a wav file',
  )
})

// ITU-T G.711, from its tables of segments.
function toMuLaw(sample: number): number {
  const magnitude = Math.min(Math.abs(sample) >> 2, 8158) + 33
  const segment = Math.max(0, 31 - Math.clz32(magnitude) - 5)
  return ~((sample < 0 ? 128 : 0) | (segment << 4) | ((magnitude >> (segment + 1)) & 15)) & 255
}

function toALaw(sample: number): number {
  const magnitude = Math.min(Math.abs(sample) >> 3, 4095)
  const segment = Math.max(0, 31 - Math.clz32(magnitude) - 4)
  const bits = (segment << 4) | ((magnitude >> Math.max(1, segment)) & 15)
  return (sample >= 0 ? bits | 128 : bits) ^ 0x55
}

t.test('refusals come before the upgrade, with a status and dg-error', async (t) => {
  const { url, open } = await start(t)
  const rows: [query: string, message: RegExp][] = [
    ['encoding=opus&sample_rate=48000', /hears linear16/],
    ['encoding=linear16', /sample_rate is required/],
    ['encoding=linear16&sample_rate=1', /sample_rate takes/],
    [`${RAW}&channels=21`, /channels takes/],
    [`${RAW}&model=none`, /No such model/],
    [`${RAW}&detect_language=true`, /Language detection/],
    [`${RAW}&model=nova-3&keywords=a`, /Nova-3/],
    [`${RAW}&utterance_end_ms=1000`, /requires interim_results/],
    [`${RAW}&redact=names`, /redacts/],
    [`${RAW}&interim_results=maybe`, /true or false/],
  ]
  for (const [query, message] of rows) {
    const { status, headers, body } = await refusedHandshake(url(query))
    t.equal(status, 400, query)
    t.match(headers['dg-error'], message)
    t.match(headers['dg-request-id'], /^[0-9a-f-]{36}$/)
    t.match(JSON.parse(body), { err_msg: message, request_id: headers['dg-request-id'] })
  }
  const browser = await new LiveClient(url(RAW), ['token', 'a-key']).open()
  t.equal(browser.socket.protocol, 'token')
  browser.socket.close()
  const bad = await open()
  bad.send({ type: 'Nonsense' })
  t.match(await bad.ended, { code: 1008 })
  const undecodable = await new LiveClient(url('')).open()
  undecodable.send(Buffer.alloc(100, 1))
  t.match(await undecodable.ended, { code: 1008, reason: /^DATA-0000/ })
})

t.test('without audio or KeepAlive: 1011 NET-0001', async (t) => {
  const { open } = await start(t)
  const query = `${RAW}&x-sandbox-idle-ms=3000`
  const [idle, kept, never] = [await open(query), await open(query), await open(query)]
  idle.send(silence(0.1))
  kept.send(silence(0.1))
  let sent = 0
  const timer = setInterval(() => {
    sent += 1
    kept.send({ type: 'KeepAlive' })
    if (never.socket.readyState === never.socket.OPEN) never.send({ type: 'KeepAlive' })
  }, 150)
  t.teardown(() => clearInterval(timer))
  t.match(await idle.ended, { code: 1011, reason: /^NET-0001/ })
  t.match(await never.ended, { code: 1011, reason: /^NET-0001/ }, 'KeepAlive alone does not hold it')
  t.ok(await waitUntil(() => sent >= 25), 'these take longer than it may be idle')
  t.equal(kept.socket.readyState, kept.socket.OPEN)
  kept.send({ type: 'CloseStream' })
  t.match(await kept.ended, { code: 1000 })
})
