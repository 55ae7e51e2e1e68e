import t from 'tap'
import { openaiCompatible } from '../../../src/gateway/providers/openai-compatible.ts'
import { LiveRig, liveCall, liveTarget } from '../../support/live.ts'

const live = openaiCompatible.live!
const at = (protocol?: string) =>
  liveTarget('large', {
    baseUrl: 'http://10.0.0.5:8000/v1',
    credential: null,
    options: protocol === undefined ? {} : { live_protocol: protocol },
  })
const rig = (protocol: string, ...args: Parameters<typeof liveCall>) =>
  new LiveRig(openaiCompatible, liveCall(...args), at(protocol)).open()

t.test('each protocol has its address, its format, and what it keeps', async (t) => {
  const rows: [string | undefined, string, number][] = [
    [undefined, 'ws://10.0.0.5:8000/v1/realtime?intent=transcription', 24_000],
    ['openai', 'ws://10.0.0.5:8000/v1/realtime?intent=transcription', 24_000],
    ['speaches', 'ws://10.0.0.5:8000/v1/realtime?intent=transcription&model=large', 24_000],
    ['vllm', 'ws://10.0.0.5:8000/v1/realtime', 16_000],
  ]
  for (const [protocol, url, sampleRate] of rows) {
    const call = liveCall({}, { audio: { encoding: 'pcm_s16le', sampleRate: 8000, channels: 2 } })
    t.same(live.handshake(call, at(protocol)), {
      url,
      protocols: [],
      headers: {},
      audio: { encoding: 'pcm_s16le', sampleRate, channels: 1 },
    })
    t.match(live.unsupported!(liveCall({ timestamps: 'word' }), at(protocol)), {
      missing: ['word_timestamps'],
    })
  }
  t.match(live.unsupported!(liveCall({ keyterms: ['a'] }), at('vllm')), { missing: ['keyterms'] })
  t.equal(live.unsupported!(liveCall({ keyterms: ['a'] }), at()), null)
  t.match(live.refused({ status: 403, headers: {}, body: [] }), { kind: 'credential' })
})

/** Messages of vLLM's vllm/frontend/entrypoints/speech_to_text/realtime/protocol.py. */
const CREATED = { type: 'session.created', id: 'sess_1', created: 1 }
const delta = (text: string) => ({ type: 'transcription.delta', delta: text })
const done = (text: string) => ({ type: 'transcription.done', text, usage: { total_tokens: 3 } })
const UPDATE = { type: 'session.update', model: 'large' }
const BEGIN = { type: 'input_audio_buffer.commit' }
const FINISH = { type: 'input_audio_buffer.commit', final: true }

t.test('vLLM: the model first, then utterances that the session ends', async (t) => {
  const made = rig('vllm')
  t.same(made.told(), [])
  made.hear(CREATED)
  t.same(made.told(), [UPDATE, BEGIN])
  t.same(made.heard(), [{ kind: 'ready' }])
  made.audio(1).hear(delta('Hello'), delta(''), delta(' world'))
  t.same(made.heard(), [
    { kind: 'partial', channel: 0, start: 0, text: 'Hello' },
    { kind: 'partial', channel: 0, start: 0, text: 'Hello world' },
  ])
  made.audio(1.2)
  t.same(made.told().at(-1), FINISH, 'a pause')
  made.audio(0.3)
  t.same(made.told(), [], 'what it would throw away is held back')
  made.hear(done('Hello world.'))
  t.match(made.heard(), [
    { kind: 'final', segment: { start: 0, end: 2.2, text: 'Hello world.' }, words: [] },
    { kind: 'settled', seconds: 2.2 },
  ])
  t.same(made.told(), [BEGIN, 'audio', 'audio', 'audio'])
  made.audio(1).end()
  t.same(made.told().at(-1), FINISH)
  made.hear(done('Bye.'))
  t.match(made.heard(), [
    { kind: 'final', segment: { start: 2.2, end: 3.5 } },
    { kind: 'settled', seconds: 3.5 },
    { kind: 'utterance_end', seconds: 3.5 },
    { kind: 'ended' },
  ])
  t.equal(made.stepper.closed(1000, ''), null)
})

