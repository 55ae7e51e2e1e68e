import type { Segment, TranscriptionOptions, TranscriptionResult, Word } from '../../src/contracts/calls.ts'
import { systemClock } from '../../src/contracts/time.ts'
import type { TranscriptionAnswer } from '../../src/gateway/api/native/transcription.ts'
import { audio } from '../support/call.ts'
import { entry, facts, principal, route } from '../support/catalog.ts'
import { outcome } from '../support/openai-door-outcome.ts'

const WORDS: readonly Word[] = [
  { word: 'Hello,', start: 0, end: 0.4, confidence: 0.9 },
  { word: 'world.', start: 0.5, end: 1, confidence: 0 },
  { word: '‚Ähm‘', start: 3, end: 3.2, confidence: 1 },
]
const NOTHING: TranscriptionResult = {
  ...{ text: '', language: null, languageConfidence: null, durationSeconds: null },
  ...{ segments: [], words: [], warnings: [] },
}

function segmentOf({ word: text, confidence: _, ...rest }: Word, id: number): Segment {
  return { id, text, ...rest }
}

function heard(words: readonly Word[], more: Partial<TranscriptionResult> = {}): TranscriptionResult {
  const text = words.map(({ word }) => word).join(' ')
  return { ...NOTHING, text, words, segments: words.map(segmentOf), language: 'en', ...more }
}

/** Transcripts of every kind that a provider may give. */
export const RESULTS: readonly TranscriptionResult[] = [
  NOTHING,
  { ...NOTHING, text: 'Hello, world.' },
  heard(WORDS, { languageConfidence: 0.98, durationSeconds: 3.5 }),
  heard(WORDS.map(({ confidence: _, ...word }) => word)),
  heard(WORDS.map((word, index) => ({ ...word, speaker: `speaker_${index % 2}` }))),
  heard(WORDS.map((word, index) => ({ ...word, speaker: 'the other one', channel: index % 2 }))),
  heard([
    {
      word: 'Hi',
      start: 0,
      end: 0.4,
      characters: { characters: ['H', 'i'], starts: [0, 0.2], ends: [0.2, 0.4] },
    },
    { word: '(laughter)', start: 1, end: 2, kind: 'event' },
  ]),
]

/** Answers to each of them. */
export function answersOf(options: TranscriptionOptions, answer: TranscriptionAnswer): object[] {
  return RESULTS.flatMap((result) =>
    [1, 2, null].map((channels) => {
      const payload = { audio: audio({ channels, durationSeconds: channels === null ? null : 3.5 }), options }
      const whole = answer.whole(outcome<'transcription'>(payload, result), systemClock)
      if (whole instanceof Promise) throw new Error('a short answer is written at once')
      return JSON.parse(whole.text) as object
    }),
  )
}

const SPEAKING = facts({ capabilities: ['audio_output'], hints: [] })

/** Callers whose routes have nothing, and whose have models, voices and a purpose. */
export const CALLERS = [
  principal({ route: route([]) }),
  principal({
    route: route([
      entry({ model: 'nova-3' }),
      entry({ model: 'aura-2', voices: { rachel: 'x' }, facts: SPEAKING }),
    ]),
    purposes: [{ purpose: 'calls', description: '', enabled: true, route: null }] as never,
  }),
]
