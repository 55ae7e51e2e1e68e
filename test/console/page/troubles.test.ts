import { test } from 'tap'
import type { Fitness } from '../../../src/console/page/components/health.ts'
import { fitnessOfEntries, fitnessOfModel, standingOf } from '../../../src/console/page/components/health.ts'
import { failingSince, sinceOf } from '../../../src/console/page/views/overview/history.ts'
import { kindRows, workSeries } from '../../../src/console/page/views/overview/kinds.ts'
import { rangeSteps } from '../../../src/console/page/views/overview/ranges.ts'
import { affectedWords, troublesIn } from '../../../src/console/page/views/overview/troubles.ts'
import type { BreakerAnswer, HealthAnswer, OverviewStep } from '../../../src/console/server/answers/health.ts'
import type { ProviderUse } from '../../../src/console/server/answers/providers.ts'
import type { UsageAnswer, UsageRow } from '../../../src/console/server/answers/usage.ts'

const STEP_MS = 5_000
const NOW = 1_800_000_000_000

/** Steps up to now, oldest first, each with failed and all calls of the provider; null: it was not called. */
function stepsWith(provider: string, each: readonly (readonly [failed: number, calls: number] | null)[]) {
  return each.map((one, at): OverviewStep => {
    const upstream =
      one === null ? [] : [{ provider, failed: one[0], calls: one[1], p50_ms: null, p95_ms: null }]
    return {
      at_ms: NOW - (each.length - 1 - at) * STEP_MS,
      step_ms: STEP_MS,
      requests: 1,
      client_errors: 0,
      server_errors: 0,
      added_p50_ms: null,
      added_p95_ms: null,
      upstream,
      memory_used_bytes: null,
      memory_limit_bytes: null,
    }
  })
}

const many = <Value>(count: number, value: Value): Value[] => Array.from({ length: count }, () => value)

test('since when a provider fails', async (t) => {
  const well = [0, 10] as const
  const ill = [5, 10] as const
  const since = (each: Parameters<typeof stepsWith>[1]) => {
    const found = failingSince(stepsWith('a', each), 'a')
    return found === null ? null : (NOW - found) / STEP_MS
  }
  t.equal(since([...many(20, well), ...many(4, ill)]), 4)
  t.equal(since([...many(20, well), ...many(4, ill), well, well, ill]), 7, 'one good moment is no end')
  t.equal(since([...many(3, ill), ...many(20, well), ...many(4, ill)]), 4, 'but two minutes are')
  t.equal(since([...many(3, ill), ...many(40, null), ill]), 44, 'without calls an end is not known')
  t.equal(since(many(30, well)), null)
  t.equal(since([...many(3, ill), ...many(80, well)]), null, 'it was over long ago')
  t.equal(since([]), null)
  t.equal(failingSince(stepsWith('b', many(9, ill)), 'a'), null)
  const breaker = { provider: 'a', since: new Date(NOW - 3_600_000).toISOString() } as BreakerAnswer
  t.equal(sinceOf(stepsWith('a', many(2, ill)), 'a', [breaker]), breaker.since, 'the earlier of the two')
  t.equal(sinceOf([], 'b', [breaker]), null)
})

test('a state in a word', async (t) => {
  const open = { state: 'open' } as BreakerAnswer
  const cooling = { state: 'cooling' } as BreakerAnswer
  const word = (calls: number, failed: number, ...breakers: BreakerAnswer[]) =>
    standingOf({ calls, failed, breakers, lastError: null, isDown: false, entries: null })[0]
  t.equal(word(100, 0), 'Up')
  t.equal(word(100, 2), 'Degraded')
  t.equal(word(100, 50), 'Down')
  t.equal(word(100, 0, cooling), 'Degraded')
  t.equal(word(100, 1, open), 'Degraded')
  t.equal(word(0, 0, open), 'Down')
  t.equal(word(0, 0), 'No calls')
  const dead: Fitness = {
    calls: 100,
    failed: 22,
    breakers: [open],
    lastError: null,
    isDown: true,
    entries: null,
  }
  t.same(standingOf(dead), ['Down', 'bad'], 'whatever share of five minutes that is')
  const entry = (calls: number, failed: number, ...breakers: BreakerAnswer[]): Fitness => ({
    ...{ calls, failed, breakers, lastError: null, isDown: false, entries: [] },
  })
  t.equal(standingOf(entry(100, 5, open))[0], 'Down', 'nothing is sent there any more')
  t.equal(standingOf(entry(100, 0, cooling))[0], 'Degraded')
  const [up, down, idle] = [entry(9, 0), entry(9, 9, open), entry(0, 0)]
  const ofRoute = (...entries: Fitness[]) => {
    const breakers = entries.flatMap((one) => one.breakers)
    const sum = (read: (one: Fitness) => number) => entries.reduce((total, one) => total + read(one), 0)
    const calls = sum((one) => one.calls)
    return standingOf({
      calls,
      failed: sum((one) => one.failed),
      breakers,
      lastError: null,
      isDown: false,
      entries,
    })
  }
  t.same(ofRoute(down, up), ['Degraded', 'bad'], 'the other entry serves')
  t.same(ofRoute(entry(100, 2), up), ['Degraded', 'warn'])
  t.same(ofRoute(down, down), ['Down', 'bad'])
  t.same(ofRoute(down), ['Down', 'bad'])
  t.same(ofRoute(up, idle), ['Up', 'ok'])
  t.same(ofRoute(idle, idle), ['No calls', 'neutral'])
})

