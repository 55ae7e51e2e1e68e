import { test } from 'tap'
import type { OverviewStep } from '../../../../src/routes/console/api/answers.ts'
import {
  HISTORY_MS,
  merged,
  newest,
  plotOf,
  recent,
  sinceOf,
  upstreamReads,
} from '../../../../src/routes/console/page/views/overview/history.ts'

const STEP_MS = 5_000
const NOW = 1_800_000_000_000

function step(atMs: number, more: Partial<OverviewStep> = {}): OverviewStep {
  return {
    at_ms: atMs,
    step_ms: STEP_MS,
    requests: 10,
    errors: 0,
    added_p50_ms: 1,
    added_p95_ms: 4,
    upstream: [],
    memory_used_bytes: null,
    memory_limit_bytes: null,
    ...more,
  }
}

test('an hour is kept, and the newer words count', async (t) => {
  const known = [step(NOW - HISTORY_MS - 1), step(NOW - 10_000), step(NOW - 5_000, { requests: 3 })]
  const steps = merged(known, [step(NOW, { requests: 7 }), step(NOW - 5_000, { requests: 12 })], NOW)
  t.same(
    steps.map(({ at_ms: atMs, requests }) => [NOW - atMs, requests]),
    [
      [10_000, 10],
      [5_000, 12],
      [0, 7],
    ],
  )
})

test('only what is new is asked for, and the newest steps again', async (t) => {
  t.equal(sinceOf([], NOW), NOW - HISTORY_MS)
  t.equal(sinceOf([step(NOW - 5_000)], NOW), NOW - 20_000)
  t.equal(sinceOf([step(NOW - 2 * HISTORY_MS)], NOW), NOW - HISTORY_MS, 'after a night in another tab')
})

test('a pause interrupts the lines', async (t) => {
  const steps = [step(NOW), step(NOW + STEP_MS), step(NOW + 20 * STEP_MS)]
  const { times, lines } = plotOf(steps, { requests: ({ requests }) => requests })
  t.same(
    times.map((time) => time - NOW / 1000),
    [0, 5, 10, 100],
  )
  t.same(lines, [{ label: 'requests', values: [10, 10, null, 10] }])
})

test('the busiest providers have lines', async (t) => {
  const of = (provider: string, calls: number) => ({ provider, calls, failed: 0, p50_ms: 1, p95_ms: calls })
  const steps = [
    step(NOW, { upstream: [of('a', 1), of('b', 5)] }),
    step(NOW + STEP_MS, { upstream: [of('c', 3), of('a', 9)] }),
  ]
  t.same(plotOf(steps, upstreamReads(steps, 2)).lines, [
    { label: 'a', values: [1, 9] },
    { label: 'b', values: [5, null] },
  ])
})

test('rates are of what happened, and of nothing there is none', async (t) => {
  const steps = [step(NOW, { requests: 1000, errors: 1000 }), step(NOW + 60_000, { requests: 20, errors: 5 })]
  t.same(recent(steps, 60_000), { perSecond: 4, errorShare: 0.25 })
  t.same(recent([step(NOW, { requests: 0 })], 60_000), { perSecond: 0, errorShare: null })
  t.same(recent([], 60_000), { perSecond: null, errorShare: null })
  t.equal(
    newest(
      [step(NOW, { added_p50_ms: 7 }), step(NOW + 1, { added_p50_ms: null })],
      (one) => one.added_p50_ms,
    ),
    7,
  )
  t.equal(
    newest([], (one) => one.added_p50_ms),
    null,
  )
})
