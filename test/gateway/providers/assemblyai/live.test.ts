import t from 'tap'
import { assemblyai } from '../../../../src/gateway/providers/assemblyai/provider.ts'
import { LiveRig, liveCall, liveTarget } from '../../../support/live.ts'

const live = assemblyai.live!
const target = (baseUrl = 'https://api.assemblyai.com') => liveTarget('universal-3-6-pro', { baseUrl })
const rig = (...args: Parameters<typeof liveCall>) =>
  new LiveRig(assemblyai, liveCall(...args), target()).open()

/** Turns as assemblyai 4.41.5 dist/types/streaming/index.d.ts has them. */
function turn(
  order: number,
  words: readonly (readonly [string, number, number, string?])[],
  more: { over?: boolean; formatted?: boolean; transcript?: string; speaker?: string } = {},
) {
  return {
    type: 'Turn',
    turn_order: order,
    turn_is_formatted: more.formatted ?? more.over ?? false,
    end_of_turn: more.over ?? false,
    transcript: more.transcript ?? words.map(([text]) => text).join(' '),
    end_of_turn_confidence: 0.5,
    words: words.map(([text, start, end, speaker]) => ({
      text,
      start,
      end,
      confidence: 0.9,
      word_is_final: true,
      ...(speaker === undefined ? {} : { speaker }),
    })),
    ...(more.speaker === undefined ? {} : { speaker_label: more.speaker }),
    language_code: 'en',
    language_confidence: 0.98,
  }
}
const BEGIN = { type: 'Begin', id: 'a', expires_at: 1 }
const TERMINATION = { type: 'Termination', audio_duration_seconds: 3, session_duration_seconds: 4 }

t.test('options become the query, at a host of its own', async (t) => {
  const rows: [Parameters<typeof liveCall>, Record<string, string | null>][] = [
    [
      [],
      {
        sample_rate: '16000',
        encoding: 'pcm_s16le',
        format_turns: 'true',
        language_detection: 'true',
        acknowledge_silence: 'true',
        include_partial_turns: null,
      },
    ],
    [
      [{ language: 'en-US' }, { endpointingMs: 700 }],
      { language_codes: '["en"]', language_detection: null, max_turn_silence: '700' },
    ],
    [
      [{ diarization: true, speaker_count_hint: 3, profanity_filter: true }],
      { speaker_labels: 'true', max_speakers: '3', filter_profanity: 'true' },
    ],
    [
      [{ keyterms: ['lark', 'a b'] }, { interim: false }],
      { keyterms_prompt: '["lark","a b"]', include_partial_turns: 'false' },
    ],
    [
      [{ redaction: ['pci'], language: 'en' }],
      {
        redact_pii: 'true',
        redact_pii_policies: '["credit_card_cvv","credit_card_expiration","credit_card_number"]',
        redact_pii_sub: 'entity_name',
        include_partial_turns: 'false',
      },
    ],
    [
      [{}, { audio: { encoding: 'mulaw', sampleRate: 8000, channels: 2 } }],
      { encoding: 'pcm_mulaw', sample_rate: '8000' },
    ],
    [[{}, { audio: { encoding: 'alaw', sampleRate: 8000, channels: 1 } }], { encoding: 'pcm_s16le' }],
  ]
  for (const [args, expected] of rows) {
    const { url, headers, audio } = live.handshake(liveCall(...args), target())
    const { origin, pathname, searchParams } = new URL(url)
    t.same([origin, pathname], ['wss://streaming.assemblyai.com', '/v3/ws'])
    t.same(headers, { authorization: 'k' })
    t.equal(searchParams.get('speech_model'), 'universal-3-6-pro')
    t.equal(audio.channels, 1)
    for (const [name, value] of Object.entries(expected)) t.equal(searchParams.get(name), value, name)
  }
  t.match(
    live.handshake(liveCall(), target('https://api.eu.assemblyai.com')).url,
    /^wss:\/\/streaming\.eu\.assemblyai\.com\/v3/,
  )
  t.match(
    live.handshake(liveCall(), target('http://127.0.0.1:8080')).url,
    /^ws:\/\/127\.0\.0\.1:8080\/v3\/ws\?/,
  )
})

