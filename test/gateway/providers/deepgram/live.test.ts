import t from 'tap'
import { deepgram } from '../../../../src/gateway/providers/deepgram/provider.ts'
import { LiveRig, liveCall, liveTarget } from '../../../support/live.ts'

const target = (model = 'nova-3') => liveTarget(model, { baseUrl: 'https://api.deepgram.com' })
const live = deepgram.live!

/**
 * Results as https://developers.deepgram.com/reference/speech-to-text/listen-streaming has them, and ListenV1Results of
 * @deepgram/sdk 5.13.0.
 */
function results(
  [start, duration]: [number, number],
  words: readonly (readonly [string, number, number, number?])[],
  more: {
    channel?: number
    final?: boolean
    speech?: boolean
    finalize?: boolean
    languages?: string[]
  } = {},
) {
  return {
    type: 'Results',
    channel_index: [more.channel ?? 0, 2],
    duration,
    start,
    is_final: more.final ?? true,
    speech_final: more.speech ?? false,
    ...(more.finalize === undefined ? {} : { from_finalize: more.finalize }),
    channel: {
      alternatives: [
        {
          transcript: words.map(([word]) => word).join(' '),
          confidence: 0.99,
          ...(more.languages === undefined ? {} : { languages: more.languages }),
          words: words.map(([word, from, to, speaker]) => ({
            word: word.toLowerCase(),
            punctuated_word: word,
            start: from,
            end: to,
            confidence: 0.9,
            ...(speaker === undefined ? {} : { speaker }),
          })),
        },
      ],
    },
    metadata: {
      request_id: 'r',
      model_info: { name: 'general-nova-3', version: 'v', arch: 'nova-3' },
      model_uuid: 'u',
    },
  }
}

/** https://developers.deepgram.com/docs/close-stream */
const METADATA = {
  type: 'Metadata',
  transaction_key: 'deprecated',
  request_id: '8c8ebea9-dbec-45fa-a035-e4632cb05b5f',
  sha256: 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  created: '2024-08-29T22:37:55.202Z',
  duration: 3,
  channels: 1,
}

t.test('options become the query', async (t) => {
  const rows: [Parameters<typeof liveCall>, Record<string, string | string[]>][] = [
    [
      [],
      {
        language: 'multi',
        encoding: 'linear16',
        sample_rate: '16000',
        channels: '1',
        interim_results: 'true',
      },
    ],
    [[{ language: 'en-US' }, { endpointingMs: 300 }], { language: 'en-US', endpointing: '300' }],
    [
      [{ language: 'de' }, { commit: 'manual', interim: false }],
      { language: 'de', endpointing: 'false', interim_results: 'true' },
    ],
    [[{ keyterms: ['lark', 'way'] }], { keyterm: ['lark', 'way'] }],
    [[{ redaction: ['pii', 'pci'], language: 'en' }], { redact: ['pii', 'pci'], interim_results: 'true' }],
    [
      [{ diarization: true, smart_formatting: true, profanity_filter: true }],
      { diarize_model: 'latest', smart_format: 'true', profanity_filter: 'true' },
    ],
    [
      [{ multichannel: true }, { audio: { encoding: 'mulaw', sampleRate: 8000, channels: 2 } }],
      { multichannel: 'true', channels: '2', encoding: 'mulaw', sample_rate: '8000' },
    ],
    [
      [{}, { audio: { encoding: 'alaw', sampleRate: 8000, channels: 2 } }],
      { channels: '1', encoding: 'alaw' },
    ],
  ]
  for (const [args, expected] of rows) {
    const { url, headers, audio, protocols } = live.handshake(liveCall(...args), target())
    const { protocol, host, pathname, searchParams } = new URL(url)
    t.same([protocol, host, pathname, protocols], ['wss:', 'api.deepgram.com', '/v1/listen', []])
    t.same(headers, { authorization: 'Token k' })
    t.equal(searchParams.get('model'), 'nova-3')
    for (const [name, value] of Object.entries(expected))
      t.same(searchParams.getAll(name), [value].flat(), name)
    t.equal(searchParams.has('detect_language'), false, 'it has none live')
    t.equal(String(audio.channels), searchParams.get('channels'))
  }
  const medical = live.handshake(liveCall(), target('nova-3-medical'))
  t.equal(new URL(medical.url).searchParams.get('language'), null)
  t.equal(
    new URL(live.handshake(liveCall(), liveTarget('nova-3', { baseUrl: 'http://h:1' })).url).protocol,
    'ws:',
  )
})

