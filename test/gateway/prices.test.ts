import fc from 'fast-check'
import t from 'tap'
import type { Price } from '../../src/contracts/facts.ts'
import type { OperationName } from '../../src/contracts/operations.ts'
import { meter, NOTHING_REPORTED } from '../../src/gateway/meter.ts'
import { costOf as costOfTerms, exact, plus, rounded, times } from '../../src/gateway/price.ts'
import { factsOf } from '../../src/providers/facts.ts'
import { callOf, speechCall, transcriptionCall } from '../support/call.ts'
import { chatCall } from '../support/gateway-rig.ts'

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
