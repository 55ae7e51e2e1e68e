import type { LiveConnectConfig, LiveServerMessage, Session } from '@google/genai'
import { GoogleGenAI, Modality } from '@google/genai'
import t, { type Test } from 'tap'
import { framesOf, liveAudio, silence } from '../../../support/live-audio.ts'
import { gemini } from '../../../support/live-gemini.ts'
import { serveVendor } from '../../../support/live-vendor.ts'
import { waitUntil } from '../../../support/wait-until.ts'

// Google's own client against the fake that the adapter is tried with.
const AUDIO = liveAudio('it is me', { speed: 2 })
const MANUAL = { realtimeInputConfig: { automaticActivityDetection: { disabled: true } } }

async function open(
  t: Test,
  config: LiveConnectConfig = {},
  { apiKey = 'secret', model = 'gemini-3.5-transcribe-live' } = {},
) {
  const vendor = await serveVendor(t, gemini('secret'))
  const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: vendor.origin } })
  const heard: LiveServerMessage[] = []
  const closed = Promise.withResolvers<{ code: number; reason: string }>()
  const session = await client.live.connect({
    model,
    config: { responseModalities: [Modality.TEXT], inputAudioTranscription: {}, ...config },
    callbacks: {
      onmessage: (message) => void heard.push(message),
      onclose: (event) => closed.resolve(event),
    },
  })
  t.teardown(() => session.close())
  return { vendor, session, heard, closed: closed.promise }
}

function speak(session: Session, pcm: Buffer): void {
  for (const frame of framesOf({ ...AUDIO, pcm }, 100))
    session.sendRealtimeInput({ audio: { data: frame.toString('base64'), mimeType: 'audio/pcm;rate=16000' } })
}

const texts = (heard: readonly LiveServerMessage[]) =>
  heard.flatMap(({ serverContent }) => serverContent?.inputTranscription?.text ?? [])

for (const [name, config, end] of [
  ['the client tells', MANUAL, (session: Session) => session.sendRealtimeInput({ activityEnd: {} })],
  ['the stream ends', {}, (session: Session) => session.sendRealtimeInput({ audioStreamEnd: true })],
  ['the vendor hears', {}, (session: Session) => speak(session, silence(1))],
] as const)
  t.test(`speech ends where ${name}`, async (t) => {
    const vocabulary = { customVocabulary: ['me'], languageCodes: ['en-US'] }
    const { session, heard, vendor } = await open(t, { ...config, inputAudioTranscription: vocabulary })
    if (config === MANUAL) session.sendRealtimeInput({ activityStart: {} })
    speak(session, AUDIO.pcm)
    end(session)
    await waitUntil(() => heard.some(({ serverContent }) => serverContent?.generationComplete === true))
    t.same(texts(heard), ['it is me'])
    t.ok(heard.some(({ serverContent }) => serverContent?.interimInputTranscription !== undefined))
    t.same(vendor.sessions[0]?.refused, [])
  })

t.test('audio outside of the speech that the client tells is not heard', async (t) => {
  const { session, heard } = await open(t, MANUAL)
  speak(session, AUDIO.pcm)
  session.sendRealtimeInput({ activityStart: {} })
  speak(session, silence(0.5))
  session.sendRealtimeInput({ activityEnd: {} })
  await waitUntil(() => heard.some(({ voiceActivity }) => voiceActivity !== undefined))
  t.same(texts(heard), [])
})

const raw = (session: Session) => session.conn as unknown as { send(data: string): void }
const audio = (data: string, mimeType = 'audio/pcm;rate=16000') => ({ audio: { data, mimeType } })

for (const [name, config, send] of [
  ['text that is no JSON', {}, (one) => raw(one).send('{')],
  ['nothing', {}, (one) => raw(one).send('{}')],
  ['two at once', {}, (one) => raw(one).send('{"realtimeInput":{},"clientContent":{}}')],
  ['another setup', {}, (one) => raw(one).send('{"setup":{}}')],
  ['a field that is not known', {}, (one) => raw(one).send('{"realtimeInput":{"sound":{}}}')],
  ['marks of speech that nobody asked for', {}, (one) => one.sendRealtimeInput({ activityStart: {} })],
  ['the end of a stream that is marked', MANUAL, (one) => one.sendRealtimeInput({ audioStreamEnd: true })],
  ['another rate', {}, (one) => one.sendRealtimeInput(audio('AAAA', 'audio/pcm;rate=24000'))],
  ['half a sample', {}, (one) => one.sendRealtimeInput(audio('AAAA'))],
] as [string, LiveConnectConfig, (session: Session) => void][])
  t.test(`${name} ends the session`, async (t) => {
    const { session, closed } = await open(t, config)
    send(session)
    t.match(await closed, { code: 1007 })
  })

t.test('a key, a model or a setup that it does not know is refused', async (t) => {
  for (const [config, terms, message] of [
    [{}, { apiKey: 'other' }, /1007.*API key not valid/],
    [{}, { model: 'gemini-2.5-flash' }, /1007.*not found/],
    [{ responseModalities: [Modality.AUDIO] }, {}, /1007.*invalid argument/],
    [{ contextWindowCompression: {} }, {}, /1007.*Unknown name "contextWindowCompression"/],
  ] as [LiveConnectConfig, object, RegExp][])
    await t.rejects(open(t, config, terms), { message })
})