t.test('it refuses what it would not keep', async (t) => {
  const lacks = (...args: Parameters<typeof liveCall>) => live.unsupported!(liveCall(...args), target())
  t.equal(lacks({ redaction: ['pii'], language: 'en-GB' }), null)
  t.match(lacks({ redaction: ['pii'], language: 'de' }), { missing: ['redaction'], language: 'de' })
  t.match(lacks({ redaction: ['pii'] }), { missing: ['redaction'], language: null }, 'it may not be English')
  t.match(lacks({ redaction: ['pii'], language: 'en', detect_language: true }), { missing: ['redaction'] })
})

t.test('partials, finals and what is settled', async (t) => {
  const rig = new LiveRig(deepgram, liveCall(), target()).open()
  t.same(rig.told(), [{ type: 'KeepAlive' }])
  rig.audio(0.2)
  t.same(rig.told(), [3200, 3200], 'audio goes as it is')
  rig.audio(2.8).hear({ type: 'SpeechStarted', channel: [0, 1], timestamp: 0.5 })
  rig.hear(results([0, 1.5], [['Hello', 0.5, 0.9]], { final: false }))
  t.same(rig.heard(), [
    { kind: 'speech_started', seconds: 0.5, channel: 0 },
    { kind: 'partial', channel: 0, start: 0.5, text: 'Hello', end: 1.5 },
  ])
  rig.hear(
    results(
      [0, 2],
      [
        ['Hello,', 0.5, 0.9],
        ['world.', 1, 1.4],
      ],
      { speech: true, languages: ['en'] },
    ),
  )
  t.match(rig.heard(), [
    {
      kind: 'final',
      channel: 0,
      segment: { start: 0.5, end: 1.4, text: 'Hello, world.', confidence: 0.9 },
      words: [
        { word: 'Hello,', start: 0.5, end: 0.9, confidence: 0.9 },
        { word: 'world.', start: 1, end: 1.4, confidence: 0.9 },
      ],
      language: 'en',
    },
    { kind: 'settled', seconds: 2 },
    { kind: 'utterance_end', seconds: 2, channel: 0 },
  ])
  rig.hear(results([2, 1], []))
  t.same(rig.heard(), [
    { kind: 'partial', channel: 0, start: 2, text: '' },
    { kind: 'settled', seconds: 3 },
  ])
  rig.end()
  t.same(rig.told().at(-1), { type: 'CloseStream' })
  rig.hear(METADATA)
  t.same(rig.heard(), [{ kind: 'ended' }])
  t.equal(rig.stepper.closed(1000, ''), null)
})

t.test('what is not final is not told where something is redacted', async (t) => {
  const call = liveCall({ redaction: ['pii'], language: 'en' })
  const rig = new LiveRig(deepgram, call, target()).open().audio(3)
  rig.hear(results([0, 1.5], [['Ann', 0.5, 0.9]], { final: false }))
  t.same(rig.heard(), [])
})

t.test('speakers and long results are segments of their own', async (t) => {
  const rig = new LiveRig(deepgram, liveCall({ diarization: true, language: 'en' }), target())
    .open()
    .audio(10)
  rig.hear(
    results(
      [0, 10],
      [
        ['Hi', 1, 1.2, 0],
        ['there', 1.3, 1.5, 0],
        ['Yes', 2, 2.2, 1],
        ['so', 6, 6.2, 1],
      ],
    ),
  )
  const finals = rig.heard().filter((event) => event.kind === 'final')
  t.match(finals, [
    {
      segment: { text: 'Hi there', speaker: '0', start: 1, end: 1.5 },
      words: [{ speaker: '0' }, {}],
      language: 'en',
    },
    { segment: { text: 'Yes', speaker: '1' } },
    { segment: { text: 'so', speaker: '1', start: 6 } },
  ])
  const plain = new LiveRig(deepgram, liveCall(), target()).open().audio(3)
  plain.hear(results([0, 3], [['Hi', 1, 1.2, 0]]))
  t.notMatch(plain.heard()[0], { segment: { speaker: '0' } }, 'nobody asked for speakers')
})

