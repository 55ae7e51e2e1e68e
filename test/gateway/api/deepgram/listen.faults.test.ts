import { setTimeout as sleep } from 'node:timers/promises'
import { DeepgramClient } from '@deepgram/sdk'
import { type Test, test } from 'tap'
import { WebSocket } from 'ws'
import { principal } from '../../../support/catalog.ts'
import { LiveClient, type LiveRig, openLive, wordsEntry } from '../../../support/live-rig.ts'
import { RATE, serveWords, WORD_SECONDS, wordsAudio, wordsText } from '../../../support/live-words.ts'

const PIECE = RATE / 5
const OPTIONS = {
  model: 'nova-3',
  language: 'en',
  encoding: 'linear16',
  sample_rate: RATE,
  interim_results: 'true',
} as const
const query = (more: Readonly<Record<string, string>> = {}) =>
  `?${new URLSearchParams({ encoding: 'linear16', sample_rate: String(RATE), ...more })}`
const keyOf = ({ authorization }: LiveRig) => authorization.slice('Bearer '.length)

interface Results {
  readonly type: 'Results'
  readonly is_final: boolean
  readonly speech_final: boolean
  readonly from_finalize?: boolean
  readonly channel: {
    readonly alternatives: readonly [
      {
        readonly transcript: string
        readonly words: readonly { readonly word: string; readonly start: number }[]
      },
    ]
  }
}

/** Deepgram's own client, unchanged but for the address, and all that it was told. */
async function openClient(t: Test, rig: LiveRig, options: object = {}) {
  const client = new DeepgramClient({
    apiKey: keyOf(rig),
    baseUrl: `${rig.origin.replace('http:', 'ws:')}/deepgram`,
  })
  const socket = await client.listen.v1.connect({ ...OPTIONS, ...options } as never)
  const messages: { readonly type: string; readonly [name: string]: unknown }[] = []
  const codes: number[] = []
  socket.on('message', (message) => void messages.push(message as never))
  socket.on('close', ({ code }: { code: number }) => void codes.push(code))
  socket.on('error', () => {})
  t.teardown(() => socket.close())
  socket.connect()
  await socket.waitForOpen()
  const of = (type: string) => messages.filter((message) => message.type === type)
  const finals = () =>
    (of('Results') as unknown as Results[]).filter(
      ({ is_final: isFinal, channel }) => isFinal && channel.alternatives[0].transcript !== '',
    )
  return {
    socket,
    messages,
    codes,
    of,
    finals,
    text: () =>
      finals()
        .map(({ channel }) => channel.alternatives[0].transcript)
        .join(' '),
    async until(isThere: () => boolean) {
      const deadline = performance.now() + 20_000
      while (!isThere()) {
        if (performance.now() > deadline)
          throw new Error(`it did not come: ${JSON.stringify(messages.at(-1))}`)
        await sleep(10)
      }
    },
    async speak(audio: Buffer) {
      const startMs = performance.now()
      for (let at = 0; at < audio.length; at += PIECE) {
        socket.sendMedia(audio.subarray(at, at + PIECE) as never)
        await sleep(Math.max(0, startMs + (at / PIECE) * 100 - performance.now()))
      }
    },
  }
}

test("Deepgram's client transcribes across the death of a provider", async (t) => {
  const dying = await serveWords(t, { death: () => ({ how: 'close', afterSeconds: 2.25 }) })
  const sound = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(dying.origin, 'first'), wordsEntry(sound.origin, 'second')])
  const caller = await openClient(t, rig, { utterance_end_ms: 1000 })
  await caller.speak(wordsAudio(0, 12))
  caller.socket.sendCloseStream({ type: 'CloseStream' })
  await caller.until(() => caller.codes.length > 0)
  t.same(caller.codes, [1000])
  t.equal(caller.text(), wordsText(12), 'every word once, in order')
  const words = caller.finals().flatMap(({ channel }) => channel.alternatives[0].words)
  for (const [index, { word, start }] of words.entries()) {
    t.equal(word, `w${index}`)
    t.ok(Math.abs(start - index * WORD_SECONDS) < 0.05, `${word} at ${start}`)
  }
  t.ok(
    caller.of('Results').some(({ is_final: isFinal }) => isFinal === false),
    'interim results came',
  )
  t.equal(caller.of('UtteranceEnd').length, 12)
  t.match(caller.messages.at(-1), {
    type: 'Metadata',
    duration: 4.8,
    channels: 1,
    request_id: /^[0-9a-f-]{36}$/,
  })
  const [first] = caller.finals()
  t.match(first, { metadata: { model_info: { arch: 'first' } }, channel_index: [0, 1], speech_final: true })
  t.equal(rig.live.count, 0)
})

test('a session that an operator ends is over for a client that comes again after failures', async (t) => {
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')])
  const caller = await openClient(t, rig)
  await caller.speak(wordsAudio(0, 3))
  rig.live.list()[0]?.session.stop()
  await caller.until(() => caller.codes.length > 0)
  t.same(caller.codes, [1000])
  t.equal(caller.text(), wordsText(3), 'what was said is transcribed')
  await sleep(2_000)
  t.equal(rig.live.count, 0)
})

