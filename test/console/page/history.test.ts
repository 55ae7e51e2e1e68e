import { test } from 'tap'
import { TONES, tonesOf } from '../../../src/console/page/components/tones.ts'
import {
  drawnProviders,
  evened,
  HISTORY_MS,
  merged,
  newest,
  newsSince,
  plotOf,
  recent,
  upstreamReads,
} from '../../../src/console/page/views/overview/history.ts'

import type { OverviewStep } from '../../../src/console/server/answers/health.ts'

const STEP_MS = 5_000
const NOW = 1_800_000_000_000

function step(atMs: number, more: Partial<OverviewStep> = {}): OverviewStep {
  return {
    at_ms: atMs,
    step_ms: STEP_MS,
    requests: 10,
    client_errors: 0,
    server_errors: 0,
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
  t.equal(newsSince([], NOW), NOW - HISTORY_MS)
  t.equal(newsSince([step(NOW - 5_000)], NOW), NOW - 20_000)
  t.equal(newsSince([step(NOW - 2 * HISTORY_MS)], NOW), NOW - HISTORY_MS, 'after a night in another tab')
})

test('charts have steps of one length, however long they come', async (t) => {
  const upstream = (calls: number, failed: number, p95_ms: number | null) => [
    { provider: 'one', calls, failed, p50_ms: null, p95_ms },
  ]
  const old = step(NOW, { step_ms: 30_000, upstream: upstream(9, 1, 50) })
  const steps = evened([
    old,
    step(NOW + 5_000, { requests: 30, added_p50_ms: 2, upstream: upstream(4, 1, 100) }),
    step(NOW + 10_000, { requests: 10, added_p50_ms: 6, server_errors: 2, upstream: upstream(1, 0, 20) }),
    step(NOW + 30_000, { added_p50_ms: null, memory_used_bytes: 7, upstream: upstream(1, 1, null) }),
    step(NOW + 35_000),
  ])
  t.equal(steps[0], old)
  t.match(steps[1], {
    ...{ at_ms: NOW + 30_000, step_ms: 15_000, requests: 50, server_errors: 2, memory_used_bytes: 7 },
    ...{ added_p50_ms: 3, upstream: [{ provider: 'one', calls: 6, failed: 2, p50_ms: null, p95_ms: 80 }] },
  })
  t.same([steps.length, steps[2]?.at_ms], [3, NOW + 35_000], 'the newest are shown at once')
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

const of = (provider: string, calls: number, failed = 0) => ({
  ...{ provider, calls, failed },
  ...{ p50_ms: 1, p95_ms: calls },
})

test('the busiest providers have lines, in the order of their names', async (t) => {
  const steps = [
    step(NOW, { upstream: [of('a', 1), of('b', 5)] }),
    step(NOW + STEP_MS, { upstream: [of('c', 3), of('a', 9)] }),
  ]
  const providers = drawnProviders(steps, 2)
  t.same(
    plotOf(
      steps,
      upstreamReads(providers, ({ p95_ms }) => p95_ms),
    ).lines,
    [
      { label: 'a', values: [1, 9] },
      { label: 'b', values: [5, null] },
    ],
  )
})

test('a provider that fails is drawn, however little it is called', async (t) => {
  const busy = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => of(name, 1_000))
  const early = step(NOW - 600_000, { upstream: [of('was-failing', 2, 2)] })
  const steps = [early, step(NOW, { upstream: [...busy, of('failing', 3, 1)] })]
  const drawn = drawnProviders(steps, 6)
  t.ok(drawn.includes('failing'))
  t.ok(drawn.includes('was-failing'))
  t.equal(drawn.length, 6)
  t.same(drawnProviders([early, step(NOW, { upstream: [...busy, of('z', 1, 9)] })], 1), ['z'], 'of now first')
})

test('a name keeps its tone, whatever is drawn beside it', async (t) => {
  const known = new Map<string, number>()
  const [whisperfarm, voxcloud] = tonesOf(['whisperfarm', 'voxcloud'], known)
  t.not(whisperfarm, voxcloud)
  t.same(
    tonesOf(['voxcloud', 'another', 'whisperfarm'], known).filter((_, at) => at !== 1),
    [voxcloud, whisperfarm],
  )
  t.same(tonesOf(['voxcloud', 'whisperfarm'], new Map()), [voxcloud, whisperfarm], 'also after a reload')
  const many = Array.from({ length: TONES }, (_, at) => `provider-${at}`)
  t.equal(new Set(tonesOf(many, new Map())).size, TONES, 'each its own while there are enough')
  t.ok(tonesOf([...many, 'one more'], new Map()).every((tone) => tone >= 1 && tone <= TONES))
})

test('rates are of what happened, and of nothing there is none', async (t) => {
  const steps = [
    step(NOW, { requests: 1000, client_errors: 1000 }),
    step(NOW + 60_000, { requests: 20, client_errors: 5, server_errors: 1 }),
  ]
  t.same(recent(steps, 60_000), { perSecond: 4, clientErrorShare: 0.25, serverErrorShare: 0.05 })
  t.same(recent([step(NOW, { requests: 0 })], 60_000), {
    perSecond: 0,
    clientErrorShare: null,
    serverErrorShare: null,
  })
  t.same(recent([], 60_000), { perSecond: null, clientErrorShare: null, serverErrorShare: null })
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
