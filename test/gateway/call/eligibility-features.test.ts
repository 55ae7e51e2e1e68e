import t, { type Test } from 'tap'
import type { Audio } from '../../../src/contracts/audio.ts'
import type { Feature, Hint, TranscriptionOptions } from '../../../src/contracts/calls.ts'
import { FEATURES, HINTS } from '../../../src/contracts/calls.ts'
import type { Entry } from '../../../src/contracts/catalog.ts'
import type { ModelFacts } from '../../../src/contracts/provider.ts'
import { unheededHints, withoutHints } from '../../../src/gateway/call/facts/hints.ts'

import { options, transcriptionCall } from '../../support/call.ts'
import { facts } from '../../support/catalog.ts'
import { models, named, pick, plainCall, refused, withRoute } from './selection.ts'

type Options = Partial<TranscriptionOptions>

const modelled = (overrides: Partial<ModelFacts>): Entry => named('model', { facts: facts(overrides) })

/** The entry takes the call alone, and leaves these hints out. */
function takes(
  t: Test,
  entry: Entry,
  given: Options,
  dropped: readonly Hint[] = [],
  audio: Partial<Audio> = {},
) {
  const name = JSON.stringify({ ...given, ...audio })
  const call = transcriptionCall({ options: given, audio })
  t.same(models(pick('transcription', withRoute([entry]), call)), ['model'], name)
  t.same(unheededHints(entry.facts, call.payload.options), dropped, `${name}: hints left out`)
}

/** The entry refuses the call for its features, with these facts in the explanation. */
function refuses(t: Test, entry: Entry, given: Options, row: Record<string, unknown>) {
  const error = refused('transcription', withRoute([entry]), transcriptionCall({ options: given }))
  t.equal(error.code, 'REQUIRED_FEATURE_UNAVAILABLE', JSON.stringify(given))
  t.match(error.extra.details, { entries: [{ left: 'features', ...row }] }, JSON.stringify(given))
}

t.test('each required feature is kept by the entry that serves, or the call is refused', async (t) => {
  const rows: [Options, Feature][] = [
    [{ timestamps: 'word' }, 'word_timestamps'],
    [{ timestamps: 'segment' }, 'segment_timestamps'],
    [{ timestamps: 'both' }, 'word_timestamps'],
    [{ timestamps: 'both' }, 'segment_timestamps'],
    [{ response_format: 'srt' }, 'segment_timestamps'],
    [{ response_format: 'vtt' }, 'segment_timestamps'],
    [{ response_format: 'verbose_json' }, 'segment_timestamps'],
    [{ response_format: 'diarized_json' }, 'diarization'],
    [{ diarization: true }, 'diarization'],
    [{ redaction: ['pii'] }, 'redaction'],
    [{ keyterms: ['Larkway'] }, 'keyterms'],
    [{ multichannel: true }, 'multichannel'],
    [{ mode: 'realtime' }, 'realtime'],
  ]
  t.same([...new Set(rows.map(([, feature]) => feature))].sort(), [...FEATURES].sort(), 'each has a row')
  for (const [given, feature] of rows) {
    const without = facts({ features: FEATURES.filter((other) => other !== feature) })
    const chain = withRoute([
      named('lacking', { facts: without }),
      named('keeping', { facts: facts({ features: FEATURES }) }),
    ])
    const call = transcriptionCall({ options: given })
    t.same(
      models(pick('transcription', chain, call)),
      ['keeping'],
      `${JSON.stringify(given)} needs ${feature}`,
    )
    refuses(t, modelled({ features: without.features }), given, { missing: [feature], conflict: undefined })
  }
})

t.test('all of the features, by one and the same entry', async (t) => {
  const halves = [
    named('one', { facts: facts({ features: ['diarization'] }) }),
    named('two', { facts: facts({ features: ['keyterms'] }) }),
  ]
  const call = transcriptionCall({ options: { diarization: true, keyterms: ['Larkway'] } })
  const error = refused('transcription', withRoute(halves), call)
  t.equal(error.code, 'REQUIRED_FEATURE_UNAVAILABLE')
  t.match(error.message, /diarization, keyterms/)
  t.match(error.extra.details, { entries: [{ missing: ['keyterms'] }, { missing: ['diarization'] }] })
})

t.test('a translation keeps what the model keeps when it translates', async (t) => {
  const entry = modelled({
    features: ['word_timestamps', 'diarization'],
    translation_features: ['diarization'],
  })
  const call = plainCall('translation', { options: options({ timestamps: 'word', diarization: true }) })
  const error = refused('translation', withRoute([entry]), call)
  t.match(error.extra.details, { entries: [{ missing: ['word_timestamps'] }] })
  takes(t, entry, { timestamps: 'word', diarization: true })
})

