import t, { type Test } from 'tap'
import { FEATURES, HINTS, type TranscriptionOptions } from '../../../src/contracts/calls.ts'
import type { Entry } from '../../../src/contracts/catalog.ts'
import type { Calls } from '../../../src/contracts/operations.ts'
import { type ModelFacts, operationOf } from '../../../src/contracts/provider.ts'
import { adapt, targetOf } from '../../../src/gateway/call/select/eligibility.ts'
import { select } from '../../../src/gateway/call/select/selection.ts'
import { explainRows } from '../../../src/gateway/call/select/verdict.ts'
import { factsOf, SHIPPED } from '../../../src/gateway/providers/facts.ts'
import { PROVIDERS } from '../../../src/gateway/providers/index.ts'
import { callOf, speechCall, transcriptionCall } from '../../support/call.ts'
import { configuredProvider, entry, facts } from '../../support/catalog.ts'
import { selectionInput, withRoute } from './selection.ts'

type Options = Partial<TranscriptionOptions>
type Name = 'transcription' | 'translation' | 'speech'

/** Everything that a transcription may ask for, one thing at a time; several values of a field are never combined. */
const ASKED: readonly Options[] = [
  { diarization: true },
  ...(['word', 'segment', 'both'] as const).map((timestamps) => ({ timestamps })),
  ...(['pii', 'phi', 'pci', 'numbers'] as const).map((kind) => ({ redaction: [kind] })),
  ...[['Larkway'], ['a:b'], ['<b>']].map((keyterms) => ({ keyterms })),
  { multichannel: true },
  { mode: 'realtime' },
  { detect_language: true },
  ...['en', 'de-CH', 'haw', 'Klingon'].map((language) => ({ language })),
  { prompt: 'Larks and keys' },
  { speaker_count_hint: 3 },
  { smart_formatting: true },
  { profanity_filter: true },
  { audio_events: true },
  ...[7, -1].map((seed) => ({ seed })),
  ...(['verbose_json', 'diarized_json', 'text', 'srt', 'vtt'] as const).map((format) => ({
    response_format: format,
  })),
]

/** Of how many triples a model tries one; the next model tries the next ones. */
const TRIPLES_PER_TRY = process.env.LARKWAY_TEST_LONG === '1' ? 1 : 4

/** All single ones, pairs and triples. */
function combinations(): { readonly few: readonly Options[]; readonly triples: readonly Options[] } {
  const disjoint = (a: Options, b: Options) => !Object.keys(a).some((name) => Object.hasOwn(b, name))
  const joined = (left: readonly Options[]) =>
    left.flatMap((some) =>
      ASKED.slice(ASKED.findIndex((one) => Object.keys(one)[0] === Object.keys(some).at(-1)))
        .filter((one) => disjoint(some, one))
        .map((one) => ({ ...some, ...one })),
    )
  const pairs = joined(ASKED)
  return { few: [{}, ...ASKED, ...pairs], triples: joined(pairs) }
}

const COMBINATIONS = combinations()

/** Of a model that only the configuration knows: everything is declared, nothing is said of what goes together. */
const DECLARED = facts({
  capabilities: ['audio_input', 'audio_output'],
  features: [...FEATURES],
  hints: [...HINTS],
})

function entryOf(kind: string, model: string, known: ModelFacts): Entry {
  return entry({ provider: configuredProvider({ kind, name: kind }), model, facts: known })
}

/** Every model of every table, and of each kind one that is declared in the configuration. */
const ENTRIES: readonly Entry[] = [
  ...SHIPPED.all().map(({ kind, model }) => entryOf(kind, model, factsOf(kind, model)!)),
  ...[...PROVIDERS.keys()].map((kind) => entryOf(kind, 'declared-1', DECLARED)),
  entryOf('gemini', 'declared-transcribe-1', DECLARED),
]

function serves(one: Entry, operation: Name): boolean {
  const capability = operation === 'speech' ? 'audio_output' : 'audio_input'
  return one.facts.capabilities.includes(capability)
}

/** What selection does with a call of one entry, and whether the adapter then starts it, whole and streamed. */
function tried<K extends Name>(operation: K, one: Entry, payload: Calls[K]) {
  const call = callOf(operation, payload)
  const input = selectionInput(operation, withRoute([one]), call, { providers: PROVIDERS })
  const { selection, refusal, considered } = select(input)
  if (selection === null) return { refusal, rows: explainRows(considered), failure: null }
  const protocol = operationOf(PROVIDERS.get(one.provider.kind), operation)!
  const adapted = adapt(call, one).payload
  const target = targetOf(one)
  const steps = [protocol.start(adapted as never, target)]
  const streams = protocol.streamed?.applies?.(adapted as never, target) !== false
  if (protocol.streamed !== undefined && streams)
    steps.push(protocol.streamed.start(adapted as never, target))
  const failed = steps.find(({ kind }) => kind === 'failed')
  const failure = failed?.kind === 'failed' ? failed.failure.reason : null
  return { refusal: null, rows: explainRows(considered), failure }
}

