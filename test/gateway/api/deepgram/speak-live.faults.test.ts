import { setTimeout as sleep } from 'node:timers/promises'
import { DeepgramClient } from '@deepgram/sdk'
import { type Test, test } from 'tap'
import { WebSocket } from 'ws'
import { facts } from '../../../support/catalog.ts'
import { openSpeech, SpeechClient, samplesOf, serveVoice, voiceEntry } from '../../../support/speech-rig.ts'
import { waitUntil } from '../../../support/wait-until.ts'

const SENTENCES = ['One lark sings.', 'Two larks sing!', 'Three larks?']
/** As in `facts()`. */
const MICROS_PER_CHARACTER = 50
const microsOf = (texts: readonly string[]) => texts.join('').length * MICROS_PER_CHARACTER
const MIB = 1024 * 1024

type Rig = Awaited<ReturnType<typeof openSpeech>>

const urlOf = ({ origin }: Rig, query: string) =>
  `${origin.replace('http:', 'ws:')}/deepgram/v1/speak?${query}`
const keyOf = ({ authorization }: Rig) => authorization.slice('Bearer '.length)

/** A caller in Deepgram's messages. */
class Caller extends SpeechClient {
  /** Code and reason of the close. */
  readonly ended: Promise<string>

  constructor(t: Test, rig: Rig, query = '') {
    const headers = { authorization: `Token ${keyOf(rig)}` }
    super(t, new WebSocket(urlOf(rig, query), { headers }))
    this.ended = new Promise((resolve) =>
      this.socket.on('close', (code, reason) => resolve(`${code} ${reason}`)),
    )
  }

  speak(text: string): void {
    this.send({ type: 'Speak', text })
  }
}

test("Deepgram's client has text spoken while it is written", async (t) => {
  const voice = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const baseUrl = `${rig.origin.replace('http:', 'ws:')}/deepgram`
  const client = new DeepgramClient({ apiKey: keyOf(rig), baseUrl })
  const socket = await client.speak.v1.connect({
    model: 'nova',
    encoding: 'linear16',
    sample_rate: '24000',
  } as never)
  const audio: Blob[] = []
  const messages: object[] = []
  const codes: number[] = []
  socket.on('message', (message: unknown) => {
    if (message instanceof Blob) audio.push(message)
    else messages.push(message as object)
  })
  const heard = async () => Buffer.from(await new Blob(audio).arrayBuffer())
  socket.on('close', ({ code }: { code: number }) => void codes.push(code))
  t.teardown(() => socket.close())
  socket.connect()
  await socket.waitForOpen()
  for (const text of ['One lark ', 'sings. Two larks', ' sing!']) socket.sendText({ type: 'Speak', text })
  socket.sendFlush({ type: 'Flush' })
  await waitUntil(() => messages.length > 1)
  t.match(messages, [
    {
      type: 'Metadata',
      request_id: /^[0-9a-f-]{36}$/,
      model_name: String,
      model_version: '',
      model_uuid: /^[0-9a-f-]{36}$/,
    },
    { type: 'Flushed', sequence_id: 0 },
  ])
  const spoken = SENTENCES.slice(0, 2)
  t.ok((await heard()).equals(Buffer.concat(spoken.map((text) => samplesOf(text)))))
  socket.sendText({ type: 'Speak', text: 'Three larks?' })
  socket.sendClose({ type: 'Close' })
  await waitUntil(() => codes.length > 0)
  t.same(codes, [1000], 'the rest is spoken, and the stream is over')
  t.ok((await heard()).equals(Buffer.concat(SENTENCES.map((text) => samplesOf(text)))))
  t.same(voice.asked, SENTENCES)
  t.equal(await rig.spent(), microsOf(SENTENCES))
})

test('each Flush is answered once, behind all that came before it', async (t) => {
  const gates = SENTENCES.map(() => Promise.withResolvers<void>())
  const voice = await serveVoice(t, (_, count) => ({ until: gates[count]!.promise }))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = new Caller(t, rig)
  await caller.message('Metadata')
  caller.send({ type: 'Flush' })
  t.match(await caller.message('Flushed'), { sequence_id: 0 }, 'nothing was said')
  for (const text of SENTENCES) {
    caller.speak(text)
    caller.send({ type: 'Flush' })
  }
  for (const gate of gates) gate.resolve()
  caller.send({ type: 'Close' })
  t.equal(await caller.ended, '1000 ')
  t.same(
    caller.of('Flushed').map(({ sequence_id: id }) => id),
    [0, 1, 2, 3],
  )
  let heard = 0
  const heardBefore = caller.order.flatMap((what) => {
    heard += typeof what === 'number' ? what : 0
    return what === 'Flushed' ? [heard] : []
  })
  const ends = SENTENCES.map((_, at) => SENTENCES.slice(0, at + 1).join('').length * 200)
  t.same(heardBefore, [0, ...ends])
})

