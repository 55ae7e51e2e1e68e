import type {
  Transcription,
  TranscriptionDiarized,
  TranscriptionStreamEvent,
  TranscriptionVerbose,
} from 'openai/resources/audio/transcriptions'
import type { Translation } from 'openai/resources/audio/translations'
import t from 'tap'
import type { TranscriptionOptions, TranscriptionResult } from '../../../../src/contracts/calls.ts'
import { systemClock } from '../../../../src/contracts/time.ts'
import {
  diarizedTranscript,
  lastEvents,
  transcript,
  transcriptionShape,
  verboseTranscript,
} from '../../../../src/gateway/api/openai/transcriptions.ts'
import { audio, options } from '../../../support/call.ts'
import { onWire, outcome } from '../../../support/openai-door-outcome.ts'

const HEARD: TranscriptionResult = {
  text: 'the lark sings',
  language: 'de',
  languageConfidence: 0.9,
  durationSeconds: 12,
  segments: [
    { id: 0, start: 0, end: 1.5, text: 'the lark', speaker: 'speaker_0', confidence: 0.5 },
    { id: 1, start: 1.5, end: 2, text: 'sings', speaker: 'speaker_27', channel: 1 },
  ],
  words: [{ word: 'the', start: 0, end: 0.5, speaker: 'speaker_0', confidence: 1 }],
  warnings: [],
}
const SECONDS = { audio_seconds: 10.5, billable_audio_seconds: 11, total_tokens: 0 }
const USAGE = { type: 'duration', seconds: 11 }
const SEGMENTS = [
  { id: 0, start: 0, end: 1.5, text: 'the lark', avg_logprob: Math.log(0.5) },
  { id: 1, start: 1.5, end: 2, text: 'sings' },
]
const FIGURES = {
  ...{ seek: 300, tokens: [50_364, 264], temperature: 0.2 },
  ...{ avg_logprob: -1.5, compression_ratio: 3.1, no_speech_prob: 0.93 },
}
const UNTOLD =
  'segments: the provider does not tell seek, tokens, temperature, avg_logprob, compression_ratio, no_speech_prob'
const TOLD = [
  { type: 'transcript.text.segment', id: 'seg_0', start: 0, end: 1.5, text: 'the lark', speaker: 'A' },
  { type: 'transcript.text.segment', id: 'seg_1', start: 1.5, end: 2, text: 'sings', speaker: 'AB' },
]

function heard(
  asked: Partial<TranscriptionOptions> = {},
  result: Partial<TranscriptionResult> = {},
  durationSeconds: number | null = 10.5,
) {
  const payload = { audio: audio({ durationSeconds }), options: options(asked) }
  const usage = durationSeconds === null ? { audio_seconds: null, total_tokens: 0 } : SECONDS
  return outcome<'transcription'>(payload, { ...HEARD, ...result }, usage)
}

t.test('transcripts are of the types that the client has for them', async (t) => {
  const plain: Transcription = await onWire(transcript(heard()))
  t.same(plain, { text: 'the lark sings', usage: USAGE })
  const figures = HEARD.segments.map(() => FIGURES)
  const told = await onWire(verboseTranscript(heard({}, { figures })))
  const verbose = told as TranscriptionVerbose
  t.same(
    verbose.segments,
    SEGMENTS.map((segment) => ({ ...segment, ...FIGURES })),
  )
  t.same(await onWire(verboseTranscript(heard())), {
    ...{ language: 'german', duration: 10.5, text: 'the lark sings', segments: SEGMENTS },
  })
  const diarized: TranscriptionDiarized = await onWire(diarizedTranscript(heard()))
  t.same(diarized, {
    task: 'transcribe',
    duration: 10.5,
    text: 'the lark sings',
    segments: TOLD,
    usage: USAGE,
  })
  const { text } = await transcriptionShape('translation').whole(
    heard({ response_format: 'diarized_json' }),
    systemClock,
  )
  t.match(JSON.parse(text), { task: 'translate', segments: TOLD }, 'a translation is not called otherwise')
  const events: TranscriptionStreamEvent[] = await onWire(
    lastEvents(HEARD, { response_format: 'diarized_json' }),
  )
  t.same(events, [...TOLD, { type: 'transcript.text.done', text: 'the lark sings' }])
  t.equal(lastEvents(HEARD, { response_format: 'json' }).length, 1)
  const counted = { ...HEARD, tokens: { input_tokens: 14, output_tokens: 45 } }
  const [done]: TranscriptionStreamEvent[] = await onWire(lastEvents(counted, { response_format: 'json' }))
  const usage = { type: 'tokens', input_tokens: 14, output_tokens: 45, total_tokens: 59 }
  t.same(done, { type: 'transcript.text.done', text: 'the lark sings', usage })
})

