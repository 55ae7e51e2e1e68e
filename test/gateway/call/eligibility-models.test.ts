import t from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import type { TranscriptionOptions } from '../../../src/contracts/calls.ts'
import type { Entry } from '../../../src/contracts/catalog.ts'
import { unheededHints } from '../../../src/gateway/call/facts/hints.ts'
import { select } from '../../../src/gateway/call/select/selection.ts'
import { factsOf } from '../../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { transcriptionCall } from '../../support/call.ts'
import { configuredProvider, entry } from '../../support/catalog.ts'
import { selectionInput, withRoute } from './selection.ts'

/** The columns of the matrix below, two characters wide each. */
const MODELS = [
  ['openai', 'whisper-1'],
  ['openai', 'gpt-4o-transcribe'],
  ['openai', 'gpt-4o-transcribe-diarize'],
  ['openai', 'gpt-transcribe'],
  ['groq', 'whisper-large-v3'],
  ['groq', 'whisper-large-v3-turbo'],
  ['elevenlabs', 'scribe_v2'],
  ['deepgram', 'nova-3'],
  ['deepgram', 'nova-2'],
  ['assemblyai', 'universal-3-5-pro'],
  ['assemblyai', 'universal-2'],
  ['gemini', 'gemini-3.5-transcribe'],
  ['mistral', 'voxtral-mini-transcribe-3-0'],
] as const

type Asked = Partial<TranscriptionOptions>

/**
 * What each model does with each option, alone and together: `y` it is kept, `w` the model takes the call without a
 * hint that it lacks, `F` it lacks a feature, `L` it is over a limit.
 */
const MATRIX: readonly (readonly [asked: Asked, audio: Partial<Audio>, models: string])[] = [
  [{}, {}, 'y y y y y y y y y y y y y'],
  [{ language: 'en' }, {}, 'y y y y y y y y y y y y y'],
  [{ detect_language: true }, {}, 'y w w y y y y y y y y y y'],
  [{ prompt: 'A call.' }, {}, 'y y w y y y w w w y w w w'],
  [{ diarization: true }, {}, 'F F y F F F y y y y y y y'],
  [{ response_format: 'diarized_json' }, {}, 'F F y F F F y y y y y y y'],
  [{ diarization: true, speaker_count_hint: 2 }, {}, 'F F w F F F y w w y y w w'],
  [{ timestamps: 'word' }, {}, 'y F F F y y y y y y y y F'],
  [{ timestamps: 'segment' }, {}, 'y F y F y y y y y y y y y'],
  [{ timestamps: 'both' }, {}, 'y F F F y y y y y y y y F'],
  [{ response_format: 'srt' }, {}, 'y F y F y y y y y y y y y'],
  [{ response_format: 'verbose_json' }, {}, 'y F y F y y y y y y y y y'],
  [{ response_format: 'text' }, {}, 'y y y y y y y y y y y y y'],
  [{ keyterms: ['Larkway'] }, {}, 'F F F y F F y y y y y y y'],
  [{ smart_formatting: true }, {}, 'w w w w w w w y y y y y w'],
  [{ profanity_filter: true, language: 'en' }, {}, 'w w w w w w w y y y y w w'],
  [{ redaction: ['pii'] }, {}, 'F F F F F F y y y y y F F'],
  [{ redaction: ['pii'], language: 'fr' }, {}, 'F F F F F F y F F y y F F'],
  [{ multichannel: true }, { channels: 2 }, 'F F F F F F y y y y y F F'],
  [{ multichannel: true, redaction: ['pii'] }, { channels: 2 }, 'F F F F F F y y y y y F F'],
  [{ multichannel: true }, { channels: 6 }, 'F F F F F F L y y y y F F'],
  [{ mode: 'realtime' }, {}, 'F F F F F F F F F F F F F'],
  [{ diarization: true, timestamps: 'word' }, {}, 'F F F F F F y y y y y y F'],
  [{ diarization: true, prompt: 'A call.' }, {}, 'F F w F F F w w w y w w w'],
  [{ diarization: true, keyterms: ['a'] }, {}, 'F F F F F F y y y y y F y'],
  [{ timestamps: 'word', keyterms: ['a'] }, {}, 'F F F F F F y y y y y F F'],
  [{ timestamps: 'segment', smart_formatting: true }, {}, 'w F w F w w w y y y y w w'],
  [{ keyterms: ['a'], prompt: 'A call.' }, {}, 'F F F y F F w w w w w w w'],
  [{}, { durationSeconds: 1501 }, 'y p p y y y y y y y y y y'],
  [{}, { durationSeconds: null }, 'y y y y y y y y y y y y y'],
  [{ diarization: true }, { durationSeconds: 1801 }, 'F F L F F F y y y y y L y'],
  [{ keyterms: Array.from({ length: 201 }, (_, n) => `w${n}`) }, {}, 'F F F y F F y L L y L y L'],
  [{ keyterms: ['[a]'] }, {}, 'F F F y F F L y y y y y y'],
]

/** Of them, those that translate. */
const TRANSLATING = 'y n n n y n n n n n n n n'

function entryOf([kind, model]: (typeof MODELS)[number]): Entry {
  const facts = factsOf(kind, model)
  if (facts === undefined) throw new Error(`the table lacks ${kind} ${model}`)
  return entry({ model, facts, provider: configuredProvider({ kind, name: kind }) })
}

t.test('what each model does with what can be asked for', async (t) => {
  for (const [asked, audio, row] of MATRIX) {
    const call = transcriptionCall({ options: asked, audio })
    const shown = MODELS.map((model) => {
      const one = entryOf(model)
      const input = selectionInput('transcription', withRoute([one]), call, { providers: PROVIDERS })
      const { considered, selection } = select(input)
      const left = considered[0]?.exclusion ?? null
      const isCut = selection?.cut !== undefined
      if (left === null && isCut) return 'p'
      if (left === null) return unheededHints(one.facts, call.payload.options).length > 0 ? 'w' : 'y'
      return left.why === 'features' ? 'F' : left.why === 'limits' ? 'L' : left.why
    })
    t.equal(shown.join(' '), row, `${JSON.stringify(asked).slice(0, 80)} ${JSON.stringify(audio)}`)
  }
})

t.test('which models translate', async (t) => {
  const shown = MODELS.map((model) => {
    const who = withRoute([entryOf(model)])
    const input = selectionInput('translation', who, transcriptionCall(), { providers: PROVIDERS })
    return select(input).selection === null ? 'n' : 'y'
  })
  t.equal(shown.join(' '), TRANSLATING)
})
