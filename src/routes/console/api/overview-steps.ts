import type {
  BreakerView,
  CallsSample,
  NodeSample,
  SampledFailure,
  UpstreamSample,
} from '../../../schema/console.ts'
import { timestamp } from '../../timestamp.ts'
import type { BreakerAnswer, ErrorAnswer, OverviewStep, UpstreamAnswer } from './answers.ts'

/** How often nodes write down what they saw: all at the same moments, but for one that stops. */
export const STEP_MS = 5_000

/** The worst first. */
const BREAKER_STATES: readonly BreakerView['state'][] = ['open', 'cooling', 'half_open']

/**
 * The sums of what nodes saw, step by step, oldest first.
 *
 * @param workspace null: of all
 * @param withNodes whether to tell how much memory they use
 */
export function stepsOf(
  samples: readonly NodeSample[],
  workspace: string | null,
  withNodes: boolean,
): OverviewStep[] {
  const byEnd = new Map<number, NodeSample[]>()
  for (const sample of samples) {
    const atMs = Math.ceil(sample.atMs / STEP_MS) * STEP_MS
    const together = byEnd.get(atMs)
    if (together === undefined) byEnd.set(atMs, [sample])
    else together.push(sample)
  }
  const ends = [...byEnd].sort(([one], [other]) => one - other)
  return ends.map(([atMs, together]) => stepOf(atMs, together, workspace, withNodes))
}

function stepOf(
  atMs: number,
  together: readonly NodeSample[],
  workspace: string | null,
  withNodes: boolean,
): OverviewStep {
  const seen = together.flatMap((sample) => callsIn(sample, workspace))
  const nodes = withNodes ? latestOf(together) : null
  const serverErrors = sum(seen, (one) => one.serverErrors ?? 0)
  return {
    at_ms: atMs,
    step_ms: STEP_MS,
    requests: sum(seen, ({ requests }) => requests),
    client_errors: sum(seen, ({ errors }) => errors) - serverErrors,
    server_errors: serverErrors,
    added_p50_ms: weighted(seen, ({ addedP50Ms }) => addedP50Ms),
    added_p95_ms: weighted(seen, ({ addedP95Ms }) => addedP95Ms),
    upstream: upstreamOf(seen.flatMap(({ upstream }) => upstream)),
    memory_used_bytes: nodes && sum(nodes, ({ memoryUsedBytes }) => memoryUsedBytes),
    memory_limit_bytes: nodes && sum(nodes, ({ memoryLimitBytes }) => memoryLimitBytes),
  }
}

/** What a node saw of a workspace, which may be nothing; null: of all together. */
export function callsIn({ all, workspaces }: NodeSample, workspace: string | null): readonly CallsSample[] {
  return workspace === null ? [all] : workspaces.filter((sample) => sample.workspace === workspace)
}

/** The newest sample of each node, by its name. */
export function latestOf(samples: readonly NodeSample[]): NodeSample[] {
  const newest = new Map<string, NodeSample>()
  for (const sample of samples) {
    const known = newest.get(sample.node)
    if (known === undefined || known.atMs <= sample.atMs) newest.set(sample.node, sample)
  }
  return [...newest.values()].sort((one, other) => (one.node < other.node ? -1 : 1))
}

/** The entries that some node does not use as usual, each once, as the node has it where it is worst. */
export function breakersOf(latest: readonly NodeSample[], workspace: string | null): BreakerAnswer[] {
  const worst = new Map<string, BreakerView>()
  for (const breaker of latest.flatMap(({ breakers }) => breakers)) {
    if (workspace !== null && breaker.workspace !== workspace) continue
    const { route, provider, model, state } = breaker
    const entry = JSON.stringify([breaker.workspace, route, provider, model])
    const known = worst.get(entry)
    if (known === undefined || BREAKER_STATES.indexOf(state) < BREAKER_STATES.indexOf(known.state))
      worst.set(entry, breaker)
  }
  return [...worst.values()].map(({ sinceMs = null, lastFailure = null, ...breaker }) => {
    return { ...breaker, since: timestamp(sinceMs), last_error: lastFailure && errorAnswer(lastFailure) }
  })
}

export function errorAnswer({ atMs, status, reason }: SampledFailure): ErrorAnswer {
  return { at: timestamp(atMs), status, reason }
}

/**
 * Percentiles of several nodes or workspaces are put together as their mean, each weighted by what it is of. That is
 * no percentile of the whole: that would take the distributions. It lies between the least and the greatest of them,
 * and nodes behind one balancer differ little; for exact ones there are the histograms of `GET /metrics`.
 */
function weighted(
  samples: readonly CallsSample[],
  msOf: (sample: CallsSample) => number | null,
): number | null {
  return mean(samples.map((sample) => ({ ms: msOf(sample), weight: sample.requests })))
}

function upstreamOf(seen: readonly UpstreamSample[]): UpstreamAnswer[] {
  const byProvider = Map.groupBy(seen, ({ provider }) => provider)
  return [...byProvider]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([provider, samples]) => ({
      provider,
      calls: sum(samples, ({ calls }) => calls),
      failed: sum(samples, ({ failed }) => failed),
      p50_ms: mean(samples.map(({ p50Ms, calls, failed }) => ({ ms: p50Ms, weight: calls - failed }))),
      p95_ms: mean(samples.map(({ p95Ms, calls, failed }) => ({ ms: p95Ms, weight: calls - failed }))),
    }))
}

/** Mean of the values that are known, to a thousandth of a millisecond; null: none is. */
function mean(values: readonly { readonly ms: number | null; readonly weight: number }[]): number | null {
  const known = values.flatMap(({ ms, weight }) => (ms === null ? [] : [{ ms, weight: Math.max(weight, 1) }]))
  if (known.length === 0) return null
  const total = sum(known, ({ weight }) => weight)
  return Math.round((sum(known, ({ ms, weight }) => ms * weight) / total) * 1000) / 1000
}

function sum<Value>(values: readonly Value[], of: (value: Value) => number): number {
  return values.reduce((total, value) => total + of(value), 0)
}
