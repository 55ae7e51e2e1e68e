import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import WebSocket from 'ws'
import { type ReceivedCall, startSandbox } from '../../src/sandbox/server.ts'
import { framesOf, type LiveAudio, liveAudio, silence } from '../support/live-audio.ts'
import { LiveClient, type Message, refusedHandshake } from '../support/live-client.ts'

const RAW = 'encoding=linear16&sample_rate=16000&interim_results=true'
const AUDIO = liveAudio('alpha bravo charlie')

async function start(t: Test) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const origin = sandbox.url.replace('/v1', '')
  const socketOrigin = origin.replace('http', 'ws')
  return {
    sandbox,
    deepgram: (query = '') => `${socketOrigin}/v1/listen?${RAW}${query}`,
    openai: `${socketOrigin}/v1/realtime?intent=transcription`,
    socketOrigin,
    /** A session with Deepgram's protocol and faults, ordered through headers. */
    open: (faults: Record<string, string>) =>
      new LiveClient(`${socketOrigin}/v1/listen?${RAW}`, [], { headers: prefixed(faults) }).open(),
    last: async () => {
      const reply = await fetch(`${origin}/sandbox/calls`)
      return ((await reply.json()) as { calls: ReceivedCall[] }).calls.at(-1)!
    },
  }
}

const prefixed = (faults: Record<string, string>) =>
  Object.fromEntries(Object.entries(faults).map(([name, value]) => [`x-sandbox-${name}`, value]))

function send(client: LiveClient, audio: LiveAudio = AUDIO): void {
  for (const frame of framesOf(audio, 100)) client.send(frame)
}

const finals = (client: LiveClient) =>
  client
    .ofType('Results')
    .filter(({ is_final }) => is_final)
    .map(
      (message) =>
        (message.channel as { alternatives: { transcript: string }[] }).alternatives[0]!.transcript,
    )
    .filter((text) => text !== '')

t.test('a refused handshake, in the way of each vendor', async (t) => {
  const { deepgram, openai, last } = await start(t)
  const order = { headers: prefixed({ status: '503', 'retry-after': '7' }) }
  const listen = await refusedHandshake(deepgram(), [], order)
  t.match(listen, { status: 503, headers: { 'retry-after': '7', 'dg-error': /503/, 'dg-request-id': /./ } })
  t.match(JSON.parse(listen.body), { err_code: 'server_is_overloaded' })
  const realtime = await refusedHandshake(openai, [], { headers: prefixed({ status: '401' }) })
  t.match(realtime, { status: 401 })
  t.match(JSON.parse(realtime.body), { error: { code: 'invalid_api_key' } })
  t.match(await last(), { status: 401, live: null })
  t.equal((await refusedHandshake(deepgram('&x-sandbox-status=1'))).status, 400, 'an order that is none')
  t.equal((await refusedHandshake(deepgram('&x-sandbox-close-code=1006'))).status, 400)
})

t.test(
  'faults in headers, in the query and in the path; the first so many times, or after so many',
  async (t) => {
    const { deepgram, socketOrigin } = await start(t)
    const outcome = async (url: string, faults: Record<string, string> = {}) => {
      const client = new LiveClient(url, [], { headers: prefixed(faults) })
      const opened = await client.open().then(
        () => 'open',
        (error: Error) => error.message,
      )
      client.socket.terminate()
      return opened
    }
    const refused = /socket hang up|ECONNRESET/
    t.match(await outcome(deepgram(), { refuse: 'true', 'fail-times': '1', key: 'a' }), refused)
    t.equal(await outcome(deepgram(), { refuse: 'true', 'fail-times': '1', key: 'a' }), 'open')
    const second = deepgram('&x-sandbox-refuse=true&x-sandbox-fail-after=1&x-sandbox-key=b')
    t.equal(await outcome(second), 'open')
    t.match(await outcome(second), refused)
    t.match(await outcome(second), refused)
    const path = `${socketOrigin}/x-sandbox/status=429,fail-times=1,key=c/v1/listen?${RAW}`
    t.match(await outcome(path), /429/)
    t.equal(await outcome(path), 'open')
  },
)

