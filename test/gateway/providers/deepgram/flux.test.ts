import t from 'tap'
import { deepgram } from '../../../../src/gateway/providers/deepgram/provider.ts'
import { LiveRig, liveCall, liveTarget } from '../../../support/live.ts'

const target = (model = 'flux-general-en') => liveTarget(model, { baseUrl: 'https://api.deepgram.com' })
const live = deepgram.live!
const MULTI = target('flux-general-multi')

type Heard = readonly (readonly [word: string, start?: number, end?: number])[]

/** As ListenV2TurnInfo of @deepgram/sdk 5.13.0 has it, and https://developers.deepgram.com/docs/flux/state. */
function turnInfo(event: string, [from, until]: [number, number], words: Heard = [], more: object = {}) {
  return {
    ...{ type: 'TurnInfo', request_id: 'r', sequence_id: 1, event, turn_index: 0 },
    ...{ audio_window_start: from, audio_window_end: until },
    transcript: words.map(([word]) => word).join(' '),
    words: words.map(([word, start, end]) => ({ word, confidence: 0.9, start, end })),
    end_of_turn_confidence: 0.1,
    ...more,
  }
}

const HELLO: Heard = [
  ['Hello', 0.5, 0.9],
  ['there.', 1, 1.4],
]
/** Half a second of 16 kHz. */
const PADDING = 16_000

t.test('options become the query', async (t) => {
  const rows: [Parameters<typeof liveCall>, Record<string, string | string[]>, string?][] = [
    [[], { model: 'flux-general-en', encoding: 'linear16', sample_rate: '16000' }],
    [[{ language: 'en' }, { endpointingMs: 300 }], { eot_timeout_ms: '500' }],
    [[{}, { endpointingMs: 2000 }], { eot_timeout_ms: '2000' }],
    [[{}, { commit: 'manual' }], { eot_threshold: '1.0', eot_timeout_ms: '30000' }],
    [[{ keyterms: ['lark', 'way'] }], { keyterm: ['lark', 'way'] }],
    [[{ redaction: ['numbers'], language: 'en' }], { redact: 'numbers' }],
    [[{ smart_formatting: true, profanity_filter: true }], { numerals: 'true', profanity_filter: 'true' }],
    [[{ language: 'de-AT' }], { language_hint: 'de' }, 'flux-general-multi'],
    [[{ language: 'pl' }], {}, 'flux-general-multi'],
    [[{ language: 'multi', detect_language: true }], {}, 'flux-general-multi'],
  ]
  for (const [args, expected, model] of rows) {
    const { url, headers, protocols } = live.handshake(liveCall(...args), target(model))
    const { protocol, pathname, searchParams } = new URL(url)
    t.same([protocol, pathname, protocols], ['wss:', '/v2/listen', []])
    t.same(headers, { authorization: 'Token k' })
    const given = {
      model: model ?? 'flux-general-en',
      encoding: 'linear16',
      sample_rate: '16000',
      ...expected,
    }
    t.same([...new Set(searchParams.keys())].sort(), Object.keys(given).sort(), 'nothing else')
    for (const [name, value] of Object.entries(given)) t.same(searchParams.getAll(name), [value].flat(), name)
  }
  const unkept = { ...target(), promises: { training: 'never' as const } }
  t.equal(new URL(live.handshake(liveCall(), unkept).url).searchParams.get('mip_opt_out'), 'true')
  const phone = liveCall({}, { audio: { encoding: 'mulaw', sampleRate: 8000, channels: 2 } })
  t.same(live.handshake(phone, target()).audio, { encoding: 'mulaw', sampleRate: 8000, channels: 1 })
  const odd = liveCall({}, { audio: { encoding: 'pcm_s16le', sampleRate: 22_050, channels: 1 } })
  t.equal(live.handshake(odd, target()).audio.sampleRate, 16_000, 'a rate that it does not take')
  t.equal(new URL(live.handshake(liveCall(), target('nova-3')).url).pathname, '/v1/listen')
})

t.test('it refuses what it would not keep', async (t) => {
  const lacks = (...args: Parameters<typeof liveCall>) => live.unsupported!(liveCall(...args), target())
  t.equal(lacks({ redaction: ['numbers'], language: 'en' }), null)
  t.match(lacks({ redaction: ['numbers', 'pii'], language: 'en' }), { redactions: ['pii'] })
  t.match(lacks({ redaction: ['numbers'] }), { missing: ['redaction'] }, 'it may not be English')
  t.match(lacks({ diarization: true }), { missing: ['diarization'] })
  t.match(lacks({ multichannel: true }), { missing: ['multichannel'] })
  t.equal(live.unsupported!(liveCall({ diarization: true }), target('nova-3')), null)
})

t.test('a turn: its beginning, partials, final and end', async (t) => {
  const rig = new LiveRig(deepgram, liveCall(), target()).open()
  t.same(rig.told(), [], 'there is no KeepAlive')
  rig.audio(3).hear({ type: 'Connected', request_id: 'r', sequence_id: 0 })
  rig.hear(turnInfo('Update', [0, 0.4]))
  t.same(rig.heard(), [], 'a second of silence may be the beginning of a turn')
  rig.hear(turnInfo('StartOfTurn', [0, 0.96], [['Hello', 0.5, 0.9]]))
  rig.hear(turnInfo('Update', [0, 1.2], [['Hello', 0.5, 0.9]]))
  rig.hear(turnInfo('EagerEndOfTurn', [0, 1.5], HELLO), turnInfo('TurnResumed', [0, 1.6], HELLO))
  t.same(rig.heard(), [
    { kind: 'speech_started', seconds: 0.5, channel: 0 },
    { kind: 'partial', channel: 0, start: 0.5, text: 'Hello', end: 0.96 },
    { kind: 'partial', channel: 0, start: 0.5, text: 'Hello there.', end: 1.5 },
  ])
  rig.hear(turnInfo('EndOfTurn', [0, 2.4], HELLO, { trigger: 'model' }))
  t.match(rig.heard(), [
    {
      kind: 'final',
      language: 'en',
      segment: { start: 0.5, end: 1.4, text: 'Hello there.' },
      words: [{ word: 'Hello', start: 0.5, end: 0.9, confidence: 0.9 }, { word: 'there.' }],
    },
    { kind: 'settled', seconds: 2.15 },
    { kind: 'utterance_end', seconds: 2.4 },
  ])
  rig.audio(3).hear(turnInfo('Update', [2.4, 5]))
  t.same(rig.heard(), [{ kind: 'settled', seconds: 4 }], 'silence is settled')
})

