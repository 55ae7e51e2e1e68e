import tls from 'node:tls'
import { AssemblyAI, type StreamingTranscriberParams, type TurnEvent } from 'assemblyai'
import t, { type Test } from 'tap'
import { createAuthority } from '../../../support/certificates.ts'
import { assemblyai } from '../../../support/live-assemblyai.ts'
import { framesOf, liveAudio, silence, timesOff } from '../../../support/live-audio.ts'
import { serveVendor } from '../../../support/live-vendor.ts'

// AssemblyAI's own client against the fake that the adapter is tried with: it opens `wss:` alone, and takes no `ca`.
const AUTHORITY = createAuthority()
tls.setDefaultCACertificates([...tls.getCACertificates('default'), AUTHORITY.cert])

const AUDIO = liveAudio('it is me', { speed: 2 })
const PAUSE = silence(1.2)

type Options = Partial<StreamingTranscriberParams>

async function open(t: Test, options: Options = {}, { apiKey = 'secret', aheadSeconds = 300 } = {}) {
  const vendor = await serveVendor(t, assemblyai('secret', aheadSeconds), AUTHORITY.issue(['localhost']))
  const transcriber = new AssemblyAI({ apiKey }).streaming.transcriber({
    websocketBaseUrl: `${vendor.origin.replace('https', 'wss')}/v3/ws`,
    sampleRate: 16_000,
    speechModel: 'universal-3-6-pro',
    formatTurns: true,
    connectTimeout: 5_000,
    maxConnectionRetries: 0,
    ...options,
  } as StreamingTranscriberParams)
  const turns: TurnEvent[] = []
  const errors: (Error & { code?: number })[] = []
  transcriber.on('turn', (turn) => void turns.push(turn))
  transcriber.on('error', (error) => void errors.push(error))
  const closed = new Promise<number>((resolve) => transcriber.on('close', resolve))
  t.teardown(() => transcriber.close(false))
  return { vendor, transcriber, turns, errors, closed }
}

const ended = (turns: readonly TurnEvent[]) => turns.filter((turn) => turn.end_of_turn)

for (const [speechModel, forms] of [
  ['universal-3-6-pro', [true]],
  ['universal-streaming-english', [false, true]],
] as const)
  t.test(`${speechModel}: the client hears the words, and when they were said`, async (t) => {
    const { transcriber, turns, errors, vendor } = await open(t, { speechModel, keytermsPrompt: ['me'] })
    t.match(await transcriber.connect(), { type: 'Begin', id: String, expires_at: Number })
    for (const frame of framesOf({ ...AUDIO, pcm: Buffer.concat([AUDIO.pcm, PAUSE]) }, 100))
      if (frame.length === 3200) transcriber.sendAudio(new Uint8Array(frame).buffer)
    await transcriber.close()
    t.same(errors, [])
    t.same(
      ended(turns).map((turn) => turn.turn_is_formatted),
      forms,
    )
    const last = turns.at(-1)!
    t.equal(last.transcript, 'It is me.')
    const times = last.words.map(({ start, end }) => ({ start: start / 1000, end: end / 1000 }))
    t.ok(timesOff(times, AUDIO.words) <= 0.05, `times are ${timesOff(times, AUDIO.words)} s off`)
    t.ok(
      turns.some((turn) => !turn.end_of_turn && turn.words.some((word) => !word.word_is_final)),
      'unfinished words came',
    )
    const [session] = vendor.sessions
    t.same(session?.refused, [])
    t.match(session?.live.record.end, { by: 'sandbox', code: 1000 })
  })

t.test('the end of a turn is forced', async (t) => {
  const { transcriber, turns } = await open(t)
  await transcriber.connect()
  for (const frame of framesOf(AUDIO, 500))
    if (frame.length >= 1600) transcriber.sendAudio(new Uint8Array(frame).buffer)
  transcriber.forceEndpoint()
  await transcriber.close()
  t.match(ended(turns), [{ transcript: 'It is me.', turn_order: 0 }])
})

type Transcriber = Awaited<ReturnType<typeof open>>['transcriber']
const raw = (transcriber: Transcriber) => transcriber as unknown as { send(data: unknown): void }

for (const [name, code, send] of [
  ['audio of 40 ms', 3007, (one) => one.sendAudio(new ArrayBuffer(1_280))],
  ['audio of 1.1 s', 3007, (one) => one.sendAudio(new ArrayBuffer(35_200))],
  ['text that is no JSON', 3006, (one) => raw(one).send('{')],
  ['a list', 3006, (one) => raw(one).send('[]')],
  ['a message of another type', 3006, (one) => raw(one).send('{"type":"CloseStream"}')],
] as [string, number, (transcriber: Transcriber) => void][])
  t.test(`${name} ends the session`, async (t) => {
    const { transcriber, errors, closed } = await open(t)
    await transcriber.connect()
    send(transcriber)
    t.equal(await closed, code)
    t.match(errors, [{ code }])
  })

t.test('audio that is too far ahead of the clock ends the session', async (t) => {
  const { transcriber, errors, closed } = await open(t, {}, { aheadSeconds: 2 })
  await transcriber.connect()
  for (let sent = 0; sent < 3; sent += 1) transcriber.sendAudio(new ArrayBuffer(32_000))
  t.equal(await closed, 3007)
  t.match(errors, [{ message: /^Audio Transmission Rate Exceeded: Received 3\.0 sec/ }])
})

t.test('a key or options that it does not know are refused behind the handshake', async (t) => {
  for (const [options, terms, message] of [
    [{}, { apiKey: 'other' }, /^Unauthorized Connection/],
    [{ domain: 'medical-v1' }, {}, /domain/],
    [{ speechModel: 'universal-streaming-english', acknowledgeSilence: true }, {}, /acknowledge_silence/],
    [{ keytermsPrompt: ['a'.repeat(51)] }, {}, /keyterms_prompt/],
  ] as [Options, { apiKey?: string }, RegExp][]) {
    const { transcriber } = await open(t, options, terms)
    await t.rejects(transcriber.connect(), { message })
  }
})
