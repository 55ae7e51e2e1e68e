import type { Scope } from './catalog.ts'
import type { RateLimit } from './rate-limit.ts'

/** An API key that is kept in the state; of the key itself only the hash is. */
export interface StoredKey {
  /** `key_…` */
  readonly id: string
  /** SHA-256 of the key, lower-case hex. */
  readonly sha256: string
  /** The first characters of the key, which logs and pages may show. */
  readonly prefix: string
  readonly workspace: string
  readonly app: string
  readonly name: string
  readonly scopes: readonly Scope[]
  /** Null: the default of the configuration. */
  readonly rateLimit: RateLimit | null
  /** Cap per calendar month in UTC, micro-USD; null: none. */
  readonly budgetMicros: number | null
  readonly expiresAtMs: number | null
  readonly createdAtMs: number
  readonly revokedAtMs: number | null
  /** The key that it was before it was rotated, while that is taken too; absent: it was not, or that is long over. */
  readonly former?: FormerKey
  /** Marks a key that the playground has made for itself; absent: a key that a person made. */
  readonly kind?: 'playground'
}

/** Record of a key that another has replaced. */
export interface FormerKey {
  readonly sha256: string
  readonly prefix: string
  readonly untilMs: number
}

/** Some of the keys, and where the others begin; null: these were the last, with the number of all by then. */
export interface KeyPage {
  readonly keys: readonly StoredKey[]
  readonly next: string | null
  readonly total: number | null
}

/** Keys that have changed, as they are, and the version by then. */
export interface KeyChanges {
  readonly keys: readonly StoredKey[]
  readonly version: string
}

/**
 * Keys in the state. Methods answer within 2 s and throw GatewayError DEPENDENCY_UNAVAILABLE when the state does not
 * answer.
 */
export interface StoredKeys {
  /** Idempotent by the id. */
  create(key: StoredKey): Promise<void>
  /**
   * Puts a key in the place of the one with its id, unless any key has changed since `version` was read, or there is
   * none with the id. Leaves alone whether it is revoked.
   *
   * @returns whether it did
   */
  replace(key: StoredKey, version: string): Promise<boolean>
  /** The key as it is then; null: there is none with this id. Revoking twice keeps the first time. */
  revoke(id: string): Promise<StoredKey | null>
  /**
   * Deletes the record of a key that has expired; any other stays. No node has to hear of it, so that the version is
   * the same after it.
   */
  forget(id: string): Promise<void>
  /** All of them, the revoked ones too, oldest first: for commands, not for a process that serves. */
  list(): Promise<readonly StoredKey[]>
  /**
   * All of them in parts of a thousand or so, in any order, each at least once. One that changes meanwhile may be there
   * as it was before; a failover between two parts may leave some out, so that there are fewer than `total`.
   * @param from `next` of the part before; null: the first part
   */
  page(from: string | null): Promise<KeyPage>
  /** Keys that have changed since a version; null when that is not known any more. */
  changes(since: string): Promise<KeyChanges | null>
  /** Changes with every `create`, `replace` and `revoke`, by whichever process. */
  version(): Promise<string>
}

/** Order of keys by age, oldest first. */
export function byAge(one: StoredKey, other: StoredKey): number {
  return one.createdAtMs - other.createdAtMs || (one.id < other.id ? -1 : 1)
}