t.test(
  'words without times are told by the window of their turn, and languages as they are heard',
  async (t) => {
    const rig = new LiveRig(deepgram, liveCall(), MULTI).open().audio(3)
    rig.hear(turnInfo('EndOfTurn', [0.4, 2], [['Hallo']], { languages: ['de'] }))
    t.match(rig.heard()[0], { kind: 'final', language: 'de', segment: { start: 0.4, end: 2, text: 'Hallo' } })
  },
)

t.test('what is redacted has no partials', async (t) => {
  const rig = new LiveRig(deepgram, liveCall({ redaction: ['numbers'], language: 'en' }), target()).open()
  rig.audio(3).hear(turnInfo('Update', [0, 1.5], HELLO))
  t.same(rig.heard(), [])
})

t.test('finalize ends a turn once all before it is transcribed', async (t) => {
  const rig = new LiveRig(deepgram, liveCall(), target()).open().audio(2)
  rig.hear(turnInfo('Update', [0, 1.5], HELLO))
  rig.told()
  rig.heard()
  rig.finalize()
  t.same(rig.told(), [PADDING], 'silence pushes what is left of the audio through')
  rig.hear(turnInfo('Update', [0, 1.75], HELLO))
  t.same(rig.told(), [])
  rig.hear(turnInfo('Update', [0, 2], HELLO), turnInfo('Update', [0, 2.25], HELLO))
  t.same(rig.told(), [{ type: 'ForceEndTurn' }], 'once')
  rig.hear(turnInfo('EndOfTurn', [0, 2.5], HELLO, { trigger: 'manual' }))
  t.match(rig.heard(), [
    { kind: 'final', segment: { text: 'Hello there.' } },
    { kind: 'settled', seconds: 1.75 },
    { kind: 'utterance_end', seconds: 2 },
    { kind: 'settled', seconds: 2 },
    { kind: 'finalized' },
  ])
  rig.finalize()
  t.same(rig.told(), [], 'there is nothing to settle')
  rig.audio(1).hear(turnInfo('StartOfTurn', [2.5, 3.5], [['Bye.', 3, 3.4]]))
  t.match(
    rig.heard(),
    [{ kind: 'speech_started', seconds: 2.5 }, { start: 2.5 }],
    'times without the silence',
  )
})

t.test('finalize in silence is answered without a turn', async (t) => {
  const rig = new LiveRig(deepgram, liveCall(), target()).open().audio(2).finalize()
  rig.told()
  rig.hear(turnInfo('Update', [0, 2.2]))
  t.same(rig.heard().at(-1), { kind: 'finalized' })
  t.same(rig.told(), [])
})

t.test('a pause of the caller is told as silence: as much as it is where a turn is open', async (t) => {
  const rig = new LiveRig(deepgram, liveCall(), target()).open().audio(2)
  rig.told()
  t.equal((rig.stepper.keepAlive()[0] as Uint8Array).byteLength, 8000)
  rig.hear(turnInfo('Update', [0, 1.5], HELLO))
  t.equal((rig.stepper.keepAlive()[0] as Uint8Array).byteLength, 128_000)
  rig.hear(turnInfo('EndOfTurn', [0, 4], HELLO))
  t.match(rig.heard().at(-1), { kind: 'utterance_end', seconds: 2 })
})

t.test('at the end the last update of an open turn is what was said', async (t) => {
  const rig = new LiveRig(deepgram, liveCall(), target()).open().audio(2)
  rig.hear(turnInfo('Update', [0, 1.5], HELLO)).end()
  t.same(rig.told().slice(-2), [PADDING, { type: 'CloseStream' }])
  t.match(rig.stepper.closed(1005, ''), { kind: 'server' }, 'not all was transcribed yet')
  rig.heard()
  rig.hear(turnInfo('Update', [0, 2.4], [...HELLO, ['Bye.', 1.8, 2]]))
  t.match(rig.heard(), [
    { kind: 'final', segment: { text: 'Hello there. Bye.' } },
    { kind: 'settled' },
    { kind: 'utterance_end', seconds: 2 },
    { kind: 'ended' },
  ])
  t.equal(rig.stepper.closed(1005, ''), null)
})

t.test('errors and closes are failures', async (t) => {
  const rig = new LiveRig(deepgram, liveCall(), target()).open().audio(1)
  rig.hear({ type: 'Error', sequence_id: 3, code: 'INTERNAL_SERVER_ERROR', description: 'sorry' })
  t.match(rig.heard(), [{ kind: 'failed', failure: { kind: 'server', providerMessage: /sorry/ } }])
  t.match(rig.stepper.closed(1011, 'NET-0001'), { kind: 'server' })
  t.equal(new LiveRig(deepgram, liveCall(), target()).open().end().stepper.closed(1005, ''), null)
})
