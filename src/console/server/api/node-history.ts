import type {
  BreakerView,
  CallsSample,
  NodeSample,
  SampledFailure,
  UpstreamSample,
} from '../../../contracts/console.ts'
import type { Clock } from '../../../contracts/time.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import type {
  BreakerAnswer,
  ErrorAnswer,
  HealthAnswer,
  ModelHealth,
  OverviewStep,
  UpstreamAnswer,
} from '../answers/health.ts'
import type { Coverage } from '../answers/requests.ts'
import type { ConsoleContext } from '../context.ts'

/** How often nodes write down what they saw: all at the same moments, except for one that stops. */
export const STEP_MS = 5_000
/** How far back samples are kept. */
export const HISTORY_MS = 60 * 60 * 1000
const HEALTH_MS = 5 * 60 * 1000
/** Enough for pages that ask for news: the newest steps again, and more where the nodes were slow. */
export const RECENT_MS = 60_000
/** A node without a sample for this long is gone. */
const NODE_GONE_MS = 3 * STEP_MS
/** Age limit of a reading: however many pages are open, the state is read once in this time. */
export const FRESH_MS = 1_000
/** The same for views where a step more or less changes little. */
const HEALTH_FRESH_MS = 4_000
const COVERAGE_FRESH_MS = 20_000

/** Samples of all nodes, read from the state for all pages together. */
export class NodeHistory {
  readonly #clock: Clock
  readonly #samples: TtlCache<number, readonly NodeSample[]>
  readonly #health: TtlCache<string | null, HealthAnswer>
  readonly #coverage: TtlCache<'hour', ReadonlyMap<string, Coverage>>

  constructor({ state, clock }: ConsoleContext) {
    this.#clock = clock
    const read = (spanMs: number) => state.samples.since(clock.wallNow() - spanMs)
    const fiveMinutes = new TtlCache<'all', readonly NodeSample[]>(
      () => read(HEALTH_MS),
      HEALTH_FRESH_MS,
      clock,
    )
    this.#samples = new TtlCache(read, FRESH_MS, clock)
    this.#health = new TtlCache(
      async (workspace) => healthOf(await fiveMinutes.of('all'), workspace, clock.wallNow()),
      FRESH_MS,
      clock,
    )
    this.#coverage = new TtlCache(async () => coverageOf(await read(HISTORY_MS)), COVERAGE_FRESH_MS, clock)
  }

  /** @param spanMs `RECENT_MS` or `HISTORY_MS` */
  samples(spanMs: number): Promise<readonly NodeSample[]> {
    return this.#samples.of(spanMs)
  }

  /** The newest sample of each node that is there. */
  latest(samples: readonly NodeSample[]): readonly NodeSample[] {
    const goneMs = this.#clock.wallNow() - NODE_GONE_MS
    return latestOf(samples.filter(({ atMs }) => atMs > goneMs))
  }

  /** How providers fared in the last five minutes. @param workspace null: in all of them */
  health(workspace: string | null): Promise<HealthAnswer> {
    return this.#health.of(workspace)
  }

  /** How many of a workspace's requests of the last hour were recorded; null: it had none, or too few to be counted. */
  async coverage(workspace: string): Promise<Coverage | null> {
    return (await this.#coverage.of('hour')).get(workspace) ?? null
  }
}

function healthOf(samples: readonly NodeSample[], workspace: string | null, nowMs: number): HealthAnswer {
  const latest = latestOf(samples.filter(({ atMs }) => atMs > nowMs - NODE_GONE_MS))
  const breakers = breakersOf(latest, workspace)
  const providers = new Map<string, HealthTally>()
  for (const sample of samples)
    for (const one of callsIn(sample, workspace).flatMap(({ upstream }) => upstream)) {
      const own = () => breakers.filter(({ provider }) => provider === one.provider)
      const tally = providers.get(one.provider) ?? new HealthTally(own(), nowMs)
      providers.set(one.provider, tally)
      tally.add(one, sample.atMs - sample.stepMs)
    }
  return {
    now: timestamp(nowMs),
    window_ms: HEALTH_MS,
    providers: [...providers]
      .sort(([one], [other]) => (one < other ? -1 : 1))
      .map(([provider, tally]) => tally.answer(provider)),
    breakers,
  }
}

/** A breaker is half-open 10 s after it opened: what failed so lately has failed its trial. */
const TRIAL_MS = 15_000

