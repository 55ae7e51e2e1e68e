import { test } from 'tap'
import { WebSocket } from 'ws'
import { configuredProvider, entry, facts } from '../../support/catalog.ts'
import { openSpeech, SpeechClient, samplesOf, serveVoice, voiceEntry } from '../../support/speech-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { serveVoiceSocket } from './voice-socket.ts'

const SENTENCES = ['One lark sings to the morning.', 'Two larks sing to each other!', 'Do three larks sing?']
/** As in `facts()`. */
const MICROS_PER_CHARACTER = 50
const COST = SENTENCES.join('').length * MICROS_PER_CHARACTER
const AUDIO = Buffer.concat(SENTENCES.map((text) => samplesOf(text)))

function socketEntry({ origin }: { readonly origin: string }, credential = 'k') {
  const provider = configuredProvider({ name: 'socket', kind: 'elevenlabs', baseUrl: origin, credential })
  return entry({ provider, model: 'eleven_flash_v2_5', facts: facts() })
}

type Rig = Awaited<ReturnType<typeof openSpeech>>

/** Has all sentences spoken. */
async function speakAll(rig: Rig, query = 'response_format=pcm&voice=nova') {
  const caller = rig.connect(query)
  await caller.message('ready')
  caller.write(SENTENCES.join(' '))
  caller.end()
  await caller.closed
  return caller
}

const speakers = (caller: Awaited<ReturnType<typeof speakAll>>) =>
  caller.of('spoken').map(({ text, provider }) => [text, provider])

test('sentences share one socket, in order, and are charged once', async (t) => {
  const voice = await serveVoiceSocket(t)
  const rig = await openSpeech(t, [socketEntry(voice)])
  const caller = await speakAll(rig, 'response_format=pcm&voice=nova&speed=1.1')
  t.ok(caller.audio.equals(AUDIO))
  t.same(voice.spoken, SENTENCES)
  t.same(voice.requested, [], 'nothing by a request')
  t.same(voice.refused, [])
  t.equal(voice.heard.sockets, 1)
  t.equal(voice.queries[0]?.get('output_format'), 'pcm_24000')
  t.match(caller.of('done'), [{ provider: 'socket', cost_usd: COST / 1_000_000 }])
  t.equal(await rig.spent(), COST)
})

for (const how of ['reset', '1011'] as const)
  test(`a socket that dies (${how}) between sentences: the same entry speaks the rest by requests`, async (t) => {
    const dies = { how, afterBytes: 0 }
    const voice = await serveVoiceSocket(t, { behave: (_, count) => (count === 1 ? { dies } : {}) })
    const rig = await openSpeech(t, [socketEntry(voice)])
    const caller = await speakAll(rig)
    t.ok(caller.audio.equals(AUDIO), 'each sentence once, in order')
    t.same(voice.requested, SENTENCES.slice(1))
    t.same(voice.refused, [])
    t.equal(await rig.spent(), COST)
  })

test('a provider that dies altogether: another entry speaks what was not spoken', async (t) => {
  const dies = { how: 'reset', afterBytes: 0 } as const
  const ill = await serveVoiceSocket(t, { behave: (_, count) => (count === 1 ? { dies } : {}), status: 500 })
  const sound = await serveVoice(t)
  const rig = await openSpeech(t, [socketEntry(ill), voiceEntry(sound, 'sound')])
  const caller = await speakAll(rig)
  t.ok(caller.audio.equals(AUDIO), 'each sentence once, in order')
  t.same(speakers(caller), [
    [SENTENCES[0], 'socket'],
    [SENTENCES[1], 'sound'],
    [SENTENCES[2], 'sound'],
  ])
  t.same(sound.asked, SENTENCES.slice(1))
  t.equal(await rig.spent(), COST)
})

