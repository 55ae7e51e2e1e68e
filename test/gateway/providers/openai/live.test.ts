import t from 'tap'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { LiveRig, liveCall, liveTarget } from '../../../support/live.ts'

const live = openai.live!
const PCM = { encoding: 'pcm_s16le', sampleRate: 24_000, channels: 1 } as const

/** Frames as openai 7.55.0 resources/realtime/realtime.d.ts has them. */
const updated = { type: 'session.updated', event_id: 'event_1', session: { type: 'transcription' } }
const started = (id: string, ms: number) => ({
  type: 'input_audio_buffer.speech_started',
  event_id: 'e',
  audio_start_ms: ms,
  item_id: id,
})
const stopped = (id: string, ms: number) => ({
  type: 'input_audio_buffer.speech_stopped',
  event_id: 'e',
  audio_end_ms: ms,
  item_id: id,
})
const committed = (id: string, previous: string | null = null) => ({
  type: 'input_audio_buffer.committed',
  event_id: 'e',
  item_id: id,
  previous_item_id: previous,
})
const delta = (id: string, text: string) => ({
  type: 'conversation.item.input_audio_transcription.delta',
  event_id: 'e',
  item_id: id,
  content_index: 0,
  delta: text,
})
const completed = (id: string, transcript: string) => ({
  type: 'conversation.item.input_audio_transcription.completed',
  event_id: 'e',
  item_id: id,
  content_index: 0,
  transcript,
  usage: { type: 'duration', seconds: 2 },
})
const error = (fields: object) => ({
  type: 'error',
  event_id: 'e',
  error: { message: 'm', param: null, ...fields },
})
const EMPTY = error({ type: 'invalid_request_error', code: 'input_audio_buffer_commit_empty' })
const COMMIT = { type: 'input_audio_buffer.commit' }
const PROBE = { type: 'session.update', session: { type: 'transcription' } }

function rig(model: string, ...args: Parameters<typeof liveCall>): LiveRig {
  const made = new LiveRig(openai, liveCall(...args), liveTarget(model)).open().hear(updated)
  made.told()
  made.heard()
  return made
}

t.test('the model is in the configuration, and never in the address', async (t) => {
  const { url, headers, audio, protocols } = live.handshake(liveCall(), liveTarget('gpt-live-transcribe'))
  t.equal(url, 'wss://api.example.com/v1/realtime?intent=transcription')
  t.same(headers, { authorization: 'Bearer k' })
  t.same(audio, PCM)
  t.same(protocols, [])
  const rows: [string, Parameters<typeof liveCall>, unknown, unknown][] = [
    ['gpt-live-transcribe', [], { model: 'gpt-live-transcribe' }, null],
    [
      'gpt-live-transcribe',
      [{ language: 'en-US', keyterms: ['lark'], prompt: 'p' }],
      { model: 'gpt-live-transcribe', languages: ['en'], keywords: ['lark'] },
      null,
    ],
    ['gpt-realtime-whisper', [{ language: 'de' }], { model: 'gpt-realtime-whisper', language: 'de' }, null],
    [
      'gpt-4o-transcribe',
      [{ prompt: 'p' }],
      { model: 'gpt-4o-transcribe', prompt: 'p' },
      { type: 'server_vad' },
    ],
    [
      'gpt-4o-transcribe',
      [{}, { endpointingMs: 300 }],
      { model: 'gpt-4o-transcribe' },
      { type: 'server_vad', silence_duration_ms: 300 },
    ],
    ['gpt-4o-transcribe', [{}, { commit: 'manual' }], { model: 'gpt-4o-transcribe' }, null],
  ]
  for (const [model, args, transcription, turn_detection] of rows) {
    const told = new LiveRig(openai, liveCall(...args), liveTarget(model)).open().told()
    const input = { format: { type: 'audio/pcm', rate: 24_000 }, transcription, turn_detection }
    t.same(told, [{ type: 'session.update', session: { type: 'transcription', audio: { input } } }], model)
  }
})