t.test('parts as they were asked for, and what is not known', async (t) => {
  const words = [{ word: 'the', start: 0, end: 0.5 }]
  const partsOf = async (timestamps: TranscriptionOptions['timestamps']) => {
    const { segments = null, words: told = null } = await onWire(verboseTranscript(heard({ timestamps })))
    return { segments, words: told }
  }
  t.same(await partsOf('word'), { segments: null, words })
  t.same(await partsOf('segment'), { segments: SEGMENTS, words: null })
  t.same(await partsOf('both'), { segments: SEGMENTS, words })
  const vague = heard({}, { language: null, durationSeconds: null }, null)
  t.match(verboseTranscript(vague), { language: 'unknown', duration: 0 })
  t.notOk('usage' in transcript(vague))
  t.equal(verboseTranscript(heard({}, { language: 'tlh' })).language, 'tlh')
  t.equal(verboseTranscript(heard({}, { language: 'es' })).language, 'spanish')
  t.equal(verboseTranscript(heard({}, { language: 'ht' })).language, 'haitian')
  const nameless = diarizedTranscript(heard({}, { segments: [{ id: 0, start: 0, end: 1, text: 'a' }] }))
  t.match(nameless.segments, [{ speaker: 'unknown' }])
  const letters = ['speaker_25', 'speaker_26', 'speaker_701', 'speaker_702', 'Ann'].map((speaker) => {
    const segments = [{ id: 0, start: 0, end: 1, text: 'a', speaker }]
    return diarizedTranscript(heard({}, { segments })).segments[0]?.speaker
  })
  t.same(letters, ['Z', 'AA', 'ZZ', 'AAA', 'Ann'])
})

t.test('the whole answer, of each task and format', async (t) => {
  const plain = 'text/plain; charset=utf-8'
  const verbose = { language: 'german', duration: 10.5, text: 'the lark sings', segments: SEGMENTS }
  const rows: ['transcription' | 'translation', TranscriptionOptions['response_format'], string, unknown][] =
    [
      ['transcription', 'json', 'application/json', { text: 'the lark sings', usage: USAGE }],
      [
        ...(['transcription', 'verbose_json', 'application/json'] as const),
        { task: 'transcribe', ...verbose, usage: USAGE, warnings: [UNTOLD] },
      ],
      ['transcription', 'text', plain, 'the lark sings'],
      ['transcription', 'srt', plain, /^1\n00:00:00,000 --> 00:00:01,500\n/],
      ['transcription', 'vtt', 'text/vtt; charset=utf-8', /^WEBVTT\n/],
      ['translation', 'json', 'application/json', { text: 'the lark sings' } satisfies Translation],
      [
        'translation',
        'verbose_json',
        'application/json',
        { task: 'translate', ...verbose, language: 'english', warnings: [UNTOLD] },
      ],
      ['translation', 'srt', plain, /^1\n/],
    ]
  for (const [task, format, contentType, body] of rows) {
    const { status, headers, text } = await transcriptionShape(task).whole(
      heard({ response_format: format }),
      systemClock,
    )
    t.equal(status, 200)
    t.match(headers, {
      'content-type': contentType,
      'x-lk-provider': 'first',
      'x-lk-usage-audio-seconds': '10.5',
    })
    if (contentType === 'application/json') t.same(JSON.parse(text), body, `${task} ${format}`)
    else t.match(text, body as string, `${task} ${format}`)
  }
})

t.test("Whisper's figures are the provider's, and what it does not tell is named", async (t) => {
  const answer = async (result: Partial<TranscriptionResult>, asked: Partial<TranscriptionOptions> = {}) => {
    const outcome = heard({ response_format: 'verbose_json', ...asked }, result)
    const { headers, text } = await transcriptionShape('transcription').whole(outcome, systemClock)
    return { headers, body: JSON.parse(text) }
  }
  const whole = await answer({ figures: HEARD.segments.map(() => FIGURES) })
  t.match(whole.body.segments, [FIGURES, FIGURES])
  t.notOk('warnings' in whole.body)
  t.equal(whole.headers['x-lk-warnings'], undefined)
  const { no_speech_prob: _left, ...others } = FIGURES
  const part = await answer({ figures: [FIGURES, others] })
  t.notOk('no_speech_prob' in part.body.segments[1])
  const line = 'segments: the provider does not tell no_speech_prob'
  t.same(part.body.warnings, [line])
  t.equal(part.headers['x-lk-warnings'], JSON.stringify([line]))
  t.same((await answer({})).body.warnings, [UNTOLD])
  t.notOk('warnings' in (await answer({}, { timestamps: 'word' })).body, 'no segments are asked for')
})
