import fc from 'fast-check'
import t from 'tap'
import type { TranscriptionOptions } from '../../../src/contracts/calls.ts'
import type { Entry } from '../../../src/contracts/catalog.ts'
import type { Price } from '../../../src/contracts/facts.ts'
import type { OperationName } from '../../../src/contracts/operations.ts'
import type { TokenUsage } from '../../../src/contracts/usage.ts'
import { priceFor } from '../../../src/gateway/call/facts/facts-for.ts'
import { highestCost, meter, NOTHING_REPORTED, reportedBy } from '../../../src/gateway/call/facts/meter.ts'
import { costOf as costOfTerms, exact, plus, rounded, times } from '../../../src/gateway/call/facts/price.ts'
import { readCounts, tokenUsage } from '../../../src/gateway/providers/anthropic/answer.ts'
import { factsOf } from '../../../src/gateway/providers/facts.ts'
import { readAnswer } from '../../../src/gateway/providers/gemini/answer.ts'
import { readUsage } from '../../../src/gateway/providers/openai/wire.ts'
import { callOf, speechCall, transcriptionCall } from '../../support/call.ts'
import { chatCall } from '../../support/gateway-rig.ts'
import { liveCall } from '../../support/live.ts'

// The prices that the interface names, through the real table of facts and the real meter.

const THOUSAND = speechCall({ input: 'a'.repeat(1000) }).payload
const HOUR = transcriptionCall({ audio: { durationSeconds: 3600 } }).payload

function priceOf(kind: string, model: string): Price | null {
  const facts = factsOf(kind, model)
  if (facts === undefined) throw new Error(`the table of ${kind} has no ${model}`)
  return facts.price
}

function costOf(model: string, operation: Extract<OperationName, 'speech' | 'transcription'>): number | null {
  const payload = operation === 'speech' ? THOUSAND : HOUR
  return meter(callOf(operation, payload), NOTHING_REPORTED, priceOf('elevenlabs', model)).costUsd
}

t.test('1,000 characters of speech', async (t) => {
  t.equal(costOf('eleven_flash_v2_5', 'speech'), 0.05, 'low latency')
  t.equal(costOf('eleven_turbo_v2_5', 'speech'), 0.05, 'low latency')
  t.equal(costOf('eleven_multilingual_v2', 'speech'), 0.1, 'multilingual')
  t.equal(costOf('eleven_v3', 'speech'), 0.1, 'latest generation')
})

t.test('one hour of audio', async (t) => {
  t.equal(costOf('scribe_v2', 'transcription'), 0.22)
})

t.test('many small calls cost what one large one does', async (t) => {
  const price = priceOf('elevenlabs', 'eleven_flash_v2_5')
  const one = meter(speechCall({ input: 'a' }), NOTHING_REPORTED, price).costUsd ?? Number.NaN
  t.equal(Math.round(one * 1_000_000) * 1000, 50_000)
})

// The tables as bills have them: whole seconds, speakers by the minute, long prompts, and a new year.

t.test('a minute with speakers, and without', async (t) => {
  const minute = (kind: string, model: string, diarization: boolean, seconds = 60) => {
    const { payload } = transcriptionCall({ audio: { durationSeconds: seconds }, options: { diarization } })
    return meter(callOf('transcription', payload), NOTHING_REPORTED, priceOf(kind, model)).costUsd
  }
  for (const [model, usd] of [
    ['nova-3', 0.0077],
    ['nova-2-drivethru', 0.0043],
  ] as const) {
    t.equal(minute('deepgram', model, false), usd)
    t.equal(minute('deepgram', model, true), Math.round((usd + 0.002) * 1e6) / 1e6, `${model} with speakers`)
  }
  t.equal(minute('assemblyai', 'universal-2', true, 3600), 0.17)
  t.equal(minute('openai', 'whisper-1', false, 1.2), 0.0002, 'two seconds')
  t.equal(minute('openai', 'whisper-1', false, 63.4), 0.0064, '64 seconds')
})

t.test('a million tokens in and out', async (t) => {
  const tokens = (kind: string, model: string, million: number, day = '2026-11-21') => {
    const usage = { input_tokens: million * 1_000_000, output_tokens: million * 1_000_000 }
    const told = { ...NOTHING_REPORTED, usage }
    return meter(callOf('chat', chatCall()), told, priceOf(kind, model), Date.parse(day)).costUsd
  }
  t.equal(tokens('gemini', 'gemini-3.8-flash', 1, '2026-12-31'), 4.5)
  t.equal(tokens('gemini', 'gemini-3.8-flash', 1, '2027-01-01'), 9)
  t.equal(tokens('openai', 'gpt-6-sol', 0.272), 3.264)
  t.equal(tokens('openai', 'gpt-6-sol', 1), 19)
  t.equal(tokens('anthropic', 'claude-haiku-5-5', 0.1), 0.06)
  t.equal(tokens('anthropic', 'claude-haiku-5-5', 1), 3)
})

