import t from 'tap'
import { factHeaders } from '../../src/api/fact-headers.ts'

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
  const many = factHeaders({ ...PLAIN, warnings: Array(500).fill('word: unknown field, ignored') })
  const kept = many['x-lk-warnings'] ?? ''
  t.ok(kept.length <= 2_048)
  t.ok((JSON.parse(kept) as string[]).length > 50)
})
