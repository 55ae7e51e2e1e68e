import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { speak } from '../../../src/sandbox/speak.ts'
import { HERTZ, type LargeFile, sendLargeFile } from '../../support/large-file.ts'
import { liveAudio } from '../../support/live-audio.ts'
import { mistral as mistralVendor } from '../../support/live-mistral.ts'
import { type LiveRig, openLive, wordsEntry } from '../../support/live-rig.ts'
import { serveVendor } from '../../support/live-vendor.ts'
import { serveWords, WORD_SECONDS, wordsAudio, wordsText } from '../../support/live-words.ts'
import { pythonClient } from '../../support/python-client.ts'
import { tempFolder } from '../../support/scratch.ts'

// Vendors' clients in Python, unchanged but for the address: at the doors, and as judges of a fake.
const COUNT = 8
const keyOf = ({ authorization }: LiveRig) => authorization.slice('Bearer '.length)

/** A route whose first provider dies in the middle of a word. */
async function open(t: Test, rate: number) {
  const dying = await serveWords(t, { death: () => ({ how: 'reset', afterSeconds: 1.25 }) })
  const sound = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(dying.origin, 'first'), wordsEntry(sound.origin, 'second')])
  const file = join(await tempFolder(t), 'words.pcm')
  await writeFile(file, wordsAudio(0, COUNT, rate))
  return { rig, file }
}

const openai = await pythonClient('openai', 'websockets')
t.test("Python's openai transcribes across the death of a provider", { skip: openai.skip }, async (t) => {
  const { rig, file } = await open(t, 24_000)
  const args = [`${rig.origin}/openai/v1`, keyOf(rig), file, String(COUNT)]
  const events = await openai.run('openai-realtime.py', args)
  const of = (type: string) => events.filter((event) => event.type === type)
  const completed = of('conversation.item.input_audio_transcription.completed')
  t.equal(completed.map(({ transcript }) => transcript).join(' '), wordsText(COUNT), 'every word once')
  t.match(of('session.created'), [{ class: 'SessionCreatedEvent', session: { type: 'transcription' } }])
  t.match(of('session.updated'), [
    { session: { audio: { input: { transcription: { model: 'gpt-4o-transcribe', language: 'en' } } } } },
  ])
  t.match(completed[0], { class: 'ConversationItemInputAudioTranscriptionCompletedEvent' })
  t.ok(of('conversation.item.input_audio_transcription.delta').length >= COUNT, 'text grew')
  t.equal(of('larkway.switched').length, 1, 'what the client does not know does not break it')
  await t.rejects(openai.run('openai-realtime.py', [args[0]!, 'lk_live_unknown', file, '1']), /HTTP 401/)
})

const deepgram = await pythonClient('deepgram-sdk')
t.test("Python's deepgram-sdk listens across the death of a provider", { skip: deepgram.skip }, async (t) => {
  const { rig, file } = await open(t, 16_000)
  const url = `${rig.origin.replace('http:', 'ws:')}/deepgram`
  const messages = await deepgram.run('deepgram-listen.py', [url, keyOf(rig), file])
  const finals = messages.flatMap(({ type, is_final: isFinal, channel }) => {
    const { alternatives } = (channel ?? {}) as {
      alternatives?: { transcript: string; words: { start: number }[] }[]
    }
    return type === 'Results' && isFinal === true ? (alternatives?.slice(0, 1) ?? []) : []
  })
  const told = finals.filter(({ transcript }) => transcript !== '')
  t.equal(told.map(({ transcript }) => transcript).join(' '), wordsText(COUNT), 'every word once')
  for (const [index, { start }] of told.flatMap(({ words }) => words).entries())
    t.ok(Math.abs(start - index * WORD_SECONDS) < 0.05, `word ${index} at ${start}`)
  t.ok(
    messages.some(({ type, is_final: isFinal }) => type === 'Results' && isFinal === false),
    'interim results came',
  )
  const classes = new Set(messages.map((message) => message.class))
  t.same(
    [...classes].filter((name) => name === 'NoneType' || name === undefined),
    [],
    'the client knows every message',
  )
  t.match(messages.at(-1), { type: 'Metadata', duration: COUNT * WORD_SECONDS })
  await t.rejects(deepgram.run('deepgram-listen.py', [url, 'lk_live_unknown', file]), /401/)
})

for (const [client, name, url, answers] of [
  ['deepgram', 'deepgram-sdk', 'deepgram', [{ status: 400, code: 'INVALID_REQUEST' }]],
  [
    ...(['elevenlabs', 'elevenlabs', 'elevenlabs'] as const),
    [{ head: 'ff' }, { characters: ['s', 'o', 's'] }, { status: 400, code: 'INVALID_REQUEST' }],
  ],
] as const) {
  const python = await pythonClient(name)
  t.test(`Python's ${name} sends a file of 25 MB`, { skip: python.skip, timeout: 180_000 }, async (t) => {
    const ask = ({ gateway }: LargeFile, file: string, times: number) =>
      python.run('vendor-files.py', [client, `${gateway.url}/${url}`, gateway.key, file, String(times)])
    const small = join(await tempFolder(t), 'small.wav')
    await writeFile(small, speak('warm', HERTZ, 1))
    const send = async (large: LargeFile) => {
      const [heard, ...others] = await ask(large, large.path, 1)
      t.match(heard, { class: /Response/, text: large.text })
      t.match(others, answers)
    }
    // Each start of the client takes seconds: it warms the gateway by one.
    await sendLargeFile(t, (large) => ask(large, small, 3), send, 1, 1)
  })
}

const mistral = await pythonClient('mistralai', 'websockets')
t.test("Mistral's client hears what the fake of its API hears", { skip: mistral.skip }, async (t) => {
  const vendor = await serveVendor(t, mistralVendor('secret'))
  const file = join(await tempFolder(t), 'audio.pcm')
  await writeFile(file, liveAudio('it is me', { speed: 2 }).pcm)
  const transcribe = (key: string, settings: object) =>
    mistral.run('mistral-realtime.py', [vendor.origin, key, file, JSON.stringify(settings)])
  const events = await transcribe('secret', { language: 'en', target_streaming_delay_ms: 480 })
  const of = (type: string) => events.filter((event) => event.type === type)
  t.match(of('session.created'), [{ class: 'RealtimeTranscriptionSessionCreated' }])
  t.match(of('session.updated'), [{ class: 'RealtimeTranscriptionSessionUpdated' }])
  t.equal(
    of('transcription.text.delta')
      .map(({ text }) => text)
      .join(''),
    'it is me',
  )
  t.match(events.at(-1), { class: 'TranscriptionStreamDone', text: 'it is me' })
  t.notOk(events.some((event) => event.class === 'UnknownRealtimeEvent'))
  t.same(vendor.sessions[0]?.refused, [])
  const refused = await transcribe('secret', { target_streaming_delay_ms: 1300 })
  t.match(refused.at(-1), { class: 'RealtimeTranscriptionError' })
  await t.rejects(transcribe('other', {}), /401/)
})
