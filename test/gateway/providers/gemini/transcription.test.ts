import t from 'tap'
import { AUDIO_FORMATS, type Audio } from '../../../../src/contracts/audio.ts'
import type { TranscriptionOptions, TranscriptionResult } from '../../../../src/contracts/calls.ts'
import type { Step } from '../../../../src/contracts/provider.ts'
import { factsOf } from '../../../../src/gateway/providers/facts.ts'
import { gemini } from '../../../../src/gateway/providers/gemini/provider.ts'
import { audio, options } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'
import { done } from '../step-result.ts'

type Given = Partial<TranscriptionOptions>

const BASE = 'https://generativelanguage.googleapis.com/v1beta'
const TARGET = { model: 'gemini-3.5-transcribe', baseUrl: BASE, credential: 'AIza-secret', options: {} }

function start(given: Given, heard: Partial<Audio> = {}, model = TARGET.model) {
  const call = { audio: audio(heard), options: options(given) }
  return gemini.transcription!.start(call, { ...TARGET, model })
}

/** The body as Google would read it, with `QVVESU8=` for the audio. */
function sent(given: Given, heard: Partial<Audio> = {}) {
  const text = bytesOf(requestOf(start(given, heard)), Buffer.from('QVVESU8=')).toString()
  return JSON.parse(text) as {
    contents: unknown
    generationConfig: { audioTranscriptionConfig: Record<string, unknown> }
  }
}

function next(given: Given, body: unknown, status = 200): Step<TranscriptionResult> {
  const call = { audio: audio(), options: options(given) }
  return gemini.transcription!.next(null, reply(body, status), call, TARGET)
}

const turn = (transcription: object) => ({ audioTranscription: transcription })
const answer = (parts: readonly unknown[], finishReason = 'STOP') => ({
  candidates: [{ content: { parts, role: 'model' }, finishReason }],
})

t.test('the request', async (t) => {
  const request = requestOf(start({}))
  t.equal(request.method, 'POST')
  t.equal(request.url, `${BASE}/models/gemini-3.5-transcribe:generateContent`)
  t.same(request.headers, { 'x-goog-api-key': 'AIza-secret', 'content-type': 'application/json' })
  t.same(
    request.body.map((piece) => (piece instanceof Uint8Array ? 'bytes' : piece.as)),
    ['bytes', 'base64', 'bytes'],
    'the audio is read again by each attempt, and never held as text',
  )
  t.same(sent({}), {
    contents: [{ role: 'user', parts: [{ inlineData: { mimeType: 'audio/wav', data: 'QVVESU8=' } }] }],
    generationConfig: { audioTranscriptionConfig: {} },
  })
  const types = AUDIO_FORMATS.map((format) => {
    const [content] = sent({}, { format }).contents as [{ parts: [{ inlineData: { mimeType: string } }] }]
    return `${format} ${content.parts[0].inlineData.mimeType}`
  })
  t.same(types, [
    'mp3 audio/mp3',
    'mp4 audio/m4a',
    'mpeg video/mpeg',
    'wav audio/wav',
    'webm audio/webm',
    'ogg audio/ogg',
    'flac audio/flac',
  ])
  t.notOk(gemini.transcription!.takesSeed)
  t.same(sent({ seed: 4 }), sent({}))
})

