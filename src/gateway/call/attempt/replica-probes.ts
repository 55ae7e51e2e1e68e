import type { ConfiguredProvider } from '../../../contracts/catalog.ts'
import type { Logger } from '../../../contracts/log.ts'
import type { Provider } from '../../../contracts/provider.ts'
import { type Clock, type Timer, timed } from '../../../contracts/time.ts'
import { type OpenStream, UpstreamFailure, type UpstreamRequest } from '../../../contracts/upstream.ts'
import type { Replica, ReplicaPool, ReplicaPools } from '../select/replicas.ts'
import { isGood } from './operation.ts'

/** How often the configuration is looked at for other replicas. */
const LOOK_MS = 500
/** Most that is read of an answer to a probe; the connection of a longer one is closed. */
const ANSWER_BYTES_MAX = 256 * 1024

export interface ProbeDependencies {
  readonly pools: ReplicaPools
  /** Every provider in force: the same list until the configuration changes. */
  readonly inForce: () => readonly ConfiguredProvider[]
  readonly protocols: ReadonlyMap<string, Provider>
  readonly open: OpenStream
  /** Uniform in [0, 1): probes of several nodes and replicas shall not meet. */
  readonly random: () => number
  readonly log: Logger
  readonly clock: Clock
}

/**
 * Asks every replica in force, in its interval, whether it is well: a GET of the list of models, or of the path that
 * the configuration names, with the headers of that list and so with no more than a call sends. Any 2xx will do. One
 * probe of a replica is under way at a time.
 */
export class ReplicaProbes {
  readonly #deps: ProbeDependencies
  readonly #looking: Timer
  readonly #stopped = new AbortController()
  #inForce: readonly ConfiguredProvider[] = []
  #probing = new Map<Replica, Probing>()

  constructor(deps: ProbeDependencies) {
    this.#deps = deps
    this.#looking = deps.clock.every(LOOK_MS, () => this.#look())
    this.#looking.unref()
    this.#look()
  }

  /** Probes no more. What is under way is broken off. Idempotent. */
  stop(): void {
    this.#looking.close()
    for (const probing of this.#probing.values()) probing.stop()
    this.#probing.clear()
    this.#stopped.abort(new Error('the node leaves'))
  }

  #look(): void {
    const { pools, inForce } = this.#deps
    const providers = inForce()
    if (providers === this.#inForce) return
    this.#inForce = providers
    const probing = new Map<Replica, Probing>()
    for (const provider of providers) {
      const pool = pools.of(provider)
      for (const [index, replica] of pool?.replicas.entries() ?? []) {
        const known = this.#probing.get(replica)
        probing.set(replica, known ?? new Probing(this.#deps, replica, this.#stopped.signal))
        probing.get(replica)!.follow(pool!, index)
      }
    }
    for (const [replica, one] of this.#probing) if (!probing.has(replica)) one.stop()
    this.#probing = probing
    pools.keepOnly(providers)
  }
}

/** The probes of one replica. */
class Probing {
  readonly #deps: ProbeDependencies
  readonly #replica: Replica
  readonly #signal: AbortSignal
  #pool: ReplicaPool | null = null
  #index = 0
  #timer: Timer | null = null
  #isStopped = false
  /** Probes in a row that said the other thing than what counts. */
  #contrary = 0

  constructor(deps: ProbeDependencies, replica: Replica, signal: AbortSignal) {
    this.#deps = deps
    this.#replica = replica
    this.#signal = signal
  }

  /** Probes as this pool has it from now on. */
  follow(pool: ReplicaPool, index: number): void {
    const isNew = this.#pool === null
    this.#pool = pool
    this.#index = index
    if (isNew) this.#after(pool.settings.probe.intervalMs * this.#deps.random())
  }

  stop(): void {
    this.#isStopped = true
    this.#timer?.close()
  }

  #after(waitMs: number): void {
    if (this.#isStopped) return
    this.#timer = this.#deps.clock.after(waitMs, () => void this.#probe()).unref()
  }

  async #probe(): Promise<void> {
    const { provider, settings } = this.#pool!
    const trouble = await this.#ask(probeOf(provider, this.#replica, this.#deps.protocols))
    if (this.#isStopped) return
    this.#note(trouble)
    this.#after(settings.probe.intervalMs * (0.8 + 0.4 * this.#deps.random()))
  }

  /** @returns null when it is well, else why not */
  async #ask(request: UpstreamRequest): Promise<string | null> {
    const { timeoutMs } = this.#pool!.settings.probe
    try {
      return await timed(timeoutMs, this.#signal, (signal) => this.#read(request, signal), this.#deps.clock)
    } catch (error) {
      return error instanceof UpstreamFailure ? error.failure.reason : 'no answer in time'
    }
  }

  async #read(request: UpstreamRequest, signal: AbortSignal): Promise<string | null> {
    const { timeoutMs } = this.#pool!.settings.probe
    const answer = await this.#deps.open(request, { deadlineMs: timeoutMs, signal })
    let bytes = 0
    for await (const chunk of answer.chunks) {
      bytes += chunk.byteLength
      if (bytes > ANSWER_BYTES_MAX) break
    }
    return isGood(answer) ? null : `answers ${answer.status}`
  }

  #note(trouble: string | null): void {
    const replica = this.#replica
    replica.trouble = trouble
    if ((trouble !== null) === replica.isDown) {
      this.#contrary = 0
      return
    }
    this.#contrary += 1
    const { provider, settings } = this.#pool!
    const { unhealthyAfter, healthyAfter } = settings.probe
    if (this.#contrary < (replica.isDown ? healthyAfter : unhealthyAfter)) return
    this.#contrary = 0
    const fields = { provider: provider.name, replica: this.#index }
    if (trouble === null) {
      replica.recovered()
      this.#deps.log.info(fields, 'a replica is well again')
    } else {
      replica.isDown = true
      this.#deps.log.warn({ ...fields, reason: trouble }, 'a replica is down')
    }
  }
}

/** @throws Error when the protocol cannot list models: the configuration refuses a pool of such */
function probeOf(
  { kind, credential, pool }: ConfiguredProvider,
  { baseUrl }: Replica,
  protocols: ReadonlyMap<string, Provider>,
): UpstreamRequest {
  const step = protocols.get(kind)?.models?.start(null, { model: '', baseUrl, credential, options: {} })
  if (step?.kind !== 'send') throw new Error(`${kind} has no list of models`)
  const path = pool?.probe.path ?? null
  return path === null ? step.request : { ...step.request, url: new URL(baseUrl).origin + path }
}
