import { isDeepStrictEqual } from 'node:util'
import type { ApiKeys, AppPrincipal, Principal, Snapshot } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { Logger } from '../../contracts/log.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import type { FormerKey, StoredKey, StoredKeys } from '../../contracts/stored-keys.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { formerUntilMs } from './key.ts'
import { type Polling, startPolling } from './polling.ts'

export interface ApiKeysOptions {
  /** The configuration in force. */
  readonly snapshot: () => Snapshot
  /** False while it lacks what is published in the state, which could not be read yet. */
  readonly isWhole: () => boolean
  readonly keys: Pick<StoredKeys, 'version' | 'list'>
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

interface Made {
  readonly from: StoredKey
  readonly app: AppPrincipal
  readonly rateLimit: RateLimit
  readonly principal: Principal
}

class Book implements PolledApiKeys {
  readonly #options: ApiKeysOptions
  /** SHA-256 → key, without the revoked ones; null until they could be read. */
  #stored: ReadonlyMap<string, StoredKey> | null = null
  /** Version of the state that `#stored` was read at; null: it has to be read. */
  #version: string | null = null
  /** Principals are kept: others remember by their identity whom they have met. */
  readonly #made = new Map<string, Made>()
  readonly ready: Polling['ready']
  readonly refresh: Polling['refresh']
  readonly hinted: Polling['hinted']
  readonly close: Polling['close']
  readonly #clock: Clock
  /** When the reading began by which the list was the newest. */
  #freshMs: number

  constructor(options: ApiKeysOptions) {
    this.#options = options
    const { log, pollMs, clock = systemClock } = options
    this.#clock = clock
    this.#freshMs = clock.now()
    const polling = startPolling({
      read: () => this.#read(),
      onAway: (error) => {
        const known = this.#stored?.size ?? null
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
    if (this.#stored === null || isStale) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    const key = this.#stored.get(sha256)
    return key === undefined ? undefined : this.#principalOf(key, snapshot)
  }

  #principalOf(key: StoredKey, { apps, rateLimit }: Snapshot): Principal | undefined {
    const app = apps.get(key.workspace)?.get(key.app)
    if (app === undefined) {
      if (!this.#options.isWhole()) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
      return undefined
    }
    const made = this.#made.get(key.sha256)
    if (made?.from === key && made.app === app && made.rateLimit === rateLimit) return made.principal
    const isSame = made?.app === app && isDeepStrictEqual([made.from, made.rateLimit], [key, rateLimit])
    const principal = isSame ? made.principal : makePrincipal(key, app, rateLimit)
    this.#made.set(key.sha256, { from: key, app, rateLimit, principal })
    return principal
  }

  async #read(): Promise<void> {
    const { keys } = this.#options
    const beganMs = this.#clock.now()
    // Before the list: a change in between is then read once more, and never missed.
    const version = await keys.version()
    if (this.#stored !== null && version === this.#version) {
      this.#freshMs = beganMs
      return
    }
    const list = await keys.list()
    const stored = new Map<string, StoredKey>()
    for (const key of list) {
      if (key.revokedAtMs !== null) continue
      stored.set(key.sha256, key)
      if (key.former !== undefined) stored.set(key.former.sha256, formerOf(key, key.former))
    }
    for (const sha256 of this.#made.keys()) if (!stored.has(sha256)) this.#made.delete(sha256)
    this.#stored = stored
    this.#version = version
    this.#freshMs = beganMs
  }
}

/** A key that was rotated, by what it was before: it ends when that is no longer taken. */
function formerOf(key: StoredKey, former: FormerKey): StoredKey {
  const { sha256, prefix } = former
  return { ...key, sha256, prefix, expiresAtMs: formerUntilMs(former, key) }
}

function makePrincipal(key: StoredKey, app: AppPrincipal, rateLimit: RateLimit): Principal {
  const { id, name, scopes, expiresAtMs, budgetMicros, kind } = key
  const mark = kind === undefined ? {} : { kind }
  return {
    ...app,
    key: { id, name, scopes, rateLimit: key.rateLimit ?? rateLimit, expiresAtMs, budgetMicros, ...mark },
  }
}
