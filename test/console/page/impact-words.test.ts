import { test } from 'tap'
import { shareWords } from '../../../src/console/page/views/routes/entries.ts'
import { impactWords, leftOutWords } from '../../../src/console/page/views/routes/impact.ts'
import type { ImpactAnswer, TrafficAnswer } from '../../../src/console/server/answers/routes.ts'

const entry = (model: string) => ({ provider: model.split('/')[0]!, model: model.split('/')[1]! })
const move = (to: string, requests: number) => ({ from: entry('openai/whisper-1'), to: entry(to), requests })
const refused = (published: number, draft: number, newly: number) => {
  return { published, draft, newly, reasons: [] }
}
const cost = (published_usd: number, draft_usd: number, requests = 1) => {
  return { requests, unknown: 0, published_usd, draft_usd }
}

function answer(more: Partial<ImpactAnswer> = {}): ImpactAnswer {
  return {
    ...{ issues: [], requests: 1000, from: null, to: null, coverage: null },
    left_out: { not_recorded: 0, app_gone: 0, answered_without_provider: 0 },
    ...{ entries: [], moves: [], refused: refused(0, 0, 0), cost: cost(0, 0, 0) },
    ...{ uncertain: 0, unrecorded: [] },
    ...more,
  }
}

test('the impact of a draft in one sentence', async (t) => {
  const cases: readonly (readonly [Partial<ImpactAnswer>, string])[] = [
    [{ requests: 0 }, 'No recorded requests to compare with yet.'],
    [{}, 'All 1,000 requests would go as now.'],
    [{ requests: 1, cost: cost(2, 2) }, 'The request would go as now, cost unchanged.'],
    [
      { moves: [move('deepgram/nova-3', 12)], refused: refused(0, 3, 3), cost: cost(1, 0.92) },
      '12 of 1,000 requests would move to deepgram/nova-3, 3 would be refused, cost −8.0 %.',
    ],
    [
      { moves: [move('a/x', 1200), move('b/y', 4)], requests: 2000, cost: cost(1, 1.5) },
      '1,204 of 2,000 requests would move, cost +50 %.',
    ],
    [{ refused: refused(5, 2, 0) }, '3 of 1,000 requests would no longer be refused.'],
    [{ cost: cost(0, 0.25) }, 'All 1,000 requests would go as now, cost $0.25 instead of nothing.'],
  ]
  for (const [more, words] of cases) t.equal(impactWords(answer(more)), words)
})

test('what the comparison is without', async (t) => {
  const words = (count: number) =>
    leftOutWords({ not_recorded: count, app_gone: count, answered_without_provider: count })
  t.same(words(0), [])
  t.same(words(1), [
    '1 request failed before an entry was selected.',
    '1 request came from apps that no longer exist.',
    '1 request was answered without a provider.',
  ])
  t.equal(words(2).at(-1), '2 requests were answered without a provider.')
})

test('the part of the traffic that an entry is given, and that it served', async (t) => {
  const fields = (model: string, more: object = {}) => ({ fields: { ...entry(model), ...more } })
  const entries = [fields('a/x', { weight: 3 }), fields('b/y')]
  t.equal(shareWords(entries, 0, 'weighted', null), '75 % of traffic')
  t.equal(shareWords(entries, 1, 'weighted', null), '25 % of traffic')
  t.equal(shareWords(entries, 0, 'priority', null), null)
  t.equal(shareWords([fields('a/x')], 0, 'weighted', null), null, 'there is nothing to share')
  const pinned = [fields('a/x', { weight: 3 }), fields('b/y', { pinned: true })]
  t.equal(shareWords(pinned, 0, 'weighted', null), '0 % of traffic')
  t.equal(shareWords(pinned, 1, 'weighted', null), '100 % of traffic')
  const traffic: TrafficAnswer = {
    ...{ window_ms: 3_600_000, requests: 8 },
    entries: [{ ...entry('a/x'), requests: 5 }],
  }
  t.equal(
    shareWords(entries, 0, 'weighted', traffic),
    '75 % of traffic, served 63 % of 8 recorded requests in the last hour',
  )
  t.equal(shareWords(entries, 1, 'priority', traffic), 'Served 0 % of 8 recorded requests in the last hour')
})
