import { test } from 'tap'
import { marksOf, topOf } from '../../../src/console/page/components/bars.ts'
import {
  judgeDates,
  rangeBefore,
  rangeIn,
  rangeOf,
  spanOf,
  stepsIn,
  timeText,
} from '../../../src/console/page/components/range.ts'
import { fillsOf } from '../../../src/console/page/components/tones.ts'
import { formatCount } from '../../../src/console/page/format.ts'
import { chartOf, groupRows } from '../../../src/console/page/views/usage/answer.ts'
import {
  drilled,
  isApplied,
  isGrouping,
  MEASURES,
  money,
  questionPath,
  requestsQuery,
  requestsWords,
  stateOf,
  usageAddress,
  without,
} from '../../../src/console/page/views/usage/question.ts'
import type { UsageAnswer, UsageSums } from '../../../src/console/server/answers/usage.ts'

const NOW = Date.parse('2026-11-22T09:30:00Z')
const state = (address: string, workspace: string | null = 'acme') =>
  stateOf(new URLSearchParams(address), workspace, NOW)

test('the address keeps the whole state', async (t) => {
  for (const address of [
    '?range=30d&by=model',
    '?range=24h&by=app&show=errors&provider=openai',
    '?from=2026-11-01&to=2026-11-04&by=key_id&show=audio&model=%7Enone&app=web',
    '?range=today&by=model&and=app',
    '?from=2026-11-01T10%3A00Z&to=2026-11-01T11%3A00Z&by=status',
  ])
    t.equal(usageAddress(state(address)), address, address)
  t.equal(usageAddress(state('?by=colour&show=much&range=1y&from=x&to=y')), '?range=30d&by=model')
  t.equal(usageAddress(state('?by=workspace&workspace=other')), '?range=30d&by=model', 'one workspace is one')
  for (const second of ['model', 'end_user', 'workspace', 'colour'])
    t.equal(
      usageAddress(state(`?by=model&and=${second}`)),
      '?range=30d&by=model',
      `no table of model and ${second}`,
    )
  t.equal(usageAddress(state('?by=workspace&and=end_user', null)), '?range=30d&by=workspace&and=end_user')
  t.equal(usageAddress(state('', null)), '?range=30d&by=workspace')
})

test('filters that end users do not know are kept, and not applied', async (t) => {
  const users = state('?by=end_user&app=web')
  t.equal(usageAddress(users), '?range=30d&by=end_user&app=web')
  const asked = (one: typeof users) => questionPath(one, 'acme', { step: 'none', by: [one.by] })
  t.notMatch(asked(users), /app=/)
  t.match(asked({ ...users, by: 'model' }), /app=web/, 'applied again by the next grouping')
  t.same(
    users.filters.map((filter) => [isApplied(users, filter), isApplied({ ...users, by: 'app' }, filter)]),
    [[false, true]],
  )
  t.notMatch(requestsQuery(users), /app=/, 'the requests that were counted')
})

test('of one end user there are no groups of anything else', async (t) => {
  const one = state('?by=model&end_user=ann&app=web')
  t.equal(usageAddress(one), '?range=30d&by=end_user&app=web&end_user=ann')
  t.notOk(isGrouping('model', one))
  t.ok(isGrouping('end_user', one))
  t.ok(isGrouping('model', without(one, 'end_user')))
  t.equal(drilled(state('?by=workspace&end_user=ann', null), ['acme']).by, 'end_user')
})

test('a group that is chosen is a filter, and what comes next is the grouping', async (t) => {
  const first = drilled(state('?by=provider'), ['openai'])
  t.equal(usageAddress(first), '?range=30d&by=model&provider=openai')
  const second = drilled(first, ['gpt-4o'])
  t.equal(usageAddress(second), '?range=30d&by=app&provider=openai&model=gpt-4o')
  t.equal(
    usageAddress(drilled(second, [null])),
    '?range=30d&by=key_id&provider=openai&model=gpt-4o&app=%7Enone',
  )
  t.equal(usageAddress(without(second, 'provider')), '?range=30d&by=app&model=gpt-4o')
  t.equal(
    usageAddress(drilled(state('?by=provider&and=app'), ['openai', 'web'])),
    '?range=30d&by=model&provider=openai&app=web',
  )
  t.equal(usageAddress(drilled(state('?by=end_user'), ['ann'])), '?range=30d&by=end_user&end_user=ann')
})

test('questions are as the API takes them', async (t) => {
  const path = questionPath(state('?range=7d&by=app&model=%7Enone&show=calls'), 'acme', {
    step: 'day',
    by: ['app'],
    limit: 6,
  })
  t.equal(
    path,
    '/usage?from=2026-11-16&to=2026-11-22T10%3A00Z&step=day&sort=calls&by=app&limit=6&workspace=acme&model=',
  )
  const users = questionPath(state('?range=24h&by=end_user'), 'acme', { step: 'hour', by: ['end_user'] })
  t.match(users, /step=day/, 'users are counted by day')
})

