import type { HealthBook } from '../../../gateway/health.ts'
import { routesOf } from '../../../metrics/node-readings.ts'
import type { ByteBudget } from '../../../schema/budget.ts'
import type { Snapshot } from '../../../schema/catalog.ts'
import type { BreakerView, NodeSample, SampledFailure } from '../../../schema/console.ts'
import type { Failure } from '../../../schema/upstream.ts'
import type { Tallies } from './tally.ts'

/** Workspaces that a sample names. */
const WORKSPACES_MAX = 50
/** Entries that are not closed, as far as a sample names them. */
const BREAKERS_MAX = 100

export interface SampledNode {
  /** Unique to this process, and fit to be shown. */
  readonly name: string
  readonly snapshot: () => Pick<Snapshot, 'apps'>
  readonly health: Pick<HealthBook, 'condition'>
  readonly budget: Pick<ByteBudget, 'used' | 'limit'>
  /** Requests that are not answered yet, and jobs that run. */
  readonly inFlight: () => number
}

/** What a node has seen in the step that ends now. */
export function sampleOf(
  { name, snapshot, health, budget, inFlight }: SampledNode,
  tallies: Tallies,
  { atMs, stepMs }: Pick<NodeSample, 'atMs' | 'stepMs'>,
): NodeSample {
  return {
    node: name,
    atMs,
    stepMs,
    memoryUsedBytes: budget.used,
    memoryLimitBytes: budget.limit,
    inFlight: inFlight(),
    breakers: breakersOf(snapshot(), health),
    all: tallies.all(),
    workspaces: tallies.busiest(WORKSPACES_MAX),
  }
}

function breakersOf(snapshot: Pick<Snapshot, 'apps'>, health: Pick<HealthBook, 'condition'>): BreakerView[] {
  const nowMs = performance.now()
  // Health is on the clock of `performance.now()`.
  const epochMs = Date.now() - nowMs
  const breakers: BreakerView[] = []
  for (const { workspace, name, entries } of routesOf(snapshot)) {
    for (const entry of entries) {
      const { state, sinceMs, lastFailure } = health.condition(entry, nowMs)
      if (state === 'closed') continue
      breakers.push({
        workspace,
        route: name,
        provider: entry.provider.name,
        model: entry.model,
        state,
        sinceMs: Math.round(epochMs + (sinceMs ?? nowMs)),
        lastFailure:
          lastFailure && sampledFailure(lastFailure.failure, Math.round(epochMs + lastFailure.atMs)),
      })
      if (breakers.length === BREAKERS_MAX) return breakers
    }
  }
  return breakers
}

/** A failure without the provider's words. */
function sampledFailure({ status, reason }: Failure, atMs: number): SampledFailure {
  return { atMs, status, reason }
}
