import t, { type Test } from 'tap'
import type { LiveTerms, TranscriptionOptions } from '../../../src/contracts/calls.ts'
import type { Entry } from '../../../src/contracts/catalog.ts'
import type { LiveFacts } from '../../../src/contracts/facts.ts'
import type { LiveTranscription, ModelFacts, Provider } from '../../../src/contracts/provider.ts'
import { factsFor } from '../../../src/gateway/call/facts/facts-for.ts'
import {
  estimateOf,
  expectedCost,
  highestCost,
  meter,
  NOTHING_REPORTED,
} from '../../../src/gateway/call/facts/meter.ts'
import { adapt } from '../../../src/gateway/call/select/eligibility.ts'
import { select } from '../../../src/gateway/call/select/selection.ts'
import { lackedFeatures } from '../../../src/gateway/providers/unsupported.ts'
import { callOf, transcriptionCall } from '../../support/call.ts'
import { facts, PROTOCOLS, principal, route } from '../../support/catalog.ts'
import { models, named, pick, refused, selectionInput, withRoute } from './selection.ts'

const never = (): never => {
  throw new Error('selection calls nobody')
}

/** Beside the others a protocol whose live transcription refuses mulaw. */
const KINDS: ReadonlyMap<string, Provider> = new Map([
  ...PROTOCOLS,
  ['live', { ...PROTOCOLS.get('able')!, kind: 'live', live: protocol() }],
])

function protocol(): LiveTranscription {
  return {
    unsupported: ({ live }) => lackedFeatures([live.audio.encoding === 'mulaw' && 'realtime']),
    handshake: never,
    refused: never,
    connect: never,
  }
}

const TERMS: LiveTerms = {
  audio: { encoding: 'pcm_s16le', sampleRate: 16_000, channels: 1 },
  interim: true,
  endpointingMs: null,
  commit: 'auto',
}

/** A live call for a slice of that many seconds. */
function liveCall(
  options: Partial<TranscriptionOptions> = {},
  {
    seconds = 60,
    channels = 1,
    terms = {},
  }: { seconds?: number; channels?: number; terms?: Partial<LiveTerms> } = {},
) {
  const { payload } = transcriptionCall({
    options: { mode: 'realtime', ...options },
    audio: { durationSeconds: seconds, channels, decodedBytes: 1e12 },
  })
  return callOf('transcription', { ...payload, live: { ...TERMS, ...terms } })
}

const LIVE: LiveFacts = {
  features: ['word_timestamps', 'keyterms', 'multichannel'],
  hints: ['language'],
  limits: { max_channels: 2, keyterms: { max_items: 1 } },
  price: {
    per_hour_usd: 1.2,
    per_channel: true,
    surcharges: { keyterms: 0.5 },
    add_ons_per_hour_usd: { word_timestamps: 0.6 },
  },
}

/** An entry whose model keeps other things of files than live, at another price. */
function live(model: string, overrides: Partial<LiveFacts> = {}, others: Partial<ModelFacts> = {}): Entry {
  const file = {
    features: ['diarization', 'keyterms'] as const,
    hints: ['prompt'] as const,
    limits: { max_audio_bytes: 10 },
  }
  return named(model, {
    provider: { ...named(model).provider, kind: 'live' },
    facts: facts({ ...file, live: { ...LIVE, ...overrides }, ...others }),
  })
}

/** The same, without facts of live audio. */
function noLive(model: string): Entry {
  const entry = live(model)
  const { live: _live, ...others } = entry.facts
  return { ...entry, facts: others }
}

const chosen = (entries: readonly Entry[], call: ReturnType<typeof liveCall>) =>
  models(pick('transcription', withRoute(entries), call, { providers: KINDS }))

function refusal(entries: readonly Entry[], call: ReturnType<typeof liveCall>) {
  const { code, message, extra } = refused('transcription', withRoute(entries), call, { providers: KINDS })
  return { code, message, extra }
}

/** The only entry is refused for these features. */
function lacks(
  t: Test,
  entry: Entry,
  call: ReturnType<typeof liveCall>,
  missing: readonly string[],
  name: string,
) {
  const { code, extra } = refusal([entry], call)
  t.equal(code, 'REQUIRED_FEATURE_UNAVAILABLE', name)
  t.match(extra.details, { entries: [{ left: 'features', missing }] }, name)
}

t.test(
  'a live call is judged by what the model keeps live, one of a file by what it keeps of files',
  async (t) => {
    const entry = live('m')
    t.same(chosen([entry], liveCall()), ['m'], 'no limit of files holds')
    t.same(chosen([entry], liveCall({ timestamps: 'word' })), ['m'])
    lacks(t, entry, liveCall({ diarization: true }), ['diarization'], 'kept of files alone')
    const file = transcriptionCall({ options: { timestamps: 'word' }, audio: { decodedBytes: 1 } })
    lacks(t, entry, file as never, ['word_timestamps'], 'kept live alone')
    lacks(t, entry, liveCall({ response_format: 'srt' }), ['segment_timestamps'], 'by the format')
    t.match(refusal([entry], liveCall({ keyterms: ['a', 'b'] })), {
      code: 'INVALID_REQUEST',
      extra: { param: 'keyterms' },
    })
    t.match(refusal([entry], liveCall({ multichannel: true }, { channels: 3 })), {
      code: 'INVALID_REQUEST',
      extra: { param: 'multichannel' },
    })
    const clash = live('clash', { conflicts: [['word_timestamps', 'keyterms']] })
    const error = refusal([clash], liveCall({ timestamps: 'word', keyterms: ['a'] }))
    t.match(error.extra.details, { entries: [{ conflict: ['word_timestamps', 'keyterms'] }] })
  },
)

