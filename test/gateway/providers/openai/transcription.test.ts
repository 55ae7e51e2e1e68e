import t, { type Test } from 'tap'
import type { TranscriptionOptions } from '../../../../src/contracts/calls.ts'
import type { Provider, Target } from '../../../../src/contracts/provider.ts'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../../src/gateway/providers/openai-compatible.ts'
import { audio, options } from '../../../support/call.ts'
import { fieldsOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'
import { done } from '../step-result.ts'

type Given = Partial<TranscriptionOptions>
type Operation = 'transcription' | 'translation'

function target(model: string, overrides: Partial<Target> = {}): Target {
  return { model, baseUrl: 'https://api.openai.com/v1', credential: 'sk-secret', options: {}, ...overrides }
}

function start(provider: Provider, model: string, given: Given, operation: Operation = 'transcription') {
  return provider[operation]!.start({ audio: audio(), options: options(given) }, target(model))
}

async function next(
  t: Test,
  model: string,
  given: Given,
  body: unknown,
  operation: Operation = 'transcription',
) {
  const call = { audio: audio(), options: options(given) }
  const first = openai[operation]!.start(call, target(model))
  t.equal(first.kind, 'send')
  const state = first.kind === 'send' ? first.state : null
  return openai[operation]!.next(JSON.parse(JSON.stringify(state)), reply(body), call, target(model))
}

/** Fields of the form but for the model. */
async function sent(
  provider: Provider,
  model: string,
  given: Given,
  operation?: Operation,
): Promise<string[]> {
  const fields = await fieldsOf(requestOf(start(provider, model, given, operation)))
  return fields.filter(([name]) => name !== 'model').map(([name, value]) => `${name}=${value}`)
}

t.test('the request', async (t) => {
  const request = requestOf(start(openai, 'whisper-1', {}))
  t.equal(request.method, 'POST')
  t.equal(request.url, 'https://api.openai.com/v1/audio/transcriptions')
  t.match(request.headers, { authorization: 'Bearer sk-secret' })
  t.notOk('content-length' in request.headers, 'the sender computes it')
  t.same((await fieldsOf(request))[0], ['model', 'whisper-1'])
  const open = openaiCompatible.transcription!.start(
    { audio: audio(), options: options() },
    target('m', { credential: null, baseUrl: 'http://10.0.0.5:8000/v1' }),
  )
  t.notOk('authorization' in requestOf(open).headers)
  t.equal(requestOf(open).url, 'http://10.0.0.5:8000/v1/audio/transcriptions')
})

t.test('fields of each model', async (t) => {
  const verbose = 'response_format=verbose_json'
  const word = 'timestamp_granularities[]=word'
  const segment = 'timestamp_granularities[]=segment'
  const diarized = ['response_format=diarized_json', 'chunking_strategy=auto']
  const rows: [string, Given, string[]][] = [
    ['whisper-1', {}, [verbose]],
    ['whisper-1', { response_format: 'text' }, [verbose]],
    ['whisper-1', { response_format: 'srt' }, [verbose, segment]],
    ['whisper-1', { response_format: 'vtt', timestamps: 'word' }, [verbose, word, segment]],
    ['whisper-1', { response_format: 'verbose_json' }, [verbose, segment]],
    ['whisper-1', { timestamps: 'word' }, [verbose, word]],
    ['whisper-1', { timestamps: 'both' }, [verbose, word, segment]],
    ['whisper-1', { language: 'de', prompt: 'Larkway' }, [verbose, 'language=de', 'prompt=Larkway']],
    ['whisper-1', { language: 'german' }, [verbose, 'language=de']],
    ['whisper-1', { language: 'en-US' }, [verbose, 'language=en']],
    ['whisper-1', { language: 'nonsense!' }, [verbose]],
    ['whisper-1', { chunking_strategy: 'auto' }, [verbose]],
    ['gpt-4o-transcribe', { chunking_strategy: 'auto' }, ['response_format=json', 'chunking_strategy=auto']],
    ['whisper-1', { language: 'de', detect_language: true }, [verbose]],
    [
      'gpt-4o-transcribe',
      { language: 'de', prompt: 'x' },
      ['response_format=json', 'language=de', 'prompt=x'],
    ],
    ['gpt-4o-mini-transcribe-2025-12-15', { response_format: 'text' }, ['response_format=json']],
    ['gpt-4o-transcribe-diarize', { diarization: true }, diarized],
    ['gpt-4o-transcribe-diarize', { response_format: 'diarized_json', prompt: 'x' }, diarized],
    ['gpt-4o-transcribe-diarize', { response_format: 'srt' }, diarized],
    ['gpt-4o-transcribe-diarize', {}, ['response_format=json', 'chunking_strategy=auto']],
    [
      'gpt-transcribe',
      { language: 'de', keyterms: ['Larkway', 'uWS'], prompt: 'x' },
      ['response_format=json', 'languages[]=de', 'prompt=x', 'keywords[]=Larkway', 'keywords[]=uWS'],
    ],
  ]
  for (const [model, given, expected] of rows) {
    t.same(await sent(openai, model, given), expected, `${model} ${JSON.stringify(given)}`)
  }
})

t.test('a model that only the configuration knows is asked for what the call needs', async (t) => {
  const rows: [Given, string[]][] = [
    [{}, ['response_format=json']],
    [{ detect_language: true }, ['response_format=verbose_json']],
    [{ timestamps: 'word' }, ['response_format=verbose_json', 'timestamp_granularities[]=word']],
    [{ response_format: 'vtt' }, ['response_format=verbose_json', 'timestamp_granularities[]=segment']],
    [{ diarization: true }, ['response_format=diarized_json', 'chunking_strategy=auto']],
    [{ keyterms: ['a'] }, ['response_format=json', 'keywords[]=a']],
  ]
  for (const [given, expected] of rows) {
    t.same(await sent(openaiCompatible, 'large-v3', given), expected, JSON.stringify(given))
  }
})

t.test('translations', async (t) => {
  const request = requestOf(start(openai, 'whisper-1', {}, 'translation'))
  t.equal(request.url, 'https://api.openai.com/v1/audio/translations')
  const given: Given = { language: 'de', prompt: 'in English', response_format: 'srt' }
  t.same(await sent(openai, 'whisper-1', given, 'translation'), [
    'response_format=verbose_json',
    'prompt=in English',
  ])
  t.same(await sent(openaiCompatible, 'x', {}, 'translation'), ['response_format=json'])
  t.same(await sent(openaiCompatible, 'x', { response_format: 'vtt' }, 'translation'), [
    'response_format=verbose_json',
  ])
})

t.test('what would be lost is not sent', async (t) => {
  const rows: [string, Given, Operation][] = [
    ['whisper-1', { diarization: true }, 'transcription'],
    ['whisper-1', { keyterms: ['a'] }, 'transcription'],
    ['whisper-1', { redaction: ['pii'] }, 'transcription'],
    ['whisper-1', { multichannel: true }, 'transcription'],
    ['whisper-1', { mode: 'realtime' }, 'transcription'],
    ['whisper-1', { timestamps: 'word' }, 'translation'],
    ['gpt-4o-transcribe', { timestamps: 'word' }, 'transcription'],
    ['gpt-4o-transcribe', { response_format: 'srt' }, 'transcription'],
    ['gpt-4o-transcribe-diarize', { diarization: true, timestamps: 'word' }, 'transcription'],
    ['gpt-transcribe', { keyterms: ['two\nlines'] }, 'transcription'],
    ['gpt-transcribe', { keyterms: ['<b>'] }, 'transcription'],
  ]
  for (const [model, given, operation] of rows) {
    const step = start(openai, model, given, operation)
    t.match(
      step,
      { kind: 'failed', failure: { kind: 'model', status: null } },
      `${model} ${JSON.stringify(given)}`,
    )
  }
})

t.test('whisper-1 with segments', async (t) => {
  const body = await fixture('openai/whisper-1.verbose_json.json')
  const result = done(await next(t, 'whisper-1', { response_format: 'verbose_json' }, body))
  t.match(result.text, /^The beach .* volleyball\.$/)
  t.match(result, { language: 'en', languageConfidence: null, words: [], warnings: [] })
  t.ok(Math.abs((result.durationSeconds ?? 0) - 8.47) < 0.001)
  t.same(
    result.segments.map(({ id, text }) => [id, text]),
    [
      [0, 'The beach was a popular spot on a hot summer day.'],
      [1, 'People were swimming in the ocean, building sandcastles, and playing beach volleyball.'],
    ],
  )
  t.notOk('speaker' in result.segments[0]!, 'absent, not undefined')
})

t.test('whisper-1 with words, and a duration in text', async (t) => {
  const body = await fixture('openai/whisper-1.words.json')
  const result = done(await next(t, 'whisper-1', { timestamps: 'word' }, body))
  t.match(result, { text: 'Hallo  der.', language: 'nn', durationSeconds: 1.5, segments: [] })
  t.same(
    result.words.map(({ word }) => word),
    ['Hallo', 'der'],
  )
})

t.test('gpt-4o-transcribe', async (t) => {
  const whole = done(await next(t, 'gpt-4o-transcribe', {}, await fixture('openai/gpt-4o-transcribe.json')))
  t.match(whole, { language: null, durationSeconds: null, segments: [], words: [], warnings: [] })
  const cut = done(await next(t, 'gpt-4o-transcribe', {}, await fixture('openai/gpt-4o-transcribe.cut.json')))
  t.same(cut.warnings, ['transcript_may_be_truncated'], 'the model stops at 2000 tokens and answers 200')
})

t.test('gpt-4o-transcribe-diarize', async (t) => {
  const body = await fixture('openai/gpt-4o-transcribe-diarize.diarized_json.json')
  const result = done(await next(t, 'gpt-4o-transcribe-diarize', { diarization: true }, body))
  t.same(
    result.segments.map(({ id, speaker, start, end }) => [id, speaker, start, end]),
    [
      [0, 'speaker_0', 0, 4.7],
      [1, 'speaker_1', 4.7, 11.8],
      [2, 'speaker_0', 12.1, 13],
    ],
    'speakers are numbered as they appear',
  )
  t.equal(result.durationSeconds, 27.4)
  const times = done(await next(t, 'gpt-4o-transcribe-diarize', { timestamps: 'segment' }, body))
  t.notOk(
    times.segments.some((segment) => 'speaker' in segment),
    'no speakers where none were asked for',
  )
})

t.test('gpt-transcribe, a translation, and words within segments', async (t) => {
  const transcript = done(await next(t, 'gpt-transcribe', {}, await fixture('openai/gpt-transcribe.json')))
  t.match(transcript, { text: 'Grüezi, willkommen bei Larkway.', language: 'de', durationSeconds: 4 })
  const translation = await fixture('openai/whisper-1.translation.json')
  const translated = done(await next(t, 'whisper-1', { response_format: 'srt' }, translation, 'translation'))
  t.match(translated, { language: 'en', segments: [{ id: 0, start: 0 }] })
  const inner = await fixture('openai/compatible.words-in-segments.json')
  const words = done(await next(t, 'large-v3', { timestamps: 'both' }, inner)).words
  t.same(words, [
    { word: 'good', start: 0.1, end: 0.5 },
    { word: 'morning', start: 0.5, end: 1.1 },
  ])
})

t.test('answers that are no transcript are the provider’s failure', async (t) => {
  const rows: [Given, unknown][] = [
    [{}, 'hello'],
    [{}, ''],
    [{}, '{"text": "cut'],
    [{}, '[]'],
    [{}, { transcript: 'x' }],
    [{}, { text: null }],
    [{ timestamps: 'word' }, { text: 'hello', segments: [] }],
    [{ timestamps: 'word' }, { text: 'hello', words: [{ word: 'hello', start: 'x', end: 1 }] }],
    [{ response_format: 'srt' }, { text: 'hello', words: [] }],
    [{ diarization: true }, { text: 'hello', segments: [{ start: 0, end: 1, text: 'hello' }] }],
  ]
  for (const [given, body] of rows) {
    const model = given.diarization ? 'gpt-4o-transcribe-diarize' : 'whisper-1'
    const step = await next(t, model, given, body)
    t.match(step, { kind: 'failed', failure: { kind: 'server', status: 200 } }, JSON.stringify([given, body]))
  }
  t.equal(
    (await next(t, 'whisper-1', { timestamps: 'both' }, { text: '' })).kind,
    'done',
    'silence has no times',
  )
})

t.test('malformed parts of a good answer are left out', async (t) => {
  const body = {
    text: 'a b',
    language: 7,
    duration: 'long',
    usage: [],
    segments: [null, 3, { start: 2, end: 1, text: 'a' }, { start: -1, end: 1, text: 'x' }, { text: 'y' }],
    words: 'none',
  }
  const result = done(await next(t, 'whisper-1', {}, body))
  t.match(result, { text: 'a b', language: null, durationSeconds: null, words: [] })
  t.same(result.segments, [{ id: 0, start: 2, end: 2, text: 'a' }])
})

t.test('a refusal of the provider is classified', async (t) => {
  const call = { audio: audio(), options: options() }
  const body = { error: { message: 'no', type: 'insufficient_quota', code: 'insufficient_quota' } }
  const step = openai.transcription!.next(null, reply(body, 429), call, target('whisper-1'))
  t.match(step, { kind: 'failed', failure: { kind: 'credential', status: 429 } })
})