t.test('silence, a close and a reset at a moment of the audio', async (t) => {
  const { open, last } = await start(t)
  const at = (AUDIO.words[0]!.end + AUDIO.words[1]!.start) / 2 + 0.2
  const ms = String(Math.round(at * 1000))
  const silent = await open({ 'silent-after-ms': ms })
  send(silent)
  silent.send({ type: 'CloseStream' })
  await silent.ended
  t.same(finals(silent), ['alpha'])
  const mute = await open({ 'silent-after-ms': '0' })
  send(mute)
  await sleep(100)
  t.same(mute.messages, [], 'nothing at all')
  mute.socket.terminate()

  const closed = await open({ 'close-after-ms': ms })
  send(closed)
  t.match(await closed.ended, { code: 1011 })
  t.same(finals(closed), ['alpha'])
  t.match((await last()).live?.end, { by: 'sandbox', code: 1011 })
  const other = await open({ 'close-after-ms': '500', 'close-code': '1013' })
  send(other)
  t.match(await other.ended, { code: 1013 })

  const reset = await open({ 'reset-after-ms': ms })
  send(reset)
  t.match(await reset.ended, { code: 1006 })
  t.same(finals(reset), ['alpha'])
})

t.test('a reset in the middle of a word', async (t) => {
  const { open, last } = await start(t)
  const client = await open({ 'reset-in-word': '2' })
  const errors: string[] = []
  client.socket.on('error', (error) => errors.push((error as NodeJS.ErrnoException).code ?? ''))
  send(client)
  t.match(await client.ended, { code: 1006 })
  t.same(finals(client), ['alpha'])
  const partial = client.messages.at(-1) as Message & { channel: { alternatives: { transcript: string }[] } }
  t.match(partial.is_final, false)
  t.equal(partial.channel.alternatives[0]!.transcript, 'b')
  t.match((await last()).live, { words: 1, end: { by: 'sandbox', code: 1006, reason: 'reset' } })
})

t.test('a reader that stops, and a slow one', async (t) => {
  const { open, last } = await start(t)
  const stalled = await open({ 'stall-after-ms': '1000' })
  const block = silence(20)
  for (let count = 0; count < 40; count += 1) stalled.send(block)
  await sleep(300)
  t.ok(stalled.socket.bufferedAmount > 5_000_000, `${stalled.socket.bufferedAmount} bytes wait`)
  const held = (await last()).bytes
  await sleep(200)
  t.equal((await last()).bytes, held, 'nothing more is read')
  stalled.socket.terminate()

  const slow = await open({ 'read-bytes-per-second': '400000' })
  const startedMs = performance.now()
  for (const frame of framesOf({ ...AUDIO, pcm: silence(10) }, 100)) slow.send(frame)
  slow.send({ type: 'CloseStream' })
  await slow.ended
  const elapsedMs = performance.now() - startedMs
  t.ok(elapsedMs > 500, `320 kB at 400 kB/s took ${elapsedMs} ms`)
})

t.test('hearing nothing, no close at the end, and a broken end', async (t) => {
  const { open } = await start(t)
  const empty = await open({ empty: 'true' })
  send(empty)
  empty.send({ type: 'CloseStream' })
  t.match(await empty.ended, { code: 1000 })
  t.same(finals(empty), [])
  const lingering = await open({ linger: 'true' })
  send(lingering)
  lingering.send({ type: 'CloseStream' })
  await lingering.until('Metadata')
  await sleep(100)
  t.equal(lingering.socket.readyState, WebSocket.OPEN)
  lingering.socket.close()
  await lingering.ended
  const cut = await open({ cut: 'true' })
  send(cut)
  cut.send({ type: 'CloseStream' })
  t.match(await cut.ended, { code: 1006 })
  t.same(cut.ofType('Metadata'), [])
})

t.test('a slow handshake, one that is never answered, and late messages', async (t) => {
  const { deepgram, sandbox } = await start(t)
  const startedMs = performance.now()
  const late = new LiveClient(deepgram(), [], {
    headers: prefixed({ 'delay-ms': '250', 'piece-delay-ms': '200' }),
  })
  await late.open()
  t.ok(performance.now() - startedMs >= 245)
  late.send({ type: 'Finalize' })
  const askedMs = performance.now()
  await late.until('Results')
  t.ok(performance.now() - askedMs >= 190)
  late.send({ type: 'CloseStream' })
  t.match(await late.ended, { code: 1000 }, 'the close does not overtake messages')
  t.equal(late.messages.at(-1)?.type, 'Metadata')
  const hanging = new LiveClient(deepgram(), [], { headers: prefixed({ hang: 'true' }) })
  await sleep(200)
  t.equal(hanging.socket.readyState, WebSocket.CONNECTING)
  await sandbox.close()
  t.match(await hanging.ended, { code: 1006 }, 'until the sandbox ends')
})

