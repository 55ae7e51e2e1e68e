import t from 'tap'
import { referenceWords, sentenceOf } from '../../../src/console/page/views/routes/shadow.ts'
import type { ShadowPairAnswer } from '../../../src/console/server/answers/routes.ts'

const side = (model: string, p50Ms: number | null, costUsd: number | null) => {
  return { provider: 'one', model, p50_ms: p50Ms, cost_usd: costUsd }
}

function pair(over: Partial<ShadowPairAnswer> = {}): ShadowPairAnswer {
  return {
    operation: 'transcription',
    entry: side('nova-3', 2_000, 0.02),
    shadow: side('scribe_v2', 1_200, 0.012),
    ...{ calls: 312, failed: 1, compared: 311, words: 1_000, word_errors: 31 },
    references: { count: 0, words: 0, entry_errors: 0, shadow_errors: 0 },
    ...over,
  }
}

t.test('what a shadow found in one sentence', async (t) => {
  t.equal(
    sentenceOf(pair()),
    'scribe_v2 costs 40 % less, differs in 3.1 % of words, p50 1.20 s against 2.00 s, of 312 calls',
  )
  t.equal(
    sentenceOf(pair({ shadow: side('scribe_v2', null, 0.03), words: 0, calls: 1 })),
    'scribe_v2 costs 50 % more, of 1 call',
  )
  t.equal(
    sentenceOf(pair({ shadow: side('scribe_v2', null, 0.02), word_errors: 0 })),
    'scribe_v2 costs the same, differs in 0 % of words, of 312 calls',
  )
  t.equal(sentenceOf(pair({ entry: side('nova-3', null, null), words: 0 })), 'scribe_v2 of 312 calls')
})

t.test('how far both are from references', async (t) => {
  const references = { count: 42, words: 1_000, entry_errors: 41, shadow_errors: 32 }
  t.equal(referenceWords(pair({ references })), 'against 42 references: 4.1 % and 3.2 %')
  t.equal(
    referenceWords(pair({ references: { ...references, count: 1, entry_errors: 0 } })),
    'against 1 reference: 0 % and 3.2 %',
  )
})
