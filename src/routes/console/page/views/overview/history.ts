import type { OverviewStep } from '../../../api/answers.ts'

export const HISTORY_MS = 3_600_000
/** Nodes report a step at slightly different times, so that the newest ones are asked for again. */
const AGAIN_STEPS = 3
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

/** p95 of each provider, the busiest ones first: more lines than a few cannot be told apart. */
export function upstreamReads(steps: readonly OverviewStep[], providersMax: number): Record<string, Read> {
  const calls = new Map<string, number>()
  for (const { upstream } of steps)
    for (const { provider, calls: more } of upstream) calls.set(provider, (calls.get(provider) ?? 0) + more)
  const busiest = [...calls].sort(([, one], [, other]) => other - one).slice(0, providersMax)
  return Object.fromEntries(
    busiest.map(([name]) => [
      name,
      ({ upstream }: OverviewStep) => upstream.find(({ provider }) => provider === name)?.p95_ms ?? null,
    ]),
  )
}

/** What happened during the last `spanMs` before the newest step. */
export function recent(steps: readonly OverviewStep[], spanMs: number) {
  const endMs = steps.at(-1)?.at_ms ?? 0
  const some = steps.filter(({ at_ms: atMs }) => atMs > endMs - spanMs)
  const sum = (read: (step: OverviewStep) => number) => some.reduce((total, step) => total + read(step), 0)
  const [requests, errors, ms] = [
    sum((one) => one.requests),
    sum((one) => one.errors),
    sum((one) => one.step_ms),
  ]
  return {
    perSecond: ms === 0 ? null : (requests * 1000) / ms,
    /** Null: of no request. */
    errorShare: requests === 0 ? null : errors / requests,
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
