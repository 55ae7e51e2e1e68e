import { hash } from 'node:crypto'
import type { ConfiguredProvider, PoolSettings } from '../../../contracts/catalog.ts'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import type { Failure, FailureKind } from '../../../contracts/upstream.ts'

/**
 * Replicas of a provider: servers that answer alike, of which each call is made at the one with the fewest under way.
 *
 * Everything in here is this node's own view: the calls that it has under way, what became of them, and its own probes.
 * Nodes that ask the same servers spread their calls alike without knowing of each other.
 *
 * A replica is passed over for two reasons. Its probes fail: until they succeed again. Or calls at it have failed: for
 * a second, and twice as long each time that it fails again, since a server may answer probes and still fail calls.
 * After such a time one call at a time is made at it, until one is answered. When none is well, calls are made at them
 * all the same, and the breaker of the entry decides as it does for a provider with one address.
 */

/** Failures that tell of the server, and not of the call or the account: another replica may do better. */
const OF_SERVER: ReadonlySet<FailureKind> = new Set(['connect', 'ambiguous', 'server', 'rate'])

/** How long a replica is passed over after its first failure, and at most. */
const EJECTED_MS = 1_000
const EJECTED_MS_MAX = 30_000

/** Most replicas that a call is made at before its entry has failed. */
export const TRIES_MAX = 3

/** Whether a call that has failed so may be made at another replica, where it may be made again at all. */
export function isOfServer({ kind }: Pick<Failure, 'kind'>): boolean {
  return OF_SERVER.has(kind)
}

/** Names the server of a base URL across nodes and reloads, for work that must be followed where it was ordered. */
export function replicaKey(baseUrl: string): string {
  return hash('sha256', baseUrl).slice(0, 16)
}

/** Health and load of a replica. Times are on the node's clock. */
export class Replica {
  readonly baseUrl: string
  /** Calls and live sessions of this node that are under way. */
  underWay = 0
  /** Failures of calls in a row. */
  failures = 0
  /** How often it was passed over because a call had failed. */
  ejections = 0
  /** Result of its probes; it counts as well until one has ended. */
  isDown = false
  /** Why the last probe failed, in our words; null: it did not. */
  trouble: string | null = null
  #ejectedAtMs = Number.NEGATIVE_INFINITY
  #ejectedUntilMs = Number.NEGATIVE_INFINITY
  #isTried = false

  constructor(baseUrl: string) {
    this.baseUrl = baseUrl
  }