t.test('it refuses what it would not keep', async (t) => {
  const lacks = (options: Parameters<typeof liveCall>[0]) => live.unsupported!(liveCall(options), target())
  t.equal(lacks({ redaction: ['pii', 'numbers'], language: 'fr' }), null)
  t.match(lacks({ redaction: ['pii', 'phi'], language: 'en' }), {
    missing: ['redaction'],
    redactions: ['phi'],
  })
  t.match(lacks({ redaction: ['pii'] }), { missing: ['redaction'] }, 'the language may be one without it')
  t.match(lacks({ redaction: ['pii'], language: 'cy' }), { missing: ['redaction'], language: 'cy' })
  t.match(lacks({ multichannel: true }), { missing: ['multichannel'] })
})

t.test('turns grow, end, and are settled', async (t) => {
  const made = rig().hear(BEGIN)
  t.same(made.heard(), [{ kind: 'ready' }])
  made.audio(3)
  t.same(new Set(made.told()), new Set([3200]))
  made.hear(
    { type: 'SpeechStarted', timestamp: 400 },
    turn(0, [['hel', 500, 700]]),
    turn(
      0,
      [
        ['hello', 500, 900],
        ['wor', 950, 1100],
      ],
      { transcript: 'hello' },
    ),
  )
  t.same(made.heard(), [
    { kind: 'speech_started', seconds: 0.4, channel: 0 },
    { kind: 'partial', channel: 0, start: 0.5, text: 'hel', end: 0.7 },
    { kind: 'partial', channel: 0, start: 0.5, text: 'hello wor', end: 1.1 },
  ])
  made.hear(
    turn(
      0,
      [
        ['hello', 500, 900],
        ['world', 950, 1400],
      ],
      { over: true, formatted: false },
    ),
  )
  t.same(
    made.heard(),
    [{ kind: 'partial', channel: 0, start: 0.5, text: 'hello world', end: 1.4 }],
    'its final form is to come',
  )
  made.hear(
    turn(
      0,
      [
        ['Hello', 500, 900],
        ['world.', 950, 1400],
      ],
      { over: true },
    ),
  )
  t.match(made.heard(), [
    {
      kind: 'final',
      segment: { start: 0.5, end: 1.4, text: 'Hello world.', confidence: 0.9 },
      words: [
        { word: 'Hello', start: 0.5, end: 0.9 },
        { word: 'world.', start: 0.95, end: 1.4 },
      ],
      language: 'en',
      languageConfidence: 0.98,
    },
    { kind: 'settled', seconds: 1.5 },
    { kind: 'utterance_end', seconds: 1.4 },
  ])
  made.hear({ type: 'Silence', start_ms: 1500, end_ms: 2500 })
  t.same(made.heard(), [{ kind: 'settled', seconds: 2.5 }])
  made.hear(turn(1, [['so', 2600, 2700]]), { type: 'Silence', start_ms: 2700, end_ms: 2900 })
  t.same(
    made.heard().map(({ kind }) => kind),
    ['partial'],
    'a turn is not over',
  )
  made.end()
  t.same(made.told(), [{ type: 'Terminate' }])
  made.hear(turn(1, [['so', 2600, 2700]], { over: true, formatted: false }), TERMINATION)
  t.match(
    made.heard().map(({ kind }) => kind),
    ['partial', 'final', 'settled', 'utterance_end', 'settled', 'ended'],
  )
  t.equal(made.stepper.closed(1000, ''), null)
})

t.test('a turn whose final form never comes is told when the next one begins', async (t) => {
  const made = rig().hear(BEGIN).audio(3)
  made.heard()
  made.hear(turn(0, [['one', 100, 200]], { over: true, formatted: false }), turn(1, [['two', 900, 950]]))
  t.match(
    made.heard().filter(({ kind }) => kind === 'final'),
    [{ segment: { text: 'one' } }],
  )
})