test('a socket that dies in the middle of a sentence ends the session: nobody could go on there', async (t) => {
  const dies = { how: 'reset', afterBytes: 2_000 } as const
  const voice = await serveVoiceSocket(t, { behave: (_, count) => (count === 1 ? { dies } : {}) })
  const rig = await openSpeech(t, [socketEntry(voice)])
  const caller = await speakAll(rig)
  const [first, second] = SENTENCES.map((text) => samplesOf(text))
  t.ok(caller.audio.equals(Buffer.concat([first!, second!.subarray(0, 2_000)])))
  t.match(caller.of('error'), [{ error: { details: { broken_off: { seq: 1, audio_bytes: 2_000 } } } }])
  t.equal(rig.live.count, 0)
  t.ok((await rig.spent()) <= COST)
})

test('a refused key: another entry speaks all', async (t) => {
  const strange = await serveVoiceSocket(t)
  const sound = await serveVoice(t)
  const rig = await openSpeech(t, [socketEntry(strange, 'wrong'), voiceEntry(sound, 'sound')])
  const caller = await speakAll(rig)
  t.ok(caller.audio.equals(AUDIO))
  t.ok(speakers(caller).every(([, provider]) => provider === 'sound'))
  t.same(new Set(strange.refused), new Set(['invalid_api_key']))
})

test('what the socket does not make is asked for by requests', async (t) => {
  const voice = await serveVoiceSocket(t)
  const rig = await openSpeech(t, [socketEntry(voice)])
  const caller = await speakAll(rig, 'response_format=pcm&voice=nova&seed=7')
  t.ok(caller.audio.equals(AUDIO))
  t.equal(voice.heard.sockets, 0)
  t.same(voice.requested, SENTENCES)
})

test('what Clear drops ends its connection, and the next sentence is spoken over another', async (t) => {
  const dies = { how: 'silence', afterBytes: 400 } as const
  const voice = await serveVoiceSocket(t, { behave: (text) => (text === 'After.' ? {} : { dies }) })
  const rig = await openSpeech(t, [socketEntry(voice)])
  const url = `${rig.origin.replace('http:', 'ws:')}/deepgram/v1/speak?model=nova`
  const { authorization } = rig
  const caller = new SpeechClient(t, new WebSocket(url, { headers: { authorization } }))
  await caller.message('Metadata')
  caller.send({ type: 'Speak', text: SENTENCES.join(' ') })
  await waitUntil(() => caller.audio.length > 0, 5_000)
  caller.send({ type: 'Clear' })
  await caller.message('Cleared')
  const before = caller.audio.length
  caller.send({ type: 'Speak', text: 'After.' })
  caller.send({ type: 'Close' })
  t.equal(await caller.closed, 1000)
  t.ok(caller.audio.subarray(before).equals(samplesOf('After.')))
  t.equal(voice.heard.sockets, 2)
  t.same(voice.requested, [], 'nothing by a request')
  t.same(voice.refused, [])
  await rig.spent()
  t.equal(rig.services.budget.used, 0)
})

test('a caller that reads nothing holds the provider back, and one that leaves ends the connection', async (t) => {
  const bytes = 24 * 1024 * 1024
  const voice = await serveVoiceSocket(t, { behave: () => ({ bytes }) })
  const rig = await openSpeech(t, [socketEntry(voice)])
  const caller = rig.connect('response_format=pcm&voice=nova')
  await caller.message('ready')
  caller.socket.pause()
  caller.write(`${SENTENCES[0]} `)
  caller.send({ type: 'flush' })
  const budget = rig.services.budget
  await waitUntil(() => voice.spoken.length === 1, 5_000)
  let most = 0
  for (let turn = 0; turn < 40; turn += 1) {
    most = Math.max(most, budget.used)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  t.ok(most < 8 * 1024 * 1024, `${most} bytes were kept`)
  caller.socket.terminate()
  t.ok(await waitUntil(() => rig.live.count === 0 && budget.used === 0, 10_000), 'and given back')
})
