import t from 'tap'
import { mistral } from '../../../src/gateway/providers/mistral.ts'
import { LiveRig, liveCall, liveTarget } from '../../support/live.ts'

const live = mistral.live!
const target = liveTarget('voxtral-mini-transcribe-realtime-3', { baseUrl: 'https://api.mistral.ai/v1' })

const older = liveTarget('voxtral-mini-transcribe-realtime-2602', { baseUrl: 'https://api.mistral.ai/v1' })

/** Messages as @mistralai/mistralai 2.7.0 src/models/components/realtimetranscription*.ts and its streams have them. */
const CREATED = { type: 'session.created', session: { request_id: 'r', model: 'm' } }
const UPDATED = { type: 'session.updated', session: { request_id: 'r', model: 'm' } }
const delta = (text: string) => ({ type: 'transcription.text.delta', text })
const done = (text: string) => ({ type: 'transcription.done', model: 'm', text, usage: {}, language: null })
const FLUSH = { type: 'input_audio.flush' }

function rig(): LiveRig {
  const made = new LiveRig(mistral, liveCall(), target).open().hear(CREATED, UPDATED)
  made.told()
  made.heard()
  return made
}
const marks = (made: LiveRig) => made.told().filter((frame) => frame !== 'audio')

t.test('the model is in the address, the format in the session', async (t) => {
  t.same(live.handshake(liveCall(), target), {
    url: 'wss://api.mistral.ai/v1/audio/transcriptions/realtime?model=voxtral-mini-transcribe-realtime-3',
    protocols: [],
    headers: { authorization: 'Bearer k' },
    audio: { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 },
  })
  const rows = [
    ['mulaw', 8000, 'pcm_mulaw', 8000],
    ['alaw', 8000, 'pcm_alaw', 8000],
    ['pcm_s16le', 24_000, 'pcm_s16le', 16_000],
  ] as const
  for (const [encoding, sampleRate, given, rate] of rows) {
    const call = liveCall({}, { audio: { encoding, sampleRate, channels: 2 } })
    const made = new LiveRig(mistral, call, target).open()
    t.same(made.told(), [])
    made.hear(CREATED)
    t.same(made.heard(), [])
    t.same(made.told(), [
      {
        type: 'session.update',
        session: { audio_format: { encoding: given, sample_rate: rate }, turn_detection: {} },
      },
    ])
    made.hear(UPDATED, UPDATED)
    t.same(made.heard(), [{ kind: 'ready' }])
  }
  const asked = liveCall({ timestamps: 'word', keyterms: ['a'] })
  t.match(live.unsupported!(asked, target), { missing: ['word_timestamps'] })
  t.match(live.unsupported!(asked, older), { missing: ['word_timestamps', 'keyterms'] })
})

t.test('pieces of text that never change are final behind a pause', async (t) => {
  const made = rig()
    .audio(2)
    .hear({ type: 'transcription.language', audio_language: 'en' }, delta('Hello'), delta(' world'))
  t.same(made.heard().at(-1), { kind: 'partial', channel: 0, start: 0, text: 'Hello world' })
  made.audio(1.2)
  t.same(marks(made), [FLUSH])
  made.hear(delta(' again.'))
  t.match(made.heard(), [
    { kind: 'final', segment: { start: 0, end: 3.2, text: 'Hello world again.' }, language: 'en' },
    { kind: 'settled', seconds: 0.7 },
  ])
  made.audio(1).hear(delta(' And'), delta(' so'))
  made.audio(1.2)
  t.same(marks(made), [FLUSH])
  made.audio(5).hear(delta(' on'))
  t.match(
    made.heard().filter(({ kind }) => kind === 'final'),
    [{ segment: { text: 'And' } }],
    'a word that may go on waits',
  )
  made.end()
  t.same(marks(made), [FLUSH, { type: 'input_audio.end' }])
  made.hear(done('Hello world again. And so on.'))
  t.match(made.heard(), [
    { kind: 'final', segment: { text: 'so on.' } },
    { kind: 'settled' },
    { kind: 'ended' },
  ])
  t.equal(made.stepper.closed(1000, ''), null)
})