for (const [name, bytes, isHeld] of [
  ['a sentence whose provider has not answered', 3_000, true],
  ['a sentence of which some was heard', 8 * MIB, false],
] as const)
  test(`Clear drops ${name}, and what waits behind it`, async (t) => {
    const gate = Promise.withResolvers<void>()
    t.teardown(() => gate.resolve())
    const voice = await serveVoice(t, (text) =>
      text === 'After.' ? {} : { bytes, ...(isHeld ? { until: gate.promise } : {}) },
    )
    const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
    const caller = new Caller(t, rig)
    await caller.message('Metadata')
    if (!isHeld) caller.socket.pause()
    caller.speak(`${SENTENCES.join(' ')} And no end`)
    caller.send({ type: 'Flush' })
    await waitUntil(() => (isHeld ? voice.asked.length > 0 : voice.written() > MIB))
    caller.send({ type: 'Clear' })
    caller.speak('After.')
    caller.send({ type: 'Flush' })
    if (!isHeld) caller.socket.resume()
    t.match(await caller.message('Cleared'), { sequence_id: 0 })
    t.match(await caller.message('Flushed'), { sequence_id: 1 }, 'that of the dropped text is not answered')
    const at = caller.order.indexOf('Cleared')
    const after = samplesOf('After.')
    t.equal(
      caller.order.slice(at).reduce<number>((sum, what) => sum + (typeof what === 'number' ? what : 0), 0),
      after.length,
    )
    t.ok(caller.audio.subarray(-after.length).equals(after))
    t.ok(caller.audio.length < 4 * MIB + after.length, `${caller.audio.length} bytes were heard`)
    t.ok(voice.asked.length <= 3, `asked: ${voice.asked.join(' ')}`)
    caller.send({ type: 'Close' })
    t.equal(await caller.ended, '1000 ')
    // The second is asked for ahead, while the first is played out.
    const asked = SENTENCES.slice(0, isHeld ? 1 : 2)
    t.equal(await rig.spent(), microsOf([...asked, 'After.']), 'what was asked of the provider is paid')
    t.equal(rig.services.budget.used, 0)
  })

test('Clear that comes again and again keeps no provider busy', async (t) => {
  const gate = Promise.withResolvers<void>()
  t.teardown(() => gate.resolve())
  const voice = await serveVoice(t, (text) => (text === 'After.' ? {} : { until: gate.promise }))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = new Caller(t, rig)
  await caller.message('Metadata')
  for (let count = 0; count < 200; count += 1) {
    caller.speak(`Lark ${count}. `)
    caller.send({ type: 'Flush' })
    caller.send({ type: 'Clear' })
  }
  caller.speak('After.')
  caller.send({ type: 'Close' })
  t.equal(await caller.ended, '1000 ')
  t.equal(caller.of('Cleared').length, 200)
  t.ok(caller.audio.equals(samplesOf('After.')))
  await rig.spent()
  t.equal(rig.services.budget.used, 0)
})

test('another entry speaks what was not begun, and its model is told', async (t) => {
  const dying = await serveVoice(t, (_, count) => (count === 1 ? { status: 500 } : {}))
  const sound = await serveVoice(t)
  const second = { ...voiceEntry(sound, 'second'), model: 'another' }
  const rig = await openSpeech(t, [voiceEntry(dying, 'first'), second])
  const caller = new Caller(t, rig)
  caller.socket.on('open', () => {
    for (const text of SENTENCES) caller.speak(`${text} `)
    caller.send({ type: 'Close' })
  })
  t.equal(await caller.ended, '1000 ')
  t.ok(caller.audio.equals(Buffer.concat(SENTENCES.map((text) => samplesOf(text)))))
  t.ok(caller.of('Metadata').some(({ model_name: name }) => name === 'another'))
})

test('half a sample at the end of a sentence shifts nothing behind it', async (t) => {
  const voice = await serveVoice(t, (_, count) => (count === 0 ? { bytes: 3_001 } : {}))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = new Caller(t, rig)
  await caller.message('Metadata')
  caller.speak(SENTENCES.slice(0, 2).join(' '))
  caller.send({ type: 'Close' })
  t.equal(await caller.ended, '1000 ')
  const first = samplesOf(SENTENCES[0]!, 3_001).subarray(0, 3_000)
  t.ok(caller.audio.equals(Buffer.concat([first, samplesOf(SENTENCES[1]!)])))
})

test('what mip_opt_out demands holds for every sentence', async (t) => {
  const voice = await serveVoice(t)
  const strict = await serveVoice(t, (_, count) => (count === 1 ? { status: 500 } : {}))
  const promises = facts({ retention: 'zero', training: 'never' })
  const entries = [voiceEntry(voice, 'first'), { ...voiceEntry(strict, 'second'), facts: promises }]
  const rig = await openSpeech(t, entries)
  const caller = new Caller(t, rig, 'mip_opt_out=true')
  await caller.message('Metadata')
  for (const text of SENTENCES) caller.speak(`${text} `)
  caller.send({ type: 'Close' })
  t.match(await caller.ended, /^1011 NET-0000: /)
  t.same(strict.asked.slice(0, 2), SENTENCES.slice(0, 2))
  t.same(voice.asked, [], 'not when the other fails either')
})