t.test(
  'speakers without word times, prompts or keyterms, as OpenAI’s diarizing model has them',
  async (t) => {
    const entry = modelled({
      features: ['segment_timestamps', 'word_timestamps', 'diarization', 'keyterms'],
      conflicts: [
        ['diarization', 'word_timestamps'],
        ['diarization', 'keyterms'],
        ['diarization', 'prompt'],
      ],
    })
    takes(t, entry, { diarization: true, response_format: 'srt' })
    takes(t, entry, { timestamps: 'word', keyterms: ['Larkway'], prompt: 'A call.' })
    takes(t, entry, { diarization: true, prompt: 'A call.', language: 'en' }, ['prompt'])
    refuses(
      t,
      entry,
      { diarization: true, timestamps: 'both' },
      { conflict: ['diarization', 'word_timestamps'] },
    )
    refuses(
      t,
      entry,
      { response_format: 'diarized_json', keyterms: ['a'] },
      { conflict: ['diarization', 'keyterms'] },
    )
  },
)

t.test('keyterms displace the prompt, as at AssemblyAI', async (t) => {
  const entry = modelled({ conflicts: [['keyterms', 'prompt']] })
  takes(t, entry, { keyterms: ['Larkway'], prompt: 'A call.', smart_formatting: true }, ['prompt'])
  takes(t, entry, { prompt: 'A call.' })
})

t.test('channels and no speakers, where each channel is one, as at ElevenLabs', async (t) => {
  // Channels and redaction go together: the provider is asked for each channel by itself.
  const entry = modelled({ conflicts: [['multichannel', 'diarization']], limits: { max_channels: 5 } })
  takes(t, entry, { multichannel: true, redaction: ['pii'] }, [], { channels: 5 })
  refuses(t, entry, { multichannel: true, diarization: true }, { conflict: ['multichannel', 'diarization'] })
})

t.test('vocabulary by the limits of each model, as at Deepgram', async (t) => {
  const older = named('older', { facts: facts({ limits: { keyterms: { max_items: 100 } } }) })
  const newer = named('newer', { facts: facts({ limits: { keyterms: { max_words: 500 } } }) })
  const terms = (count: number) =>
    transcriptionCall({ options: { keyterms: Array.from({ length: count }, (_, index) => `term${index}`) } })
  const who = withRoute([older, newer])
  t.same(models(pick('transcription', who, terms(100))), ['older', 'newer'])
  t.same(models(pick('transcription', who, terms(101))), ['newer'])
  t.equal(refused('transcription', who, terms(501)).extra.param, 'keyterms')
})

t.test('features and hints that work in some languages only, as Deepgram’s redaction', async (t) => {
  const entry = modelled({ languages: { redaction: ['en'], profanity_filter: ['en', 'de'] } })
  takes(t, entry, { redaction: ['pii'], language: 'en' })
  takes(t, entry, { redaction: ['pii'] })
  takes(t, entry, { redaction: ['pii'], language: 'EN-us', profanity_filter: true })
  takes(t, entry, { redaction: ['pii'], detect_language: true })
  refuses(
    t,
    entry,
    { redaction: ['pii'], language: 'fr' },
    { missing: ['redaction'], detail: /in the language fr/ },
  )
  takes(t, entry, { language: 'fr', profanity_filter: true, diarization: true }, ['profanity_filter'])
  takes(t, entry, { language: 'german', profanity_filter: true })
  // The hint itself may be one that the model lacks: the caller has said all the same what the language is.
  const deaf = modelled({ hints: [], languages: { redaction: ['en'] } })
  refuses(t, deaf, { redaction: ['pii'], language: 'fr' }, { missing: ['redaction'] })
})

t.test('redaction of what the model can redact', async (t) => {
  const entry = modelled({ limits: { redactions: ['pii', 'phi'] } })
  takes(t, entry, { redaction: ['pii'] })
  takes(t, entry, { redaction: ['phi', 'pii'] })
  refuses(
    t,
    entry,
    { redaction: ['pii', 'numbers'] },
    { missing: ['redaction'], detail: /redaction of numbers$/ },
  )
  takes(t, modelled({}), { redaction: ['pii', 'phi', 'pci', 'numbers'] })
  const none = modelled({ features: [], limits: { redactions: ['pii'] } })
  refuses(t, none, { redaction: ['numbers'] }, { detail: 'the model lacks redaction' })
})

t.test('vocabulary and formatting without speakers or times, as Gemini has them', async (t) => {
  const times = ['diarization', 'word_timestamps', 'segment_timestamps'] as const
  const entry = modelled({
    conflicts: [
      ...times.map((feature) => ['keyterms', feature] as const),
      ...times.map((feature) => ['smart_formatting', feature] as const),
    ],
  })
  takes(t, entry, { keyterms: ['Larkway'], smart_formatting: true })
  takes(t, entry, { diarization: true, timestamps: 'both' })
  takes(t, entry, { response_format: 'vtt', smart_formatting: true }, ['smart_formatting'])
  refuses(
    t,
    entry,
    { keyterms: ['a'], response_format: 'vtt' },
    { conflict: ['keyterms', 'segment_timestamps'] },
  )
  refuses(t, entry, { keyterms: ['a'], timestamps: 'word' }, { conflict: ['keyterms', 'word_timestamps'] })
})