t.test('a cost is the same by whole numbers as by exact fractions', async (t) => {
  const price = fc.oneof(
    fc.constantFrom(0, 0.05, 0.15, 0.6, 1e-7, 2.5, 15, 0.0001, 1 / 3, 123_456.789),
    fc.integer({ min: 0, max: 10_000 }).map((cents) => cents / 100),
  )
  const term = fc.record({
    usd: fc.option(price, { nil: undefined }),
    unit: fc.constantFrom(1, 60, 1_000, 3_600, 1_000_000),
    quantity: fc.oneof(fc.integer({ min: 0, max: 5_000_000 }), fc.constantFrom(null, 0.5, 2 ** 52, 2 ** 60)),
  })
  fc.assert(
    fc.property(fc.array(term, { maxLength: 4 }), (terms) => {
      const charged = terms.filter(
        ({ usd, quantity }) => usd !== undefined && !(usd > 0 && quantity === null),
      )
      const known = charged.length > 0 && terms.every(({ usd, quantity }) => !usd || quantity !== null)
      const cost = costOfTerms(terms)
      t.equal('usd' in cost, known)
      if (!('usd' in cost)) return
      let sum = exact(0)
      for (const { usd = 0, unit, quantity } of charged) {
        if (usd === 0) continue
        const amount = times(exact(quantity ?? 0), exact(usd))
        sum = plus(sum, { digits: amount.digits, divisor: amount.divisor * BigInt(unit) })
      }
      t.equal(cost.usd, sum.digits === 0n ? 0 : Math.max(0.000001, rounded(sum, 6)))
    }),
    { numRuns: 500 },
  )
})

// Prices that depend on more than the quantity.

const USAGE = { input_tokens: 1_000_000, output_tokens: 100_000 }

t.test('cached tokens of a chat are charged as cached ones, and written ones as written', async (t) => {
  const chat = (kind: string, model: string, usage: TokenUsage) =>
    meter(callOf('chat', chatCall()), { ...NOTHING_REPORTED, usage }, priceOf(kind, model)).costUsd
  // 5 USD of text fresh, 0.50 cached: claude-opus-5; each 100,000 tokens out are 2.50.
  t.equal(chat('anthropic', 'claude-opus-5', USAGE), 7.5)
  t.equal(chat('anthropic', 'claude-opus-5', { ...USAGE, cached_input_tokens: 900_000 }), 3.45)
  t.equal(chat('anthropic', 'claude-opus-5', { ...USAGE, cache_write_tokens: 400_000 }), 8)
  const short = { input_tokens: 200_000, output_tokens: 0, cached_input_tokens: 150_000 }
  t.equal(chat('openai', 'gpt-6-sol', short), 0.13)
  t.equal(
    chat('openai', 'gpt-4o', { ...short, cached_input_tokens: 300_000 }),
    0.25,
    'no more than all of them',
  )
  t.equal(chat('openai', 'text-embedding-3-small', short), 0.004, 'one price: as any other')
})

t.test('adapters report what was cached, written and heard', async (t) => {
  t.same(
    readUsage({
      usage: {
        prompt_tokens: 100,
        completion_tokens: 20,
        prompt_tokens_details: { cached_tokens: 64, audio_tokens: 30, cache_write_tokens: 0 },
        completion_tokens_details: { audio_tokens: 15, reasoning_tokens: 2 },
      },
      service_tier: 'flex',
    }),
    {
      ...{ input_tokens: 100, output_tokens: 20, cached_input_tokens: 64, cache_write_tokens: 0 },
      ...{ audio_input_tokens: 30, audio_output_tokens: 15, service_tier: 'flex' },
    },
  )
  t.same(readUsage({ usage: { input_tokens: 1, output_tokens: 2 } }), { input_tokens: 1, output_tokens: 2 })
  const hostile = { cached_tokens: -1, audio_tokens: 'many', cache_write_tokens: 1.5 }
  t.same(readUsage({ usage: { input_tokens: 9, input_tokens_details: hostile }, service_tier: '<x>' }), {
    input_tokens: 9,
    output_tokens: null,
  })
  t.same(
    tokenUsage(
      readCounts({
        ...{ input_tokens: 10, output_tokens: 5, service_tier: 'standard' },
        ...{ cache_read_input_tokens: 80, cache_creation_input_tokens: 10 },
      }),
    ),
    {
      ...{ input_tokens: 100, output_tokens: 5, cached_input_tokens: 80, cache_write_tokens: 10 },
      service_tier: 'standard',
    },
  )
  const { usage } = readAnswer({
    usageMetadata: {
      ...{ promptTokenCount: 110, candidatesTokenCount: 50, cachedContentTokenCount: 40 },
      promptTokensDetails: [
        { modality: 'TEXT', tokenCount: 10 },
        { modality: 'AUDIO', tokenCount: 100 },
      ],
      candidatesTokensDetails: [{ modality: 'AUDIO', tokenCount: 50 }],
    },
  })
  t.same(usage, {
    ...{ input_tokens: 110, output_tokens: 50, cached_input_tokens: 40 },
    ...{ audio_input_tokens: 100, audio_output_tokens: 50 },
  })
})