test('Finalize is answered, KeepAlive is taken, and audio may be cut anywhere', async (t) => {
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')])
  const url = `${rig.origin.replace('http:', 'ws:')}/deepgram/v1/listen${query()}`
  const caller = new LiveClient(t, new WebSocket(url, ['token', keyOf(rig), 'x-deepgram-session-id', 'abc']))
  await new Promise((resolve) => caller.socket.on('open', resolve))
  t.equal(caller.socket.protocol, 'token')
  caller.send({ type: 'KeepAlive' })
  const audio = wordsAudio(0, 3)
  for (let at = 0; at < audio.length; at += 3_333) {
    caller.send(audio.subarray(at, at + 3_333))
    await sleep(100)
  }
  caller.send({ type: 'Finalize' })
  while (!caller.of('Results').some(({ from_finalize: isAnswer }) => isAnswer === true)) await sleep(10)
  caller.socket.send(Buffer.alloc(0))
  await caller.message('Metadata')
  t.equal(await caller.closed, 1000, 'an empty frame ends the stream')
  const texts = (caller.of('Results') as unknown as Results[]).map(
    ({ channel }) => channel.alternatives[0].transcript,
  )
  t.equal(texts.filter((text) => text !== '').join(' '), wordsText(3))
  t.notOk(
    caller.of('Results').some(({ is_final: isFinal }) => isFinal === false),
    'no interim results unless asked for',
  )
})

test('what is wrong is refused in a header before the handshake, and by the code of the close behind it', async (t) => {
  const provider = await serveWords(t)
  const dead = await serveWords(t, { death: () => ({ how: 'refuse', afterSeconds: 0 }) })
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { limits: { live_idle_seconds: 1 } })
  const broken = await openLive(t, [wordsEntry(dead.origin, 'first')])
  const refusal = async (given: string, authorization = `Token ${keyOf(rig)}`) => {
    const url = `${rig.origin.replace('http:', 'ws:')}/deepgram/v1/listen${given}`
    const socket = new WebSocket(url, { headers: { authorization } })
    return new Promise<string>((resolve) => {
      socket.on('error', () => {})
      socket.on('open', () => resolve('101'))
      socket.on('unexpected-response', (_, { statusCode, headers }) => {
        t.match(headers['dg-request-id'], /^[0-9a-f-]{36}$/)
        resolve(`${statusCode} ${headers['dg-error']}`)
        socket.terminate()
      })
    })
  }
  t.match(await refusal(query(), 'Token lk_live_no'), /^401 /)
  t.match(await refusal('?sample_rate=16000'), /^400 `encoding` must be/)
  t.match(await refusal('?encoding=opus&sample_rate=48000'), /^400 `encoding`/)
  t.match(await refusal('?encoding=linear16'), /^400 `sample_rate` must be given/)
  t.match(await refusal(query({ detect_entities: 'true' })), /^400 `detect_entities` must be left out/)
  t.match(await refusal(query({ callback: 'https://example.com' })), /^400 `callback`/)
  t.match(await refusal(query({ redact: 'everything' })), /^400 `redact` must be one of/)
  t.match(await refusal(query({ diarize: 'true' })), /^422 /)
  t.match(await refusal(query({ interim_results: 'perhaps' })), /^400 `interim_results`/)
  t.equal(await refusal(query({ detect_entities: 'false', tag: 'mine', punctuate: 'true' })), '101')

  const closeOf = async (to: LiveRig, act: (socket: WebSocket) => void = () => {}, given = query()) => {
    const url = `${to.origin.replace('http:', 'ws:')}/deepgram/v1/listen${given}`
    const socket = new WebSocket(url, { headers: { authorization: to.authorization } })
    socket.on('open', () => act(socket))
    return new Promise((resolve) => socket.on('close', (code, reason) => resolve(`${code} ${reason}`)))
  }
  t.match(await closeOf(rig), /^1011 NET-0001: no audio came/)
  t.match(await closeOf(rig, (socket) => socket.send('{"type":"Configure"}')), /^1008 DATA-0000: `type`/)
  t.match(await closeOf(rig, (socket) => socket.send('[')), /^1008 DATA-0000/)
  t.match(await closeOf(broken, (socket) => socket.send(Buffer.alloc(3_200))), /^1011 NET-0000/)
  t.match(
    await closeOf(rig, undefined, query({ errors: 'in_band', search: 'lark' })),
    /^1008 DATA-0000: `search`/,
  )
})

test('refusals take tokens of the key, so that a client that comes again and again is held off', async (t) => {
  const provider = await serveWords(t)
  const key = { ...principal().key, rateLimit: { requestsPerMinute: 1, burst: 3 } }
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { caller: { key } })
  const url = `${rig.origin.replace('http:', 'ws:')}/deepgram/v1/listen${query({ search: 'lark' })}`
  const statuses: unknown[] = []
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const socket = new WebSocket(url, { headers: { authorization: rig.authorization } })
    socket.on('error', () => {})
    socket.on('unexpected-response', (_, { statusCode }) => {
      statuses.push(statusCode)
      socket.terminate()
    })
    await new Promise((resolve) => socket.on('close', resolve))
  }
  t.same(statuses, [400, 400, 400, 429, 429])
})
