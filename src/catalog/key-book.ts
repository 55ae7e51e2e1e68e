import { isDeepStrictEqual } from 'node:util'
import { GatewayError } from '../errors.ts'
import type { Logger } from '../log.ts'
import type { KeyBook, Principal, Snapshot } from '../schema/catalog.ts'
import type { StoredKey, StoredKeys } from '../schema/stored-keys.ts'

/** With the time that the state may take to answer, a revocation is in force on every node within 5 s. */
const POLL_MS = 1500
/** Part of the interval by which nodes are spread. */
const JITTER = 0.4

export interface KeyBookOptions {
  /** The configuration in force. */
  readonly snapshot: () => Snapshot
  readonly keys: StoredKeys
  readonly log: Logger
  readonly pollMs?: number
}

export interface PolledKeyBook extends KeyBook {
  /** Resolves when the state was read for the first time, or could not be. Never rejects. */
  ready(): Promise<void>
  close(): void
}

/**
 * The keys of the configuration, and those of the state, which are read again whenever they change. While the state is
 * away the last known ones stay in force. Keeps no process alive.
 */
export function createKeyBook(options: KeyBookOptions): PolledKeyBook {
  return new Book(options)
}

interface Made {
  readonly from: StoredKey
  readonly principal: Principal
}

class Book implements PolledKeyBook {
  readonly #options: KeyBookOptions
  readonly #pollMs: number
  /** SHA-256 → key, without the revoked ones; null until they could be read. */
  #stored: ReadonlyMap<string, StoredKey> | null = null
  /** What `#stored` is of; null: it has to be read. */
  #version: string | null = null
  #away = false
  /** Principals are kept: others remember by their identity whom they have met. All of one snapshot. */
  #made = new Map<string, Made>()
  #madeOf: Snapshot | null = null
  readonly #first: Promise<void>
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: KeyBookOptions) {
    this.#options = options
    this.#pollMs = options.pollMs ?? POLL_MS
    this.#first = this.#poll()
  }

  find(sha256: string): Principal | undefined {
    const snapshot = this.#options.snapshot()
    const configured = snapshot.keys.get(sha256)
    if (configured !== undefined) return configured
    if (this.#stored === null) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    const key = this.#stored.get(sha256)
    return key === undefined ? undefined : this.#principalOf(key, snapshot)
  }

  #principalOf(key: StoredKey, snapshot: Snapshot): Principal | undefined {
    if (this.#madeOf !== snapshot) {
      this.#made = new Map()
      this.#madeOf = snapshot
    }
    const made = this.#made.get(key.sha256)
    if (made?.from === key) return made.principal
    const principal =
      made !== undefined && isDeepStrictEqual(made.from, key) ? made.principal : makePrincipal(key, snapshot)
    if (principal !== undefined) this.#made.set(key.sha256, { from: key, principal })
    return principal
  }

  ready(): Promise<void> {
    return this.#first
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
  }

  async #poll(): Promise<void> {
    try {
      await this.#read()
      if (this.#away && !this.#closed) this.#options.log.info('stored keys can be read again')
      this.#away = false
    } catch (error) {
      if (!this.#away && !this.#closed) {
        const known = this.#stored?.size ?? null
        this.#options.log.warn({ err: error, known }, 'stored keys cannot be read; the last known ones hold')
      }
      this.#away = true
    }
    if (this.#closed) return
    const spread = 1 + JITTER * (Math.random() - 0.5)
    this.#timer = setTimeout(() => void this.#poll(), this.#pollMs * spread)
    this.#timer.unref()
  }

  async #read(): Promise<void> {
    const { keys } = this.#options
    // Before the list: a change in between is then read once more, and never missed.
    const version = await keys.version()
    if (this.#stored !== null && version === this.#version) return
    const list = await keys.list()
    const stored = new Map<string, StoredKey>()
    for (const key of list) if (key.revokedAtMs === null) stored.set(key.sha256, key)
    for (const sha256 of this.#made.keys()) if (!stored.has(sha256)) this.#made.delete(sha256)
    this.#stored = stored
    this.#version = version
  }
}

/** Undefined where the configuration has no such workspace or app any more. */
function makePrincipal(key: StoredKey, { apps, rateLimit }: Snapshot): Principal | undefined {
  const app = apps.get(key.workspace)?.get(key.app)
  if (app === undefined) return undefined
  const { id, name, scopes, expiresAtMs, budgetMicros } = key
  return {
    ...app,
    key: { id, name, scopes, rateLimit: key.rateLimit ?? rateLimit, expiresAtMs, budgetMicros },
  }
}
