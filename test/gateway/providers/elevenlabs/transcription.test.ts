import t from 'tap'
import type { Audio } from '../../../../src/contracts/audio.ts'
import type { TranscriptionOptions } from '../../../../src/contracts/calls.ts'
import { elevenlabs } from '../../../../src/gateway/providers/elevenlabs/provider.ts'
import { factsOf } from '../../../../src/gateway/providers/facts.ts'
import { audio, options } from '../../../support/call.ts'
import { fieldsOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'
import { done, isMergedConversation } from '../step-result.ts'

type Given = Partial<TranscriptionOptions>

const operation = elevenlabs.transcription!

const target = (model = 'scribe_v2') => ({
  model,
  baseUrl: 'https://api.elevenlabs.io',
  credential: 'xi-secret',
  options: {},
})

function start(given: Given, model?: string) {
  return operation.start({ audio: audio(), options: options(given) }, target(model))
}

function next(given: Given, body: unknown, status = 200, heard: Partial<Audio> = {}) {
  return operation.next(null, reply(body, status), { audio: audio(heard), options: options(given) }, target())
}

t.test('the request', async (t) => {
  const request = requestOf(start({}))
  t.equal(request.method, 'POST')
  t.equal(request.url, 'https://api.elevenlabs.io/v1/speech-to-text')
  t.match(request.headers, { 'xi-api-key': 'xi-secret', 'content-type': /^multipart\/form-data; boundary=/ })
  t.notOk('authorization' in request.headers)
  t.ok(operation.takesSeed)
})

t.test('every option is sent as the provider names it, or refused', async (t) => {
  const words = 'timestamps_granularity=word'
  const none = 'timestamps_granularity=none'
  const channels = ['use_multi_channel=true', 'multichannel_output_style=separate']
  const rows: [Given, string[]][] = [
    [{}, [none]],
    [{ response_format: 'text' }, [none]],
    [{ language: 'de' }, [none, 'language_code=de']],
    [{ language: 'German' }, [none, 'language_code=de']],
    [{ language: 'deu' }, [none, 'language_code=de']],
    [{ language: 'fil' }, [none, 'language_code=fil']],
    [{ detect_language: true }, [none]],
    [{ detect_language: true, language: 'de' }, [none]],
    [{ timestamps: 'word' }, [words]],
    [{ timestamps: 'segment' }, [words]],
    [{ timestamps: 'both' }, [words]],
    [{ response_format: 'srt' }, [words]],
    [{ response_format: 'vtt' }, [words]],
    [{ response_format: 'verbose_json' }, [words]],
    [{ diarization: true }, [words, 'diarize=true']],
    [{ response_format: 'diarized_json' }, [words, 'diarize=true']],
    [{ diarization: true, speaker_count_hint: 3 }, [words, 'diarize=true', 'num_speakers=3']],
    [{ speaker_count_hint: 3 }, [none]],
    [{ keyterms: ['Larkway', 'ten, "four"'] }, [none, 'keyterms=Larkway', 'keyterms=ten, "four"']],
    [{ redaction: ['pii'] }, [none, 'entity_detection=pii', 'entity_redaction=pii']],
    [
      { redaction: ['pii', 'phi', 'pci'] },
      [
        none,
        ...['pii', 'phi', 'pci'].map((group) => `entity_detection=${group}`),
        ...['pii', 'phi', 'pci'].map((group) => `entity_redaction=${group}`),
      ],
    ],
    [{ timestamps: 'word', character_times: true }, ['timestamps_granularity=character']],
    [{ audio_events: true }, [none]],
    [{ multichannel: true }, [words, ...channels]],
    [{ multichannel: true, diarization: true, speaker_count_hint: 2 }, [words, ...channels]],
    [
      { multichannel: true, redaction: ['pci'] },
      [words, ...channels, 'entity_detection=pci', 'entity_redaction=pci'],
    ],
    [{ seed: 7 }, [none, 'seed=7']],
    [{ seed: 2_147_483_647 }, [none, 'seed=2147483647']],
    // Hints that the model has no field for. Selection takes them out and says so.
    [{ prompt: 'names', smart_formatting: true, profanity_filter: true }, [none]],
  ]
  for (const [given, expected] of rows) {
    const fields = await fieldsOf(requestOf(start(given)))
    const sent = fields.map(([name, value]) => `${name}=${value}`)
    const [granularity = '', ...rest] = expected
    t.same(
      sent,
      ['model_id=scribe_v2', granularity, `tag_audio_events=${given.audio_events ?? false}`, ...rest],
      JSON.stringify(given),
    )
  }
})

t.test('characters and sounds, where they were asked for', async (t) => {
  const character = (text: string, start: number | null) => ({ text, start, end: start && start + 0.5 })
  const item = (type: string, text: string, start: number, characters: unknown = null) => {
    return { type, text, start, end: start + 0.4, logprob: 0, characters }
  }
  const body = {
    text: 'Hi (laughter) you',
    words: [
      item('word', 'Hi', 1, [character('H', 1), character('i', 1.25)]),
      item('spacing', ' ', 1.4, [character(' ', 1.4)]),
      item('audio_event', '(laughter)', 2),
      item('word', ' you', 3, [
        character(' ', 2.9),
        character('y', 3),
        character('o', 3.25),
        character('u', 3.5),
      ]),
    ],
  }
  const asked = { timestamps: 'word', character_times: true, audio_events: true } as const
  const { words, warnings } = done(next(asked, body))
  const hi = { characters: ['H', 'i'], starts: [1, 1.25], ends: [1.5, 1.75] }
  t.same(words, [
    { word: 'Hi', start: 1, end: 1.4, confidence: 1, characters: hi },
    { word: '(laughter)', start: 2, end: 2.4, confidence: 1, kind: 'event' },
    {
      ...{ word: 'you', start: 3, end: 3.4, confidence: 1 },
      characters: { characters: ['y', 'o', 'u'], starts: [3, 3.25, 3.5], ends: [3.5, 3.75, 4] },
    },
  ])
  t.same(warnings, [])
  const plain = done(next({ timestamps: 'word' }, body))
  t.same(plain.words, [
    { word: 'Hi', start: 1, end: 1.4, confidence: 1 },
    { word: 'you', start: 3, end: 3.4, confidence: 1 },
  ])
  const without = { text: 'Hi', words: [item('word', 'Hi', 1)] }
  t.match(next(asked, without), {
    kind: 'failed',
    failure: { kind: 'server', reason: /times of characters/ },
  })
  const untimed = { text: 'Hi', words: [item('word', 'Hi', 1, [character('H', 1), character('i', null)])] }
  t.equal(next(asked, untimed).kind, 'failed')
  const sound = { text: '(laughter)', words: [item('audio_event', '(laughter)', 2)] }
  t.match(done(next(asked, sound)), { words: [{ kind: 'event' }] }, 'a sound has none')
})

t.test('what cannot be sent is not sent', async (t) => {
  const rows: [Given, string, RegExp][] = [
    [{ redaction: ['numbers'] }, 'scribe_v2', /redaction of numbers/],
    [{ redaction: ['pii', 'numbers'] }, 'scribe_v2', /redaction of numbers/],
    [{ mode: 'realtime' }, 'scribe_v2', /realtime/],
    [{ keyterms: ['x'] }, 'scribe_v1', /keyterms/],
    [{ redaction: ['pii'] }, 'scribe_v1', /redaction/],
    [{ seed: -1 }, 'scribe_v2', /seed/],
    [{ seed: 2_147_483_648 }, 'scribe_v2', /seed/],
  ]
  for (const [given, model, reason] of rows) {
    t.match(start(given, model), { kind: 'failed', failure: { kind: 'model', status: null, reason } })
  }
  t.equal(start({ multichannel: true, diarization: true }, 'scribe_v1').kind, 'send')
})

t.test('a plain answer', async (t) => {
  const result = done(next({}, await fixture('elevenlabs/scribe_v2.plain.json')))
  t.same(result, {
    text: 'Hello there. How are you?',
    language: 'en',
    languageConfidence: 0.9835,
    durationSeconds: 2.4,
    words: [],
    segments: [],
    warnings: [],
  })
})

t.test('words without blanks and sounds, segments out of them, speakers as they begin', async (t) => {
  const body = await fixture('elevenlabs/scribe_v2.diarized.json')
  const result = done(next({ diarization: true, timestamps: 'both' }, body))
  t.same(result.words[0], { word: 'Good', start: 0.119, end: 0.359, speaker: 'speaker_0', confidence: 0.99 })
  t.equal(result.words[2]?.confidence, 0.5, 'exp of the log probability')
  t.same(
    result.words.map(({ word }) => word),
    ['Good', 'morning,', 'Larkway', 'support.', 'Hi.', 'My', 'line', 'is', 'down.'],
  )
  t.match(result.segments, [
    { id: 0, start: 0.119, end: 2.1, text: 'Good morning, Larkway support.', speaker: 'speaker_0' },
    { id: 1, start: 2.8, end: 4.6, text: 'Hi. My line is down.', speaker: 'speaker_1' },
  ])
  const alone = done(next({ timestamps: 'word' }, body))
  t.notOk(
    [...alone.words, ...alone.segments].some((item) => 'speaker' in item),
    'nobody asked who',
  )
  const japanese = done(next({ response_format: 'srt' }, await fixture('elevenlabs/scribe_v2.japanese.json')))
  t.equal(japanese.language, 'ja')
  t.same(
    japanese.segments.map(({ text }) => text),
    ['今日は晴れです。', '明日は雨でしょう。'],
  )
})

t.test('channels are merged in time', async (t) => {
  const body = await fixture('elevenlabs/scribe_v2.multichannel.json')
  const result = done(next({ multichannel: true, diarization: true }, body, 200, { channels: 3 }))
  isMergedConversation(t, result)
  t.match(result, { language: 'en', languageConfidence: 0.95, durationSeconds: 7 })
  const plain = done(next({ multichannel: true }, body, 200, { channels: 3 }))
  t.notOk(plain.segments.some((segment) => 'speaker' in segment))

  // For mono audio the provider answers as if no channels had been asked for.
  const mono = await fixture('elevenlabs/scribe_v2.diarized.json')
  const one = done(next({ multichannel: true }, mono, 200, { channels: 1 }))
  t.ok(one.words.every(({ channel }) => channel === 0))
  const stereo = next({ multichannel: true }, mono, 200, { channels: 2 })
  t.match(stereo, { kind: 'failed', failure: { kind: 'server', reason: /channels/ } })
})

t.test('no word is lost that has no times, which the contract allows', async (t) => {
  const word = (text: string, start: number | null, end: number | null) => ({
    text,
    start,
    end,
    type: 'word',
    logprob: 0,
  })
  const timeless = [word('Hello', null, null), word('there.', 0.5, 0.9)]
  const both = {
    transcripts: [
      { text: 'Hello there.', channel_index: 0, words: timeless },
      { text: 'Hi Bob.', channel_index: 1, words: [word('Hi', 2, 2.2), word('Bob.', 2.3, 2.6)] },
    ],
  }
  const channels = done(next({ multichannel: true }, both, 200, { channels: 2 }))
  t.equal(channels.text, 'Hello there. Hi Bob.')
  t.match(channels.warnings, [/^words: 1 of 4 came without times/])
  const mono = done(
    next({ timestamps: 'both', response_format: 'srt' }, { text: 'Hello there.', words: timeless }),
  )
  t.equal(mono.text, 'Hello there.')
  t.same(
    mono.segments.map(({ text }) => text),
    ['Hello there.'],
    'captions have it',
  )
  t.same(
    mono.words.map((one) => one.word),
    ['there.'],
  )
  t.match(mono.warnings, [/^words: 1 of 2 came without times/])
})

t.test('an answer that lacks what was asked for is a failure', async (t) => {
  const plain = await fixture('elevenlabs/scribe_v2.plain.json')
  const word = { text: 'Hi', start: 0, end: 1, type: 'word', logprob: 0 }
  const rows: [string, Given, unknown][] = [
    ['word times', { timestamps: 'word' }, plain],
    ['segment times', { response_format: 'vtt' }, plain],
    ['speakers', { diarization: true }, plain],
    ['speakers in the words', { diarization: true }, { text: 'Hi', words: [word] }],
    ['times in the words', { timestamps: 'word' }, { text: 'Hi', words: [{ text: 'Hi', type: 'word' }] }],
    ['channels', { multichannel: true }, { transcripts: [] }],
    [
      'words of one channel',
      { multichannel: true },
      { transcripts: [{ text: 'Hi', words: [word] }, { text: 'Ho' }] },
    ],
    ['text', {}, { language_code: 'eng' }],
    ['one text (channels that nobody asked for)', {}, { transcripts: [{ text: 'Hi' }, { text: 'Ho' }] }],
    ['text of its type', {}, { text: 3 }],
    ['the object', {}, '[]'],
    ['the JSON', {}, '{"text":'],
    ['the answer (delivered to a webhook)', {}, { message: 'Request accepted', request_id: 'x' }],
  ]
  for (const [name, given, body] of rows) {
    t.match(next(given, body), { kind: 'failed', failure: { kind: 'server', status: 200 } }, name)
  }
  t.equal(done(next({ timestamps: 'word' }, { text: '', words: [] })).text, '', 'silence lacks nothing')
})

t.test('fields of the wrong type are as good as none', async (t) => {
  const body = {
    text: ' Hi you ',
    language_code: 7,
    language_probability: 'high',
    audio_duration_secs: -1,
    words: [
      null,
      'Hi',
      { text: 'Hi', start: '0', end: 1, type: 'word' },
      { text: 'Hi', start: 0, end: Number.MAX_VALUE * 2, type: 'word' },
      { text: 5, start: 0, end: 1, type: 'word' },
      { text: ' ', start: 0, end: 1, type: 'word' },
      { text: 'Hi', start: 2, end: 1, type: 'word', logprob: 3, speaker_id: 9, channel_index: -2 },
      { text: 'you', start: 3, end: 4, logprob: null },
    ],
  }
  const result = done(next({ timestamps: 'word' }, body))
  t.same(result.words, [
    { word: 'Hi', start: 2, end: 2 },
    { word: 'you', start: 3, end: 4 },
  ])
  t.match(result, { text: 'Hi you', language: null, languageConfidence: null, durationSeconds: null })
})

t.test('a refusal of the provider is classified', async (t) => {
  const quota = { detail: { status: 'quota_exceeded', message: 'no credits' } }
  t.match(next({}, quota, 401), { kind: 'failed', failure: { kind: 'credential', status: 401 } })
})

t.test('facts', async (t) => {
  t.match(factsOf('elevenlabs', 'scribe_v2'), {
    features: [
      'word_timestamps',
      'segment_timestamps',
      'diarization',
      'redaction',
      'keyterms',
      'multichannel',
    ],
    hints: ['language', 'speaker_count_hint', 'detect_language'],
    limits: {
      max_channels: 5,
      max_audio_bytes: 5e9,
      redactions: ['pii', 'phi', 'pci'],
      keyterms: { max_items: 1000, max_item_characters: 49, max_item_words: 5, forbidden: '<>{}[]\\' },
    },
    price: {
      per_hour_usd: 0.22,
      per_channel: true,
      surcharges: { keyterms: 0.2, redaction: 0.3 },
      keyterms_minimum: { over: 100, seconds: 20 },
    },
  })
  const first = factsOf('elevenlabs', 'scribe_v1')!
  t.notOk(first.features.includes('keyterms') || first.features.includes('redaction'))
})
