import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { connect as connectTcp } from 'node:net'
import { createServer } from 'node:tls'
import { OpenAI } from 'openai'
import { OpenAIRealtimeWS } from 'openai/realtime/ws'
import t, { type Test } from 'tap'
import { type ReceivedCall, startSandbox } from '../../src/sandbox/server.ts'
import { createAuthority } from '../support/certificates.ts'
import { framesOf, type LiveAudio, liveAudio, silence } from '../support/live-audio.ts'
import { LiveClient, type Message } from '../support/live-client.ts'

const RATE = { sampleRate: 24_000 }
const TRANSCRIPT = 'conversation.item.input_audio_transcription'

async function start(t: Test) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const origin = sandbox.url.replace('/v1', '')
  const url = (query = 'intent=transcription') => `${origin.replace('http', 'ws')}/v1/realtime?${query}`
  return {
    url,
    port: sandbox.port,
    /** A session with a model and turn detection. */
    async open(input: object = {}, query?: string): Promise<LiveClient> {
      const client = await new LiveClient(url(query)).open()
      await client.until('session.created')
      client.send(update({ transcription: { model: 'gpt-live-transcribe' }, ...input }))
      await client.until('session.updated')
      return client
    },
    calls: async () =>
      ((await (await fetch(`${origin}/sandbox/calls`)).json()) as { calls: ReceivedCall[] }).calls,
  }
}

const update = (input: object) => ({
  type: 'session.update',
  session: { type: 'transcription', audio: { input } },
})
const append = (bytes: Buffer) => ({ type: 'input_audio_buffer.append', audio: bytes.toString('base64') })
const COMMIT = { type: 'input_audio_buffer.commit' }

function send(client: LiveClient, audio: LiveAudio, frameMs = 100): void {
  for (const frame of framesOf(audio, frameMs)) client.send(append(frame))
}

const errorOf = (message: Message | undefined) =>
  message?.error as {
    type: string
    code: string
    message: string
    param: string | null
    event_id: string | null
  }

t.test('turn detection out of the silence in the audio', async (t) => {
  const { open, calls } = await start(t)
  const client = await open()
  const [first, second] = [liveAudio('hello world', RATE), liveAudio('again', RATE)]
  send(client, first)
  client.send(append(silence(0.4, 24_000)))
  send(client, second)
  client.send(append(silence(0.4, 24_000)))
  const [a, b] = [
    await client.until(`${TRANSCRIPT}.completed`),
    await client.until(`${TRANSCRIPT}.completed`, 2),
  ]
  t.match([a, b], [{ transcript: 'hello world' }, { transcript: 'again' }])
  t.match(a.usage, { type: 'duration' })
  const order = client.messages.map(({ type }) => type).filter((type) => !type.endsWith('.delta'))
  const item = [
    'input_audio_buffer.speech_started',
    'input_audio_buffer.speech_stopped',
    'input_audio_buffer.committed',
    'conversation.item.added',
    'conversation.item.done',
    `${TRANSCRIPT}.completed`,
  ]
  t.same(order, ['session.created', 'session.updated', ...item, ...item])
  const [started, stopped] = [client.ofType(item[0]!)[0]!, client.ofType(item[1]!)[0]!]
  const [from, to] = [first.words[0]!.start, first.words[1]!.end]
  t.ok(Math.abs(Number(started.audio_start_ms) - Math.max(0, from - 0.3) * 1000) <= 5)
  t.ok(Math.abs(Number(stopped.audio_end_ms) - (to + 0.5) * 1000) <= 20, `${stopped.audio_end_ms} ms`)
  const committed = client.ofType('input_audio_buffer.committed')
  t.match(committed, [
    { item_id: a.item_id, previous_item_id: null },
    { item_id: b.item_id, previous_item_id: a.item_id },
  ])
  t.ok(new Set(client.messages.map(({ event_id }) => event_id)).size === client.messages.length)
  for (const { item_id, transcript } of [a, b]) {
    const deltas = client.ofType(`${TRANSCRIPT}.delta`).filter((delta) => delta.item_id === item_id)
    t.equal(deltas.map(({ delta }) => delta).join(''), transcript, 'deltas add up')
    t.ok(deltas.length > 3, 'they come by characters')
  }
  client.socket.close(1000)
  await client.ended
  const [call] = await calls()
  t.match(call, { path: '/v1/realtime', status: 101, model: 'gpt-live-transcribe' })
  t.match(call?.live, { words: 3, end: { by: 'client', code: 1000 } })
})

