import t from 'tap'
import { leftWords, verdictsOf } from '../../../src/console/page/views/routes/verdicts.ts'
import type { ExplainedEntry } from '../../../src/console/server/answers/routes.ts'

const row = (name: string, more: Partial<ExplainedEntry> = {}): ExplainedEntry => ({
  route: 'acme.voice',
  provider: 'p',
  model: name,
  group: 'assigned_route',
  rank: null,
  left: null,
  detail: null,
  ...more,
})
const entry = (model: string, purposes: readonly string[] = []) => ({ provider: 'p', model, purposes })

t.test('each entry learns its place, or why it has none', async (t) => {
  const answer = {
    entries: [
      row('a', { left: 'features', missing: ['diarization', 'word_timestamps'] }),
      row('b', { rank: 2 }),
      row('c', { rank: 1 }),
      row('d', { left: 'breaker', retry_after_ms: 3_100 }),
    ],
  }
  const { entries, order } = verdictsOf(
    answer,
    'acme.voice',
    ['a', 'b', 'c', 'd'].map((m) => entry(m)),
    '',
  )
  t.same(entries.get(0), { tone: 'out', rank: null, words: 'Skipped: no diarization, no word timestamps' })
  t.same(entries.get(1), { tone: 'next', rank: 2, words: 'Fallback 1' })
  t.same(entries.get(2), { tone: 'first', rank: 1, words: 'Selected' })
  t.equal(entries.get(3)?.words, 'Skipped: breaker open for another 4 s')
  t.same(
    order.map(({ model }) => model),
    ['c', 'b'],
  )
})

t.test('an entry that is tried in spite of its breaker is not said to be well', async (t) => {
  const last = row('a', { rank: 1, last_resort: true, breaker: 'open' })
  const { entries } = verdictsOf({ entries: [last] }, 'acme.voice', [entry('a')], '')
  t.same(entries.get(0), { tone: 'next', rank: 1, words: 'Selected: would be tried; breaker open' })
  const half = verdictsOf({ entries: [{ ...last, breaker: 'half_open' }] }, 'acme.voice', [entry('a')], '')
  t.equal(half.entries.get(0)?.words, 'Selected: would be tried; breaker half-open')
})

t.test('why an entry is skipped is said in words', async (t) => {
  const words = (left: string, more: object = {}) => leftWords({ left, ...more })
  t.equal(
    words('features', { conflict: ['diarization', 'word_timestamps'] }),
    'no diarization together with word timestamps',
  )
  t.equal(words('capability', { missing: ['vision'] }), 'the model doesn’t support vision')
  t.equal(words('plan'), 'not part of the plan')
  t.equal(words('plan', { missing: ['audio_input'] }), 'the plan doesn’t include speech-to-text')
  t.equal(words('limits', { param: 'voice' }), 'voice exceeds a limit of the model')
  t.equal(words('breaker'), 'breaker half-open, a test request is running')
  t.equal(words('cooling', { retry_after_ms: 12_000 }), 'rate limited for another 12 s')
  t.equal(words('not_pinned'), 'other entries are pinned')
})

t.test('entries alike are told apart by their order', async (t) => {
  const answer = { entries: [row('a', { rank: 2 }), row('a', { rank: 1 }), row('a', { left: 'plan' })] }
  const { entries } = verdictsOf(answer, 'acme.voice', [entry('a'), entry('a'), entry('a')], '')
  t.same(
    [0, 1, 2].map((index) => entries.get(index)?.rank),
    [2, 1, null],
  )
  t.equal(entries.get(2)?.words, 'Skipped: not part of the plan')
})

t.test('entries alike are told apart by the purpose whose rows come first', async (t) => {
  const answer = {
    entries: [
      row('a', { group: 'purpose', rank: 1 }),
      row('a', { group: 'purpose_route', rank: 2 }),
      row('a', { left: 'duplicate', detail: 'it was listed before' }),
      row('a', { left: 'duplicate', detail: 'it was listed before' }),
    ],
  }
  const { entries } = verdictsOf(answer, 'acme.voice', [entry('a'), entry('a', ['calls'])], 'calls')
  t.equal(entries.get(1)?.rank, 1)
  t.equal(entries.get(0)?.rank, 2)
})

t.test('a request that leads to another route leaves all entries of this one out', async (t) => {
  const answer = { entries: [row('x', { route: 'acme.other', rank: 1 })] }
  const { entries, order } = verdictsOf(answer, 'acme.voice', [entry('a')], '')
  t.same(entries.get(0), { tone: 'out', rank: null, words: 'Skipped: the request uses another route' })
  t.equal(order.length, 1)
})

t.test('nothing is said of an entry that no answer is about yet', async (t) => {
  t.equal(verdictsOf({ entries: [] }, 'acme.voice', [entry('a')], '').entries.size, 0)
  const { entries } = verdictsOf(
    { entries: [row('a', { rank: 1 })] },
    'acme.voice',
    [entry('b'), entry('a')],
    '',
  )
  t.same([...entries.keys()], [1])
})
