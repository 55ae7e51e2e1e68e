import { isDeepStrictEqual } from 'node:util'
import type { AppPrincipal, Principal } from '../../contracts/catalog.ts'
import { oneAtATime } from '../../contracts/one-at-a-time.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import type { FormerKey, KeyPage, StoredKey, StoredKeys } from '../../contracts/stored-keys.ts'
import { byAge } from '../../contracts/stored-keys.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { formerUntilMs } from './key.ts'

/** Keys that are forgotten in the state raise no version: they are found out by reading all again. */
const WHOLE_MS = 24 * 3_600_000
/** How often all are read where some were left out. */
const WHOLE_TRIES = 3

type ReadKeys = Pick<StoredKeys, 'version' | 'page' | 'changes'>

/** A key that calls come with, and the principal that was made of it and these. */
export interface CallableKey {
  readonly key: StoredKey
  made: { readonly app: AppPrincipal; readonly rateLimit: RateLimit; readonly principal: Principal } | null
}

const known = new WeakMap<ReadKeys, KnownKeys>()

/** The copy that this process has of a state's keys; there is one, whoever asks. */
export function knownKeysOf(keys: ReadKeys, clock: Clock = systemClock): KnownKeys {
  const one = known.get(keys) ?? new KnownKeys(keys, clock)
  known.set(keys, one)
  return one
}

/** The copy as the state is now. @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function readKeys(keys: ReadKeys): Promise<KnownKeys> {
  const known = knownKeysOf(keys)
  await known.read()
  return known
}

/**
 * A copy of all keys of the state, the revoked ones too. It is read in parts at first, and then by what has changed: of
 * 100,000 keys, reading all for each that is made would hold every call for a second.
 */
export class KnownKeys {
  readonly #keys: ReadKeys
  readonly #clock: Clock
  /** Version of the state that the copy is of; null: it has not been read as a whole. */
  #version: string | null = null
  #wholeAtMs = 0
  readonly #byId = new Map<string, StoredKey>()
  readonly #byWorkspace = new Map<string, Set<StoredKey>>()
  /** Without the revoked ones, by SHA-256. */
  readonly #callable = new Map<string, CallableKey>()
  /** Values that many keys have in common: each comes as a copy of its own. */
  readonly #shared = new Map<string, unknown>()

  constructor(keys: ReadKeys, clock: Clock) {
    this.#keys = keys
    this.#clock = clock
  }

  /** Null: nothing could be read yet. */
  get version(): string | null {
    return this.#version
  }

  /** Number of keys that calls may come with. */
  get callable(): number {
    return this.#callable.size
  }

  /** Reads what is new since the last time. @throws GatewayError DEPENDENCY_UNAVAILABLE; what was known stays */
  readonly read = oneAtATime(() => this.#read())

  find(sha256: string): CallableKey | undefined {
    return this.#callable.get(sha256)
  }

  byId(id: string): StoredKey | undefined {
    return this.#byId.get(id)
  }

  /** Keys of a workspace, oldest first. */
  of(workspace: string): StoredKey[] {
    return [...(this.#byWorkspace.get(workspace) ?? [])].sort(byAge)
  }

  /** All keys, in no order. */
  all(): Iterable<StoredKey> {
    return this.#byId.values()
  }

  /** Drops a key that was forgotten in the state. */
  drop(id: string): void {
    const key = this.#byId.get(id)
    if (key === undefined) return
    this.#byId.delete(id)
    this.#byWorkspace.get(key.workspace)?.delete(key)
    this.#callable.delete(key.sha256)
    if (key.former !== undefined) this.#callable.delete(key.former.sha256)
  }

  async #read(): Promise<void> {
    // Before the keys: a change in between is then read once more, and never missed.
    const version = await this.#keys.version()
    const isWhole = this.#version !== null && this.#clock.now() - this.#wholeAtMs < WHOLE_MS
    if (isWhole && version === this.#version) return
    const changes = isWhole ? await this.#keys.changes(this.#version!) : null
    if (changes === null) return await this.#readAll(version)
    for (const key of changes.keys) this.#put(key)
    this.#version = changes.version
  }

  async #readAll(version: string): Promise<void> {
    // Fewer than there are: some were left out, or have come meanwhile and are changes of the next reading.
    for (let tries = 0; tries < WHOLE_TRIES; tries += 1)
      if ((await this.#readParts()) <= this.#byId.size) break
    this.#version = version
    this.#wholeAtMs = this.#clock.now()
  }

  /** @returns how many there are */
  async #readParts(): Promise<number> {
    const gone = new Set(this.#byId.keys())
    let page: KeyPage | null = null
    do {
      page = await this.#keys.page(page?.next ?? null)
      for (const key of page.keys) {
        this.#put(key)
        gone.delete(key.id)
      }
    } while (page.next !== null)
    for (const id of gone) this.drop(id)
    return page.total ?? 0
  }

  /** Keeps a key that was read, as the object before where it is the same. */
  #put(key: StoredKey): void {
    const before = this.#byId.get(key.id)
    if (before !== undefined && isDeepStrictEqual(before, key)) return
    this.drop(key.id)
    const shared = {
      workspace: this.#share(key.workspace),
      app: this.#share(key.app),
      scopes: this.#share(key.scopes),
      rateLimit: this.#share(key.rateLimit),
    }
    // The object that was read is kept: a copy of each would double what is collected later.
    const kept = Object.assign(key, shared)
    this.#byId.set(key.id, kept)
    const beside = this.#byWorkspace.get(kept.workspace) ?? new Set()
    this.#byWorkspace.set(kept.workspace, beside.add(kept))
    if (kept.revokedAtMs !== null) return
    this.#callable.set(kept.sha256, { key: kept, made: null })
    const { former } = kept
    if (former !== undefined) this.#callable.set(former.sha256, { key: formerOf(kept, former), made: null })
  }

  #share<Value>(value: Value): Value {
    const text = JSON.stringify(value)
    const shared = this.#shared.get(text) ?? value
    this.#shared.set(text, shared)
    return shared as Value
  }
}

/** A key that was rotated, by what it was before: it ends when that is no longer taken. */
function formerOf(key: StoredKey, former: FormerKey): StoredKey {
  const { sha256, prefix } = former
  return { ...key, sha256, prefix, expiresAtMs: formerUntilMs(former, key) }
}