t.test('commits of the client, with each model in its own way', async (t) => {
  const { open } = await start(t)
  const audio = liveAudio('so it is', RATE)
  const rows: [model: string, usage: string, deltas: number][] = [
    ['gpt-realtime-whisper', 'duration', 6],
    ['gpt-4o-transcribe', 'tokens', 3],
    ['whisper-1', 'duration', 1],
  ]
  for (const [model, type, deltas] of rows) {
    const client = await open({ transcription: { model }, turn_detection: null })
    send(client, audio, 40)
    if (model === 'gpt-realtime-whisper') await client.until(`${TRANSCRIPT}.delta`)
    client.send(COMMIT)
    const { transcript, usage } = await client.until(`${TRANSCRIPT}.completed`)
    t.equal(transcript, 'so it is', model)
    const types = client.messages.map((message) => message.type)
    const isTold = types.indexOf(`${TRANSCRIPT}.delta`) < types.indexOf('input_audio_buffer.committed')
    t.equal(isTold, model === 'gpt-realtime-whisper', 'deltas before the commit')
    t.match(usage, { type })
    if (type === 'duration') t.ok(Math.abs((usage as { seconds: number }).seconds - audio.seconds) < 0.01)
    t.ok(client.ofType(`${TRANSCRIPT}.delta`).length >= deltas)
    t.equal(
      client
        .ofType(`${TRANSCRIPT}.delta`)
        .map(({ delta }) => delta)
        .join(''),
      transcript,
    )
    t.equal(client.ofType('input_audio_buffer.speech_started').length, 0)
    client.send(append(silence(0.2, 24_000)))
    client.send(COMMIT)
    t.match(await client.until(`${TRANSCRIPT}.completed`, 2), { transcript: '' }, 'silence is an empty item')
    client.socket.close()
  }
})

t.test('speakers, telephone formats, and a cleared buffer', async (t) => {
  const { open } = await start(t)
  const diarized = await open({ transcription: { model: 'gpt-4o-transcribe-diarize' }, turn_detection: null })
  for (const hertz of [600, 850]) send(diarized, liveAudio('yes', { ...RATE, hertz }))
  diarized.send(COMMIT)
  await diarized.until(`${TRANSCRIPT}.completed`)
  t.match(diarized.ofType(`${TRANSCRIPT}.segment`), [
    { speaker: 'A', text: 'yes' },
    { speaker: 'B', text: 'yes' },
  ])
  diarized.socket.close()

  const cleared = await open({ turn_detection: null })
  send(cleared, liveAudio('not this', RATE))
  cleared.send({ type: 'input_audio_buffer.clear' })
  await cleared.until('input_audio_buffer.cleared')
  send(cleared, liveAudio('this', RATE))
  cleared.send(COMMIT)
  t.match(await cleared.until(`${TRANSCRIPT}.completed`), { transcript: 'this' })
  cleared.socket.close()

  const telephone = await open({ format: { type: 'audio/pcmu' }, turn_detection: null })
  telephone.send(append(Buffer.alloc(8000, 0xff)))
  telephone.send(COMMIT)
  const { usage } = await telephone.until(`${TRANSCRIPT}.completed`)
  t.same(usage, { type: 'duration', seconds: 1 })
  telephone.socket.close()
})

t.test('what OpenAI refuses in a session, which goes on', async (t) => {
  const { open } = await start(t)
  const client = await open()
  const rows: [event: object | string, code: string, param: string | null][] = [
    [COMMIT, 'input_audio_buffer_commit_empty', null],
    [{ type: 'input_audio_buffer.append', audio: '***=' }, 'invalid_value', 'audio'],
    [{ type: 'input_audio_buffer.append' }, 'invalid_value', 'audio'],
    [append(Buffer.alloc(15 * 1024 * 1024 + 3)), 'string_above_max_length', 'audio'],
    [{ type: 'response.create' }, 'invalid_value', 'type'],
    [{ type: 'session.update', session: { type: 'realtime' } }, 'invalid_parameter', 'session.type'],
    [
      update({ format: { type: 'audio/pcm', rate: 16_000 } }),
      'invalid_value',
      'session.audio.input.format.rate',
    ],
    [update({ format: { type: 'audio/opus' } }), 'invalid_value', 'session.audio.input.format.type'],
    [
      update({ transcription: { model: 'gpt-realtime-whisper' } }),
      'invalid_value',
      'session.audio.input.turn_detection',
    ],
    ['{', 'invalid_json', null],
  ]
  for (const [at, [event, code, param]] of rows.entries()) {
    if (typeof event === 'string') client.socket.send(event)
    else client.send({ ...event, event_id: `mine_${at}` })
    const error = errorOf(await client.until('error', at + 1))
    t.match(error, { type: 'invalid_request_error', code, param }, JSON.stringify(event).slice(0, 99))
    t.equal(error.event_id, typeof event === 'string' ? null : `mine_${at}`)
  }
  client.send(append(Buffer.alloc(24 * 99)))
  client.send(COMMIT)
  t.match(errorOf(await client.until('error', rows.length + 1)).message, /at least 100ms.*49\.50ms/)
  send(client, liveAudio('still here', RATE))
  client.send(append(silence(0.4, 24_000)))
  t.match(await client.until(`${TRANSCRIPT}.completed`), { transcript: 'still here' })
  client.socket.close()
})

