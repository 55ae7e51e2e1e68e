import t from 'tap'
import { elevenlabs } from '../../../../src/gateway/providers/elevenlabs/provider.ts'
import { LiveRig, liveCall, liveTarget } from '../../../support/live.ts'

const live = elevenlabs.live!
const target = liveTarget('scribe_v2_realtime', { baseUrl: 'https://api.elevenlabs.io' })

/** Messages as elevenlabs-js 2.73.0 wrapper/realtime/connection.d.ts has them. */
const STARTED = {
  message_type: 'session_started',
  session_id: 's',
  config: { model_id: 'scribe_v2_realtime' },
}
const partial = (text: string) => ({ message_type: 'partial_transcript', text })
const committed = (text: string) => ({ message_type: 'committed_transcript', text })
const timed = (text: string, words: readonly (readonly [string, number, number])[], language = 'en') => ({
  message_type: 'committed_transcript_with_timestamps',
  text,
  language_code: language,
  words: words.flatMap(([word, start, end]) => [
    { text: word, start, end, type: 'word', logprob: -0.1 },
    { text: ' ', start: end, end, type: 'spacing', logprob: 0 },
  ]),
})
const problem = (message_type: string) => ({ message_type, error: 'what went wrong' })
const COMMIT = { message_type: 'input_audio_chunk', audio_base_64: '', commit: true, sample_rate: 16_000 }

function rig(...args: Parameters<typeof liveCall>): LiveRig {
  const made = new LiveRig(elevenlabs, liveCall(...args), target).open().hear(STARTED)
  made.heard()
  return made
}
const commits = (made: LiveRig) => made.told().filter((frame) => frame !== 'audio')

t.test('options become the query', async (t) => {
  const rows: [Parameters<typeof liveCall>, Record<string, string | string[] | null>][] = [
    [
      [],
      {
        audio_format: 'pcm_16000',
        commit_strategy: 'manual',
        include_timestamps: 'true',
        include_language_detection: 'true',
        language_code: null,
      },
    ],
    [[{ language: 'de-DE' }], { language_code: 'de', include_language_detection: null }],
    [[{ keyterms: ['lark', 'way'] }], { keyterms: ['lark', 'way'] }],
    [[{}, { audio: { encoding: 'mulaw', sampleRate: 8000, channels: 2 } }], { audio_format: 'ulaw_8000' }],
    [[{}, { audio: { encoding: 'alaw', sampleRate: 8000, channels: 1 } }], { audio_format: 'pcm_8000' }],
    [
      [{}, { audio: { encoding: 'pcm_s16le', sampleRate: 32_000, channels: 1 } }],
      { audio_format: 'pcm_16000' },
    ],
  ]
  for (const [args, expected] of rows) {
    const { url, headers, audio } = live.handshake(liveCall(...args), target)
    const { origin, pathname, searchParams } = new URL(url)
    t.same([origin, pathname], ['wss://api.elevenlabs.io', '/v1/speech-to-text/realtime'])
    t.same(headers, { 'xi-api-key': 'k' })
    t.equal(searchParams.get('model_id'), 'scribe_v2_realtime')
    t.match(searchParams.get('audio_format'), new RegExp(`_${audio.sampleRate}$`))
    t.equal(audio.channels, 1)
    for (const [name, value] of Object.entries(expected))
      t.same(searchParams.getAll(name), value === null ? [] : [value].flat(), name)
  }
})

t.test('it refuses what it would not keep', async (t) => {
  t.match(
    live.unsupported!(liveCall({ diarization: true, redaction: ['pii'], multichannel: true }), target),
    { missing: ['diarization', 'redaction', 'multichannel'] },
  )
  t.equal(live.unsupported!(liveCall({ timestamps: 'both', keyterms: ['a'] }), target), null)
})

t.test('audio is base64 within JSON', async (t) => {
  const made = new LiveRig(elevenlabs, liveCall(), target).open()
  t.same(made.told(), [])
  made.hear(STARTED)
  t.same(made.heard(), [{ kind: 'ready' }])
  const bytes = Uint8Array.from({ length: 3200 }, (_, at) => at % 251)
  const [frame] = made.stepper.audio(bytes)
  const { audio_base_64, ...rest } = JSON.parse(frame as string)
  t.same(rest, { message_type: 'input_audio_chunk', commit: false, sample_rate: 16_000 })
  t.same(Buffer.from(audio_base_64, 'base64'), Buffer.from(bytes))
})

t.test('a pause in the text is committed, and what is committed has words and is settled', async (t) => {
  const made = rig().audio(1).hear(partial('hel')).audio(0.5).hear(partial('hello world'))
  t.same(made.heard(), [
    { kind: 'partial', channel: 0, start: 0, text: 'hel' },
    { kind: 'partial', channel: 0, start: 0, text: 'hello world' },
  ])
  made.audio(1.1).hear(partial('hello world'))
  t.same(commits(made), [])
  made.audio(0.2)
  t.same(commits(made), [COMMIT])
  made.heard()
  made.hear(committed('Hello world.'))
  t.same(made.heard(), [], 'its times are to come')
  made.hear(
    timed('Hello world.', [
      ['Hello', 0.3, 0.7],
      ['world.', 0.8, 1.3],
    ]),
  )
  t.match(made.heard(), [
    {
      kind: 'final',
      segment: { start: 0.3, end: 1.3, text: 'Hello world.', confidence: 0.9048 },
      words: [{ word: 'Hello', start: 0.3, end: 0.7, confidence: 0.9048 }, { word: 'world.' }],
      language: 'en',
    },
    { kind: 'settled', seconds: 2.7 },
    { kind: 'utterance_end', seconds: 2.7, channel: 0 },
  ])
})