t.test('subtitles need times, whatever else is asked for', async (t) => {
  const entry = modelled({ features: ['word_timestamps', 'segment_timestamps'] })
  for (const response_format of ['srt', 'vtt', 'verbose_json'] as const) {
    takes(t, entry, { response_format, timestamps: 'word' })
    refuses(
      t,
      modelled({ features: ['word_timestamps'] }),
      { response_format },
      { missing: ['segment_timestamps'] },
    )
  }
  for (const response_format of ['json', 'text'] as const)
    takes(t, modelled({ features: [] }), { response_format })
})

t.test('audio that is too long, where its length is known', async (t) => {
  const entry = modelled({ limits: { max_audio_seconds: 1500 } })
  takes(t, entry, {}, [], { durationSeconds: 1500 })
  takes(t, entry, {}, [], { durationSeconds: null })
  const long = transcriptionCall({ audio: { durationSeconds: 1501 } })
  t.match(pick('transcription', withRoute([entry]), long).cut, { maxSeconds: Number, count: 3 }, 'in parts')
  const spoken = modelled({ limits: { max_audio_seconds: 1500 }, features: ['diarization'] })
  const speakers = transcriptionCall({ options: { diarization: true }, audio: { durationSeconds: 1501 } })
  t.equal(refused('transcription', withRoute([spoken]), speakers).extra.param, 'audio', 'not with speakers')
  const short = modelled({ limits: { max_audio_seconds: 10 } })
  t.equal(refused('transcription', withRoute([short]), long).extra.param, 'audio', 'parts would be too short')
})

t.test('a model that hears and does not translate, as Whisper’s turbo', async (t) => {
  const turbo = modelled({ translates: false })
  takes(t, turbo, {})
  t.equal(refused('translation', withRoute([turbo]), plainCall('translation')).code, 'NO_HEALTHY_PROVIDER')
})

t.test('a feature that only shorter audio can have', async (t) => {
  const entry = modelled({ limits: { max_audio_seconds: 36_000, max_audio_seconds_with: { keyterms: 120 } } })
  takes(t, entry, { keyterms: ['Larkway'] }, [], { durationSeconds: 120 })
  takes(t, entry, { diarization: true }, [], { durationSeconds: 121 })
  const call = transcriptionCall({ options: { keyterms: ['Larkway'] }, audio: { durationSeconds: 121 } })
  t.match(pick('transcription', withRoute([entry]), call).cut, { count: 2 }, 'longer audio has it in parts')
})

t.test('what is missing is told before what is in conflict', async (t) => {
  const entry = modelled({ features: ['diarization', 'keyterms'], conflicts: [['diarization', 'keyterms']] })
  const both = { diarization: true, keyterms: ['a'] }
  refuses(t, entry, { ...both, redaction: ['pii'] }, { missing: ['redaction'], conflict: undefined })
  refuses(t, entry, both, { missing: undefined, conflict: ['diarization', 'keyterms'] })
})

t.test('hints that an entry lacks are left out, and nothing else', async (t) => {
  const given: Options = {
    language: 'en',
    prompt: 'A call.',
    speaker_count_hint: 2,
    smart_formatting: true,
    profanity_filter: true,
    detect_language: true,
    audio_events: true,
  }
  const bare = modelled({ hints: [] })
  const full = options({ ...given, diarization: true, keyterms: ['Larkway'], seed: 7 })
  t.same(unheededHints(bare.facts, full), HINTS)
  const left = { diarization: true, keyterms: ['Larkway'], audio_events: false, seed: 7 }
  t.same(withoutHints(full, HINTS), options(left))
  t.same(unheededHints(modelled({ hints: HINTS }).facts, full), [])
  t.same(unheededHints(bare.facts, options()), [], 'what was not given is not lacked')
})

t.test(
  'among hints at odds the last one gives way, and a hint that is left out displaces none',
  async (t) => {
    const odd = modelled({ conflicts: [['prompt', 'smart_formatting']] })
    const given = options({ prompt: 'A call.', smart_formatting: true })
    t.same(unheededHints(odd.facts, given), ['smart_formatting'])
    const silent = modelled({ ...odd.facts, hints: ['smart_formatting'] })
    t.same(unheededHints(silent.facts, given), ['prompt'])
    const chain = modelled({
      conflicts: [
        ['diarization', 'prompt'],
        ['prompt', 'smart_formatting'],
      ],
    })
    t.same(unheededHints(chain.facts, { ...given, diarization: true }), ['prompt'])
  },
)
