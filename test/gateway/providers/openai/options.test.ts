import t from 'tap'
import type { Feature, Hint, TranscriptionOptions } from '../../../../src/contracts/calls.ts'
import { factsOf } from '../../../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../../../src/gateway/providers/index.ts'
import { audio, options, speechCall } from '../../../support/call.ts'
import { bytesOf, fieldsOf, requestOf } from '../../../support/form-of.ts'

type Given = Partial<TranscriptionOptions>

/** Kinds and models, and the column of what each is sent: those of one column take the same. */
const MODELS = {
  'openai whisper-1': 0,
  'openai gpt-4o-transcribe': 1,
  'openai gpt-4o-mini-transcribe': 1,
  'openai gpt-4o-transcribe-diarize': 2,
  'openai gpt-transcribe': 3,
  'groq whisper-large-v3': 0,
  'groq whisper-large-v3-turbo': 0,
} as const

/**
 * What goes out for an option, beside model and format; `no`: the call is refused; `left out`: a hint that is lacking.
 */
type Cell = string | 'no' | 'left out'

const WORD = 'timestamp_granularities[]=word'
const SEGMENT = 'timestamp_granularities[]=segment'
const AUTO = 'diarized_json chunking_strategy=auto'
/** The diarizing model wants it whatever the format. */
const WHOLE = 'json chunking_strategy=auto'
const PROMPT = 'prompt=Larkway'
const LEFT_OUT: [Cell, Cell, Cell, Cell] = ['left out', 'left out', 'left out', 'left out']
const GERMAN: [Cell, Cell, Cell, Cell] = [
  'verbose_json language=de',
  'json language=de',
  'json language=de chunking_strategy=auto',
  'json languages[]=de',
]

/**
 * Option by option, what each model is sent. Whisper is asked for verbose_json whatever the caller's format:
 * it alone has the length and the language; the gateway renders the caller's.
 */
const TRANSCRIPTION: [name: string, given: Given, ...cells: [Cell, Cell, Cell, Cell]][] = [
  ['nothing', {}, 'verbose_json', 'json', WHOLE, 'json'],
  ['language', { language: 'de' }, ...GERMAN],
  ['detect_language', { detect_language: true }, 'verbose_json', 'left out', 'left out', 'json'],
  ['prompt', { prompt: 'Larkway' }, `verbose_json ${PROMPT}`, `json ${PROMPT}`, 'left out', `json ${PROMPT}`],
  ['diarization', { diarization: true }, 'no', 'no', AUTO, 'no'],
  ['speaker_count_hint', { speaker_count_hint: 2 }, ...LEFT_OUT],
  ['timestamps=word', { timestamps: 'word' }, `verbose_json ${WORD}`, 'no', 'no', 'no'],
  ['timestamps=segment', { timestamps: 'segment' }, `verbose_json ${SEGMENT}`, 'no', AUTO, 'no'],
  ['timestamps=both', { timestamps: 'both' }, `verbose_json ${WORD} ${SEGMENT}`, 'no', 'no', 'no'],
  ['keyterms', { keyterms: ['uWS'] }, 'no', 'no', 'no', 'json keywords[]=uWS'],
  ['redaction', { redaction: ['pii'] }, 'no', 'no', 'no', 'no'],
  ['multichannel', { multichannel: true }, 'no', 'no', 'no', 'no'],
  ['mode=realtime', { mode: 'realtime' }, 'no', 'no', 'no', 'no'],
  ['smart_formatting', { smart_formatting: true }, ...LEFT_OUT],
  ['profanity_filter', { profanity_filter: true }, ...LEFT_OUT],
  ['seed', { seed: 4 }, 'verbose_json', 'json', WHOLE, 'json'],
  ['response_format=text', { response_format: 'text' }, 'verbose_json', 'json', WHOLE, 'json'],
  ['response_format=srt', { response_format: 'srt' }, `verbose_json ${SEGMENT}`, 'no', AUTO, 'no'],
  ['response_format=diarized_json', { response_format: 'diarized_json' }, 'no', 'no', AUTO, 'no'],
  ['diarization and timestamps=word', { diarization: true, timestamps: 'word' }, 'no', 'no', 'no', 'no'],
]

/** What the facts must hold for selection to see a refusal coming. */
const FEATURES_OF: Readonly<Record<string, readonly Feature[]>> = {
  diarization: ['diarization'],
  'timestamps=word': ['word_timestamps'],
  'timestamps=segment': ['segment_timestamps'],
  'timestamps=both': ['word_timestamps', 'segment_timestamps'],
  keyterms: ['keyterms'],
  redaction: ['redaction'],
  multichannel: ['multichannel'],
  'mode=realtime': ['realtime'],
  'response_format=srt': ['segment_timestamps'],
  'response_format=diarized_json': ['diarization'],
  'diarization and timestamps=word': ['diarization', 'word_timestamps'],
}