t.test('vLLM: finalize while an utterance is finished, and an end without audio', async (t) => {
  const made = rig('vllm').hear(CREATED).audio(1).finalize().audio(0.5).finalize()
  made.heard()
  made.told()
  made.hear(done('one'))
  t.match(made.heard().slice(1), [
    { kind: 'settled', seconds: 1 },
    { kind: 'utterance_end' },
    { kind: 'finalized' },
  ])
  t.same(made.told(), [BEGIN, ...Array(5).fill('audio'), FINISH])
  made.hear(done('two'))
  t.match(made.heard().slice(1), [
    { kind: 'settled', seconds: 1.5 },
    { kind: 'utterance_end' },
    { kind: 'finalized' },
  ])
  made.end().hear({ type: 'error', error: 'no audio', code: 'processing_error' })
  t.same(made.heard(), [{ kind: 'ended' }])
  const stuck = rig('vllm').hear(CREATED).audio(1).finalize().audio(31).hear(delta('x'))
  t.match(
    stuck.heard().at(-1),
    { kind: 'failed', failure: { kind: 'server' } },
    'no end of what is held back',
  )
})

t.test('vLLM: a server that says nothing for a while is asked for what it has', async (t) => {
  const made = rig('vllm').hear(CREATED).audio(3.9)
  made.told()
  made.audio(0.1)
  t.same(made.told().at(-1), FINISH)
  const writing = rig('vllm').hear(CREATED).audio(3).hear(delta('')).audio(3)
  t.notMatch(JSON.stringify(writing.told()), /final/, 'empty pieces show that it is there')
})

t.test('vLLM: its errors are sentences', async (t) => {
  const failed = (error: string, code: string) =>
    rig('vllm').hear(CREATED).audio(1).hear({ type: 'error', error, code }).heard().at(-1)
  t.match(failed('The model `large` does not exist.', 'model_not_found'), {
    kind: 'failed',
    failure: { kind: 'model' },
  })
  t.match(failed('Unknown event type', 'unknown_event'), { failure: { kind: 'limit' } })
  t.match(failed('boom', 'processing_error'), { failure: { kind: 'server', providerMessage: 'boom' } })
})

/** speaches-ai/speaches src/speaches/realtime/input_audio_buffer_event_router.py: times begin anew with each item. */
t.test("speaches: OpenAI's beta, whose times are those of the audio that was sent", async (t) => {
  const made = rig('speaches', { language: 'de' }, { endpointingMs: 400 })
  t.same(made.told(), [
    {
      type: 'session.update',
      session: {
        input_audio_transcription: { model: 'large', language: 'de' },
        turn_detection: { type: 'server_vad', silence_duration_ms: 400 },
      },
    },
  ])
  made
    .hear({ type: 'session.updated', session: {} })
    .audio(2)
    .hear({ type: 'input_audio_buffer.speech_started', item_id: 'a', audio_start_ms: 100 })
  made
    .audio(2)
    .hear(
      { type: 'input_audio_buffer.speech_stopped', item_id: 'a', audio_end_ms: 1500 },
      { type: 'input_audio_buffer.committed', item_id: 'a', previous_item_id: null },
    )
  made.heard()
  made.hear({
    type: 'conversation.item.input_audio_transcription.completed',
    item_id: 'a',
    transcript: 'hallo\n',
  })
  t.match(made.heard(), [
    { kind: 'final', segment: { start: 2, end: 4, text: 'hallo' } },
    { kind: 'settled', seconds: 3 },
  ])
  made.audio(3)
  t.same(
    made.told().filter((frame) => frame !== 'audio'),
    [{ type: 'session.update', session: {} }],
  )
  const manual = rig('speaches', {}, { commit: 'manual' })
    .hear({ type: 'session.updated', session: {} })
    .audio(1)
    .end()
  manual.heard()
  manual.hear({
    type: 'error',
    error: {
      type: 'invalid_request_error',
      message: 'Error committing input audio buffer: buffer too small. Expected',
    },
  })
  t.same(manual.heard().at(-1), { kind: 'ended' })
})