  /** Milliseconds until calls are made at it, or at least one that tries it out; Infinity: its probes decide. */
  upInMs(nowMs: number): number {
    return this.isDown ? Number.POSITIVE_INFINITY : Math.max(0, this.#ejectedUntilMs - nowMs)
  }

  isUp(nowMs: number): boolean {
    return this.upInMs(nowMs) === 0
  }

  /** True when the next call may be made at it. */
  isFree(nowMs: number): boolean {
    return this.isUp(nowMs) && (this.failures === 0 || !this.#isTried)
  }

  /** @returns whether this call is the one that tries it out */
  begin(): boolean {
    this.underWay += 1
    if (this.failures === 0 || this.#isTried) return false
    this.#isTried = true
    return true
  }

  end(wasTrial: boolean): void {
    this.underWay -= 1
    if (wasTrial) this.#isTried = false
  }

  /** @param begunMs what began before it was last passed over says nothing new of it, here and below */
  answered(begunMs: number): void {
    if (this.failures > 0 && begunMs >= this.#ejectedAtMs) this.failures = 0
  }

  failed(begunMs: number, nowMs: number, retryAfterMs: number | null): void {
    if (begunMs < this.#ejectedAtMs) return
    const ejectedMs = Math.min(EJECTED_MS * 2 ** this.failures, EJECTED_MS_MAX)
    this.failures += 1
    this.ejections += 1
    this.#ejectedAtMs = nowMs
    this.#ejectedUntilMs = nowMs + Math.max(ejectedMs, retryAfterMs ?? 0)
  }

  /** Its probes succeed again. */
  recovered(): void {
    this.isDown = false
    this.failures = 0
    this.#ejectedUntilMs = Number.NEGATIVE_INFINITY
  }
}

/** The replica that an attempt is made at, which counts as its load until it is released. */
export class PlacedAttempt {
  readonly replica: Replica
  /** Its place among `base_urls`. */
  readonly index: number
  readonly #pool: ReplicaPool
  readonly #begunMs: number
  readonly #isTrial: boolean
  #isOver = false

  constructor(pool: ReplicaPool, index: number) {
    this.#pool = pool
    this.#begunMs = pool.clock.now()
    this.index = index
    this.replica = pool.replicas[index]!
    this.#isTrial = this.replica.begin()
  }

  /** Its answer is here, or has begun to come. */
  answered(): void {
    this.replica.answered(this.#begunMs)
  }

  /** @returns the failure of the pool: the pause that a replica asks for ends when another one may be asked */
  failed(failure: Failure): Failure {
    if (!isOfServer(failure)) return failure
    const { retryAfterMs } = failure
    this.replica.failed(this.#begunMs, this.#pool.clock.now(), retryAfterMs)
    const { upInMs } = this.#pool
    if (retryAfterMs === null || upInMs >= retryAfterMs) return failure
    return { ...failure, retryAfterMs: upInMs === 0 ? null : upInMs }
  }

  /** True when calls are made at any replica of the pool. */
  get isPoolUp(): boolean {
    return this.#pool.isUp
  }

  /** Idempotent. */
  release(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.replica.end(this.#isTrial)
  }
}

/** The replicas of one provider of a configuration, in its order. */
export class ReplicaPool {
  readonly provider: ConfiguredProvider
  readonly settings: PoolSettings
  readonly replicas: readonly Replica[]
  readonly clock: Clock
  readonly #random: () => number

  constructor(
    provider: ConfiguredProvider,
    settings: PoolSettings,
    replicas: readonly Replica[],
    { random, clock }: { readonly random: () => number; readonly clock: Clock },
  ) {
    this.provider = provider
    this.settings = settings
    this.replicas = replicas
    this.#random = random
    this.clock = clock
  }

  /** Milliseconds until calls are made at any of them; Infinity: probes decide. */
  get upInMs(): number {
    const nowMs = this.clock.now()
    return Math.min(...this.replicas.map((replica) => replica.upInMs(nowMs)))
  }

  get isUp(): boolean {
    return this.upInMs === 0
  }

  /**
   * Places an attempt at the replica with the fewest calls under way; one of them by chance where several have as few.
   * Healthy replicas come first, then the ones whose calls have failed, then replicas that are down.
   */
  place(): PlacedAttempt {
    const nowMs = this.clock.now()
    let index = this.#leastLoaded((replica) => replica.isFree(nowMs))
    if (index < 0) index = this.#leastLoaded((replica) => !replica.isDown)
    return new PlacedAttempt(this, index < 0 ? this.#leastLoaded(() => true) : index)
  }

  /** Places an attempt of a call that has failed at the replicas `tried`. Null: no other is well. */
  placeAgain(tried: readonly Replica[]): PlacedAttempt | null {
    const nowMs = this.clock.now()
    const index = this.#leastLoaded((replica) => replica.isFree(nowMs) && !tried.includes(replica))
    return index < 0 ? null : new PlacedAttempt(this, index)
  }

  /** Places an attempt at the replica of a key, whatever its health. Null: it is no replica of this pool any more. */
  placeAt(key: string): PlacedAttempt | null {
    const index = this.replicas.findIndex(({ baseUrl }) => replicaKey(baseUrl) === key)
    return index < 0 ? null : new PlacedAttempt(this, index)
  }

  /** @returns -1 when there is none of the kind */
  #leastLoaded(isOne: (replica: Replica) => boolean): number {
    let best = -1
    let least = Number.POSITIVE_INFINITY
    let alike = 0
    for (const [index, replica] of this.replicas.entries()) {
      if (replica.underWay > least || !isOne(replica)) continue
      alike = replica.underWay < least ? 1 : alike + 1
      least = replica.underWay
      if (alike === 1 || this.#random() * alike < 1) best = index
    }
    return best
  }
}

/** The pools of the providers in force. A server that a reload leaves in its pool keeps what is known of it. */
export class ReplicaPools {
  readonly #pools = new WeakMap<ConfiguredProvider, ReplicaPool>()
  /** By the name of their provider, the one that was asked for last. */
  readonly #newest = new Map<string, ReplicaPool>()
  readonly #deps: { readonly random: () => number; readonly clock: Clock }

  /** @param random uniform in [0, 1) */
  constructor(random: () => number, clock: Clock = systemClock) {
    this.#deps = { random, clock }
  }

  /** The pool of a provider; null: it has one address. */
  of(provider: ConfiguredProvider): ReplicaPool | null {
    if (provider.pool === null) return null
    const known = this.#pools.get(provider)
    if (known !== undefined) return known
    const before = this.#newest.get(provider.name)?.replicas ?? []
    const replicas = provider.pool.baseUrls.map(
      (baseUrl) => before.find((replica) => replica.baseUrl === baseUrl) ?? new Replica(baseUrl),
    )
    const pool = new ReplicaPool(provider, provider.pool, replicas, this.#deps)
    this.#pools.set(provider, pool)
    this.#newest.set(provider.name, pool)
    return pool
  }

  /** Forgets the pools of providers that are in force no more. */
  keepOnly(providers: readonly ConfiguredProvider[]): void {
    const names = new Set(providers.flatMap(({ name, pool }) => (pool === null ? [] : [name])))
    for (const name of this.#newest.keys()) if (!names.has(name)) this.#newest.delete(name)
  }
}