t.test('each option', async (t) => {
  const words = { wordTimestamp: true }
  const speakers = { wordTimestamp: true, diarization: true }
  const rows: [Given, object][] = [
    [{ language: 'de' }, { languageCodes: ['de'] }],
    [{ language: 'german' }, { languageCodes: ['de'] }],
    [{ language: 'pt-BR' }, { languageCodes: ['pt-BR'] }],
    [{ language: 'pt_BR' }, { languageCodes: ['pt-BR'] }],
    [{ language: 'cmn-Hans-CN' }, { languageCodes: ['cmn-Hans-CN'] }],
    [{ language: 'no such!' }, {}],
    [{ language: 'de', detect_language: true }, {}],
    [{ detect_language: true }, {}],
    [{ diarization: true }, speakers],
    [{ diarization: true, speaker_count_hint: 2 }, speakers],
    [{ response_format: 'diarized_json' }, speakers],
    [{ timestamps: 'word' }, words],
    [{ timestamps: 'segment' }, words],
    [{ timestamps: 'both' }, words],
    [{ timestamps: 'both', diarization: true }, speakers],
    [{ response_format: 'srt' }, words],
    [{ response_format: 'vtt' }, words],
    [{ response_format: 'verbose_json' }, words],
    [{ response_format: 'text' }, {}],
    [{ keyterms: ['Larkway', '"}]}'] }, { customVocabulary: ['Larkway', '"}]}'] }],
    [{ smart_formatting: true }, { mode: 'SMART' }],
    [
      { smart_formatting: true, keyterms: ['x'] },
      { customVocabulary: ['x'], mode: 'SMART' },
    ],
    [{ prompt: 'x', profanity_filter: true, speaker_count_hint: 3 }, {}],
    [{ mode: 'async' }, {}],
  ]
  for (const [given, expected] of rows) {
    t.same(sent(given).generationConfig.audioTranscriptionConfig, expected, JSON.stringify(given))
  }
})

t.test('what would be lost is not sent', async (t) => {
  const timed: Given[] = [
    { diarization: true },
    { response_format: 'diarized_json' },
    { timestamps: 'word' },
    { timestamps: 'segment' },
    { timestamps: 'both' },
    { response_format: 'srt' },
  ]
  const rows: Given[] = [
    { redaction: ['pii'] },
    { multichannel: true },
    { mode: 'realtime' },
    ...timed.map((given) => ({ ...given, keyterms: ['a'] })),
  ]
  for (const given of rows) {
    const expected = { kind: 'failed', failure: { kind: 'model', status: null } }
    t.match(start(given), expected, JSON.stringify(given))
  }
  for (const given of timed) {
    const { mode } = sent({ ...given, smart_formatting: true }).generationConfig.audioTranscriptionConfig
    t.equal(mode, undefined, `${JSON.stringify(given)}: a hint gives way`)
  }
  const many = Array.from({ length: 1001 }, (_, index) => `term ${index}`)
  t.match(start({ keyterms: many }), { kind: 'failed', failure: { kind: 'model', reason: /^keyterms/ } })
  t.equal(start({ keyterms: many.slice(1) }).kind, 'send')
  for (const model of ['gemini-3.8-flash', 'gemini-3.5-transcribe-live', 'gemini-3.8-flash-tts']) {
    t.match(start({}, {}, model), { kind: 'failed', failure: { kind: 'model' } }, model)
  }
})

t.test('the limits are those of a request of 20 MB', async (t) => {
  const facts = factsOf('gemini', TARGET.model)!
  const most = facts.limits.max_audio_bytes!
  const keyterms = Array.from({ length: 1000 }, (_, index) => `term number ${index}, which is not short`)
  const request = requestOf(start({ keyterms }, { decodedBytes: most }))
  const bytes = bytesOf(request).length + 4 * Math.ceil(most / 3)
  t.ok(bytes <= 20_000_000, 'the largest audio goes with many keyterms')
  const room = 20_000_000 - bytesOf(requestOf(start({}))).length
  const largest = Math.floor(room / 4) * 3
  t.equal(start({}, { decodedBytes: largest }).kind, 'send')
  const over = start({}, { decodedBytes: largest + 1 })
  t.match(over, { kind: 'failed', failure: { kind: 'model', reason: /^audio/ } })
  t.same(facts.conflicts?.length, 6)
  t.equal(facts.limits.max_audio_seconds_with?.diarization, 1800)
})

