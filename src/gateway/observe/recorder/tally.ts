import type { Principal } from '../../../contracts/catalog.ts'
import type {
  CallsSample,
  ModelAttempts,
  ModelSample,
  SampledFailure,
  UpstreamSample,
  WorkspaceSample,
} from '../../../contracts/console.ts'
import { inTurns } from '../../../contracts/in-turns.ts'
import type { AttemptRecord } from '../../../contracts/recorder.ts'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import type { FailureKind } from '../../../contracts/upstream.ts'
import { Share } from './allowance.ts'

/** By nearest rank; of nothing it is 0. @param sorted ascending */
function quantile(sorted: Float64Array, share: number): number {
  const at = Math.max(0, Math.ceil(sorted.length * share) - 1)
  return sorted[at] ?? 0
}

/** So many of the last latencies of a provider are looked at for its percentiles. */
const LATENCIES = 128
/** The same of a model, of which there are more. */
const MODEL_LATENCIES = 32
/** Providers that a workspace is shown with: those that failed most, then those called most. */
const PROVIDERS_MAX = 20
/** Models that a provider is shown with, in the same order. */
const MODELS_MAX = 10
/** Models that alerts are told of: more than any catalog calls within a step, in some 40 KB of a sample. */
export const TOLD_MODELS_MAX = 1_000

/** Failures that say nothing of a provider: they are the callers' own, or it was asked for more than it takes. */
const OF_THE_CALL: ReadonlySet<FailureKind> = new Set(['limit', 'caller', 'content'])

/** Tally of one key, found once for each of its requests. */
export class KeyTally {
  readonly workspace: WorkspaceTally
  /** In this step. */
  used = false
  /** It was forgotten: whoever still holds it has to find it anew. */
  gone = false

  constructor(workspace: WorkspaceTally) {
    this.workspace = workspace
  }
}

/**
 * Counts requests since the last step. A key without requests for a whole step is forgotten, so that memory follows
 * the keys in use.
 */
export class Tallies {
  readonly #keys = new Map<string, KeyTally>()
  readonly #workspaces = new Map<string, WorkspaceTally>()
  readonly #all = new Map<string, UpstreamTally>()
  readonly #clock: Clock

  constructor(clock: Clock = systemClock) {
    this.#clock = clock
  }

  ofKey({ key, workspace }: Principal): KeyTally {
    const known = this.#keys.get(key.id)
    if (known !== undefined) return known
    const tally = new KeyTally(this.ofWorkspace(workspace.id))
    this.#keys.set(key.id, tally)
    return tally
  }