t.test('telephone audio goes as it is', async (t) => {
  for (const [encoding, type] of [
    ['mulaw', 'audio/pcmu'],
    ['alaw', 'audio/pcma'],
  ] as const) {
    const call = liveCall({}, { audio: { encoding, sampleRate: 8000, channels: 2 } })
    const { audio } = live.handshake(call, liveTarget('gpt-4o-transcribe'))
    t.same(audio, { encoding, sampleRate: 8000, channels: 1 })
    t.match(new LiveRig(openai, call, liveTarget('gpt-4o-transcribe')).open().told(), [
      { session: { audio: { input: { format: { type } } } } },
    ])
  }
  const fast = liveCall({}, { audio: { encoding: 'mulaw', sampleRate: 16_000, channels: 1 } })
  t.same(live.handshake(fast, liveTarget('m')).audio, PCM)
})

t.test('it refuses what it would not keep', async (t) => {
  const lacks = (model: string, ...args: Parameters<typeof liveCall>) =>
    live.unsupported!(liveCall(...args), liveTarget(model))
  t.equal(lacks('gpt-live-transcribe', { keyterms: ['a'] }), null)
  t.match(lacks('gpt-4o-transcribe', { keyterms: ['a'] }), { missing: ['keyterms'] })
  t.match(lacks('gpt-live-transcribe', { keyterms: ['<a>'] }), { why: 'field', param: 'keyterms' })
  t.match(
    lacks('gpt-live-transcribe', {
      timestamps: 'both',
      diarization: true,
      multichannel: true,
      redaction: ['pii'],
    }),
    { missing: ['word_timestamps', 'segment_timestamps', 'diarization', 'redaction', 'multichannel'] },
  )
})

t.test('audio is base64 within JSON, and ready comes once', async (t) => {
  const made = new LiveRig(openai, liveCall(), liveTarget('gpt-4o-transcribe')).open()
  made.hear({ type: 'session.created', event_id: 'e', session: {} })
  t.same(made.heard(), [])
  made.hear(updated)
  t.same(made.heard(), [{ kind: 'ready' }])
  const bytes = Uint8Array.from({ length: 4800 }, (_, at) => at % 251)
  const [frame] = made.stepper.audio(bytes)
  const { type, audio } = JSON.parse(frame as string)
  t.equal(type, 'input_audio_buffer.append')
  t.same(Buffer.from(audio, 'base64'), Buffer.from(bytes))
  made.hear(updated)
  t.same(made.heard(), [])
})

t.test('turns that the provider finds: bounds, order, what is settled', async (t) => {
  const made = rig('gpt-4o-transcribe').audio(4)
  made.hear(started('a', 500), stopped('a', 1500), committed('a'), started('b', 2000), stopped('b', 3000))
  made.hear(committed('b', 'a'))
  t.same(made.heard(), [
    { kind: 'speech_started', seconds: 0.5, channel: 0 },
    { kind: 'utterance_end', seconds: 1.5, channel: 0 },
    { kind: 'speech_started', seconds: 2, channel: 0 },
    { kind: 'utterance_end', seconds: 3, channel: 0 },
  ])
  made.hear(delta('b', 'second'), completed('b', 'Second one.'))
  t.same(made.heard(), [{ kind: 'partial', channel: 0, start: 2, text: 'second' }], 'it waits for the first')
  made.hear(delta('a', 'Fir'), delta('a', 'st'))
  t.same(made.heard().at(-1), { kind: 'partial', channel: 0, start: 0.5, text: 'First Second one.' })
  made.hear(completed('a', 'First one.'))
  t.match(made.heard(), [
    { kind: 'final', channel: 0, segment: { start: 0.5, end: 1.5, text: 'First one.' }, words: [] },
    { kind: 'settled', seconds: 1.5 },
    { kind: 'final', channel: 0, segment: { start: 2, end: 3, text: 'Second one.' } },
    { kind: 'settled', seconds: 3 },
  ])
})

