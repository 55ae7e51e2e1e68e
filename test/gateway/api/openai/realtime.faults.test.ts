import { setTimeout as sleep } from 'node:timers/promises'
import OpenAI from 'openai'
import { OpenAIRealtimeWS } from 'openai/realtime/ws'
import { type Test, test } from 'tap'
import type { WebSocket } from 'ws'
import { type LocalCertificate, localCertificate } from '../../../support/edge.ts'
import { type LiveRig, openLive, wordsEntry } from '../../../support/live-rig.ts'
import { serveWords, wordsAudio, wordsText } from '../../../support/live-words.ts'

const HERTZ = 24_000
/** Bytes of 100 ms. */
const PIECE = HERTZ / 5

interface Told {
  readonly type: string
  readonly [name: string]: unknown
}

/** OpenAI's own client over TLS, unchanged but for the address, and all that it was told. */
class Caller {
  readonly realtime: OpenAIRealtimeWS
  readonly events: Told[] = []
  readonly errors: { readonly code?: string | null; readonly message?: string }[] = []
  readonly closed: Promise<number>

  constructor(t: Test, rig: LiveRig, { ca }: Pick<LocalCertificate, 'ca'>, key = keyOf(rig)) {
    const client = new OpenAI({ baseURL: `${rig.tlsOrigin}/openai/v1`, apiKey: key })
    this.realtime = new OpenAIRealtimeWS({ intent: 'transcription', options: { ca } }, client)
    this.realtime.on('event', (event) => void this.events.push(event as never))
    this.realtime.on('error', ({ error, message }) => void this.errors.push(error ?? { message }))
    this.closed = new Promise((resolve) => this.realtime.socket.on('close', resolve))
    t.teardown(() => (this.realtime.socket as unknown as WebSocket).terminate())
  }

  of(type: string): Told[] {
    return this.events.filter((event) => event.type === type)
  }

  async told(type: string, count = 1): Promise<Told> {
    const deadline = performance.now() + 20_000
    while (this.of(type).length < count) {
      if (performance.now() > deadline) throw new Error(`no ${type}: ${JSON.stringify(this.events.at(-1))}`)
      await sleep(10)
    }
    return this.of(type)[count - 1]!
  }

  async speak(audio: Buffer): Promise<void> {
    const startMs = performance.now()
    for (let at = 0; at < audio.length; at += PIECE) {
      const piece = audio.subarray(at, at + PIECE)
      this.realtime.send({ type: 'input_audio_buffer.append', audio: piece.toString('base64') })
      await sleep(Math.max(0, startMs + (at / PIECE) * 100 - performance.now()))
    }
  }
}

const COMPLETED = 'conversation.item.input_audio_transcription.completed'
const DELTA = 'conversation.item.input_audio_transcription.delta'
const words = (from: number, to: number) => wordsAudio(from, to, HERTZ)
const keyOf = ({ authorization }: Pick<LiveRig, 'authorization'>) => authorization.slice('Bearer '.length)
const textOf = (events: readonly Told[], member: string) => events.map((event) => event[member]).join(' ')

function update(input: object): never {
  return { type: 'session.update', session: { type: 'transcription', audio: { input } } } as never
}

test("OpenAI's client transcribes with turn detection, across the death of a provider", async (t) => {
  const certificate = await localCertificate(t)
  const dying = await serveWords(t, { death: () => ({ how: 'reset', afterSeconds: 2.25 }) })
  const sound = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(dying.origin, 'first'), wordsEntry(sound.origin, 'second')], {
    certificate,
  })
  const caller = new Caller(t, rig, certificate)
  const { session } = await caller.told('session.created')
  t.match(session, {
    type: 'transcription',
    audio: { input: { format: { type: 'audio/pcm', rate: 24_000 } } },
  })
  caller.realtime.send(update({ transcription: { model: 'gpt-4o-transcribe', language: 'en' } }))
  const { session: updated } = await caller.told('session.updated')
  t.match(updated, {
    audio: {
      input: {
        transcription: { model: 'gpt-4o-transcribe', language: 'en' },
        turn_detection: { type: 'server_vad', silence_duration_ms: 500 },
      },
    },
  })
  await caller.speak(words(0, 12))
  caller.realtime.send({ type: 'input_audio_buffer.commit' })
  await caller.told(COMPLETED, 12)
  const completed = caller.of(COMPLETED).filter(({ transcript }) => transcript !== '')
  t.equal(textOf(completed, 'transcript'), wordsText(12), 'every word once, in order')
  t.equal(textOf(caller.of(DELTA), 'delta'), wordsText(12))
  t.match(caller.of('larkway.switched'), [{ from: { provider: 'first' }, to: { provider: 'second' } }])
  const committed = caller.of('input_audio_buffer.committed')
  for (const [index, { previous_item_id: previous }] of committed.entries())
    t.equal(previous, committed[index - 1]?.item_id ?? null)
  for (const type of ['input_audio_buffer.speech_started', 'input_audio_buffer.speech_stopped'])
    t.ok(caller.of(type).length >= 11, type)
  t.same(caller.errors, [])
  caller.realtime.close()
  t.equal(await caller.closed, 1000)
  t.equal(rig.live.count, 0)
})