t.test('speakers', async (t) => {
  const made = rig({ diarization: true }).hear(BEGIN).audio(3)
  made.heard()
  made.hear(
    turn(
      0,
      [
        ['Hi.', 100, 200, 'A'],
        ['Yes.', 300, 400, 'B'],
      ],
      { over: true },
    ),
  )
  t.match(
    made.heard().filter(({ kind }) => kind === 'final'),
    [{ segment: { speaker: 'A' } }, { segment: { speaker: 'B' } }],
  )
  made.hear(turn(1, [['Oh.', 900, 950]], { over: true, speaker: 'A' }))
  t.match(made.heard()[0], { segment: { speaker: 'A' } })
  made.hear({ type: 'SpeakerRevision', revisions: [] }, { type: 'SpeakerRevision', revisions: [] })
  t.match(made.heard(), [{ kind: 'warning' }], 'once')
})

t.test('messages are 50 ms at least', async (t) => {
  const made = rig()
  made.sent.push(...made.stepper.audio(new Uint8Array(640)), ...made.stepper.audio(new Uint8Array(640)))
  t.same(made.told(), [])
  made.sent.push(...made.stepper.audio(new Uint8Array(640)))
  t.same(made.told(), [1920])
  made.sent.push(...made.stepper.audio(new Uint8Array(640)))
  made.end()
  t.same(made.told(), [1600, { type: 'Terminate' }], 'filled up with silence')
})

t.test('ForceEndpoint is answered by the turn that it ends, or by silence', async (t) => {
  const made = rig().hear(BEGIN).audio(2)
  made.heard()
  made.told()
  made.finalize()
  t.same(made.told(), [{ type: 'ForceEndpoint' }])
  made.hear(turn(0, [['early', 100, 300]], { over: true }))
  t.notMatch(
    made.heard().map(({ kind }) => kind),
    ['finalized'],
    'a turn that was over before',
  )
  made.hear(turn(1, [['late', 1500, 1900]], { over: true }))
  t.match(made.heard().slice(-2), [{ kind: 'settled', seconds: 2 }, { kind: 'finalized' }])
  made.audio(1).finalize().hear({ type: 'Silence', start_ms: 2000, end_ms: 3000 })
  t.same(made.heard(), [{ kind: 'settled', seconds: 3 }, { kind: 'finalized' }])
  made.told()
  made.finalize()
  t.same(made.told(), [], 'nothing to settle')
})

t.test('errors and closes are classified', async (t) => {
  const rows: [number, string, object][] = [
    [4001, 'Not Authorized', { kind: 'credential', providerMessage: null }],
    [4002, 'Insufficient Funds', { kind: 'credential' }],
    [4029, 'Client sent audio too fast', { kind: 'rate' }],
    [3009, 'Too many concurrent sessions', { kind: 'rate' }],
    [4101, 'Bad schema', { kind: 'limit', rejection: { reason: 'unsupported_option' } }],
    [3005, 'Server error', { kind: 'server' }],
    [3008, 'Session too long', { kind: 'server' }],
    [
      1008,
      'Unauthorized Connection: Missing Authorization header',
      { kind: 'credential', providerMessage: null },
    ],
    [1008, 'Unauthorized connection: Too many concurrent sessions', { kind: 'rate' }],
    [1008, 'something else', { kind: 'server' }],
    [1006, '', { kind: 'ambiguous' }],
    [1000, '', { kind: 'server' }],
  ]
  for (const [code, reason, expected] of rows) {
    t.match(rig().stepper.closed(code, reason), expected, String(code))
    if (code >= 1008)
      t.match(rig().hear({ type: 'Error', error_code: code, error: reason }).heard(), [
        { kind: 'failed', failure: expected },
      ])
  }
  t.match(rig().hear({ type: 'Error', error: 'x' }).heard(), [
    { failure: { kind: 'server', providerMessage: 'x' } },
  ])
  t.match(rig().end().stepper.closed(1000, ''), { kind: 'server' }, 'before its summary')
})