t.test('transcripts in the wrong order', async (t) => {
  const { openai } = await start(t)
  const client = await new LiveClient(openai, [], { headers: prefixed({ disorder: 'true' }) }).open()
  const input = { transcription: { model: 'gpt-4o-transcribe' }, turn_detection: null }
  client.send({ type: 'session.update', session: { type: 'transcription', audio: { input } } })
  for (const text of ['one', 'two', 'three']) {
    const audio = liveAudio(text, { sampleRate: 24_000 }).pcm.toString('base64')
    client.send({ type: 'input_audio_buffer.append', audio })
    client.send({ type: 'input_audio_buffer.commit' })
  }
  const type = 'conversation.item.input_audio_transcription.completed'
  await client.until(type, 3)
  t.same(
    client.ofType(type).map(({ transcript }) => transcript),
    ['two', 'one', 'three'],
  )
  const committed = client.ofType('input_audio_buffer.committed')
  t.same(
    client.ofType(type).map(({ item_id }) => item_id),
    [1, 0, 2].map((at) => committed[at]!.item_id),
    'the items tell the order',
  )
  client.socket.close()
})

t.test('audio that is faster than real time is seen, and refused where that is ordered', async (t) => {
  const { open, last } = await start(t)
  const client = await open({})
  client.send(silence(0.5))
  client.send({ type: 'CloseStream' })
  await client.ended
  t.match((await last()).live, { lead_seconds: 0.5, audio_seconds: 0.5 })
  const fast = await open({})
  for (let count = 0; count < 20; count += 1) fast.send(silence(0.5))
  fast.send({ type: 'CloseStream' })
  await fast.ended
  const lead = (await last()).live?.lead_seconds ?? 0
  t.ok(lead > 9 && lead <= 10, `${lead} s ahead`)
  const limited = await open({ 'max-speed-percent': '125' })
  for (let count = 0; count < 20; count += 1) limited.send(silence(0.5))
  t.match(await limited.ended, { code: 1008, reason: /faster than 1\.25 times/ })
})

t.test('junk ends a session at most, never the sandbox', async (t) => {
  const { deepgram, openai, open } = await start(t)
  let state = 11
  const roll = (most: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * most)
  }
  const values = [
    null,
    true,
    '',
    'x',
    -1,
    1e308,
    [],
    {},
    [[]],
    { type: 1 },
    'audio/pcm',
    'server_vad',
    'whisper-1',
  ]
  const names = [
    ...['type', 'audio', 'session', 'input', 'format', 'transcription', 'turn_detection', 'model', 'channel'],
  ]
  const junk = (depth: number): unknown => {
    if (depth === 0 || roll(3) === 0) return values[roll(values.length)]
    return Object.fromEntries(
      Array.from({ length: roll(5) }, () => [names[roll(names.length)], junk(depth - 1)]),
    )
  }
  const types = [
    ...['session.update', 'input_audio_buffer.append', 'input_audio_buffer.commit', 'Finalize', 'KeepAlive'],
  ]
  let sent = 0
  for (let session = 0; session < 60; session += 1) {
    const client = await new LiveClient(session % 2 === 0 ? deepgram() : openai).open()
    for (let count = 0; count < 40 && client.socket.readyState === WebSocket.OPEN; count += 1, sent += 1) {
      const type = types[roll(types.length)]
      if (roll(3) === 0) client.send(Buffer.from(Array.from({ length: 1 + roll(200) }, () => roll(256))))
      else client.send({ ...(junk(4) as object), ...(roll(4) > 0 ? { type } : {}) })
      // Some sessions are ended by what they get.
      if (roll(10) === 0) await sleep(1)
    }
    client.socket.terminate()
  }
  t.ok(sent > 500, `${sent} messages`)
  const sound = await open({})
  send(sound)
  sound.send({ type: 'CloseStream' })
  await sound.ended
  t.same(finals(sound), ['alpha', 'bravo', 'charlie'])
})

t.test('the sandbox ends with its sessions', async () => {
  const own = await startSandbox()
  const client = await new LiveClient(`ws://127.0.0.1:${own.port}/v1/listen?${RAW}`).open()
  const closed = once(client.socket, 'close')
  await own.close()
  await closed
})