test('without turn detection the client commits', async (t) => {
  const certificate = await localCertificate(t)
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { certificate })
  const caller = new Caller(t, rig, certificate)
  await caller.told('session.created')
  caller.realtime.send({ type: 'input_audio_buffer.commit', event_id: 'mine' })
  await caller.told('error')
  t.match(caller.of('error'), [{ error: { code: 'INVALID_REQUEST', event_id: 'mine' } }])
  caller.realtime.send(update({ turn_detection: null }))
  await caller.told('session.updated')
  await caller.speak(words(0, 3))
  caller.realtime.send({ type: 'input_audio_buffer.commit' })
  const first = await caller.told(COMPLETED)
  t.match(first, { transcript: wordsText(3), usage: { type: 'duration', seconds: 1.2 } })
  await caller.speak(words(3, 5))
  caller.realtime.send({ type: 'input_audio_buffer.clear' })
  await caller.told('input_audio_buffer.cleared')
  await caller.speak(words(5, 7))
  caller.realtime.send({ type: 'input_audio_buffer.commit' })
  const second = await caller.told(COMPLETED, 2)
  t.match(second, { transcript: 'w5 w6', usage: { seconds: 0.8 } })
  t.same(caller.of('input_audio_buffer.speech_started'), [])
  t.match(caller.of('input_audio_buffer.committed')[1], {
    item_id: second.item_id,
    previous_item_id: first.item_id,
  })
  caller.realtime.send(update({ transcription: { language: 'de' } }))
  await caller.told('error', 2)
  t.match(caller.of('error')[1], { error: { message: /once audio has come/ } })
  caller.realtime.close()
  await caller.closed
})

test('what a client sends wrongly is told, and the session goes on', async (t) => {
  const certificate = await localCertificate(t)
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { certificate })
  const caller = new Caller(t, rig, certificate)
  await caller.told('session.created')
  const raw = caller.realtime.socket as unknown as WebSocket
  const append = (audio: unknown) => JSON.stringify({ type: 'input_audio_buffer.append', audio })
  const faults: readonly (readonly [string | Buffer, object])[] = [
    ['{', {}],
    ['[]', {}],
    [Buffer.alloc(10), { message: /base64/ }],
    ['{"type":"response.create"}', { param: 'type' }],
    ['{"type":"session.update","session":{"type":"realtime"}}', { param: 'session.type' }],
    [append(7), {}],
    [append('&&&&'), { param: 'audio' }],
    [append(undefined), { param: 'audio' }],
    [append('A'.repeat(1024 * 1024)), { code: 'REQUEST_TOO_LARGE' }],
    [
      JSON.stringify(update({ transcription: { provider: 'openai' } })),
      { code: 'ROUTE_CONTROL_NOT_ALLOWED', param: 'session.audio.input.transcription.provider' },
    ],
    [
      JSON.stringify(update({ transcription: { diarization: true } })),
      { code: 'REQUIRED_FEATURE_UNAVAILABLE' },
    ],
    [JSON.stringify(update({ format: { type: 'audio/pcm', rate: 16_000 } })), { param: /format\.rate/ }],
  ]
  for (const [index, [message, error]] of faults.entries()) {
    raw.send(message)
    t.match(await caller.told('error', index + 1), { error: { type: 'invalid_request_error', ...error } })
  }
  caller.realtime.send(update({ format: { type: 'audio/pcmu' }, turn_detection: null }))
  t.match(await caller.told('session.updated'), {
    session: { audio: { input: { format: { type: 'audio/pcmu' }, turn_detection: null } } },
  })
  caller.realtime.close()
  t.equal(await caller.closed, 1000)
})

test('a session that an operator ends says so, and is over for its client', async (t) => {
  const certificate = await localCertificate(t)
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')], { certificate })
  const caller = new Caller(t, rig, certificate)
  await caller.told('session.created')
  caller.realtime.send(update({ transcription: { model: 'gpt-4o-transcribe' } }))
  await caller.told('session.updated')
  await caller.speak(words(0, 3))
  rig.live.list()[0]?.session.stop()
  t.match(await caller.told('error'), {
    error: { code: 'session_expired', message: 'an operator ended the session' },
  })
  t.equal(await caller.closed, 1000)
  t.equal(textOf(caller.of(COMPLETED), 'transcript').trim(), wordsText(3), 'what was said is transcribed')
})
