import type { OverviewStep } from '../../../api/answers.ts'

export const HISTORY_MS = 3_600_000
/** Nodes report a step at slightly different times, so that the newest ones are asked for again. */
const AGAIN_STEPS = 3
/** What failed within this is trouble of now. */
const TROUBLE_MS = 300_000
/** A pause longer than so many steps interrupts the lines of a chart. */
const PAUSE_STEPS = 2.5

/** From when on to ask, given what is known. */
export function sinceOf(known: readonly OverviewStep[], nowMs: number): number {
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
export interface Line {
  readonly label: string
  readonly values: readonly (number | null)[]
}

/** Values over time, as charts and their tables show them. */
export interface Plot {
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

/** What is read of each of the providers, by its name. */
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

/** What happened during the last `spanMs` before the newest step. */
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