t.test('finalize lets the last words go, and is answered by them', async (t) => {
  const made = rig().audio(1).hear(delta('Hello'))
  made.heard()
  made.finalize()
  t.same(marks(made), [FLUSH])
  made.hear(delta(' world.'))
  t.match(made.heard(), [{ kind: 'final', segment: { end: 1, text: 'Hello world.' } }, { kind: 'finalized' }])
  made.audio(4).told()
  made.finalize()
  t.same(marks(made), [], 'silence: all was told')
  made.hear(delta(' So')).audio(0.5).finalize().end().hear(done('Hello world. So'))
  t.match(made.heard().slice(-3), [{ kind: 'settled' }, { kind: 'finalized' }, { kind: 'ended' }])
})

t.test(
  'a session of Voxtral 3 is told terms, language and turns; an older one the format alone',
  async (t) => {
    const sent = (call: ReturnType<typeof liveCall>, at = target) => {
      const [update] = new LiveRig(mistral, call, at).open().hear(CREATED).told() as [{ session: object }]
      const { audio_format: _format, ...settings } = update.session as Record<string, unknown>
      return settings
    }
    const told = liveCall({ keyterms: ['Larkway', 'Voxtral'], language: 'English' }, { endpointingMs: 300 })
    t.same(sent(told), {
      ...{ context_bias: ['Larkway', 'Voxtral'], language: 'en' },
      turn_detection: { min_silence_ms: 300 },
    })
    t.same(sent(told, older), {})
    t.same(sent(liveCall({}, { commit: 'manual' })), {}, 'turns end where the caller says')
    const foreign = new LiveRig(mistral, liveCall({ language: 'haw' }), target).open().hear(CREATED, UPDATED)
    t.match(foreign.heard(), [{ kind: 'warning', text: /^language: / }, { kind: 'ready' }])
  },
)

t.test('the end of a turn makes its text final, the last word too', async (t) => {
  const made = rig().audio(3)
  made.hear({ type: 'turn.start', time_s: 0.4 }, delta('Hello'), delta(' there'))
  t.match(made.heard(), [{ kind: 'speech_started', seconds: 0.4 }, {}, {}])
  made.hear({ type: 'turn.eager_end', time_s: 1 }, { type: 'turn.resume', time_s: 1.1 })
  t.same(made.heard(), [])
  made.hear({ type: 'turn.end', time_s: 2.75, end_reason: 'threshold' })
  t.match(made.heard(), [
    { kind: 'final', segment: { start: 0, end: 2.75, text: 'Hello there' } },
    { kind: 'settled', seconds: 0.25 },
    { kind: 'utterance_end', seconds: 2.75 },
  ])
  made.hear({ type: 'turn.end', time_s: 'late' }, { type: 'turn.end', time_s: 2.9 })
  t.match(made.heard(), [{ kind: 'warning' }, { kind: 'utterance_end' }])
  made.hear(delta(' again.')).end().hear(done('Hello there again.'))
  t.match(made.heard().slice(-3), [
    { kind: 'final', segment: { text: 'again.' } },
    { kind: 'settled' },
    { kind: 'ended' },
  ])
})

t.test('errors are sentences, with numbers of their own', async (t) => {
  const made = rig()
    .audio(1)
    .hear({ type: 'error', error: { message: 'Timeout waiting for response', code: 3804 } })
  t.match(made.heard(), [
    { kind: 'failed', failure: { kind: 'server', providerMessage: 'Timeout waiting for response' } },
  ])
  t.match(rig().stepper.closed(1000, ''), { kind: 'server' })
  t.match(live.refused({ status: 401, headers: {}, body: [] }), { kind: 'credential' })
})