t.test('what OpenAI refuses once the socket is open: 4000', async (t) => {
  const { url, open } = await start(t)
  const rows: [query: string, code: string, options?: { beta: 'header' | 'protocol' }][] = [
    ['model=gpt-4o-transcribe', 'invalid_model'],
    ['model=gpt-realtime', 'invalid_model'],
    ['intent=transcription&model=whisper-1', 'invalid_parameter'],
    ['intent=conversation', 'invalid_value'],
    ['', 'missing_required_parameter'],
    ['intent=transcription', 'beta_api_shape_disabled', { beta: 'header' }],
    ['intent=transcription', 'beta_api_shape_disabled', { beta: 'protocol' }],
  ]
  for (const [query, code, options] of rows) {
    const protocols = options?.beta === 'protocol' ? ['realtime', 'openai-beta.realtime-v1'] : []
    const headers = options?.beta === 'header' ? { 'openai-beta': 'realtime=v1' } : {}
    const client = new LiveClient(url(query), protocols, { headers })
    t.match(await client.ended, { code: 4000, reason: `invalid_request_error.${code}` }, query)
    t.same(
      client.messages.map(({ type }) => type),
      ['error'],
    )
  }
  const client = await open()
  client.send(update({ transcription: { model: 'nova-3' } }))
  t.match(await client.ended, { code: 4000, reason: 'invalid_request_error.invalid_model' })
  const browser = await new LiveClient(url(), ['realtime', 'openai-insecure-api-key.sk-x']).open()
  t.equal(browser.socket.protocol, 'realtime')
  browser.socket.close()
})

t.test('a session ends at its longest time', async (t) => {
  const { open } = await start(t)
  const client = await open({}, 'intent=transcription&x-sandbox-session-ms=300')
  t.match(await client.ended, { code: 1001 })
  t.match(errorOf(client.messages.at(-1)), { code: 'session_expired' })
})

t.test("OpenAI's own client, as it is", async (t) => {
  const { port } = await start(t)
  const authority = createAuthority()
  // The client opens wss: only.
  const front = createServer(authority.issue(['localhost']), (socket) => {
    const upstream = connectTcp(port, '127.0.0.1')
    socket.pipe(upstream).pipe(socket)
    for (const side of [socket, upstream])
      side.on('error', () => [socket, upstream].map((of) => of.destroy()))
  })
  front.listen(0, '127.0.0.1')
  await once(front, 'listening')
  t.teardown(() => front.close())
  const baseURL = `https://localhost:${(front.address() as AddressInfo).port}/v1`
  const client = new OpenAI({ baseURL, apiKey: 'sk-any' })
  const realtime = new OpenAIRealtimeWS({ intent: 'transcription', options: { ca: authority.cert } }, client)
  const completed = new Promise<string>((resolve, reject) => {
    realtime.on('error', reject)
    realtime.on('conversation.item.input_audio_transcription.completed', ({ transcript }) =>
      resolve(transcript),
    )
  })
  realtime.on('session.created', () =>
    realtime.send({
      type: 'session.update',
      session: {
        type: 'transcription',
        audio: { input: { transcription: { model: 'gpt-live-transcribe' }, turn_detection: null } },
      },
    }),
  )
  realtime.on('session.updated', () => {
    for (const frame of framesOf(liveAudio('cq cq', RATE), 100))
      realtime.send({ type: 'input_audio_buffer.append', audio: frame.toString('base64') })
    realtime.send({ type: 'input_audio_buffer.commit' })
  })
  t.equal(await completed, 'cq cq')
  realtime.close()
})