test('the request log is asked for the same', async (t) => {
  const address = requestsQuery(state('?range=24h&show=errors&provider=openai&model=%7Enone&region=eu'))
  t.equal(
    address,
    '?tab=log&from=2026-11-21T10%3A00%3A00.000Z&to=2026-11-22T10%3A00%3A00.000Z' +
      '&playground=true&outcome=error&provider=openai&model=%7Enone',
  )
  t.match(requestsQuery(state('?status=%7Enone')), /&playground=true&kind=job$/, 'jobs alone have no status')
  t.match(requestsQuery(state('?status=502')), /&playground=true&status=502$/)
  t.equal(requestsWords(state('?provider=openai')), 'View requests')
  t.equal(requestsWords(state('?region=eu')), 'View requests of all regions')
})

test('ranges are whole hours and days', async (t) => {
  t.same(spanOf('24h', NOW), {
    name: '24h',
    fromMs: Date.parse('2026-11-21T10:00:00Z'),
    toMs: Date.parse('2026-11-22T10:00:00Z'),
    step: 'hour',
  })
  t.equal(stepsIn(spanOf('24h', NOW)).length, 24)
  const calendar = ['yesterday', 'month', 'last-month'] as const
  const days = (now: string) =>
    calendar.map((name) => {
      const { fromMs, toMs, step } = rangeIn(new URLSearchParams({ range: name }), '30d', Date.parse(now))
      return `${timeText(fromMs)} ${timeText(toMs)} ${step}`
    })
  t.same(days('2027-01-01T00:30:00Z'), [
    '2026-12-31 2027-01-01 hour',
    '2027-01-01 2027-01-02 day',
    '2026-12-01 2027-01-01 day',
  ])
  t.equal(stepsIn(spanOf('30d', NOW)).length, 30)
  t.equal(timeText(spanOf('30d', NOW).fromMs), '2026-10-24')
  const day = rangeIn(new URLSearchParams('from=2026-11-01&to=2026-11-02'), '30d', NOW)
  t.match(day, { name: 'custom', step: 'hour' })
  t.match(rangeIn(new URLSearchParams('from=2026-11-02&to=2026-11-01'), '30d', NOW), { name: '30d' })
})

test('dates are applied once both are whole and in order', async (t) => {
  const judge = (from: string, to: string, mayBeOpen = false) => judgeDates({ from, to }, mayBeOpen)
  t.equal(judge('2026-11-10', '2026-11-10'), 'apply')
  t.equal(judge('2026-11-10', '2026-11-02'), 'reversed')
  for (const year of ['', '0002', '0202']) t.equal(judge(`${year}-11-10`, '2026-11-20'), 'wait', year)
  t.equal(judge('2026-11-10', ''), 'wait')
  t.equal(judge('2026-11-10', '', true), 'apply')
  t.equal(judge('2026-11-10T10:00', '2026-11-10T09:59', true), 'reversed')
  const range = spanOf('7d', NOW)
  t.match(rangeOf(range, { from: '2026-11-20' }), { name: 'custom', toMs: range.toMs })
  t.match(rangeOf(range, { to: '2026-11-20' }), {
    fromMs: range.fromMs,
    toMs: Date.parse('2026-11-21T00:00Z'),
  })
})

const sums = (calls: number, cost: number): UsageSums => ({
  calls,
  errors: 1,
  cost_usd: cost,
  audio_seconds: 60,
  input_tokens: 1,
  output_tokens: 2,
  characters: 0,
  images: 0,
  total_ms: null,
  first_ms: null,
})

const answer = (data: UsageAnswer['data'], more: Partial<UsageAnswer> = {}): UsageAnswer => ({
  from: '2026-11-20T00:00:00.000Z',
  to: '2026-11-22T10:00:00.000Z',
  step: 'day',
  complete_until: '2026-11-22T09:28:00.000Z',
  groups: data.length,
  truncated: false,
  is_recorded: true,
  names: { key_1: 'phone' },
  data,
  total: sums(10, 4),
  ...more,
})