t.test('a transcript', async (t) => {
  t.same(done(next({}, await fixture('gemini/transcript.json'))), {
    text: 'Grüezi mitenand. Welcome to Larkway.',
    language: 'de',
    languageConfidence: null,
    durationSeconds: null,
    segments: [],
    words: [],
    warnings: [],
    tokens: { input_tokens: 128, output_tokens: 14, audio_input_tokens: 128 },
  })
  const plain = answer([{ text: 'Only ' }, { text: 'text.' }, { text: 'a thought', thought: true }])
  t.match(done(next({}, plain)), { text: 'Only text.', language: null })
  t.match(done(next({}, answer([]))), { text: '' }, 'silence has no parts')
  const unformatted = done(next({ diarization: true, smart_formatting: true }, answer([])))
  t.match(unformatted.warnings, [/^smart_formatting: left out/])
  t.match(done(next({ timestamps: 'both', diarization: true }, answer([turn({ text: '' })]))), { text: '' })
})

t.test('a time that is left out is zero', async (t) => {
  const words = [
    { word: 'Hello', endOffset: '0.400s' },
    { word: 'world.', startOffset: '0.400s', endOffset: '0.900s' },
  ]
  const result = done(next({ timestamps: 'both' }, answer([turn({ words })])))
  t.same(result.text, 'Hello world.')
  t.same(result.words, [
    { word: 'Hello', start: 0, end: 0.4 },
    { word: 'world.', start: 0.4, end: 0.9 },
  ])
  t.same(
    result.segments.map(({ text }) => text),
    ['Hello world.'],
  )
  t.same(result.warnings, [])
  const one = done(next({ timestamps: 'word' }, answer([turn({ words: words.slice(0, 1) })])))
  t.same(one.words, [{ word: 'Hello', start: 0, end: 0.4 }], 'a recording of one word')
  const whole = done(next({ timestamps: 'segment' }, answer([turn({ text: 'Hello.', endOffset: '1.5s' })])))
  t.match(whole.segments, [{ start: 0, end: 1.5, text: 'Hello.' }], 'a turn, too')
})

t.test('a word without any times is in the text, and the answer says what lacks', async (t) => {
  const words = [
    { word: 'Hello' },
    { word: 'big', startOffset: 'soon', endOffset: '1s' },
    { word: 'world.', endOffset: '2s' },
  ]
  const result = done(next({ timestamps: 'both' }, answer([turn({ words })])))
  t.equal(result.text, 'Hello big world.')
  t.same(
    result.words.map(({ word }) => word),
    ['world.'],
  )
  t.same(
    result.segments.map(({ text }) => text),
    ['Hello big world.'],
  )
  t.match(result.warnings, [/^words: 2 of 3 came without times/])
})

t.test('words, whose text is told beside them or not at all', async (t) => {
  const body = await fixture('gemini/transcript.words.json')
  const words = [
    { word: 'Hello', start: 0.1, end: 0.45 },
    { word: 'world', start: 0.5, end: 0.85 },
  ]
  const segments = [{ id: 0, start: 0.1, end: 0.85, text: 'Hello world' }]
  t.match(done(next({ timestamps: 'word' }, body)), { text: 'Hello world', words, segments })
  t.notOk('speaker' in done(next({ timestamps: 'word' }, body)).words[0]!, 'nobody asked who speaks')
  const [withText] = (body as ReturnType<typeof answer>).candidates
  const beside = answer([{ text: 'Hello, world!' }, ...(withText?.content.parts ?? [])])
  t.match(done(next({ timestamps: 'both' }, beside)), {
    text: 'Hello, world!',
    words,
    segments: [{ id: 0, start: 0.1, end: 0.85, text: /^Hello, world/ }],
  })
})