const nameOf = ({ provider, model }: Entry, operation: Name) => `${provider.kind} ${model}, ${operation}`

t.test('what selection takes, the adapter starts: every model, every pair, and triples', async (t) => {
  const { few, triples } = COMBINATIONS
  t.ok(few.length + triples.length > 3000, `${few.length} and ${triples.length} combinations`)
  let started = 0
  for (const operation of ['transcription', 'translation'] as const) {
    for (const [turn, one] of ENTRIES.filter((entry) => serves(entry, operation)).entries()) {
      const disagreements: string[] = []
      const some = triples.filter((_, index) => index % TRIPLES_PER_TRY === turn % TRIPLES_PER_TRY)
      for (const options of [...few, ...some]) {
        const { payload } = transcriptionCall({ options })
        const { refusal, failure } = tried(operation, one, payload)
        if (failure !== null) disagreements.push(`${JSON.stringify(options)}: ${failure}`)
        if (refusal === null) started += 1
      }
      t.same(disagreements.slice(0, 5), [], `${nameOf(one, operation)}: ${disagreements.length}`)
    }
  }
  t.ok(started > 10_000, `${started} were started`)
})

t.test('what the facts of a table promise by itself, selection takes', async (t) => {
  const BY_FEATURE: Readonly<Record<string, Options>> = {
    word_timestamps: { timestamps: 'word' },
    segment_timestamps: { timestamps: 'segment' },
    diarization: { diarization: true },
    redaction: { redaction: ['pii'] },
    keyterms: { keyterms: ['Larkway'] },
    multichannel: { multichannel: true },
    realtime: { mode: 'realtime' },
  }
  for (const operation of ['transcription', 'translation'] as const) {
    for (const one of ENTRIES.filter(({ model }) => !model.startsWith('declared'))) {
      const { features, translation_features: translated, translates, operations } = one.facts
      const isOther =
        operations?.includes(operation) === false || (operation === 'translation' && !translates)
      if (!serves(one, operation) || isOther) continue
      for (const feature of operation === 'translation' ? (translated ?? features) : features) {
        const { payload } = transcriptionCall({ options: BY_FEATURE[feature] ?? {} })
        t.equal(tried(operation, one, payload).refusal, null, `${nameOf(one, operation)}: ${feature}`)
      }
    }
  }
})

t.test('what a model keeps one by one and not together is told as such', async (t) => {
  const morse = ENTRIES.find(({ model }) => model === 'morse-1')!
  const both = { timestamps: 'word', diarization: true } as const
  const { refusal, rows } = tried('transcription', morse, transcriptionCall({ options: both }).payload)
  t.match(refusal, { code: 'REQUIRED_FEATURE_UNAVAILABLE' })
  t.match(rows, [
    {
      left: 'features',
      conflict: ['word_timestamps', 'diarization'],
      detail: 'the model cannot combine word_timestamps and diarization',
    },
  ])
  const able = entryOf('deepgram', 'nova-3', factsOf('deepgram', 'nova-3')!)
  const call = transcriptionCall({ options: both })
  const input = selectionInput('transcription', withRoute([morse, able]), call, { providers: PROVIDERS })
  t.same(
    select(input).selection?.candidates.map(({ entry: { model } }) => model),
    ['nova-3'],
  )
})

t.test('every model that speaks starts every format, speed and voice that selection takes', async (t) => {
  const formats = [
    null,
    ...['mp3', 'wav', 'opus', 'flac', 'aac', 'pcm', 'mp3_44100_128', 'linear16', 'ulaw_8000', 'x'],
  ]
  const refusals = new Set<string>()
  for (const one of ENTRIES.filter((entry) => serves(entry, 'speech'))) {
    const disagreements: string[] = []
    const voices = [
      null,
      ...['alloy', 'thalia-en', 'Kore', 'a voice', '../up'],
      ...(one.facts.limits.voices ?? []),
    ]
    for (const response_format of formats) {
      for (const speed of [null, 0.5, 1, 1.3, 5]) {
        for (const voice of voices) {
          for (const seed of [null, -1]) {
            const { payload } = speechCall({ response_format, speed, voice, seed })
            const { refusal, failure } = tried('speech', one, payload)
            if (refusal !== null) refusals.add(`${refusal.code} ${refusal.extra.param}`)
            if (failure !== null)
              disagreements.push(`${JSON.stringify({ response_format, speed, voice, seed })}: ${failure}`)
          }
        }
      }
    }
    t.same(disagreements.slice(0, 5), [], `${nameOf(one, 'speech')}: ${disagreements.length}`)
  }
  told(t, refusals)
})

/** Refusals name the field, but for models and protocols that are not for the operation at all. */
function told(t: Test, refusals: ReadonlySet<string>): void {
  const expected = ['response_format', 'seed', 'speed', 'voice'].map((param) => `INVALID_REQUEST ${param}`)
  t.same([...refusals].sort(), [...expected, 'NO_HEALTHY_PROVIDER undefined'].sort())
}
