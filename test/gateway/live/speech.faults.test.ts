import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'tap'
import { configuredProvider, entry } from '../../support/catalog.ts'
import { openSpeech, samplesOf, serveVoice, voiceEntry } from '../../support/speech-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { serveVoiceSocket } from './voice-socket.ts'

const TEXT = ['One lark sings. ', 'Two larks', ' sing! Three', ' larks?']
const SENTENCES = ['One lark sings.', 'Two larks sing!', 'Three larks?']
/** As in `facts()`. */
const MICROS_PER_CHARACTER = 50
const microsOf = (texts: readonly string[]) => texts.join('').length * MICROS_PER_CHARACTER

test('text is spoken sentence by sentence, in order, as POST /v1/speech speaks each', async (t) => {
  const voice = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = rig.connect('response_format=pcm&voice=nova')
  const ready = await caller.message('ready')
  t.match(ready, { provider: 'first', response_format: 'pcm', policy_version_id: /^pv_/ })
  t.match(ready.limits, { live_max_waiting_characters: 20_000, live_idle_seconds: 60 })
  t.equal(caller.socket.protocol, 'larkway.v1')
  for (const text of TEXT) caller.write(text)
  caller.end()
  const done = await caller.message('done')
  t.equal(await caller.closed, 1000)
  const cost = microsOf(SENTENCES)
  t.match(done, {
    provider: 'first',
    content_blocks: [],
    usage: { audio_output_characters: SENTENCES.join('').length, total_tokens: 0 },
    cost_usd: cost / 1_000_000,
  })
  t.equal(await rig.spent(), cost)
  t.same(voice.asked, SENTENCES)
  const spoken = caller.of('spoken')
  t.same(
    spoken.map(({ seq, text, characters, audio_bytes }) => [seq, text, characters, audio_bytes]),
    SENTENCES.map((text, seq) => [seq, text, text.length, samplesOf(text).length]),
  )
  let heard = 0
  const heardBefore = caller.order.flatMap((what) => {
    heard += typeof what === 'number' ? what : 0
    return what === 'spoken' ? [heard] : []
  })
  const lengths = SENTENCES.map((text) => samplesOf(text).length)
  t.same(heardBefore, [lengths[0], lengths[0]! + lengths[1]!, heard], 'each is said to be spoken when it is')
  const each = await Promise.all(SENTENCES.map((text) => rig.post(text)))
  t.ok(caller.audio.equals(Buffer.concat(each)), 'the audio of each sentence, one behind the other')
  t.equal(rig.live.count, 0)
})

test('fields come with start, and flush speaks what is there', async (t) => {
  const voice = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = rig.connect('')
  await waitUntil(() => caller.socket.readyState === caller.socket.OPEN)
  caller.send({ type: 'start', response_format: 'pcm', speed: 2, purpose: 'tell', nonsense: 1 })
  const { warnings } = await caller.message('ready')
  t.match(warnings, [/nonsense/])
  caller.write('no end')
  await sleep(100)
  t.same(voice.asked, [], 'a sentence may go on')
  caller.send({ type: 'flush', id: 'a' })
  t.equal((await caller.message('flushed')).id, 'a')
  t.ok(caller.audio.equals(samplesOf('no end')))
  caller.send({ type: 'flush' })
  t.equal((await caller.message('flushed', 2)).id, null)
  caller.end()
  await caller.message('done')
  t.same(
    caller.order.filter((what) => typeof what === 'string'),
    ['ready', 'spoken', 'flushed', 'flushed', 'done'],
  )
})

test('of wav files there is one head, with an open length', async (t) => {
  const voice = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = rig.connect('response_format=wav')
  for (const text of TEXT) await caller.message('ready').then(() => caller.write(text))
  caller.end()
  await caller.message('done')
  const head = (await rig.post(SENTENCES[0]!, 'wav')).subarray(0, 44)
  head.fill(0xff, 4, 8)
  head.fill(0xff, 40, 44)
  t.ok(caller.audio.equals(Buffer.concat([head, ...SENTENCES.map((text) => samplesOf(text))])))
})