function columnOf(column: string) {
  const [kind = '', model = ''] = column.split(' ')
  const provider = PROVIDERS.get(kind)!
  const target = { model, baseUrl: 'http://p/v1', credential: 'k', options: {} }
  return { provider, target, facts: factsOf(kind, model)! }
}

t.test('each option to each model', async (t) => {
  for (const [name, given, ...cells] of TRANSCRIPTION) {
    for (const [model, column] of Object.entries(MODELS)) {
      const cell = cells[column]
      const { provider, target, facts } = columnOf(model)
      const label = `${name} to ${model}`
      if (cell === 'left out') {
        t.notOk(facts.hints.includes(name as Hint), `${label}: selection leaves it out`)
        continue
      }
      const step = provider.transcription!.start({ audio: audio(), options: options(given) }, target)
      const kept = (FEATURES_OF[name] ?? []).every((feature) => facts.features.includes(feature))
      t.equal(kept, cell !== 'no', `${label}: selection knows`)
      if (cell === 'no') {
        t.match(step, { kind: 'failed', failure: { kind: 'model', status: null } }, label)
        continue
      }
      const fields = (await fieldsOf(requestOf(step))).filter(([field]) => field !== 'model')
      const sent = fields.map(([field, value]) => (field === 'response_format' ? value : `${field}=${value}`))
      t.equal(sent.join(' '), cell, label)
    }
  }
})

t.test('translation to English', async (t) => {
  const translating = ['openai whisper-1', 'groq whisper-large-v3']
  for (const column of Object.keys(MODELS)) {
    const { provider, target, facts } = columnOf(column)
    t.equal(facts.translates, translating.includes(column), column)
    if (!facts.translates) continue
    const step = provider.translation!.start({ audio: audio(), options: options() }, target)
    t.same(await fieldsOf(requestOf(step)), [
      ['model', target.model],
      ['response_format', 'verbose_json'],
    ])
  }
})

/** Formats of speech: what is sent, or null where it is refused. */
const SPEECH: [format: string | null, openai: string | null, groq: string | null, mediaType: string][] = [
  [null, 'mp3', 'wav', ''],
  ['mp3', 'mp3', null, 'audio/mpeg'],
  ['wav', 'wav', 'wav', 'audio/wav'],
  ['opus', 'opus', null, 'audio/ogg'],
  ['flac', 'flac', null, 'audio/flac'],
  ['aac', 'aac', null, 'audio/aac'],
  ['pcm', 'pcm', null, 'audio/pcm'],
  ['mp3_44100_128', null, null, ''],
  ['pcm_24000', null, null, ''],
]

t.test('each format of speech to each provider', async (t) => {
  for (const [format, forOpenai, forGroq, mediaType] of SPEECH) {
    const columns: [string, string | null][] = [
      ['openai tts-1', forOpenai],
      ['openai gpt-4o-mini-tts', forOpenai],
      ['groq canopylabs/orpheus-v1-english', forGroq],
    ]
    for (const [column, expected] of columns) {
      const { provider, target, facts } = columnOf(column)
      const call = speechCall({ response_format: format }).payload
      const step = provider.speech!.start(call, target)
      const label = `${format} to ${column}`
      if (format !== null) {
        t.equal(facts.limits.speech_formats?.includes(format), expected !== null, `${label}: selection knows`)
      }
      if (expected === null) {
        t.match(step, { kind: 'failed', failure: { kind: 'model' } }, label)
        continue
      }
      t.equal(JSON.parse(bytesOf(requestOf(step)).toString()).response_format, expected, label)
      if (format === null) continue
      const headers = { 'content-type': 'application/octet-stream' }
      const body = [Buffer.from('bytes')]
      const done = provider.speech!.next(null, { status: 200, headers, body }, call, target)
      t.match(done, { kind: 'done', result: { mediaType } }, label)
    }
  }
})

t.test('speeds and voices of speech', async (t) => {
  const rows: [column: string, voice: string, max: number][] = [
    ['openai tts-1', 'alloy', 4096],
    ['openai tts-1-hd', 'alloy', 4096],
    ['openai gpt-4o-mini-tts', 'alloy', 4096],
    ['groq canopylabs/orpheus-v1-english', 'autumn', 200],
  ]
  for (const [column, voice, max] of rows) {
    const { provider, target, facts } = columnOf(column)
    const start = (speed: number | null) => provider.speech!.start(speechCall({ speed }).payload, target)
    t.equal(JSON.parse(bytesOf(requestOf(start(null))).toString()).voice, voice)
    t.ok(facts.limits.voices?.includes(voice), 'the default voice is one of its own')
    t.equal(facts.limits.max_input_characters, max)
    for (const speed of [0.25, 1, 4]) t.equal(start(speed).kind, 'send', `${column} ${speed}`)
    for (const speed of [0.24, 4.01]) {
      t.match(start(speed), { kind: 'failed', failure: { kind: 'model', reason: /^speed:/ } })
    }
  }
})