  ofWorkspace(id: string): WorkspaceTally {
    const known = this.#workspaces.get(id)
    if (known !== undefined) return known
    const tally = new WorkspaceTally(this.#all, this.#clock)
    this.#workspaces.set(id, tally)
    return tally
  }

  usedKeys(): string[] {
    return [...this.#keys].filter(([, { used }]) => used).map(([id]) => id)
  }

  all(): CallsSample {
    const tallies = [...this.#workspaces.values()]
    const sum = (count: (tally: WorkspaceTally) => number) =>
      tallies.reduce((total, tally) => total + count(tally), 0)
    return {
      requests: sum((tally) => tally.requests),
      errors: sum((tally) => tally.errors),
      serverErrors: sum((tally) => tally.serverErrors),
      recorded: sum((tally) => tally.recorded),
      failuresDropped: sum((tally) => tally.failuresDropped),
      ...addedOf(tallies.flatMap((tally) => tally.addedMs)),
      upstream: upstreamOf(this.#all, (provider) => tallies.flatMap((tally) => tally.modelsOf(provider))),
    }
  }

  /**
   * Attempts by model. Where there are too many models, those called most of each provider are kept, whether they fail
   * or not: who is judged by the sum of many steps must not be in those alone in which it failed.
   *
   * @returns as many as a sample has room for, and how many were left out
   */
  attempts(): { readonly kept: readonly ModelAttempts[]; readonly leftOut: number } {
    const sums = new Map<string, ModelAttempts>()
    for (const tally of this.#workspaces.values())
      for (const [provider, { model, calls, unsent, blamed }] of tally.models()) {
        // Names of providers have no space.
        const key = `${provider} ${model}`
        const [, , sent, failed] = sums.get(key) ?? [provider, model, 0, 0]
        sums.set(key, [provider, model, sent + calls - unsent, failed + blamed])
      }
    const sent = [...sums.values()].filter(([, , count]) => count > 0)
    if (sent.length <= TOLD_MODELS_MAX) return { kept: sent, leftOut: 0 }
    const byCalls = sent.sort((one, other) => other[2] - one[2])
    const kept = inTurns(byCalls, ([provider]) => provider).slice(0, TOLD_MODELS_MAX)
    return { kept, leftOut: sent.length - kept.length }
  }

  /** Those with most requests. */
  busiest(limit: number): WorkspaceSample[] {
    return [...this.#workspaces]
      .filter(([, tally]) => !tally.idle)
      .sort(([, one], [, other]) => other.requests - one.requests)
      .slice(0, limit)
      .map(([workspace, tally]) => ({ workspace, ...tally.sample() }))
  }

  /** Begins the next step. */
  clear(): void {
    for (const [id, tally] of this.#keys) {
      if (!tally.used) this.#keys.delete(id)
      tally.gone = !tally.used
      tally.used = false
    }
    // A key that is still known was used: then its workspace was not idle.
    for (const [id, tally] of this.#workspaces) {
      if (tally.idle) this.#workspaces.delete(id)
      else tally.clear()
    }
    clearUpstream(this.#all)
  }
}

/** Requests of one workspace in this step. */
export class WorkspaceTally {
  readonly looks = new Share()
  readonly failovers = new Share()
  readonly failures = new Share()
  requests = 0
  errors = 0
  serverErrors = 0
  /** Requests that are kept to be looked at, and failed ones that are not. */
  recorded = 0
  failuresDropped = 0
  /** Added latency of the sampled requests. */
  addedMs: number[] = []
  readonly #upstream = new Map<string, UpstreamTally>()
  readonly #all: Map<string, UpstreamTally>
  readonly #clock: Clock
  /** The provider that was asked last: mostly it is asked again. */
  #last: UpstreamTally | null = null

  /** @param all of all workspaces together */
  constructor(all: Map<string, UpstreamTally>, clock: Clock) {
    this.#all = all
    this.#clock = clock
  }

  attempted(attempts: readonly AttemptRecord[]): void {
    for (const attempt of attempts) {
      const { provider } = attempt
      const tally = this.#last?.provider === provider ? this.#last : this.#find(provider)
      tally.add(attempt, this.#clock)
    }
  }

  /** The models of a provider that were called in this step. */
  modelsOf(provider: string): readonly ModelTally[] {
    return this.#upstream.get(provider)?.models ?? []
  }

  /** All of them, behind the names of their providers. */
  *models(): Iterable<readonly [provider: string, model: ModelTally]> {
    for (const { provider, models } of this.#upstream.values())
      for (const model of models) yield [provider, model]
  }

  get idle(): boolean {
    return this.requests === 0 && this.#upstream.size === 0
  }

  sample(): CallsSample {
    const { requests, errors, serverErrors, recorded, failuresDropped, addedMs } = this
    const upstream = upstreamOf(this.#upstream, (provider) => this.modelsOf(provider))
    return { requests, errors, serverErrors, recorded, failuresDropped, ...addedOf(addedMs), upstream }
  }

  clear(): void {
    this.requests = 0
    this.errors = 0
    this.serverErrors = 0
    this.recorded = 0
    this.failuresDropped = 0
    this.addedMs = []
    this.#last = null
    clearUpstream(this.#upstream)
  }

  #find(provider: string): UpstreamTally {
    const tally = this.#upstream.get(provider) ?? new UpstreamTally(provider, this.#ofAll(provider))
    this.#upstream.set(provider, tally)
    this.#last = tally
    return tally
  }

  #ofAll(provider: string): UpstreamTally {
    const tally = this.#all.get(provider) ?? new UpstreamTally(provider, null)
    this.#all.set(provider, tally)
    return tally
  }
}

/** Attempts at a model of a provider in this step. */
interface ModelTally {
  readonly model: string
  calls: number
  failed: number
  /** Failed attempts that were not sent, and the ones that tell against the provider. */
  unsent: number
  blamed: number
  lastFailure: SampledFailure | null
  /** Latencies of the last answered attempts. */
  readonly latenciesMs: number[]
  answered: number
}

function newModelTally(model: string): ModelTally {
  const counts = { calls: 0, failed: 0, unsent: 0, blamed: 0 }
  return { model, ...counts, lastFailure: null, latenciesMs: [], answered: 0 }
}

/** Attempts at a provider in this step. */
class UpstreamTally {
  readonly provider: string
  readonly #all: UpstreamTally | null
  /** Latencies of answered attempts only: otherwise a dead provider would be the fastest. */
  readonly #latenciesMs = new Float64Array(LATENCIES)
  models: ModelTally[] = []
  #lastModel: ModelTally | null = null
  calls = 0
  #answered = 0
  failed = 0

  /** @param all the provider in all workspaces together; null: this is it, and it leaves the models to the others */
  constructor(provider: string, all: UpstreamTally | null) {
    this.provider = provider
    this.#all = all
  }

  add(attempt: AttemptRecord, clock: Clock): void {
    this.#count(attempt)
    if (this.#all === null) return
    this.#all.#count(attempt)
    const { model, failure, status, milliseconds } = attempt
    const tally = this.#lastModel?.model === model ? this.#lastModel : this.#findModel(model)
    tally.calls += 1
    if (failure === null) {
      if (status === null) return
      tally.latenciesMs[tally.answered % MODEL_LATENCIES] = milliseconds
      tally.answered += 1
      return
    }
    tally.failed += 1
    if (failure.kind === 'busy') tally.unsent += 1
    else if (!OF_THE_CALL.has(failure.kind)) tally.blamed += 1
    tally.lastFailure = { atMs: clock.wallNow(), status: failure.status, reason: failure.reason }
  }

  sample(models: readonly ModelTally[]): UpstreamSample {
    const sorted = this.#latenciesMs.slice(0, this.#answered).sort()
    return {
      provider: this.provider,
      calls: this.calls,
      failed: this.failed,
      p50Ms: sorted.length === 0 ? null : quantile(sorted, 0.5),
      p95Ms: sorted.length === 0 ? null : quantile(sorted, 0.95),
      models: modelSamples(models),
    }
  }

  clear(): void {
    this.models = []
    this.#lastModel = null
    this.calls = 0
    this.#answered = 0
    this.failed = 0
  }

  #count({ status, failure, milliseconds }: AttemptRecord): void {
    this.calls += 1
    if (failure !== null) this.failed += 1
    // Without a status the caller left before there was an answer.
    else if (status !== null) {
      this.#latenciesMs[this.#answered % LATENCIES] = milliseconds
      this.#answered += 1
    }
  }

  #findModel(model: string): ModelTally {
    const known = this.models.find((one) => one.model === model)
    const tally = known ?? newModelTally(model)
    if (known === undefined) this.models.push(tally)
    this.#lastModel = tally
    return tally
  }
}

/** Sorts by failures, then by calls, so that no limit ever leaves out a failing model. */
function byTrouble(one: Pick<ModelTally, 'calls' | 'failed'>, other: typeof one): number {
  return other.failed - one.failed || other.calls - one.calls
}

function upstreamOf(
  tallies: ReadonlyMap<string, UpstreamTally>,
  models: (provider: string) => readonly ModelTally[],
): UpstreamSample[] {
  const called = [...tallies.values()].filter(({ calls }) => calls > 0)
  const shown = called.sort(byTrouble).slice(0, PROVIDERS_MAX)
  return shown.map((tally) => tally.sample(models(tally.provider)))
}

/** Merges the models of several workspaces, each model once. */
function modelSamples(tallies: readonly ModelTally[]): ModelSample[] {
  const merged = [...Map.groupBy(tallies, ({ model }) => model)].map(([model, same]) => ({
    model,
    calls: same.reduce((sum, { calls }) => sum + calls, 0),
    failed: same.reduce((sum, { failed }) => sum + failed, 0),
    same,
  }))
  return merged
    .sort(byTrouble)
    .slice(0, MODELS_MAX)
    .map(({ same, ...sums }) => ({ ...sums, lastFailure: latestIn(same), p95Ms: p95Of(same) }))
}

function latestIn(tallies: readonly ModelTally[]): SampledFailure | null {
  const failures = tallies.flatMap(({ lastFailure }) => lastFailure ?? [])
  return failures.reduce<SampledFailure | null>(
    (last, one) => (last === null || one.atMs > last.atMs ? one : last),
    null,
  )
}

function p95Of(tallies: readonly ModelTally[]): number | null {
  const sorted = Float64Array.from(tallies.flatMap(({ latenciesMs }) => latenciesMs)).sort()
  return sorted.length === 0 ? null : quantile(sorted, 0.95)
}

function clearUpstream(tallies: Map<string, UpstreamTally>): void {
  for (const [provider, tally] of tallies) {
    if (tally.calls === 0) tallies.delete(provider)
    else tally.clear()
  }
}

function addedOf(addedMs: readonly number[]): Pick<CallsSample, 'addedP50Ms' | 'addedP95Ms'> {
  if (addedMs.length === 0) return { addedP50Ms: null, addedP95Ms: null }
  const sorted = Float64Array.from(addedMs).sort()
  return { addedP50Ms: quantile(sorted, 0.5), addedP95Ms: quantile(sorted, 0.95) }
}