test('at most one sentence is asked for ahead', async (t) => {
  const gates = SENTENCES.map(() => Promise.withResolvers<void>())
  const voice = await serveVoice(t, (_, count) => ({ until: gates[count]!.promise }))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = rig.connect()
  await caller.message('ready')
  caller.write(TEXT.join(''))
  caller.end()
  await waitUntil(() => voice.asked.length > 0)
  await sleep(100)
  t.same(voice.asked, SENTENCES.slice(0, 1), 'the first has not begun')
  gates[0]!.resolve()
  await caller.message('spoken')
  await waitUntil(() => voice.asked.length > 1)
  await sleep(100)
  t.same(voice.asked, SENTENCES.slice(0, 2))
  gates[1]!.resolve()
  gates[2]!.resolve()
  await caller.message('done')
  t.ok(caller.audio.equals(Buffer.concat(SENTENCES.map((text) => samplesOf(text)))))
})

for (const [name, at, format] of [
  ['before its first sentence', 0, 'pcm'],
  ['before its second sentence', 1, 'pcm'],
  ['behind the head of a wav file', 1, 'wav'],
] as const)
  test(`a provider that dies ${name} is replaced, and nobody hears it`, async (t) => {
    const dying = await serveVoice(t, (_, count) =>
      count !== at ? {} : format === 'wav' ? { cutAfter: 0 } : { status: 500 },
    )
    const sound = await serveVoice(t)
    const rig = await openSpeech(t, [voiceEntry(dying, 'first'), voiceEntry(sound, 'second')])
    const caller = rig.connect(`response_format=${format}`)
    await caller.message('ready')
    for (const text of TEXT) caller.write(text)
    caller.end()
    await caller.message('done')
    const samples = Buffer.concat(SENTENCES.map((text) => samplesOf(text)))
    t.ok(caller.audio.subarray(format === 'wav' ? 44 : 0).equals(samples))
    t.equal(caller.of('spoken')[at]?.provider, 'second')
    t.equal(sound.asked[0], SENTENCES[at])
  })

for (const at of [0, 1])
  test(`a provider that dies in the middle of sentence ${at} ends the session with what was spoken`, async (t) => {
    const dying = await serveVoice(t, (_, count) => (count === at ? { cutAfter: 500 } : {}))
    const sound = await serveVoice(t)
    const rig = await openSpeech(t, [voiceEntry(dying, 'first'), voiceEntry(sound, 'second')])
    const caller = rig.connect()
    await caller.message('ready')
    caller.write(SENTENCES.slice(0, at + 1).join(' '))
    caller.end()
    const { error } = (await caller.message('error')) as unknown as { error: Record<string, unknown> }
    t.equal(await caller.closed, 4502)
    const before = SENTENCES.slice(0, at)
    t.match(error, {
      code: 'UPSTREAM_ERROR',
      details: {
        spoken_characters: before.join('').length,
        broken_off: { seq: at, characters: SENTENCES[at]!.length, audio_bytes: 500 },
      },
    })
    const heard = [...before.map((text) => samplesOf(text)), samplesOf(SENTENCES[at]!).subarray(0, 500)]
    t.ok(caller.audio.equals(Buffer.concat(heard)), 'no more than that was heard')
    const sent = microsOf(SENTENCES.slice(0, at + 1))
    t.match(caller.of('usage'), [{ cost_usd: sent / 1_000_000 }], 'what was sent to it')
    t.equal(await rig.spent(), sent)
    t.same(sound.asked, [])
  })

test('another format in the middle is not played: the next entry speaks, or none does', async (t) => {
  const voice = await serveVoice(t, (_, count) => (count === 0 ? {} : { sampleRate: 16_000 }))
  const other = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first'), voiceEntry(other, 'second')])
  const caller = rig.connect('response_format=wav')
  await caller.message('ready')
  for (const text of TEXT) caller.write(text)
  caller.end()
  await caller.message('done')
  t.same(
    caller.of('spoken').map(({ provider }) => provider),
    ['first', 'second', 'second'],
  )
  t.ok(caller.audio.subarray(44).equals(Buffer.concat(SENTENCES.map((text) => samplesOf(text)))))
})