t.test('what is settled is what every channel has final', async (t) => {
  const audio = { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 2 } as const
  const rig = new LiveRig(deepgram, liveCall({ multichannel: true }, { audio }), target()).open().audio(5)
  const settled = () => rig.heard().flatMap((event) => (event.kind === 'settled' ? [event.seconds] : []))
  rig.hear(results([0, 3], [['one', 1, 1.2]], { channel: 0 }))
  t.same(settled(), [])
  rig.hear(results([0, 2], [['two', 1, 1.2]], { channel: 1 }))
  t.same(settled(), [2])
  rig.hear(results([2, 2], [], { channel: 1 }))
  t.same(settled(), [3])
  rig.hear(results([0, 3], [['none', 1, 1.2]], { channel: 2 }))
  t.match(rig.heard(), [{ kind: 'warning' }], 'there is no third channel')
})

t.test('Finalize is answered, marked or not', async (t) => {
  const rig = new LiveRig(deepgram, liveCall(), target()).open()
  rig.finalize()
  t.same(rig.told(), [{ type: 'KeepAlive' }], 'nothing to settle')
  rig.audio(1).told()
  rig.finalize()
  t.same(rig.told(), [{ type: 'Finalize' }])
  rig.hear(results([0, 0.8], [['a', 0.1, 0.2]], { finalize: true }))
  t.match(rig.heard(), [
    { kind: 'final' },
    { kind: 'settled', seconds: 0.8 },
    { kind: 'settled', seconds: 1 },
    { kind: 'finalized' },
  ])
  rig.finalize()
  t.same(rig.told(), [], 'all is settled')
  rig
    .audio(1)
    .finalize()
    .hear(results([1, 0.5], []))
  t.notMatch(rig.heard(), [{ kind: 'finalized' }])
  rig.hear(results([1.5, 0.5], []))
  t.same(rig.heard().at(-1), { kind: 'finalized' })
  rig.audio(1).finalize().end().hear(METADATA)
  t.same(rig.heard().slice(-2), [{ kind: 'finalized' }, { kind: 'ended' }])
})

t.test('refusals and closes are classified as answers are', async (t) => {
  const refused = (status: number, headers: Record<string, string>, body = '') =>
    live.refused({ status, headers, body: body === '' ? [] : [Buffer.from(body)] })
  t.match(refused(401, { 'dg-error': 'Invalid credentials.' }), { kind: 'credential', status: 401 })
  t.match(refused(400, { 'dg-error': 'Bad Request: No such model/language/tier combination found.' }), {
    kind: 'model',
  })
  t.match(refused(400, { 'dg-error': 'Bad Request: Keyterm limit exceeded. The maximum' }), {
    kind: 'limit',
    rejection: { param: 'keyterms' },
  })
  t.match(refused(429, {}, '{"err_code":"TOO_MANY_REQUESTS","err_msg":"x"}'), { kind: 'rate' })
  t.match(refused(502, {}), { kind: 'server' })
  const closed = (code: number, reason: string) =>
    new LiveRig(deepgram, liveCall(), target()).stepper.closed(code, reason)
  t.match(closed(1011, 'NET-0001'), { kind: 'server', providerMessage: 'NET-0001', status: null })
  t.match(closed(1008, 'DATA-0000'), { kind: 'limit', rejection: { reason: 'bad_audio' } })
  t.match(closed(1006, ''), { kind: 'ambiguous' })
  t.match(closed(1000, ''), { kind: 'server' }, 'nobody asked it to')
  const ending = new LiveRig(deepgram, liveCall(), target()).open().audio(2).end()
  t.match(ending.stepper.closed(1011, 'NET-0000'), { kind: 'server' }, 'before all was final')
  t.match(ending.stepper.closed(1000, ''), { kind: 'server' })
  ending.hear(results([0, 2], []))
  t.equal(ending.stepper.closed(1000, ''), null)
})