t.test('an item that comes late stands behind the one that it follows', async (t) => {
  const made = rig('gpt-4o-transcribe').audio(5)
  made.hear(started('a', 0), stopped('a', 1000), committed('a'))
  made.hear(started('c', 3000), stopped('c', 4000), committed('c', 'b'))
  made.hear(started('b', 1500), stopped('b', 2500), committed('b', 'a'))
  made.hear(completed('c', 'C'), completed('b', 'B'), completed('a', 'A'))
  const texts = made.heard().flatMap((event) => (event.kind === 'final' ? [event.segment.text] : []))
  t.same(texts, ['A', 'B', 'C'])
})

t.test('silence is settled by a question that changes nothing', async (t) => {
  const made = rig('gpt-4o-transcribe').audio(2.9)
  t.notMatch(made.told(), [PROBE])
  made.audio(3)
  t.same(
    made.told().filter((frame) => frame !== 'audio'),
    [PROBE],
    'asked once',
  )
  made.hear(updated)
  t.same(made.heard(), [{ kind: 'settled', seconds: 2 }], 'with time for the detection of speech')
  made.audio(3).hear(started('a', 8000), updated)
  t.notMatch(made.heard(), [{ kind: 'settled' }], 'not while somebody speaks')
})

t.test('a speaker who makes no pause is committed', async (t) => {
  const made = rig('gpt-4o-transcribe').audio(1).hear(started('a', 500)).audio(19)
  t.notMatch(JSON.stringify(made.told()), /commit/)
  made.audio(1)
  t.match(JSON.stringify(made.told()), /input_audio_buffer.commit/)
  made.hear(committed('a'), completed('a', 'a long one'))
  const heard = made.heard()
  t.match(heard.at(-2), { kind: 'final', segment: { start: 0.5, end: 20.5 } })
  t.same(heard.at(-1), { kind: 'settled', seconds: 20.5 })
  made.audio(5).hear(updated, updated)
  t.same(made.heard(), [], 'speech goes on: nothing more is settled')
  made.hear(stopped('b', 24_000), committed('b'), completed('b', 'its end'))
  t.match(made.heard().slice(1), [
    { kind: 'final', segment: { start: 20.5, end: 24, text: 'its end' } },
    { kind: 'settled', seconds: 24 },
  ])
})

t.test('without turns the session commits: behind a pause, after a step, when asked', async (t) => {
  const commits = (made: LiveRig) =>
    made.told().filter((frame) => frame !== 'audio' && JSON.stringify(frame) !== JSON.stringify(PROBE))
  const made = rig('gpt-live-transcribe').audio(2).hear(delta('a', 'Hello')).audio(1.1)
  t.same(commits(made), [])
  t.same(made.heard(), [{ kind: 'partial', channel: 0, start: 0, text: 'Hello' }])
  made.audio(0.2)
  t.same(commits(made), [COMMIT])
  made.hear(committed('a'), completed('a', 'Hello.'))
  t.match(made.heard(), [
    { kind: 'final', segment: { start: 0, end: 3.2, text: 'Hello.' } },
    { kind: 'settled', seconds: 3.2 },
  ])
  made.audio(19)
  t.same(commits(made), [], 'silence')
  made.audio(1)
  t.same(commits(made), [COMMIT])
  made.hear(committed('b', 'a'), completed('b', ''))
  t.same(made.heard(), [{ kind: 'settled', seconds: 23.2 }])
  const manual = rig('gpt-live-transcribe', {}, { commit: 'manual' }).audio(2).hear(delta('a', 'x')).audio(10)
  t.same(commits(manual), [])
  manual.finalize()
  t.same(commits(manual), [COMMIT])
  manual.hear(committed('a'), completed('a', 'X'))
  t.match(manual.heard().slice(1), [
    { kind: 'final' },
    { kind: 'settled', seconds: 12 },
    { kind: 'finalized' },
  ])
  manual.finalize()
  t.same(commits(manual), [], 'nothing to settle')
  manual.audio(25)
  t.same(commits(manual), [COMMIT], 'what is not committed is not settled')
})