/** When the first of some breakers stopped calls that has not let one succeed since; null: none does. */
function stoppedSince(breakers: readonly BreakerAnswer[], nowMs: number): number | null {
  const stopped = breakers.filter(({ state, last_error: last }) => {
    const failedMs = last === null ? Number.NEGATIVE_INFINITY : Date.parse(last.at)
    return state === 'open' || (state === 'half_open' && failedMs > nowMs - TRIAL_MS)
  })
  if (stopped.length === 0) return null
  return Math.min(...stopped.map(({ since }) => (since === null ? nowMs : Date.parse(since))))
}

/** Calls of one provider over several steps. */
class HealthTally {
  readonly #breakers: readonly BreakerAnswer[]
  readonly #nowMs: number
  readonly #stoppedMs: number | null
  readonly #stoppedModels = new Map<string, number | null>()
  /** Models of which an attempt succeeded since their breakers opened, and whether one did since the first of all. */
  readonly #answered = new Set<string>()
  #hasAnswered = false
  #calls = 0
  #failed = 0
  readonly #latencies: Latency[] = []
  readonly #modelLatencies = new Map<string, Latency[]>()
  readonly #models = new Map<string, ModelHealth>()

  /** @param breakers of the provider that are not closed */
  constructor(breakers: readonly BreakerAnswer[], nowMs: number) {
    this.#breakers = breakers
    this.#nowMs = nowMs
    this.#stoppedMs = stoppedSince(breakers, nowMs)
  }