test('a caller that leaves pays for the sentences that were sent, and no more', async (t) => {
  const voice = await serveVoice(t, (_, count) => (count === 0 ? {} : { until: new Promise(() => {}) }))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = rig.connect()
  await caller.message('ready')
  for (const text of [...TEXT, ' And', ' many', ' more. Indeed.']) caller.write(text)
  await caller.message('spoken')
  await waitUntil(() => voice.asked.length === 2)
  caller.socket.terminate()
  t.equal(await rig.spent(), microsOf(SENTENCES.slice(0, 2)))
  t.same(voice.asked, SENTENCES.slice(0, 2))
})

test('credits that run out end the session at the sentence that they do not cover', async (t) => {
  const voice = await serveVoice(t)
  const credits = microsOf(SENTENCES.slice(0, 2))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')], { credits })
  const caller = rig.connect()
  await caller.message('ready')
  for (const sentence of SENTENCES) caller.write(`${sentence} `)
  caller.end()
  const { error } = (await caller.message('error')) as unknown as { error: Record<string, unknown> }
  t.match(error, {
    code: 'INSUFFICIENT_CREDITS',
    details: {
      spoken_characters: SENTENCES.slice(0, 2).join('').length,
      broken_off: { seq: 2, audio_bytes: 0 },
    },
  })
  t.equal(await caller.closed, 4402)
  t.equal(await rig.spent(), credits)
  t.equal(voice.asked.length, 2)
})

test('a slow reader holds its provider back, and loses nothing', async (t) => {
  const MIB = 1024 * 1024
  const bytes = 48 * MIB
  const voice = await serveVoice(t, () => ({ bytes }))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const caller = rig.connect()
  await caller.message('ready')
  caller.socket.pause()
  caller.write(`${SENTENCES[0]} `)
  caller.write(`${SENTENCES[1]} `)
  caller.end()
  await waitUntil(() => voice.written() > MIB)
  let before = -1
  await waitUntil(async () => {
    const isStill = voice.written() === before
    before = voice.written()
    await sleep(300)
    return isStill
  })
  t.ok(
    before < 24 * MIB,
    `${(before / MIB).toFixed(1)} of 96 MiB were taken, the buffers of sockets included`,
  )
  t.ok(rig.services.budget.used < 2 * MIB, `${rig.services.budget.used} bytes are held`)
  caller.socket.resume()
  await caller.message('done')
  const expected = [samplesOf(SENTENCES[0]!, bytes), samplesOf(SENTENCES[1]!, bytes)]
  t.ok(caller.audio.equals(Buffer.concat(expected)))
  t.ok(caller.order.every((what) => typeof what === 'string' || what <= 32 * 1024))
})

test('a reader that reads nothing at all, and a writer that writes nothing, are let go', async (t) => {
  const voice = await serveVoice(t, () => ({ bytes: 32 * 1024 * 1024 }))
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')], { limits: { live_idle_seconds: 1 } })
  const silent = rig.connect()
  t.equal(await silent.closed, 4408)
  const deaf = rig.connect()
  await deaf.message('ready')
  deaf.socket.pause()
  deaf.write(SENTENCES[0]!)
  deaf.end()
  await waitUntil(() => rig.live.count === 0)
  t.equal(rig.live.count, 0)
})

test('limits: text that waits, sessions of a key, length, and drain', async (t) => {
  const gate = Promise.withResolvers<void>()
  const voice = await serveVoice(t, (text) => (text.startsWith('x') ? { until: gate.promise } : {}))
  const limits = {
    live_max_waiting_characters: 1_000,
    live_max_sessions_per_key: 1,
    live_max_session_seconds: 6,
  }
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')], { limits })
  const caller = rig.connect()
  await caller.message('ready')
  const second = rig.connect()
  await second.closed
  t.match(second.refusal, {
    error: { code: 'RATE_LIMITED', details: { limit: 'live_max_sessions_per_key' } },
  })
  caller.write('x'.repeat(999))
  caller.write('xx')
  t.match(await caller.message('error'), { error: { details: { limit: 'live_max_waiting_characters' } } })
  t.equal(await caller.closed, 4413)
  const long = rig.connect()
  await long.message('ready')
  long.write('Until the end')
  t.match(await long.message('going_away'), { reason: 'session_limit' })
  await long.message('done')
  t.ok(long.audio.equals(samplesOf('Until the end')), 'what came is spoken')
  const last = rig.connect()
  await last.message('ready')
  last.write('Going')
  rig.live.goAway(1)
  t.match(await last.message('going_away'), { reason: 'drain', seconds: 1 })
  await last.message('done')
  t.ok(last.audio.equals(samplesOf('Going')))
  const late = rig.connect()
  await late.closed
  t.match(late.refusal, { error: { code: 'OVERLOADED' } })
  gate.resolve()
})