test('a route is told of by its own entries', async (t) => {
  const models = [
    { model: 'a', calls: 10, failed: 10, p95_ms: null, last_error: null, is_down: true },
    { model: 'b', calls: 10, failed: 0, p95_ms: null, last_error: null, is_down: false },
  ]
  const at = { workspace: 'acme', since: null, last_error: null, state: 'open', provider: 'p' } as const
  const health: HealthAnswer = {
    now: new Date(NOW).toISOString(),
    window_ms: 300_000,
    providers: [
      { provider: 'p', calls: 20, failed: 10, p95_ms: null, last_error: null, is_down: false, models },
    ],
    breakers: [
      { ...at, route: 'one', model: 'a' },
      { ...at, route: 'two', model: 'b' },
    ],
  }
  const one = fitnessOfEntries(health, 'one', ['p/a', 'p/b', 'p/a'])
  t.match(one, { calls: 20, failed: 10, entries: { length: 2 }, breakers: [{ route: 'one' }] })
  t.equal(standingOf(one)[0], 'Degraded')
  t.equal(standingOf(fitnessOfEntries(health, 'two', ['p/b']))[0], 'Down')
  t.equal(standingOf(fitnessOfEntries(health, 'three', ['p/b']))[0], 'Up')
  t.same(standingOf(fitnessOfModel(health, 'p/b')), ['Degraded', 'bad'], 'one of its routes passes it over')
})

test('those that fail are told of, the worst first', async (t) => {
  const provider = (name: string, calls: number, failed: number) => ({
    provider: name,
    calls,
    failed,
    p95_ms: null,
    last_error: null,
    is_down: false,
    models: [],
  })
  const health: HealthAnswer = {
    now: new Date(NOW).toISOString(),
    window_ms: 300_000,
    providers: [provider('fine', 100, 0), provider('slow', 100, 2), provider('dead', 10, 10)],
    breakers: [],
  }
  t.match(troublesIn(health, stepsWith('dead', [[10, 10]])), [
    { provider: 'dead', standing: 'Down', since: new Date(NOW - STEP_MS).toISOString() },
    { provider: 'slow', standing: 'Degraded', since: null },
  ])
})

test('whom it hits is a sentence', async (t) => {
  const use = (route: string, others: number, apps: readonly string[]): ProviderUse => ({
    workspace: 'acme',
    route,
    models: ['m'],
    others,
    apps,
  })
  t.equal(
    affectedWords([use('acme.a', 0, ['web']), use('b', 1, ['web', 'lab'])], 2, false),
    'Affects 2 routes (acme.a, b) and 2 apps (web, lab). No fallback: acme.a.',
  )
  t.equal(affectedWords([use('b', 1, [])], 1, true), 'Affects 1 route (acme/b) and 0 apps.')
  const routes = Array.from({ length: 8 }, (_, at) => use(`r${at}`, 1, ['web']))
  t.match(
    affectedWords(routes, 40, false),
    /^Affects 40 routes \(r0, .*r5 and 34 more\) and 1 app \(web\)\.$/,
  )
})

test('errors of a time are the callers’ or ours, by their status', async (t) => {
  const answer = (data: readonly object[]) =>
    ({
      from: '2026-11-20T00:00:00.000Z',
      to: '2026-11-22T00:00:00.000Z',
      step: 'day',
      data,
    }) as unknown as UsageAnswer
  const time = (day: number) => `2026-11-${day}T00:00:00.000Z`
  const latency = { p50: 1, p95: 2, p99: 3 }
  const steps = rangeSteps({
    outcomes: answer([
      { time: time(20), outcome: 'ok', calls: 8, total_ms: latency, first_ms: null },
      { time: time(20), outcome: 'left', calls: 1, total_ms: null, first_ms: null },
      { time: time(20), outcome: 'error', calls: 6, total_ms: latency, first_ms: null },
    ]),
    failures: answer([
      { time: time(20), status: 502, calls: 1 },
      { time: time(20), status: 404, calls: 2 },
      { time: time(20), status: 200, calls: 3 },
    ]),
  })
  t.same(
    steps.requests.map(({ label, values }) => [label, values]),
    [
      ['Succeeded', [9, 0]],
      ['4xx', [2, 0]],
      ['5xx', [1, 0]],
      ['Broken off', [3, 0]],
    ],
  )
  t.same([steps.clientErrors, steps.serverErrors, steps.brokenOff], [2, 1, 3])
  t.same(steps.totalMs, [latency, null])
})

test('calls, jobs and live sessions are beside one another', async (t) => {
  const times = [Date.parse('2026-11-20T00:00:00.000Z'), Date.parse('2026-11-21T00:00:00.000Z')]
  const row = (day: number, kind: string, calls: number, errors: number): UsageRow => ({
    time: `2026-11-${day}T00:00:00.000Z`,
    kind,
    calls,
    errors,
    cost_usd: calls / 4,
    audio_seconds: 60 * calls,
    input_tokens: 0,
    output_tokens: 0,
    characters: 0,
    images: 0,
    total_ms: null,
    first_ms: null,
  })
  const data = [row(20, 'session', 1, 0), row(20, 'job', 4, 1), row(21, 'job', 2, 2), row(21, 'call', 8, 0)]
  t.match(kindRows(data), [
    { kind: 'call', records: 8, failed: 0, audioMinutes: 8, costUsd: 2 },
    { kind: 'job', label: 'Jobs', records: 6, failed: 3, audioMinutes: 6, costUsd: 1.5 },
    { kind: 'session', label: 'Live sessions', records: 1, failed: 0 },
  ])
  t.same(kindRows([]), [])
  const series = (of: readonly UsageRow[]) =>
    workSeries(of, times).map(({ label, values }) => [label, values])
  t.same(series(data), [
    ['Jobs', [3, 0]],
    ['Live sessions', [1, 0]],
    ['Failed', [1, 2]],
  ])
  t.same(series([row(21, 'call', 8, 8)]), [], 'calls have a chart of their own')
})