t.test('audio tokens have a price of their own', async (t) => {
  const price = priceOf('openai', 'gpt-audio')
  const chat = (usage: TokenUsage) => meter(callOf('chat', chatCall()), { ...NOTHING_REPORTED, usage }, price)
  // Text 2.50 in and 10 out, audio 32 in and 64 out.
  const spoken = { ...USAGE, audio_input_tokens: 500_000, audio_output_tokens: 50_000 }
  t.match(chat(spoken), { costUsd: 1.25 + 16 + 0.5 + 3.2, usage: spoken })
  t.equal(chat({ ...USAGE, audio_input_tokens: 0, audio_output_tokens: 0 }).costUsd, 3.5, 'all of it text')
  t.match(chat(USAGE), { costUsd: null, warnings: [/the quantity .* is not known/] }, 'not told: not known')
})

t.test('speech and transcripts by tokens: as counted, else estimated', async (t) => {
  const tts = priceOf('gemini', 'gemini-3.8-flash-tts')
  const usage = { input_tokens: 250, output_tokens: 1_700, audio_output_tokens: 1_700 }
  const at = (day: string) =>
    meter(callOf('speech', THOUSAND), { ...NOTHING_REPORTED, usage }, tts, Date.parse(day))
  t.equal(at('2026-12-31').costUsd, 0.015425)
  t.equal(at('2027-01-01').costUsd, 0.03085)
  t.same(at('2026-12-31').usage, { audio_output_characters: 1000, total_tokens: 0 })
  const untold = meter(callOf('speech', THOUSAND), NOTHING_REPORTED, priceOf('openai', 'gpt-4o-mini-tts'))
  t.match(untold, { costUsd: 0.01683, warnings: [/^cost_usd: estimated from the characters/] })
  const heard = { input_tokens: 115_200, output_tokens: 10_000, audio_input_tokens: 115_200 }
  const transcript = {
    text: '',
    language: null,
    durationSeconds: 3600,
    tokens: heard,
    segments: [],
    words: [],
  }
  const reported = reportedBy({ ...transcript, languageConfidence: null, warnings: [] })
  t.match(meter(callOf('transcription', HOUR), reported, priceOf('gemini', 'gemini-3.5-transcribe')), {
    costUsd: 0.3504,
    usage: { audio_seconds: 3600, total_tokens: 0 },
  })
  for (const [kind, model, operation, payload] of [
    ['gemini', 'gemini-3.5-transcribe', 'transcription', HOUR],
    ['gemini', 'gemini-3.8-flash-tts', 'speech', THOUSAND],
    ['openai', 'gpt-4o-mini-tts', 'speech', THOUSAND],
    ['openai', 'gpt-audio', 'chat', chatCall()],
  ] as const) {
    const entry = { facts: factsOf(kind, model)! } as unknown as Entry
    const usd = highestCost(entry, callOf(operation, payload as never), Date.parse('2026-11-24'))
    t.ok(usd !== null && usd > 0 && usd < 2, `${model} can be sold on credits: ${usd}`)
  }
})

t.test('a language that is named, several of them, or neither', async (t) => {
  const entry = { model: 'nova-3', facts: factsOf('deepgram', 'nova-3')! } as unknown as Entry
  const hour = (options: Partial<TranscriptionOptions>, live: boolean) => {
    const made = live
      ? liveCall(options)
      : transcriptionCall({ audio: { durationSeconds: 3600 }, options }).payload
    const payload = { ...made, audio: { ...made.audio, durationSeconds: 3600 } }
    const call = callOf('transcription', payload)
    return meter(call, NOTHING_REPORTED, priceFor(entry, call)).costUsd
  }
  const several = { language: 'multi', detect_language: true }
  t.equal(hour({ language: 'en' }, true), 0.288, 'live: one language')
  t.equal(hour({ language: 'English' }, true), 0.288)
  t.equal(hour({}, true), 0.348, 'live: sent as several')
  t.equal(hour(several, true), 0.348)
  t.equal(hour({ language: 'sw' }, true), 0.348, 'not one of its languages, so that it is not told')
  t.equal(hour({ language: 'en', detect_language: true }, true), 0.348)
  t.equal(hour({ language: 'en' }, false), 0.462, 'a file: one language')
  t.equal(hour({}, false), 0.462, 'a file whose one language is detected')
  t.equal(hour(several, false), 0.552)
})

t.test('a tier of service that the provider names', async (t) => {
  const cost = (service_tier: string | undefined, million = 0.1) => {
    const usage = { input_tokens: million * 1e6, output_tokens: 1000, ...(service_tier && { service_tier }) }
    return meter(callOf('chat', chatCall()), { ...NOTHING_REPORTED, usage }, priceOf('openai', 'gpt-6-sol'))
      .costUsd
  }
  t.equal(cost(undefined), 0.21)
  t.equal(cost('default'), 0.21)
  t.equal(cost('flex'), 0.105)
  t.equal(cost('priority'), 0.42)
  t.equal(cost('constructor'), 0.21)
  t.equal(cost('flex', 1), 2.0075, 'over 272,000 tokens')
})