t.test('speakers are numbered as they appear, with the times of their words', async (t) => {
  const result = done(next({ diarization: true }, await fixture('gemini/transcript.speakers.json')))
  t.equal(result.text, 'Good morning, all. Morning! Shall we?')
  t.equal(result.language, 'en')
  t.same(
    result.segments.map(({ id, speaker, start, end, text }) => [id, speaker, start, end, text]),
    [
      [0, 'speaker_0', 0.1, 1.3, 'Good morning, all.'],
      [1, 'speaker_1', 2, 2.5, 'Morning!'],
      [2, 'speaker_0', 3.1, 3.6, 'Shall we?'],
    ],
  )
  t.same(
    result.words.map(({ speaker }) => speaker),
    ['speaker_0', 'speaker_0', 'speaker_0', 'speaker_1', 'speaker_0', 'speaker_0'],
  )
  const own = turn({
    text: 'Yes.',
    words: [{ word: 'Yes.', startOffset: '1s', endOffset: '2s', speakerLabel: 'spk_3' }],
  })
  t.match(done(next({ diarization: true }, answer([own]))), { segments: [{ speaker: 'speaker_0' }] })
})

t.test('turns with times of their own are segments where there are no words', async (t) => {
  const timed = turn({ text: 'One.', startOffset: '0.5s', endOffset: '2s', speakerLabel: 'spk_1' })
  const rest = turn({ text: 'Two.' })
  const result = done(next({ response_format: 'srt' }, answer([timed, rest])))
  t.same(result.segments, [{ id: 0, start: 0.5, end: 2, text: 'One.' }])
  t.match(done(next({ diarization: true }, answer([timed]))), { segments: [{ speaker: 'speaker_0' }] })
})

t.test('what was asked for must have come', async (t) => {
  const bare = await fixture('gemini/transcript.json')
  for (const given of [
    { timestamps: 'word' },
    { timestamps: 'segment' },
    { response_format: 'vtt' },
    { diarization: true },
  ] as const) {
    const step = next(given, bare)
    t.match(step, { kind: 'failed', failure: { kind: 'server', status: 200 } }, JSON.stringify(given))
  }
  const words = await fixture('gemini/transcript.words.json')
  const nobody = JSON.parse(JSON.stringify(words).replace('speakerLabel', 'speaker'))
  t.match(next({ diarization: true }, nobody), { kind: 'failed', failure: { reason: /speakers/ } })
})

t.test('hostile answers', async (t) => {
  const words = [
    null,
    { word: 7, startOffset: '1s', endOffset: '2s' },
    { word: 'a', startOffset: '1', endOffset: '2s' },
    { word: 'b', startOffset: '-1s', endOffset: '2s' },
    { word: 'c', startOffset: 1, endOffset: 2 },
    { word: ' ', startOffset: '1s', endOffset: '2s' },
    { word: 'd', startOffset: '1e9s', endOffset: '2s' },
    { word: 'e', startOffset: '3s', endOffset: '2s' },
  ]
  const odd = answer([null, 'x', turn({ text: 5, languageCode: 9, speakerLabel: 3, words })])
  t.match(done(next({}, odd)), { text: 'e', language: null, words: [{ word: 'e', start: 3, end: 3 }] })
  for (const body of [
    '',
    'hello',
    '{"candidates',
    [],
    {},
    answer([{ functionCall: { name: 'f' } }]),
    { candidates: [{ content: {} }] },
    answer([turn({ text: 'half of i' })], 'MAX_TOKENS'),
  ]) {
    const step = next({}, body)
    t.match(step, { kind: 'failed', failure: { kind: 'server', status: 200 } }, JSON.stringify(body))
  }
  t.match(next({}, answer([turn({ text: 'half' })], 'SAFETY')), { failure: { kind: 'content' } })
  t.match(next({}, { promptFeedback: { blockReason: 'OTHER' } }), { failure: { kind: 'content' } })
  t.match(next({}, await fixture('gemini/error.rate.json'), 429), {
    kind: 'failed',
    failure: { kind: 'rate', retryAfterMs: 30_000 },
  })
})