t.test('who cannot transcribe live lacks realtime', async (t) => {
  const noFacts = noLive('m')
  const noProtocol = named('m', { facts: facts({ live: LIVE }) })
  for (const [name, entry] of Object.entries({ noFacts, noProtocol })) {
    lacks(t, entry, liveCall(), ['realtime'], name)
    lacks(
      t,
      entry,
      { ...liveCall(), payload: { ...liveCall().payload, options: transcriptionCall().payload.options } },
      ['realtime'],
      `${name}, whatever the mode`,
    )
    t.same(chosen([entry, live('other')], liveCall()), ['other'], name)
  }
  const whole = transcriptionCall({ options: { mode: 'realtime' }, audio: { decodedBytes: 1 } })
  lacks(t, live('m'), whole as never, ['realtime'], 'mode realtime with audio that is here')
  lacks(
    t,
    live('m'),
    liveCall({}, { terms: { audio: { encoding: 'mulaw', sampleRate: 8000, channels: 1 } } }),
    ['realtime'],
    'the protocol is asked',
  )
})

t.test('a model for live audio alone takes no file', async (t) => {
  const only = live('only', {}, { operations: [] })
  t.same(chosen([only], liveCall()), ['only'])
  const file = transcriptionCall({ audio: { decodedBytes: 1 } })
  t.match(refusal([only], file as never), {
    code: 'NO_HEALTHY_PROVIDER',
    extra: { details: { entries: [{ left: 'operation' }] } },
  })
})

t.test('hints are those that it heeds live', async (t) => {
  const { payload, warnings } = adapt(liveCall({ language: 'en', prompt: 'a' }), live('m'))
  t.equal(payload.options.language, 'en')
  t.equal(payload.options.prompt, null)
  t.same(warnings, ['prompt: left out, m does not support this hint here'])
  t.same(payload.live, TERMS)
})

t.test('a slice costs what live audio costs, with surcharges and channels', async (t) => {
  const entry = live('m')
  const rows = [
    [liveCall(), 0.02],
    [liveCall({}, { seconds: 30 }), 0.01],
    [liveCall({}, { channels: 2 }), 0.02],
    [liveCall({ multichannel: true }, { channels: 2 }), 0.04],
    [liveCall({ keyterms: ['a'] }), 0.03],
    [liveCall({ timestamps: 'word' }), 0.03],
  ] as const
  for (const [call, usd] of rows) {
    t.equal(highestCost(entry, call), usd)
    t.equal(estimateOf(entry, call).costUsd, usd)
    t.ok(Math.abs(expectedCost(entry, call) - usd) < 1e-12)
    t.equal(meter(call, NOTHING_REPORTED, factsFor(entry, call).price).costUsd, usd)
  }
  const { price: _price, ...unpriced } = LIVE
  const dear = { ...entry, facts: { ...entry.facts, live: unpriced } }
  t.equal(highestCost(dear, liveCall()), null, 'not the price of files')
  t.equal(highestCost(entry, transcriptionCall({ audio: { durationSeconds: 60 } })), 0.006)
  t.equal(factsFor(entry, liveCall()), factsFor(entry, liveCall()), 'made once')
})

t.test('the cheapest of a route is the cheapest live', async (t) => {
  const entries = [
    live('dear', { price: { per_hour_usd: 2 } }),
    live('cheap', { price: { per_hour_usd: 1 } }, { price: { per_hour_usd: 9 } }),
  ]
  const who = principal({ route: route(entries, { strategy: 'lowest_cost' }) })
  t.same(models(pick('transcription', who, liveCall(), { providers: KINDS })), ['cheap', 'dear'])
})

t.test('what was selected for files is not used for live audio, nor the other way round', async (t) => {
  const file = transcriptionCall({ audio: { decodedBytes: 1 } })
  const forFiles = noLive('file')
  const forLive = live('only', {}, { operations: [] })
  for (const order of [
    [file, liveCall(), file, liveCall()],
    [liveCall(), file, liveCall(), file],
  ]) {
    const who = withRoute([forFiles, forLive])
    for (const call of order) {
      const { selection } = select(selectionInput('transcription', who, call, { providers: KINDS }))
      const expected = 'live' in call.payload ? 'only' : 'file'
      t.same(
        selection?.candidates.map(({ entry }) => entry.model),
        [expected],
      )
    }
  }
})
