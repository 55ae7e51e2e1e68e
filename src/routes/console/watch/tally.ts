import type { AttemptRecord } from '../../../gateway/gateway.ts'
import type { Principal } from '../../../schema/catalog.ts'
import type { CallsSample, UpstreamSample, WorkspaceSample } from '../../../schema/console.ts'
import { Share } from './allowance.ts'
import { quantile } from './quantile.ts'

/** So many of the last latencies of a provider are looked at for its percentiles. */
const LATENCIES = 128
/** Providers that a workspace is shown with, those called most. */
const PROVIDERS_MAX = 20

/** What the requests of one key have in common: found once for each request. */
export interface KeyTally {
  readonly workspace: WorkspaceTally
  /** In this step. */
  used: boolean
  /** It was forgotten: whoever still holds it has to find it anew. */
  gone: boolean
}

/**
 * Counts requests since the last step. Who did nothing for a whole step is forgotten, so that what is held follows the
 * keys in use.
 */
export class Tallies {
  readonly #keys = new Map<string, KeyTally>()
  readonly #workspaces = new Map<string, WorkspaceTally>()
  readonly #all = new Map<string, UpstreamTally>()

  ofKey({ key, workspace }: Principal): KeyTally {
    const known = this.#keys.get(key.id)
    if (known !== undefined) return known
    const tally = { workspace: this.ofWorkspace(workspace.id), used: false, gone: false }
    this.#keys.set(key.id, tally)
    return tally
  }

  ofWorkspace(id: string): WorkspaceTally {
    const known = this.#workspaces.get(id)
    if (known !== undefined) return known
    const tally = new WorkspaceTally(this.#all)
    this.#workspaces.set(id, tally)
    return tally
  }

  /** Ids of the keys that were used. */
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
      ...addedOf(tallies.flatMap((tally) => tally.addedMs)),
      upstream: upstreamOf(this.#all),
    }
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

/** What a workspace has done in this step. */
export class WorkspaceTally {
  readonly looks = new Share()
  readonly failures = new Share()
  requests = 0
  errors = 0
  /** Of the requests that were looked at closely. */
  addedMs: number[] = []
  readonly #upstream = new Map<string, UpstreamTally>()
  readonly #all: Map<string, UpstreamTally>
  /** The provider that was asked last: mostly it is asked again. */
  #last: UpstreamTally | null = null

  /** @param all of all workspaces together */
  constructor(all: Map<string, UpstreamTally>) {
    this.#all = all
  }

  attempted(attempts: readonly AttemptRecord[]): void {
    for (const { provider, failure, milliseconds } of attempts) {
      const tally = this.#last?.provider === provider ? this.#last : this.#find(provider)
      tally.add(milliseconds, failure !== null)
    }
  }

  get idle(): boolean {
    return this.requests === 0 && this.#upstream.size === 0
  }

  sample(): CallsSample {
    const { requests, errors, addedMs } = this
    return { requests, errors, ...addedOf(addedMs), upstream: upstreamOf(this.#upstream) }
  }

  clear(): void {
    this.requests = 0
    this.errors = 0
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

/** Attempts at a provider in this step. */
class UpstreamTally {
  readonly provider: string
  readonly #all: UpstreamTally | null
  readonly #latenciesMs = new Float64Array(LATENCIES)
  #calls = 0
  #failed = 0

  constructor(provider: string, all: UpstreamTally | null) {
    this.provider = provider
    this.#all = all
  }

  add(milliseconds: number, failed: boolean): void {
    this.#latenciesMs[this.#calls % LATENCIES] = milliseconds
    this.#calls += 1
    if (failed) this.#failed += 1
    this.#all?.add(milliseconds, failed)
  }

  get calls(): number {
    return this.#calls
  }

  sample(): UpstreamSample {
    const sorted = this.#latenciesMs.slice(0, this.#calls).sort()
    return {
      provider: this.provider,
      calls: this.#calls,
      failed: this.#failed,
      p50Ms: quantile(sorted, 0.5),
      p95Ms: quantile(sorted, 0.95),
    }
  }

  clear(): void {
    this.#calls = 0
    this.#failed = 0
  }
}

function upstreamOf(tallies: ReadonlyMap<string, UpstreamTally>): UpstreamSample[] {
  const called = [...tallies.values()].filter(({ calls }) => calls > 0)
  const most = called.sort((one, other) => other.calls - one.calls).slice(0, PROVIDERS_MAX)
  return most.map((tally) => tally.sample())
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
