import { test } from 'tap'
import { standingOf } from '../../../src/console/page/components/health.ts'
import { failingSince, sinceOf } from '../../../src/console/page/views/overview/history.ts'
import { stepsOf } from '../../../src/console/page/views/overview/ranges.ts'
import { affectedWords, troublesIn } from '../../../src/console/page/views/overview/troubles.ts'
import type {
  BreakerAnswer,
  HealthAnswer,
  OverviewStep,
  ProviderUse,
  UsageAnswer,
} from '../../../src/console/server/api/answers.ts'

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
  t.equal(since([...many(3, ill), ...many(40, null), ill]), 44, 'without calls nobody knows of an end')
  t.equal(since(many(30, well)), null)
  t.equal(since([...many(3, ill), ...many(80, well)]), null, 'it was over long ago')
  t.equal(since([]), null)
  t.equal(failingSince(stepsWith('b', many(9, ill)), 'a'), null)
  const breaker = { provider: 'a', since: new Date(NOW - 3_600_000).toISOString() } as BreakerAnswer
  t.equal(sinceOf(stepsWith('a', many(2, ill)), 'a', [breaker]), breaker.since, 'the earlier of the two')
  t.equal(sinceOf([], 'b', [breaker]), null)
})

test('the state of a provider in a word', async (t) => {
  const open = { state: 'open' } as BreakerAnswer
  const cooling = { state: 'cooling' } as BreakerAnswer
  const word = (calls: number, failed: number, ...breakers: BreakerAnswer[]) =>
    standingOf({ calls, failed, breakers, lastError: null })[0]
  t.equal(word(100, 0), 'Up')
  t.equal(word(100, 2), 'Degraded')
  t.equal(word(100, 50), 'Down')
  t.equal(word(100, 0, cooling), 'Degraded')
  t.equal(word(100, 1, open), 'Degraded')
  t.equal(word(0, 0, open), 'Down')
  t.equal(word(0, 0), 'No calls')
})

test('those that fail are told of, the worst first', async (t) => {
  const provider = (name: string, calls: number, failed: number) => ({
    provider: name,
    calls,
    failed,
    p95_ms: null,
    last_error: null,
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
  const steps = stepsOf({
    outcomes: answer([
      { time: time(20), outcome: 'ok', calls: 8, total_ms: latency, first_ms: null },
      { time: time(20), outcome: 'left', calls: 1, total_ms: null, first_ms: null },
      { time: time(20), outcome: 'error', calls: 3, total_ms: latency, first_ms: null },
    ]),
    failures: answer([
      { time: time(20), status: '502', calls: 1 },
      { time: time(20), status: '404', calls: 2 },
    ]),
  })
  t.same(
    steps.requests.map(({ label, values }) => [label, values]),
    [
      ['Succeeded', [9, 0]],
      ['4xx', [2, 0]],
      ['5xx', [1, 0]],
    ],
  )
  t.same([steps.clientErrors, steps.serverErrors], [2, 1])
  t.same(steps.totalMs, [latency, null])
})