  /** @param beginMs of the step, epoch milliseconds: in one that began before a breaker opened calls may be older */
  add({ calls, failed, p95Ms, models = [] }: CallsSample['upstream'][number], beginMs: number): void {
    if (calls > failed && beginMs >= (this.#stoppedMs ?? 0)) this.#hasAnswered = true
    this.#calls += calls
    this.#failed += failed
    this.#latencies.push({ ms: p95Ms, weight: calls - failed })
    for (const { model, ...sample } of models) {
      const known = this.#models.get(model)
      const latencies = this.#modelLatencies.get(model) ?? []
      this.#modelLatencies.set(model, latencies)
      latencies.push({ ms: sample.p95Ms ?? null, weight: sample.calls - sample.failed })
      if (sample.calls > sample.failed && beginMs >= (this.#stoppedOf(model) ?? 0)) this.#answered.add(model)
      this.#models.set(model, {
        model,
        calls: sample.calls + (known?.calls ?? 0),
        failed: sample.failed + (known?.failed ?? 0),
        p95_ms: null,
        last_error: later(known?.last_error ?? null, sample.lastFailure && errorAnswer(sample.lastFailure)),
        is_down: false,
      })
    }
  }

  answer(provider: string): HealthAnswer['providers'][number] {
    const models = [...this.#models.values()]
      .sort((one, other) => (one.model < other.model ? -1 : 1))
      .map((one) => ({
        ...one,
        p95_ms: mean(this.#modelLatencies.get(one.model) ?? []),
        is_down: this.#stoppedOf(one.model) !== null && !this.#answered.has(one.model),
      }))
    const error = models.reduce<ErrorAnswer | null>((last, { last_error }) => later(last, last_error), null)
    const p95 = mean(this.#latencies)
    const isDown = this.#stoppedMs !== null && !this.#hasAnswered
    const sums = { calls: this.#calls, failed: this.#failed, p95_ms: p95 }
    return { provider, ...sums, last_error: error, is_down: isDown, models }
  }

  #stoppedOf(model: string): number | null {
    const known = this.#stoppedModels.get(model)
    if (known !== undefined) return known
    const own = this.#breakers.filter((breaker) => breaker.model === model)
    const stoppedMs = stoppedSince(own, this.#nowMs)
    this.#stoppedModels.set(model, stoppedMs)
    return stoppedMs
  }
}

/** Timestamps are all written alike, so that they compare as texts. */
function later(one: ErrorAnswer | null, other: ErrorAnswer | null): ErrorAnswer | null {
  if (one === null || other === null) return one ?? other
  return one.at < other.at ? other : one
}

function coverageOf(samples: readonly NodeSample[]): ReadonlyMap<string, Coverage> {
  const counted = new Map<string, Coverage>()
  for (const { workspaces } of samples)
    for (const { workspace, requests, recorded, failuresDropped } of workspaces) {
      // An earlier version did not count.
      if (recorded === undefined) continue
      const known = counted.get(workspace)
      counted.set(workspace, {
        requests: requests + (known?.requests ?? 0),
        recorded: recorded + (known?.recorded ?? 0),
        failures_dropped: (failuresDropped ?? 0) + (known?.failures_dropped ?? 0),
      })
    }
  return counted
}

/** Keeps readings for a while, and shares one that is under way. A failed reading is not kept. */
export class TtlCache<Key, Value> {
  readonly #read: (key: Key) => Promise<Value>
  readonly #freshMs: number
  readonly #clock: Clock
  readonly #known = new Map<Key, Promise<Value>>()

  constructor(read: (key: Key) => Promise<Value>, freshMs: number, clock: Clock) {
    this.#read = read
    this.#freshMs = freshMs
    this.#clock = clock
  }

  of(key: Key): Promise<Value> {
    const known = this.#known.get(key)
    if (known !== undefined) return known
    const reading = this.#read(key)
    this.#known.set(key, reading)
    const forget = () => void this.#known.delete(key)
    reading.then(() => this.#clock.after(this.#freshMs, forget).unref(), forget)
    return reading
  }
}

/** The worst first. */
const BREAKER_STATES: readonly BreakerView['state'][] = ['open', 'cooling', 'half_open']

/**
 * The sums of what nodes saw, step by step, oldest first.
 *
 * @param workspace null: of all
 * @param withNodes whether to tell how much memory they use
 * @param lengthOf  how long the step is to be in which one of `STEP_MS` is, by the end of the latter
 */
export function historySteps(
  samples: readonly NodeSample[],
  workspace: string | null,
  withNodes: boolean,
  lengthOf: (endMs: number) => number = () => STEP_MS,
): OverviewStep[] {
  const byEnd = new Map<number, { readonly stepMs: number; readonly together: NodeSample[] }>()
  for (const sample of samples) {
    const endMs = Math.ceil(sample.atMs / STEP_MS) * STEP_MS
    const stepMs = lengthOf(endMs)
    const atMs = Math.ceil(endMs / stepMs) * stepMs
    const step = byEnd.get(atMs)
    if (step === undefined) byEnd.set(atMs, { stepMs, together: [sample] })
    else step.together.push(sample)
  }
  const ends = [...byEnd].sort(([one], [other]) => one - other)
  return ends.map(([atMs, step]) => stepOf({ atMs, ...step }, workspace, withNodes))
}

function stepOf(
  {
    atMs,
    stepMs,
    together,
  }: { readonly atMs: number; readonly stepMs: number; readonly together: readonly NodeSample[] },
  workspace: string | null,
  withNodes: boolean,
): OverviewStep {
  const seen = together.flatMap((sample) => callsIn(sample, workspace))
  const nodes = withNodes ? latestOf(together) : null
  const serverErrors = sum(seen, (one) => one.serverErrors ?? 0)
  return {
    at_ms: atMs,
    step_ms: stepMs,
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

/** A node's sample of a workspace, if it has one; null: of all together. */
function callsIn({ all, workspaces }: NodeSample, workspace: string | null): readonly CallsSample[] {
  return workspace === null ? [all] : workspaces.filter((sample) => sample.workspace === workspace)
}

/** The newest sample of each node, by its name. */
function latestOf(samples: readonly NodeSample[]): NodeSample[] {
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

function errorAnswer({ atMs, status, reason }: SampledFailure): ErrorAnswer {
  return { at: timestamp(atMs), status, reason }
}

/**
 * Percentiles of several nodes or workspaces are put together as their mean, each weighted by what it is of. That is
 * no percentile of the whole: that would take the distributions. It lies between the least and the greatest of them,
 * and nodes of one balancer differ little; for exact ones there are the histograms of `GET /metrics`.
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

interface Latency {
  /** Null: it is not known. */
  readonly ms: number | null
  readonly weight: number
}

/** Digits of a mean: more would only be more to send, thousands of times an hour. */
const DIGITS = 3

/** Mean of the values that are known; null: none is. */
function mean(values: readonly Latency[]): number | null {
  const known = values.flatMap(({ ms, weight }) => (ms === null ? [] : [{ ms, weight: Math.max(weight, 1) }]))
  if (known.length === 0) return null
  const total = sum(known, ({ weight }) => weight)
  return Number((sum(known, ({ ms, weight }) => ms * weight) / total).toPrecision(DIGITS))
}

function sum<Value>(values: readonly Value[], of: (value: Value) => number): number {
  return values.reduce((total, value) => total + of(value), 0)
}