t.test('finalize and end are answered in their order, also by an error that there was nothing', async (t) => {
  const made = rig('gpt-live-transcribe').audio(1).finalize().audio(1).finalize().end()
  t.same(
    made.told().filter((frame) => frame !== 'audio'),
    [COMMIT, COMMIT, COMMIT],
  )
  made.hear(committed('a'), committed('b', 'a'), EMPTY)
  t.same(made.heard(), [])
  made.hear(completed('b', 'B'), completed('a', 'A'))
  t.match(
    made.heard().map(({ kind }) => kind),
    ['final', 'settled', 'finalized', 'final', 'settled', 'finalized', 'ended'],
  )
  t.equal(made.stepper.closed(1000, ''), null)
  const turns = rig('gpt-4o-transcribe').audio(1).hear(started('a', 200)).audio(1).end()
  t.same(turns.told().at(-1), COMMIT, 'speech goes on')
  turns.hear(committed('a'), completed('a', 'A'))
  t.match(turns.heard().slice(1), [{ kind: 'final' }, { kind: 'settled', seconds: 2 }, { kind: 'ended' }])
  const quiet = rig('gpt-4o-transcribe').audio(1).end()
  t.same(quiet.told().slice(-2), ['audio', PROBE], 'a transcript of silence would be made up')
  quiet.hear(updated)
  t.same(quiet.heard(), [{ kind: 'settled', seconds: 1 }, { kind: 'ended' }])
  const late = rig('gpt-4o-transcribe').audio(1).end().hear(started('a', 800), updated)
  t.same(late.told().at(-1), COMMIT, 'speech was heard behind the question')
  const short = rig('gpt-live-transcribe').audio(2).finalize()
  short.told()
  short.stepper.audio(new Uint8Array(960))
  short.end()
  t.equal(short.told().length, 2, 'the last 20 ms are filled up, or the commit would be refused')
})

t.test('failures are classified as answers are', async (t) => {
  const failed = (frame: object) => {
    const [event] = rig('gpt-4o-transcribe').audio(1).hear(frame).heard()
    return event?.kind === 'failed' ? event.failure : event
  }
  const rows: [object, object][] = [
    [
      error({ type: 'invalid_request_error', code: 'invalid_api_key' }),
      { kind: 'credential', providerMessage: 'invalid_api_key, invalid_request_error' },
    ],
    [error({ type: 'invalid_request_error', code: 'model_not_found' }), { kind: 'model' }],
    [error({ type: 'insufficient_quota', code: 'insufficient_quota' }), { kind: 'credential' }],
    [error({ type: 'rate_limit_error', code: 'rate_limit_exceeded' }), { kind: 'rate' }],
    [error({ type: 'server_error', code: null }), { kind: 'server' }],
    [error({ type: 'invalid_request_error', code: 'session_expired' }), { kind: 'limit' }],
    [
      error({
        type: 'invalid_request_error',
        code: 'invalid_value',
        param: 'session.audio.input.turn_detection',
      }),
      { kind: 'limit' },
    ],
    [
      {
        type: 'conversation.item.input_audio_transcription.failed',
        item_id: 'a',
        content_index: 0,
        error: { type: 'server_error', code: 'x', message: 'm' },
      },
      { kind: 'server' },
    ],
  ]
  for (const [frame, expected] of rows) t.match(failed(frame), expected, JSON.stringify(frame))
  const unclear = rig('gpt-live-transcribe').audio(2).finalize().hear(committed('a'))
  unclear.hear({
    type: 'conversation.item.input_audio_transcription.failed',
    item_id: 'a',
    content_index: 0,
    error: {
      type: 'transcription_error',
      code: 'audio_unintelligible',
      message: 'The audio could not be transcribed.',
    },
  })
  t.match(unclear.heard(), [{ kind: 'warning' }, { kind: 'settled', seconds: 2 }, { kind: 'finalized' }])
  t.match(rig('m').stepper.closed(1001, ''), { kind: 'server' })
  t.match(rig('m').audio(2).end().stepper.closed(1000, ''), { kind: 'server' }, 'before all was transcribed')
  t.match(
    live.refused({ status: 401, headers: {}, body: [Buffer.from('{"error":{"code":"invalid_api_key"}}')] }),
    { kind: 'credential', status: 401 },
  )
})