t.test('silence is committed as well, so that it is settled', async (t) => {
  const made = rig().audio(3.9)
  t.same(commits(made), [])
  made.audio(0.2)
  t.same(commits(made), [COMMIT])
  made.audio(3)
  t.same(commits(made), [], 'once')
  made.hear(committed(''))
  t.same(made.heard(), [{ kind: 'settled', seconds: 4 }])
  const long = rig()
  for (let turn = 0; turn < 20; turn += 1) long.audio(1).hear(partial(`word ${turn}`))
  t.same(commits(long), [COMMIT], 'a speaker who makes no pause')
  const manual = rig({}, { commit: 'manual' }).audio(1).hear(partial('a')).audio(3)
  t.same(commits(manual), [])
})

t.test('finalize and end are commits with answers', async (t) => {
  const made = rig().audio(1).finalize().audio(1).finalize().end()
  t.same(commits(made), [COMMIT, COMMIT, COMMIT])
  made.hear(
    committed('one'),
    timed('one', [['one', 0.1, 0.5]]),
    committed('two'),
    timed('two', [['two', 1.1, 1.5]]),
  )
  t.match(made.heard(), [
    { kind: 'final', segment: { text: 'one' } },
    { kind: 'settled', seconds: 1 },
    { kind: 'finalized' },
    { kind: 'utterance_end' },
    { kind: 'final', segment: { text: 'two' } },
    { kind: 'settled', seconds: 2 },
    { kind: 'finalized' },
    { kind: 'utterance_end' },
  ])
  made.hear(problem('commit_throttled'))
  t.same(made.heard(), [{ kind: 'ended' }], 'there was nothing left')
  t.equal(made.stepper.closed(1000, ''), null)
  const short = rig()
  short.stepper.audio(new Uint8Array(640))
  short.end()
  t.same(short.told(), ['audio', COMMIT], 'what is too short is filled up')
})

t.test('a transcript whose times never come is told without them', async (t) => {
  const made = rig().audio(2).finalize().audio(2).finalize()
  made.hear(committed('one'), committed('two'), timed('two', [['two', 2.5, 3]]))
  t.match(
    made.heard().filter(({ kind }) => kind === 'final'),
    [
      { segment: { text: 'one', start: 0, end: 2 }, words: [] },
      { segment: { text: 'two' }, words: [{ word: 'two' }] },
    ],
  )
})

t.test('errors are classified', async (t) => {
  const rows: [string, object][] = [
    ['auth_error', { kind: 'credential', providerMessage: 'auth_error' }],
    ['quota_exceeded', { kind: 'credential' }],
    ['unaccepted_terms', { kind: 'credential' }],
    ['rate_limited', { kind: 'rate' }],
    ['queue_overflow', { kind: 'rate' }],
    ['resource_exhausted', { kind: 'rate' }],
    ['chunk_size_exceeded', { kind: 'limit', rejection: { reason: 'too_large' } }],
    ['input_error', { kind: 'limit' }],
    ['invalid_request', { kind: 'limit' }],
    ['session_time_limit_exceeded', { kind: 'server' }],
    ['transcriber_error', { kind: 'server', providerMessage: 'what went wrong' }],
    ['insufficient_audio_activity', { kind: 'server' }],
    ['error', { kind: 'server' }],
    ['something_new', { kind: 'server' }],
  ]
  for (const [type, expected] of rows)
    t.match(rig().hear(problem(type)).heard(), [{ kind: 'failed', failure: expected }], type)
  t.match(rig().stepper.closed(1008, ''), { kind: 'server' })
  t.match(
    live.refused({
      status: 401,
      headers: {},
      body: [Buffer.from('{"detail":{"status":"invalid_api_key","message":"m"}}')],
    }),
    { kind: 'credential' },
  )
})

t.test('a transcript whose times come first is told once', async (t) => {
  const made = rig().audio(1).finalize()
  made.hear(timed('yes', [['yes', 0.2, 0.6]]), committed('yes'))
  made
    .audio(1)
    .finalize()
    .hear(committed('yes'), timed('yes', [['yes', 1.2, 1.6]]))
  made.audio(1).finalize().hear(timed('', []), committed(''))
  const events = made.heard()
  t.match(
    events.filter(({ kind }) => kind === 'final'),
    [{ words: [{ word: 'yes', start: 0.2 }] }, { words: [{ word: 'yes', start: 1.2 }] }],
  )
  t.same(
    events.flatMap((event) => (event.kind === 'settled' ? [event.seconds] : [])),
    [1, 2, 3],
  )
  t.equal(events.filter(({ kind }) => kind === 'finalized').length, 3)
})

t.test('silence that keeps the session is no audio of the caller', async (t) => {
  const made = rig().audio(1)
  made.told()
  for (let pause = 0; pause < 2; pause += 1)
    t.match(made.stepper.keepAlive(), [/^{"message_type":"input_audio_chunk","audio_base_64":"A+=*",/])
  made.audio(1)
  made.stepper.keepAlive()
  made.finalize()
  const words = [
    ['one', 0.5, 1.02],
    ['two', 1.3, 1.6],
  ] as const
  made.hear(committed('one two'), timed('one two', words))
  const final = made.heard().find(({ kind }) => kind === 'final')
  t.match(final, {
    words: [
      { word: 'one', start: 0.5, end: 1 },
      { word: 'two', start: 1.2, end: 1.5 },
    ],
  })
})