test('a caller that writes nothing is kept, one that leaves is not, and a node that stops says so', async (t) => {
  const gate = Promise.withResolvers<void>()
  t.teardown(() => gate.resolve())
  const voice = await serveVoice(t, (_, count) => (count > 0 ? { until: gate.promise } : {}))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')], { limits: { live_idle_seconds: 1 } })
  const silent = new Caller(t, rig)
  await silent.message('Metadata')
  await sleep(2_500)
  silent.speak(SENTENCES[0]!)
  silent.send({ type: 'Flush' })
  await silent.message('Flushed')
  const left = new Caller(t, rig)
  await left.message('Metadata')
  left.speak(`${SENTENCES[1]} More`)
  await waitUntil(() => voice.asked.length > 1)
  left.socket.terminate()
  await waitUntil(() => rig.live.count === 1)
  rig.live.goAway(1)
  t.match(await silent.message('Warning'), { code: 'GOING_AWAY', description: /^the session ends in 1 s/ })
  t.match(await silent.ended, /^1001 this node stops/)
  t.equal(await rig.spent(), microsOf(SENTENCES.slice(0, 2)))
})

test('a session that an operator ends is over for its client', async (t) => {
  const voice = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = new Caller(t, rig)
  await caller.message('Metadata')
  rig.live.list()[0]?.session.stop()
  t.match(await caller.message('Warning'), { description: 'an operator ends the session' })
  t.equal(await caller.ended, '1000 an operator ended the session')
})

test('what is wrong is refused before the handshake, and by the code of the close behind it', async (t) => {
  const voice = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const refusal = (query: string, authorization = `Token ${keyOf(rig)}`) => {
    const socket = new WebSocket(urlOf(rig, query), { headers: { authorization } })
    return new Promise<string>((resolve) => {
      socket.on('error', () => {})
      socket.on('upgrade', ({ headers }) => {
        socket.on('open', () => socket.close())
        resolve(`101 ${headers['x-lk-warnings']}`)
      })
      socket.on('unexpected-response', (_, { statusCode, headers }) => {
        resolve(`${statusCode} ${headers['dg-error']}`)
        socket.terminate()
      })
    })
  }
  t.match(await refusal('', 'Token lk_live_no'), /^401 /)
  t.match(await refusal('encoding=mp3'), /^400 `encoding` must be one of `linear16`, `mulaw`, `alaw`/)
  t.match(await refusal('container=wav'), /^400 `container` must be `none`/)
  t.match(await refusal('encoding=mulaw&sample_rate=16000'), /^400 `sample_rate`/)
  t.match(await refusal('sample_rate=many'), /^400 `sample_rate`/)
  t.match(await refusal('speed=0'), /^400 `speed`/)
  t.match(await refusal('callback=https://hooks.example'), /^400 `callback`/)
  t.match(await refusal('require=region'), /^400 `require`/)
  t.match(await refusal('mip_opt_out=true'), /^422 /)
  t.match(await refusal('mip_opt_out=false&bit_rate=48000&tag=a&lark=1'), /^101 \["bit_rate: .*"tag: .*lark/)

  const browser = new WebSocket(urlOf(rig, 'encoding=linear16'), ['token', keyOf(rig)])
  await new Promise((resolve) => browser.on('open', resolve))
  t.equal(browser.protocol, 'token')
  browser.terminate()
  t.match(await new Caller(t, rig, 'errors=in_band&encoding=mp3').ended, /^1008 DATA-0000: `encoding`/)

  const rows: readonly (readonly [message: object | Buffer | string, reason: RegExp])[] = [
    ['{', /^1008 DATA-0000: /],
    ['null', /^1008 DATA-0000: /],
    [Buffer.from('audio'), /^1008 DATA-0000: /],
    [{ type: 'text', text: 'a' }, /^1008 DATA-0000: `type`/],
    [{ type: 'Speak' }, /^1008 DATA-0000: `text` must be a string/],
    [{ type: 'Speak', text: ['a'] }, /^1008 DATA-0000: `text`/],
    [{ type: 'Speak', text: 'a'.repeat(20_001) }, /^1008 DATA-0000: at most 20000/],
    [{ type: 'Speak', text: 'a'.repeat(262_144) }, /^1008 DATA-0000: /],
  ]
  for (const [message, reason] of rows) {
    const caller = new Caller(t, rig)
    await caller.message('Metadata')
    caller.send(message)
    t.match(await caller.ended, reason, JSON.stringify(message).slice(0, 60))
  }
  const late = new Caller(t, rig)
  await late.message('Metadata')
  late.send({ type: 'Close' })
  late.speak('more')
  late.send('{')
  t.equal(await late.ended, '1000 ')
  t.equal(await rig.spent(), 0)
  t.same(voice.asked, [])
})
