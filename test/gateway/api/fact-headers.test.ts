import t from 'tap'
import {
  callLines,
  factHeaders,
  formatDuration,
  nameWarnings,
} from '../../../src/gateway/api/fact-headers.ts'
import { CallContext } from '../../../src/gateway/call/context/call-context.ts'

const PLAIN = {
  provider: 'voices',
  model: 'm',
  usage: { audio_seconds: 1.5, billable_audio_seconds: null, total_tokens: 0 },
  cost_usd: null,
  lk_requested_purpose: null,
  lk_applied_purpose: null,
  lk_purpose_source: 'none',
}

t.test('facts that there are', async (t) => {
  t.same(factHeaders(PLAIN), {
    'x-lk-provider': 'voices',
    'x-lk-model': 'm',
    'x-lk-purpose-source': 'none',
    'x-lk-usage-audio-seconds': '1.5',
    'x-lk-usage-total-tokens': '0',
  })
  const purpose = { lk_requested_purpose: 'cals 🐦\ud83d', lk_purpose_source: 'purpose_unknown' }
  t.match(factHeaders({ ...PLAIN, ...purpose, cost_usd: 0.001, warnings: [] }), {
    'x-lk-cost-usd': '0.001',
    'x-lk-requested-purpose': 'cals%20%F0%9F%90%A6%EF%BF%BD',
    'x-lk-warnings': undefined,
  })
})

t.test('warnings, which the body has no place for', async (t) => {
  const lines = ['language: left out', 'x\r\ny: "é" 🐦']
  const value = factHeaders({ ...PLAIN, warnings: lines })['x-lk-warnings'] ?? ''
  t.match(value, /^[\x20-\x7e]+$/, 'nothing that could end the header')
  t.same(JSON.parse(value), lines)
  const named = {
    'x-lk-warnings': JSON.stringify(['audio.url: x', 'voice: "language: y", "voice: z', 'voices: v']),
  }
  nameWarnings(named, { 'audio.url': 'url', voice: 'model', language: 'language_code' })
  t.same(JSON.parse(named['x-lk-warnings']), ['url: x', 'model: "language: y", "voice: z', 'voices: v'])
  const many = factHeaders({ ...PLAIN, warnings: Array(500).fill('word: unknown field, ignored') })
  const kept = many['x-lk-warnings'] ?? ''
  t.ok(kept.length <= 2_048)
  t.ok((JSON.parse(kept) as string[]).length > 50)
})

t.test('durations in the form of the rate-limit headers', async (t) => {
  const rows = [
    [0, '0ms'],
    [99.2, '100ms'],
    [1000, '1s'],
    [1001, '2s'],
    [360_000, '6m0s'],
    [3_661_000, '1h1m1s'],
  ] as const
  for (const [milliseconds, text] of rows) t.equal(formatDuration(milliseconds), text)
})

t.test('lines of the facts of a call', async (t) => {
  const left = { limit: 60, remaining: 59, resetMs: 1000 }
  const bucket = { ...left, allowed: true, retryAfterMs: 0, local: false, slotTaken: false }
  const linesOf = (answer: object, policyVersionId: string | null = null, headers = {}) => {
    const context = new CallContext({ requestId: 'r', signal: new AbortController().signal })
    Object.assign(context.answer, answer)
    context.routing.policyVersionId = policyVersionId
    return callLines(context, headers).split('\r\n').slice(1)
  }
  const version = 'pv_0123456789abcdef'
  t.same(linesOf({}), [])
  t.same(linesOf({ bucket, cache: 'miss' }, version), [
    'x-ratelimit-limit-requests: 60',
    'x-ratelimit-remaining-requests: 59',
    'x-ratelimit-reset-requests: 1s',
    'x-lk-policy-version-id: pv_0123456789abcdef',
    'x-lk-cache: miss',
  ])
  t.same(linesOf({ cache: 'hit' }), ['x-lk-cache: hit'])
  t.same(linesOf({}, version, { 'x-lk-policy-version-id': 'pv_of_the_first' }), [], 'once')
})