test('handshakes that are refused', async (t) => {
  const voice = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  for (const [query, status, param] of [
    ['response_format=flac', 'INVALID_REQUEST', 'response_format'],
    ['response_format=opus', 'INVALID_REQUEST', 'response_format'],
    ['speed=fast', 'INVALID_REQUEST', 'speed'],
    ['speed=1&speed=2', 'INVALID_REQUEST', 'speed'],
    ['seed=1.5', 'INVALID_REQUEST', 'seed'],
    ['input=hello', 'INVALID_REQUEST', 'input'],
    ['voice=', 'INVALID_REQUEST', 'voice'],
  ] as const) {
    const caller = rig.connect(query)
    await caller.closed
    t.match(caller.refusal, { error: { code: status, param } }, query)
  }
  const nobody = rig.connect('response_format=pcm', {})
  await nobody.closed
  t.match(nobody.refusal, { error: { code: 'UNAUTHENTICATED' } })
  const inBand = rig.connect('response_format=flac&errors=in_band')
  t.match(await inBand.message('error'), { error: { param: 'response_format' } })
  t.equal(await inBand.closed, 4400)
  t.equal(rig.live.count, 0)
})

test('hostile messages end the session with a code, and charge nothing', async (t) => {
  const voice = await serveVoice(t)
  const rig = await openSpeech(t, [voiceEntry(voice, 'first')])
  const rows: readonly (readonly [message: object | Buffer | string, code: number])[] = [
    ['{', 4400],
    ['[]', 4400],
    ['null', 4400],
    [Buffer.from('audio'), 4400],
    [{ type: 'speak' }, 4400],
    [{ type: 'start' }, 4400],
    [{ type: 'text' }, 4400],
    [{ type: 'text', text: 7 }, 4400],
    [{ type: 'text', text: ['a'] }, 4400],
    [{ type: 'flush', id: 7 }, 4400],
    [{ type: 'flush', id: 'a'.repeat(129) }, 4400],
    [{ type: 'text', text: 'a'.repeat(262_144) }, 4413],
    [{ type: 'text', text: 'a'.repeat(20_001) }, 4413],
  ]
  for (const [message, code] of rows) {
    const caller = rig.connect()
    await caller.message('ready')
    caller.send(message)
    t.equal(await caller.closed, code, JSON.stringify(message).slice(0, 60))
  }
  const late = rig.connect()
  await late.message('ready')
  late.end()
  late.write('more')
  await late.closed
  const marks = rig.connect()
  await marks.message('ready')
  for (let count = 0; count < 1_000; count += 1) marks.send({ type: 'flush' })
  for (let count = 0; count < 1_000; count += 1) marks.write(' \n')
  marks.end()
  await marks.message('done')
  t.equal(marks.of('flushed').length, 1_000)
  t.equal(await rig.spent(), 0)
  t.same(voice.asked, [])
  t.equal(rig.live.count, 0)
})

test('a socket that says nothing is given up for requests', { timeout: 60_000 }, async (t) => {
  const dies = { how: 'silence', afterBytes: 0 } as const
  const voice = await serveVoiceSocket(t, { behave: (_, count) => (count === 1 ? { dies } : {}) })
  const provider = { name: 'socket', kind: 'elevenlabs', baseUrl: voice.origin, credential: 'k' }
  const rig = await openSpeech(t, [entry({ provider: configuredProvider(provider) })])
  const caller = rig.connect('response_format=pcm&voice=nova')
  await caller.message('ready')
  caller.write(SENTENCES.join(' '))
  caller.end()
  await caller.closed
  t.ok(caller.audio.equals(Buffer.concat(SENTENCES.map((text) => samplesOf(text)))), 'each sentence once')
  t.same(voice.requested, SENTENCES.slice(1))
  t.equal(await rig.spent(), microsOf(SENTENCES))
})
