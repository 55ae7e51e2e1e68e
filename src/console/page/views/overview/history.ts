import { useCallback, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { BreakerAnswer, OverviewAnswer, OverviewStep } from '../../../server/answers/health.ts'
import { type ApiError, api, toApiError } from '../../api.ts'
import { Chart } from '../../components/chart.ts'
import { tonesOf } from '../../components/tones.ts'
import { bytes, compact, milliseconds } from '../../format.ts'
import { h } from '../../h.ts'
import { type Load, useEvery } from '../../load.ts'
import { queryOf } from '../../paths.ts'

export const HISTORY_MS = 3_600_000
/** Nodes report a step at slightly different times, so the newest ones are requested again. */
const AGAIN_STEPS = 3
/** A failure within this time counts as current. */
const TROUBLE_MS = 300_000
/** A pause longer than so many steps interrupts the lines of a chart. */
const PAUSE_STEPS = 2.5

/** The time from which to request steps, given the known ones. */
export function newsSince(known: readonly OverviewStep[], nowMs: number): number {
  const start = nowMs - HISTORY_MS
  const last = known.at(-1)
  return last ? Math.max(start, last.at_ms - AGAIN_STEPS * last.step_ms) : start
}

/** An hour of steps, oldest first; of a step that is known already the newer words count. */
export function merged(
  known: readonly OverviewStep[],
  newer: readonly OverviewStep[],
  nowMs: number,
): readonly OverviewStep[] {
  const byTime = new Map([...known, ...newer].map((step) => [step.at_ms, step]))
  return [...byTime.values()]
    .filter(({ at_ms: atMs }) => atMs > nowMs - HISTORY_MS)
    .sort((one, other) => one.at_ms - other.at_ms)
}

/** One line of a chart: a value for each of the times, null where there is none. */
interface Line {
  readonly label: string
  readonly values: readonly (number | null)[]
}

/** Values over time, as charts and their tables show them. */
interface Plot {
  /** Epoch seconds. */
  readonly times: readonly number[]
  readonly lines: readonly Line[]
}

type Read = (step: OverviewStep) => number | null

/** The lines that `reads` draw of the steps, by their labels. */
export function plotOf(steps: readonly OverviewStep[], reads: Readonly<Record<string, Read>>): Plot {
  const whole = interrupted(steps)
  return {
    times: whole.map(({ atMs }) => atMs / 1000),
    lines: Object.entries(reads).map(([label, read]) => ({
      label,
      values: whole.map(({ step }) => (step === null ? null : read(step))),
    })),
  }
}

type Upstream = OverviewStep['upstream'][number]

/**
 * The providers that are drawn, by name: more lines than a few cannot be told apart. Those that fail now come before
 * those that failed within the hour, and these before the busiest, so that the one in trouble is never left out.
 */
export function drawnProviders(steps: readonly OverviewStep[], providersMax: number): readonly string[] {
  const now = (steps.at(-1)?.at_ms ?? 0) - TROUBLE_MS
  const weights = new Map<string, readonly [failedNow: number, failed: number, calls: number]>()
  for (const { at_ms: atMs, upstream } of steps)
    for (const { provider, calls, failed } of upstream) {
      const [failedNow, failedBefore, callsBefore] = weights.get(provider) ?? [0, 0, 0]
      weights.set(provider, [
        failedNow + (atMs > now ? failed : 0),
        failedBefore + failed,
        callsBefore + calls,
      ])
    }
  return [...weights]
    .sort(([, one], [, other]) => other[0] - one[0] || other[1] - one[1] || other[2] - one[2])
    .slice(0, providersMax)
    .map(([name]) => name)
    .sort()
}

/** Shares of failed calls of a step from which on it is one of trouble. */
const FAILING = 0.05
/** Trouble that comes back within this time has not been over. */
const RESPITE_MS = 60_000

/**
 * Since when a provider has been failing, epoch milliseconds: when the first step of the present trouble began. Null:
 * it is not failing, or was not called lately.
 */
export function failingSince(steps: readonly OverviewStep[], provider: string): number | null {
  let since: number | null = null
  const endMs = steps.at(-1)?.at_ms ?? 0
  for (const { at_ms: atMs, step_ms: stepMs, upstream } of steps.toReversed()) {
    const one = upstream.find((other) => other.provider === provider)
    const isFailing = one !== undefined && one.failed > 0 && one.failed / one.calls >= FAILING
    if (isFailing) since = atMs - stepMs
    else if ((since ?? endMs) - atMs > (since === null ? TROUBLE_MS : RESPITE_MS)) {
      // A time without calls says nothing.
      if (one !== undefined || since === null) break
    }
  }
  return since
}

/**
 * When the present trouble of a provider began, by its calls and its breakers; null: there is none, or it is not known.
 */
export function sinceOf(
  steps: readonly OverviewStep[],
  provider: string,
  breakers: readonly BreakerAnswer[],
): string | null {
  const failing = failingSince(steps, provider)
  const known = [
    ...(failing === null ? [] : [new Date(failing).toISOString()]),
    ...breakers.filter((one) => one.provider === provider).flatMap(({ since }) => since ?? []),
  ]
  return known.sort()[0] ?? null
}

/** Reads the figures of each provider, by its name. */
export function upstreamReads(
  providers: readonly string[],
  read: (upstream: Upstream, step: OverviewStep) => number | null,
): Record<string, Read> {
  return Object.fromEntries(
    providers.map((name) => [
      name,
      (step: OverviewStep) => {
        const own = step.upstream.find(({ provider }) => provider === name)
        return own === undefined ? null : read(own, step)
      },
    ]),
  )
}

/** Sums the last `spanMs` before the newest step. */
export function recent(steps: readonly OverviewStep[], spanMs: number) {
  const endMs = steps.at(-1)?.at_ms ?? 0
  const some = steps.filter(({ at_ms: atMs }) => atMs > endMs - spanMs)
  const sum = (read: (step: OverviewStep) => number) => some.reduce((total, step) => total + read(step), 0)
  const requests = sum((one) => one.requests)
  const ms = sum((one) => one.step_ms)
  const share = (errors: number) => (requests === 0 ? null : errors / requests)
  return {
    perSecond: ms === 0 ? null : (requests * 1000) / ms,
    /** Null: there was no request. */
    clientErrorShare: share(sum((one) => one.client_errors)),
    serverErrorShare: share(sum((one) => one.server_errors)),
  }
}

/** The newest value that there is. */
export function newest(steps: readonly OverviewStep[], read: Read): number | null {
  for (let index = steps.length - 1; index >= 0; index--) {
    const step = steps[index]
    const value = step ? read(step) : null
    if (value !== null) return value
  }
  return null
}

function interrupted(steps: readonly OverviewStep[]) {
  const whole: { atMs: number; step: OverviewStep | null }[] = []
  for (const step of steps) {
    const before = whole.at(-1)
    if (before && step.at_ms - before.atMs > PAUSE_STEPS * step.step_ms)
      whole.push({ atMs: before.atMs + step.step_ms, step: null })
    whole.push({ atMs: step.at_ms, step })
  }
  return whole
}

const EVERY_MS = 5_000
/** Charts have no more points than that to draw an hour with; the server puts old steps together by so many. */
const OLD_STEP_MS = 30_000

/** Steps put together as old ones are: where they are shorter, lines would be rougher. The last may be shorter. */
export function evened(steps: readonly OverviewStep[]): readonly OverviewStep[] {
  const together = Map.groupBy(steps, ({ at_ms: atMs }) => Math.ceil(atMs / OLD_STEP_MS))
  return [...together.values()].map((some) => (some.length === 1 ? some[0]! : joinedSteps(some)))
}

function joinedSteps(steps: readonly OverviewStep[]): OverviewStep {
  const sum = (read: (step: OverviewStep) => number) => steps.reduce((total, step) => total + read(step), 0)
  const upstream = Map.groupBy(
    steps.flatMap((step) => step.upstream),
    ({ provider }) => provider,
  )
  return {
    ...steps.at(-1)!,
    step_ms: sum((step) => step.step_ms),
    requests: sum((step) => step.requests),
    client_errors: sum((step) => step.client_errors),
    server_errors: sum((step) => step.server_errors),
    added_p50_ms: mean(steps.map((step) => [step.added_p50_ms, step.requests])),
    added_p95_ms: mean(steps.map((step) => [step.added_p95_ms, step.requests])),
    upstream: [...upstream].map(([provider, own]) => ({
      provider,
      calls: own.reduce((total, { calls }) => total + calls, 0),
      failed: own.reduce((total, { failed }) => total + failed, 0),
      p50_ms: mean(own.map((one) => [one.p50_ms, one.calls - one.failed])),
      p95_ms: mean(own.map((one) => [one.p95_ms, one.calls - one.failed])),
    })),
  }
}

/** Weighted, as the server puts nodes together; null: no value is known. */
function mean(values: readonly (readonly [value: number | null, weight: number])[]): number | null {
  let [total, weights] = [0, 0]
  for (const [value, weight] of values) {
    if (value === null) continue
    total += value * Math.max(weight, 1)
    weights += Math.max(weight, 1)
  }
  return weights === 0 ? null : total / weights
}

/** The newest answer, with an hour of steps. */
export interface Seen {
  readonly answer: OverviewAnswer
  readonly steps: readonly OverviewStep[]
}

/** Loads the figures every 5 s while the tab is visible: an hour at first, then only new steps. */
export function useLive(workspace: string | null): Load<Seen> {
  const [seen, setSeen] = useState<Seen | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [busy, setBusy] = useState(true)
  const abort = useRef<AbortController | null>(null)
  const latest = useRef<Seen | null>(null)

  const load = useCallback(async () => {
    // A server that is slower than the clock is not asked twice.
    if (abort.current) return
    const mine = new AbortController()
    abort.current = mine
    setBusy(true)
    const known = latest.current?.steps ?? []
    try {
      const since = newsSince(known, nowOf(latest.current))
      const path = `/overview${queryOf({ workspace, since: Math.floor(since), old_step_ms: OLD_STEP_MS })}`
      const answer = await api.get<OverviewAnswer>(path, { signal: mine.signal })
      latest.current = { answer, steps: merged(known, answer.steps, Date.parse(answer.now)) }
      setSeen(latest.current)
      setError(null)
    } catch (thrown) {
      if (mine.signal.aborted) return
      setError(toApiError(thrown))
    } finally {
      if (abort.current === mine) abort.current = null
      if (!mine.signal.aborted) setBusy(false)
    }
  }, [workspace])

  useLayoutEffect(() => {
    void load()
    return () => {
      abort.current?.abort()
      abort.current = null
      latest.current = null
      setSeen(null)
    }
  }, [load])
  useEvery(EVERY_MS, load)

  const common = { reload: load, set: setSeen, busy }
  if (seen) return { ...common, state: 'ready', value: seen, error }
  if (error) return { ...common, state: 'failed', value: null, error }
  return { ...common, state: 'loading', value: null, error: null }
}

/** By the clock of the server, which may not be this one: the first time, more than an hour is asked for. */
function nowOf(seen: Seen | null): number {
  return seen ? Date.parse(seen.answer.now) : Date.now() - HISTORY_MS
}

const PROVIDERS_MAX = 6
/** So that noise of microseconds does not fill the chart. */
const LATENCY_TOP_MS = 5

const perSecond = (count: number, { step_ms: stepMs }: OverviewStep) => (count * 1000) / stepMs

/** An hour of each number that changes. */
export function Charts(props: {
  readonly steps: readonly OverviewStep[]
  readonly nodes: boolean
  /** A click on calls opens what was at a moment, epoch seconds. */
  readonly onOpen?: (seconds: number) => void
}) {
  const { steps, nodes, onOpen } = props
  const plots = useMemo(() => plotsOf(evened(steps)), [steps])
  const limit = steps.at(-1)?.memory_limit_bytes ?? 0
  const { providers } = plots
  return h(
    'div',
    { class: 'overview-charts' },
    h(Chart, {
      title: 'Requests',
      unit: 'per second',
      data: plots.requests,
      tones: [1, 2, 'bad'],
      format: rate,
      onOpen,
    }),
    h(Chart, {
      title: 'Gateway overhead',
      unit: 'per request',
      data: plots.added,
      format: milliseconds,
      top: LATENCY_TOP_MS,
    }),
    providers.length === 0 ? null : h(ProviderCharts, { plots, onOpen }),
    nodes
      ? h(Chart, {
          title: 'Memory budget',
          unit: limit > 0 ? `of ${bytes(limit)}` : undefined,
          data: plots.memory,
          tones: [3],
          format: bytes,
          binary: true,
          top: limit,
        })
      : null,
  )
}

function ProviderCharts(props: {
  readonly plots: ReturnType<typeof plotsOf>
  readonly onOpen: ((seconds: number) => void) | undefined
}) {
  const { plots, onOpen } = props
  const { providers, providerCount, tones } = plots
  const some = providerCount > providers.length ? `, ${providers.length} of ${providerCount} providers` : ''
  const perSecondOf = { unit: `per second${some}`, tones, format: rate }
  return [
    h(Chart, {
      title: 'Provider latency',
      unit: `p95 of answered calls${some}`,
      data: plots.latency,
      tones,
      format: milliseconds,
    }),
    h(Chart, { ...perSecondOf, title: 'Provider calls', data: plots.calls }),
    h(Chart, { ...perSecondOf, title: 'Failed provider calls', data: plots.failed, onOpen }),
  ]
}

function plotsOf(steps: readonly OverviewStep[]) {
  const providers = drawnProviders(steps, PROVIDERS_MAX)
  return {
    providers,
    providerCount: drawnProviders(steps, Infinity).length,
    tones: tonesOf(providers),
    requests: plotOf(steps, {
      requests: (step) => perSecond(step.requests, step),
      '4xx': (step) => perSecond(step.client_errors, step),
      '5xx': (step) => perSecond(step.server_errors, step),
    }),
    added: plotOf(steps, { p50: (step) => step.added_p50_ms, p95: (step) => step.added_p95_ms }),
    latency: plotOf(
      steps,
      upstreamReads(providers, ({ p95_ms }) => p95_ms),
    ),
    calls: plotOf(
      steps,
      upstreamReads(providers, ({ calls }, step) => perSecond(calls, step)),
    ),
    failed: plotOf(
      steps,
      upstreamReads(providers, ({ failed }, step) => perSecond(failed, step)),
    ),
    memory: plotOf(steps, { used: (step) => step.memory_used_bytes }),
  }
}

/** Requests per second: 0.05, 12.3, 1.23k. */
export function rate(value: number): string {
  return value > 0 && value < 0.005 ? '< 0.01' : compact(Number(value.toFixed(2)))
}