test('a table has the groups, the others and the total', async (t) => {
  const table = answer(
    [
      { key_id: 'key_1', ...sums(2, 1) },
      { key_id: null, ...sums(5, 2) },
    ],
    { groups: 4 },
  )
  const before = answer([{ key_id: 'key_1', ...sums(2, 3) }], { total: sums(4, 5) })
  t.match(groupRows({ table, before }, ['key_id'], MEASURES.cost), [
    { kind: 'group', labels: ['None'], values: [null], share: 0.5, before: 0 },
    { kind: 'group', labels: ['phone'], values: ['key_1'], share: 0.25, before: 3 },
    { kind: 'others', labels: ['2 others'], sums: { calls: 3, cost_usd: 1 }, share: 0.25, before: 2 },
    { kind: 'total', sums: { calls: 10 }, share: 1, before: 5 },
  ])
  const cut = groupRows({ table, before: { ...before, truncated: true } }, ['key_id'], MEASURES.cost)
  t.same(
    cut.map((row) => row.before),
    [null, 3, null, 5],
    'groups that were not listed are not known',
  )
  t.same(
    groupRows({ table, before: null }, ['key_id'], MEASURES.cost).map((row) => row.before),
    [null, null, null, null],
  )
  const none = answer([], { total: sums(0, 0) })
  t.match(groupRows({ table: none, before: null }, ['model'], MEASURES.cost), [
    { kind: 'total', share: null },
  ])
  const pairs = answer([{ key_id: 'key_1', model: 'lark', ...sums(10, 4) }])
  t.match(groupRows({ table: pairs, before: pairs }, ['key_id', 'model'], MEASURES.calls), [
    { labels: ['phone', 'lark'], values: ['key_1', 'lark'], share: 1, before: 10 },
    { kind: 'total', before: 10 },
  ])
})

test('a time is compared with as much of the time before', async (t) => {
  const before = (address: string) => {
    const range = rangeBefore(state(address).range, NOW)
    return range && [range.fromMs, range.toMs].map((ms) => new Date(ms).toISOString().slice(0, 13))
  }
  t.same(before('?range=today'), ['2026-11-21T00', '2026-11-21T10'])
  t.same(before('?range=24h'), ['2026-11-20T10', '2026-11-21T10'])
  t.same(before('?range=month'), ['2026-10-01T00', '2026-10-22T10'])
  t.same(before('?range=last-month'), ['2026-09-01T00', '2026-10-01T00'], 'the whole of the shorter month')
  t.same(before('?from=2026-11-01&to=2026-11-04'), ['2026-10-29T00', '2026-11-01T00'])
  t.equal(before('?from=2027-01-01&to=2027-02-01'), null, 'nothing of it has passed')
})

test('a chart has each step, the largest groups, and the others', async (t) => {
  const time = (day: number) => `2026-11-${day}T00:00:00.000Z`
  const parts = answer(
    [
      { time: time(20), model: 'a', ...sums(1, 1) },
      { time: time(22), model: 'a', ...sums(2, 2) },
      { time: time(22), model: 'b', ...sums(1, 1) },
    ],
    { groups: 5 },
  )
  const whole = answer([
    { time: time(20), ...sums(1, 1) },
    { time: time(22), ...sums(7, 5) },
  ])
  const chart = chartOf({ parts, whole }, 'model', MEASURES.cost)
  t.equal(chart.times.length, 3)
  t.same(
    chart.series.map(({ label, values }) => [label, values]),
    [
      ['a', [1, 0, 2]],
      ['b', [0, 0, 1]],
      ['Others', [0, 0, 2]],
    ],
  )
  const all = chartOf({ parts: { ...parts, groups: 2 }, whole }, 'model', MEASURES.cost)
  t.equal(all.series.length, 2, 'without others there is no line of them')
})

test('no two neighbouring areas have one colour, and a name keeps its own', async (t) => {
  const known = new Map<string, number>()
  const names = ['a', 'b', 'c', 'd', 'e', 'f']
  const first = fillsOf(names, known)
  t.equal(new Set(first).size, 6)
  t.same(fillsOf(names.toReversed(), known), first.toReversed())
  const others = fillsOf(['a', 'x', 'y'], known)
  t.equal(others[0], first[0])
  t.equal(new Set(others).size, 3)
})

test('a scale says no number twice', async (t) => {
  const marks = (top: number, format: (value: number) => string) =>
    marksOf(top, format).map(([, mark]) => mark)
  t.same(marks(1, formatCount), ['1', '0'], 'nothing was counted')
  t.same(marks(2, formatCount), ['2', '1', '0'])
  t.same(marks(1, money), ['$1', '$0.50', '$0'])
})

test('scales end at a round number, and small amounts are not nothing', async (t) => {
  for (const [most, top] of [
    [0, 1],
    [0.22, 0.24],
    [0.034, 0.04],
    [1, 2],
    [5, 6],
    [7.2, 8],
    [99, 100],
    [101, 120],
  ] as const)
    t.ok(Math.abs(topOf([0, most]) - top) < 1e-9, `${most}: ${topOf([most])}`)
  t.equal(money(0), '$0.00')
  t.equal(money(0.0004), '< $0.01')
  t.equal(money(12.345), '$12.35')
  t.equal(money(1_234_567), '$1.23M')
})
