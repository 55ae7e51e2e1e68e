import t from 'tap'
import { gemini } from '../../../../src/gateway/providers/gemini/provider.ts'
import { LiveRig, liveCall, liveTarget } from '../../../support/live.ts'

const live = gemini.live!
const target = liveTarget('gemini-3.5-transcribe-live', {
  baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
})

/**
 * Frames of https://ai.google.dev/gemini-api/docs/live-api/live-transcribe; what ends an utterance as others saw it on
 * live connections: `generationComplete` behind a text, the end of the activity alone behind silence.
 */
const SETUP_COMPLETE = { setupComplete: {} }
const interim = (text: string) => ({ serverContent: { interimInputTranscription: { text } } })
const final = (text: string) => ({ serverContent: { inputTranscription: { text } } })
const COMPLETE = { serverContent: { generationComplete: true } }
const ACTIVITY_END = { serverContent: {}, voiceActivity: { type: 'ACTIVITY_END', audioOffset: '4.1s' } }
const METHOD = 'google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent'
const START = { realtimeInput: { activityStart: {} } }
const END = { realtimeInput: { activityEnd: {} } }

function rig(...args: Parameters<typeof liveCall>): LiveRig {
  const made = new LiveRig(gemini, liveCall(...args), target).open().hear(SETUP_COMPLETE)
  made.told()
  made.heard()
  return made
}
const marks = (made: LiveRig) => made.told().filter((frame) => frame !== 'audio')

t.test('the setup, and where it goes', async (t) => {
  t.same(live.handshake(liveCall(), target), {
    url: `wss://generativelanguage.googleapis.com/ws/${METHOD}`,
    protocols: [],
    headers: { 'x-goog-api-key': 'k' },
    audio: { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 },
  })
  const made = new LiveRig(gemini, liveCall({ language: 'de_DE', keyterms: ['lark'] }), target).open()
  t.same(made.told(), [
    {
      setup: {
        model: 'models/gemini-3.5-transcribe-live',
        generationConfig: { responseModalities: ['TEXT'] },
        realtimeInputConfig: { automaticActivityDetection: { disabled: true } },
        inputAudioTranscription: { mode: 'VERBATIM', languageCodes: ['de-DE'], customVocabulary: ['lark'] },
      },
    },
  ])
  made.hear(new TextEncoder().encode(JSON.stringify(SETUP_COMPLETE)))
  t.same(made.heard(), [{ kind: 'ready' }], 'text comes in binary frames too')
  t.same(made.told(), [START])
  const [frame] = made.stepper.audio(new Uint8Array([1, 0, 255, 127]))
  t.same(JSON.parse(frame as string), {
    realtimeInput: { audio: { mimeType: 'audio/pcm;rate=16000', data: 'AQD/fw==' } },
  })
  t.match(live.unsupported!(liveCall({ timestamps: 'word', diarization: true }), target), {
    missing: ['word_timestamps', 'diarization'],
  })
})

t.test('an utterance: interim texts, finals, and its end', async (t) => {
  const made = rig().audio(1).hear(interim('zorb'), interim('zorblex the'))
  t.same(made.heard(), [
    { kind: 'partial', channel: 0, start: 0, text: 'zorb' },
    { kind: 'partial', channel: 0, start: 0, text: 'zorblex the' },
  ])
  made.audio(1.3)
  t.same(marks(made), [END])
  made.audio(0.2).hear(ACTIVITY_END)
  t.same(made.heard(), [], 'its text is to come')
  made.hear(final('Zorblex the quaxil.'), final('And so on.'))
  t.match(made.heard().at(-1), { kind: 'partial', text: 'Zorblex the quaxil. And so on.' })
  t.same(marks(made), [])
  made.hear(COMPLETE)
  t.match(made.heard(), [
    { kind: 'final', segment: { start: 0, end: 2.2, text: 'Zorblex the quaxil. And so on.' } },
    { kind: 'settled', seconds: 2.2 },
  ])
  t.same(made.told(), [START, 'audio', 'audio', 'audio'], 'what was held back begins the next one')
})

t.test('silence ends with its activity, and the session with the last utterance', async (t) => {
  const made = rig().audio(2).finalize().hear(ACTIVITY_END)
  t.same(made.heard().slice(1), [{ kind: 'settled', seconds: 2 }, { kind: 'finalized' }])
  made.audio(1).hear(interim('so')).end()
  made.heard()
  made.hear({ serverContent: { inputTranscription: { text: 'So.' }, generationComplete: true } })
  t.match(
    made.heard().map(({ kind }) => kind),
    ['final', 'settled', 'utterance_end', 'ended'],
  )
  t.equal(made.stepper.closed(1000, ''), null)
  const early = rig().audio(1).hear(COMPLETE)
  t.same(early.heard(), [], 'nobody ended it')
})

t.test('it says when it goes, and why it fails', async (t) => {
  t.same(
    rig()
      .hear({ goAway: { timeLeft: '10s' } }, { goAway: {} })
      .heard(),
    [{ kind: 'leaving' }],
  )
  const failed = (error: object) => rig().hear({ error }).heard()[0]
  t.match(failed({ code: 429, status: 'RESOURCE_EXHAUSTED', message: 'm' }), {
    kind: 'failed',
    failure: { kind: 'rate' },
  })
  t.match(failed({ code: 400, status: 'INVALID_ARGUMENT', message: 'm' }), { failure: { kind: 'limit' } })
  t.match(failed({ code: 403, status: 'PERMISSION_DENIED', message: 'key' }), {
    failure: { kind: 'credential' },
  })
  t.match(rig().stepper.closed(1007, 'Request contains an invalid argument.'), { kind: 'limit' })
  for (const said of [
    'API key not valid. Please pass a valid API key.',
    'API Key not found.',
    'API key expired',
  ])
    t.match(rig().stepper.closed(1007, said), { kind: 'credential', providerMessage: null }, said)
  t.match(rig().stepper.closed(1011, ''), { kind: 'server' })
})
