import t from 'tap'
import type { ExplainRow } from '../../../../src/gateway/explain.ts'
import { ordinal, verdictsOf } from '../../../../src/routes/console/page/views/routes/verdicts.ts'

const row = (name: string, more: Partial<ExplainRow> = {}): ExplainRow => ({
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
      row('a', { left: 'features', detail: 'the model lacks diarization' }),
      row('b', { rank: 2 }),
      row('c', { rank: 1, detail: 'the breaker of every entry is open' }),
    ],
  }
  const { entries, order } = verdictsOf(
    answer,
    'acme.voice',
    ['a', 'b', 'c'].map((m) => entry(m)),
    '',
  )
  t.same(entries.get(0), { tone: 'out', rank: null, words: 'the model lacks diarization' })
  t.same(entries.get(1), { tone: 'next', rank: 2, words: '2nd in line' })
  t.match(entries.get(2), {
    tone: 'first',
    rank: 1,
    words: 'would serve: the breaker of every entry is open',
  })
  t.same(
    order.map(({ model }) => model),
    ['c', 'b'],
  )
})

t.test('entries alike are told apart by their order', async (t) => {
  const answer = { entries: [row('a', { rank: 2 }), row('a', { rank: 1 }), row('a', { left: 'plan' })] }
  const { entries } = verdictsOf(answer, 'acme.voice', [entry('a'), entry('a'), entry('a')], '')
  t.same(
    [0, 1, 2].map((index) => entries.get(index)?.rank),
    [2, 1, null],
  )
  t.equal(entries.get(2)?.words, 'plan')
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
  t.same(entries.get(0), { tone: 'out', rank: null, words: 'such a request leads to another route' })
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

t.test('places are said as people say them', async (t) => {
  t.same([1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(ordinal), [
    '1st',
    '2nd',
    '3rd',
    '4th',
    '11th',
    '12th',
    '13th',
    '21st',
    '22nd',
    '101st',
    '111th',
  ])
})
