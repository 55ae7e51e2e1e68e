import t from 'tap'
import type { TranscriptionOptions } from '../../../../src/contracts/calls.ts'
import { groq } from '../../../../src/gateway/providers/groq.ts'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../../src/gateway/providers/openai-compatible.ts'
import { audio, options } from '../../../support/call.ts'
import { fieldsOf, requestOf } from '../../../support/form-of.ts'
import { reply } from '../../../support/replies.ts'
import { sse, streamFixture, streamOf } from '../../../support/stream-of.ts'

const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } }

const streamed = openai.transcription!.streamed!

function target(model: string) {
  return { model, baseUrl: 'https://api.openai.com/v1', credential: 'sk', options: {} }
}

function call(given: Partial<TranscriptionOptions> = {}) {
  return { audio: audio(), options: options(given) }
}

function read(body: string, given: Partial<TranscriptionOptions> = {}, model = 'gpt-transcribe') {
  return streamOf(streamed.read(HEAD, call(given), target(model)), body)
}

t.test('only models that answer with events are streamed', async (t) => {
  const rows: [string, boolean][] = [
    ['gpt-transcribe', true],
    ['gpt-4o-transcribe', true],
    ['gpt-4o-mini-transcribe-2025-12-15', true],
    ['gpt-4o-transcribe-diarize', true],
    ['whisper-1', false],
    ['large-v3', false],
  ]
  for (const [model, expected] of rows) t.equal(streamed.applies?.(call(), target(model)), expected, model)
  t.equal(groq.transcription!.streamed!.applies?.(call(), target('whisper-large-v3')), false)
  const proxied = openaiCompatible.transcription!.streamed!
  t.equal(proxied.applies?.(call(), target('gpt-4o-transcribe')), true)
})

t.test('the request is that of the whole answer, and `stream`', async (t) => {
  const given = { language: 'de', keyterms: ['Larkway'] }
  const whole = await fieldsOf(requestOf(openai.transcription!.start(call(given), target('gpt-transcribe'))))
  const parts = await fieldsOf(requestOf(streamed.start(call(given), target('gpt-transcribe'))))
  t.same(parts, [...whole, ['stream', 'true']])
  const refused = streamed.start(call({ timestamps: 'word' }), target('gpt-4o-transcribe'))
  t.match(refused, { kind: 'failed', failure: { kind: 'model' } }, 'what would be lost is not sent')
})

t.test('pieces of the text, then the whole of it', async (t) => {
  t.same(read(await streamFixture('openai/transcription.stream.txt')), {
    deltas: ['I', ' see skies of blue', ' and clouds of white.'],
    result: {
      text: 'I see skies of blue and clouds of white.',
      language: 'en',
      languageConfidence: null,
      durationSeconds: null,
      segments: [],
      words: [],
      tokens: { input_tokens: 14, output_tokens: 12, audio_input_tokens: 14 },
      warnings: [],
    },
    failure: null,
  })
})

t.test('speakers and times of the diarizing model', async (t) => {
  const body = await streamFixture('openai/transcription.diarized.stream.txt')
  const { deltas, result } = read(body, { diarization: true }, 'gpt-4o-transcribe-diarize')
  t.same(deltas, ['Agent:', ' thanks.', ' Hi!'])
  t.match(result, {
    text: 'Agent: thanks. Hi!',
    segments: [
      { id: 0, start: 0, end: 4.7, text: 'Agent: thanks.', speaker: 'speaker_0' },
      { id: 1, start: 4.7, end: 5.2, text: 'Hi!', speaker: 'speaker_1' },
    ],
  })
  const known = { name: 'known_speaker_names', value: ['speaker_0'], required: true } as const
  const asked = { diarization: true, extras: [known] }
  const named = body.replaceAll('"speaker":"A"', '"speaker":"speaker_0"')
  t.match(read(named, asked, 'gpt-4o-transcribe-diarize').result, {
    segments: [{ speaker: 'speaker_1' }, { speaker: 'speaker_0' }],
  })
})

t.test('cut, broken, refused, or without what was asked for', async (t) => {
  const delta = { type: 'transcript.text.delta', delta: 'Hi' }
  const done = { type: 'transcript.text.done', text: 'Hi' }
  t.match(read(sse(delta)), { deltas: ['Hi'], failure: { kind: 'ambiguous' } })
  t.match(read(sse(delta, '[DONE]')), { failure: { kind: 'ambiguous' } }, 'the text has its own end')
  t.match(read(sse(delta, { error: { message: 'x', code: 'server_error' } })), {
    failure: { kind: 'server' },
  })
  t.match(read(sse({ ...done, text: 1 })), { failure: { kind: 'server', reason: /no transcript/ } })
  const speakers = read(sse(delta, done), { diarization: true }, 'gpt-4o-transcribe-diarize')
  t.match(speakers, { failure: { kind: 'server', reason: /speakers/ } })
  t.match(streamed.refused(reply({ error: { message: 'x', param: 'file' } }, 400)), { kind: 'caller' })
})
