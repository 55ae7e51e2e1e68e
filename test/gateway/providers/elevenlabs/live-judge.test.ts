import {
  AudioFormat,
  CommitStrategy,
  RealtimeEvents,
  ScribeRealtime,
} from '@elevenlabs/elevenlabs-js/wrapper/realtime/index.js'
import t, { type Test } from 'tap'
import { framesOf, liveAudio, silence, timesOff } from '../../../support/live-audio.ts'
import { type ElevenLabsWays, elevenlabs } from '../../../support/live-elevenlabs.ts'
import { serveVendor } from '../../../support/live-vendor.ts'
import { waitUntil } from '../../../support/wait-until.ts'

// ElevenLabs' own client against the fake that the adapter is tried with: the part of it that stands in the whole as
// `speechToText.realtime`, since the whole takes seconds to load.
const AUDIO = liveAudio('it is me', { speed: 2 })

type Heard = Readonly<Record<string, unknown>> & { readonly message_type: string }
type Options = Partial<Parameters<ScribeRealtime['connect']>[0]>

async function open(t: Test, options: Options = {}, apiKey = 'secret', ways: ElevenLabsWays = {}) {
  const vendor = await serveVendor(t, elevenlabs('secret', ways))
  const connection = await new ScribeRealtime({ apiKey, baseUrl: vendor.origin }).connect({
    modelId: 'scribe_v2_realtime',
    audioFormat: AudioFormat.PCM_16000,
    sampleRate: 16_000,
    commitStrategy: CommitStrategy.MANUAL,
    includeTimestamps: true,
    ...options,
  } as Parameters<ScribeRealtime['connect']>[0])
  t.teardown(() => connection.close())
  const heard: Heard[] = []
  for (const event of Object.values(RealtimeEvents))
    connection.on(event, (data: unknown) => {
      const message = data as Heard | undefined
      // Every error comes under its own name and as an error.
      if (message?.message_type !== undefined && message.message_type === event) heard.push(message)
    })
  const closed = new Promise<void>((resolve) => connection.on(RealtimeEvents.CLOSE, () => resolve()))
  const of = (type: string) => heard.filter((one) => one.message_type === type)
  const started = () => waitUntil(() => of('session_started').length > 0)
  return { vendor, connection, heard, of, started, closed }
}

function speak(connection: Awaited<ReturnType<ScribeRealtime['connect']>>, pcm = AUDIO.pcm): void {
  for (const frame of framesOf({ ...AUDIO, pcm }, 100))
    connection.send({ audioBase64: frame.toString('base64') })
}

for (const timedFirst of [false, true])
  t.test(`the client hears the words and their times${timedFirst ? ', times first' : ''}`, async (t) => {
    const options = { includeLanguageDetection: true, keyterms: ['me'] }
    const { connection, started, of, vendor } = await open(t, options, 'secret', { timedFirst })
    await started()
    speak(connection)
    connection.commit()
    await waitUntil(() => of('committed_transcript').length > 0)
    await waitUntil(() => of('committed_transcript_with_timestamps').length > 0)
    const timed = of('committed_transcript_with_timestamps')[0]!
    t.match(timed, { text: 'it is me', language_code: 'en' })
    const words = (timed.words as { type: string; start: number; end: number }[]).filter(
      ({ type }) => type === 'word',
    )
    t.ok(timesOff(words, AUDIO.words) <= 0.05, `times are ${timesOff(words, AUDIO.words)} s off`)
    t.ok(of('partial_transcript').length > 0)
    t.same(vendor.sessions[0]?.refused, [])
  })

t.test('the vendor finds the end of speech where it is asked to', async (t) => {
  const { connection, started, of } = await open(t, {
    commitStrategy: CommitStrategy.VAD,
    vadSilenceThresholdSecs: 0.5,
    includeTimestamps: false,
  })
  await started()
  speak(connection, Buffer.concat([AUDIO.pcm, silence(1)]))
  await waitUntil(() => of('committed_transcript').length > 0)
  t.same(of('committed_transcript'), [{ message_type: 'committed_transcript', text: 'it is me' }])
})

t.test('a commit of too little is refused, and the session goes on', async (t) => {
  const { connection, started, of } = await open(t)
  await started()
  connection.send({ audioBase64: silence(0.1).toString('base64') })
  connection.commit()
  await waitUntil(() => of('commit_throttled').length > 0)
  t.match(of('commit_throttled'), [{ error: /only 0\.10s of uncommitted audio/ }])
  speak(connection)
  connection.commit()
  await waitUntil(() => of('committed_transcript').length > 0)
  t.match(of('committed_transcript'), [{ text: 'it is me' }])
})

type Connection = Awaited<ReturnType<ScribeRealtime['connect']>>
const raw = (connection: Connection) =>
  (connection as unknown as { websocket: { send(data: string | Buffer): void } }).websocket
const chunk = silence(0.1).toString('base64')

for (const [name, type, send] of [
  ['bytes', 'input_error', (one) => raw(one).send(silence(0.1))],
  ['text that is no JSON', 'input_error', (one) => raw(one).send('{')],
  ['another type of message', 'input_error', (one) => raw(one).send('{"message_type":"commit"}')],
  ['what is no base64', 'input_error', (one) => one.send({ audioBase64: '@@' })],
  ['another rate', 'input_error', (one) => one.send({ audioBase64: chunk, sampleRate: 8000 })],
  [
    'half a minute and more',
    'chunk_size_exceeded',
    (one) => one.send({ audioBase64: silence(31).toString('base64') }),
  ],
  [
    'text behind the first audio',
    'input_error',
    (one) => {
      one.send({ audioBase64: chunk })
      one.send({ audioBase64: chunk, previousText: 'before' })
    },
  ],
] as [string, string, (connection: Connection) => void][])
  t.test(`${name} ends the session`, async (t) => {
    const { connection, started, of, closed } = await open(t)
    await started()
    send(connection)
    await closed
    t.match(of(type), [{ error: String }])
  })

t.test('a key or options that it does not know are refused behind the handshake', async (t) => {
  for (const [options, apiKey, type] of [
    [{}, 'other', 'auth_error'],
    [{ modelId: 'scribe_v2' }, 'secret', 'invalid_request'],
    [{ audioFormat: 'pcm_32000' as AudioFormat }, 'secret', 'invalid_request'],
    [{ keyterms: ['a'.repeat(21)] }, 'secret', 'invalid_request'],
  ] as [Options, string, string][]) {
    const { of, closed } = await open(t, options, apiKey)
    await closed
    t.match(of(type), [{ error: String }], type)
  }
})

t.test('a session without audio is closed', async (t) => {
  const { started, closed, vendor } = await open(t, {}, 'secret', { idleSeconds: 0.3 })
  await started()
  await closed
  t.match(vendor.sessions[0]?.live.record.end, { code: 1000 })
})
