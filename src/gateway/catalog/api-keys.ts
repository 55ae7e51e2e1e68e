import { isDeepStrictEqual } from 'node:util'
import type { ApiKeys, AppPrincipal, Principal, Snapshot } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { Logger } from '../../contracts/log.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import type { StoredKey, StoredKeys } from '../../contracts/stored-keys.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { type CallableKey, type KnownKeys, knownKeysOf } from './known-keys.ts'
import { type Polling, startPolling } from './polling.ts'

export interface ApiKeysOptions {
  /** The configuration in force. */
  readonly snapshot: () => Snapshot
  /** False while it lacks what is published in the state, which could not be read yet. */
  readonly isWhole: () => boolean
  readonly keys: Pick<StoredKeys, 'version' | 'page' | 'changes'>
  readonly log: Logger
  readonly pollMs?: number
  readonly clock?: Clock
}

export interface PolledApiKeys extends ApiKeys, Polling {
  /** Milliseconds since the list of stored keys was known to be the newest, or since the start. */
  readonly ageMs: number
}

/**
 * The keys of the configuration, and those of the state, which are read again whenever they change. While the state is
 * away the last known ones stay in force, unless the configuration bounds their age. Keeps no process alive.
 */
export function createApiKeys(options: ApiKeysOptions): PolledApiKeys {
  return new Book(options)
}

class Book implements PolledApiKeys {
  readonly #options: ApiKeysOptions
  readonly #known: KnownKeys
  readonly ready: Polling['ready']
  readonly refresh: Polling['refresh']
  readonly hinted: Polling['hinted']
  readonly close: Polling['close']
  readonly #clock: Clock
  /** When the reading began by which the list was the newest. */
  #freshMs: number

  constructor(options: ApiKeysOptions) {
    this.#options = options
    const { keys, log, pollMs, clock = systemClock } = options
    this.#clock = clock
    this.#known = knownKeysOf(keys, clock)
    this.#freshMs = clock.now()
    const polling = startPolling({
      read: () => this.#read(),
      onAway: (error) => {
        const known = this.#known.version === null ? null : this.#known.size
        log.warn({ err: error, known }, 'stored keys cannot be read; the last known ones hold')
      },
      onBack: () => log.info('stored keys can be read again'),
      pollMs,
      clock,
    })
    this.ready = polling.ready
    this.refresh = polling.refresh
    this.hinted = polling.hinted
    this.close = polling.close
  }

  get ageMs(): number {
    return this.#clock.now() - this.#freshMs
  }

  find(sha256: string): Principal | undefined {
    const snapshot = this.#options.snapshot()
    const configured = snapshot.keys.get(sha256)
    if (configured !== undefined) return configured
    const { keysStaleAfterMs } = snapshot
    const isStale = keysStaleAfterMs !== undefined && this.ageMs > keysStaleAfterMs
    if (this.#known.version === null || isStale) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    const key = this.#known.find(sha256)
    return key === undefined ? undefined : this.#principalOf(key, snapshot)
  }

  /** The principal is kept: others remember by its identity whom they have met. */
  #principalOf(callable: CallableKey, { apps, rateLimit }: Snapshot): Principal | undefined {
    const { key, made } = callable
    const app = apps.get(key.workspace)?.get(key.app)
    if (app === undefined) {
      if (!this.#options.isWhole()) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
      return undefined
    }
    if (made?.app === app && made.rateLimit === rateLimit) return made.principal
    const isSame = made?.app === app && isDeepStrictEqual(made.rateLimit, rateLimit)
    const principal = isSame ? made.principal : makePrincipal(key, app, rateLimit)
    callable.made = { app, rateLimit, principal }
    return principal
  }

  async #read(): Promise<void> {
    const beganMs = this.#clock.now()
    await this.#known.read()
    this.#freshMs = beganMs
  }
}

function makePrincipal(key: StoredKey, app: AppPrincipal, rateLimit: RateLimit): Principal {
  const { id, name, scopes, expiresAtMs, budgetMicros, kind } = key
  const mark = kind === undefined ? {} : { kind }
  return {
    ...app,
    key: { id, name, scopes, rateLimit: key.rateLimit ?? rateLimit, expiresAtMs, budgetMicros, ...mark },
  }
}
