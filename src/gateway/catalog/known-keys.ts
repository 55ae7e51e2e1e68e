import { isDeepStrictEqual } from 'node:util'
import type { AppPrincipal, Principal } from '../../contracts/catalog.ts'
import { oneAtATime } from '../../contracts/one-at-a-time.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import type { FormerKey, KeyPage, StoredKey, StoredKeys } from '../../contracts/stored-keys.ts'
import { byAge } from '../../contracts/stored-keys.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { formerUntilMs } from './key.ts'
import { type KeyBudget, KeyTable } from './key-table.ts'

/** Keys that are forgotten in the state raise no version: they are found out by reading all again. */
const WHOLE_MS = 24 * 3_600_000
/** How often all are read where some were left out. */
const WHOLE_TRIES = 3
/** Keys that calls came with are kept as objects, up to twice as many; the others are looked up in 2 µs. */
const MET_MAX = 65_536

type ReadKeys = Pick<StoredKeys, 'version' | 'page' | 'changes'>

/** A key that calls come with, and the principal that was made of it and these. */
export interface CallableKey {
  readonly key: StoredKey
  /** The table that it is of. */
  readonly table: KeyTable
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
  readonly #metMax: number
  /** Version of the state that the copy is of; null: it has not been read as a whole. */
  #version: string | null = null
  #wholeAtMs = 0
  /** Null: there are none. */
  #table: KeyTable | null = null
  /** True once the temporary file of one could not be made, or not grow: calls need their keys all the same. */
  #isInMemory = false
  /** By SHA-256: those that calls came with lately, and those that did before these. */
  #met = new Map<string, CallableKey>()
  #metBefore = new Map<string, CallableKey>()

  constructor(keys: ReadKeys, clock: Clock, metMax = MET_MAX) {
    this.#keys = keys
    this.#clock = clock
    this.#metMax = metMax
  }

  /** Null: nothing could be read yet. */
  get version(): string | null {
    return this.#version
  }

  /** Number of all keys, the revoked ones too. It is counted. */
  get size(): number {
    return this.#table?.size ?? 0
  }

  /** Reads what is new since the last time. @throws GatewayError DEPENDENCY_UNAVAILABLE; what was known stays */
  readonly read = oneAtATime(() => this.#read())

  /** The key that calls may come with, the same object as the last time while it is the same key. */
  find(sha256: string): CallableKey | undefined {
    const table = this.#table
    const recent = this.#met.get(sha256)
    if (recent !== undefined && recent.table === table) return recent
    const met = recent ?? this.#metBefore.get(sha256)
    if (met !== undefined && met.table === table) return this.#meet(sha256, met)
    const key = table?.find(sha256)
    if (table === null || key === undefined) return undefined
    const own = key.sha256 === sha256 ? key : formerOf(key, key.former!)
    const isSame = met !== undefined && isDeepStrictEqual(met.key, own)
    return this.#meet(sha256, { key: own, table, made: isSame ? met.made : null })
  }

  byId(id: string): StoredKey | undefined {
    return this.#table?.byId(id)
  }

  /** Keys of a workspace, oldest first. */
  of(workspace: string): StoredKey[] {
    return this.#table?.of(workspace).sort(byAge) ?? []
  }

  /** Number of a workspace's keys. */
  sizeOf(workspace: string): number {
    return this.#table?.sizeOf(workspace) ?? 0
  }

  /** Caps of the keys that calls may come with. */
  async budgets(): Promise<KeyBudget[]> {
    const all: KeyBudget[] = []
    for (;;) {
      const some = (await this.#table?.budgets(all.at(-1) ?? null)) ?? []
      if (some.length === 0) return all
      all.push(...some)
    }
  }

  /** Drops a key that was forgotten in the state. */
  drop(id: string): void {
    this.#forget(this.#table?.drop(id))
  }

  async #read(): Promise<void> {
    try {
      await this.#readNew()
    } catch (error) {
      // Also where that was so before: the state may have been away when all was to be read into memory.
      if ((error as NodeJS.ErrnoException).code !== 'ERR_SQLITE_ERROR') throw error
      this.#isInMemory = true
      await this.#readAll(await this.#keys.version())
    }
  }

  async #readNew(): Promise<void> {
    // Before the keys: a change in between is then read once more, and never missed.
    const version = await this.#keys.version()
    const isWhole = this.#version !== null && this.#clock.now() - this.#wholeAtMs < WHOLE_MS
    if (isWhole && version === this.#version) return
    const changes = isWhole ? await this.#keys.changes(this.#version!) : null
    if (changes === null) return await this.#readAll(version)
    if (changes.keys.length > 0) this.#table ??= new KeyTable(this.#isInMemory)
    await this.#table?.put(changes.keys, (key) => this.#forget(key))
    this.#version = changes.version
  }

  async #readAll(version: string): Promise<void> {
    const before = this.#table
    // Fewer than there are: some were left out, or have come meanwhile and are changes of the next reading.
    let table: KeyTable | null = null
    try {
      for (let tries = 0; tries < WHOLE_TRIES; tries += 1) {
        let page: KeyPage | null = null
        do {
          page = await this.#keys.page(page?.next ?? null)
          if (page.keys.length > 0) table ??= new KeyTable(this.#isInMemory)
          await table?.put(page.keys, () => {})
        } while (page.next !== null)
        if ((page.total ?? 0) <= (table?.size ?? 0)) break
      }
    } catch (error) {
      table?.close()
      throw error
    }
    this.#table = table
    before?.close()
    this.#version = version
    this.#wholeAtMs = this.#clock.now()
  }

  #meet(sha256: string, key: CallableKey): CallableKey {
    if (this.#met.size >= this.#metMax) {
      this.#metBefore = this.#met
      this.#met = new Map()
    }
    this.#met.set(sha256, key)
    return key
  }

  #forget(key: StoredKey | undefined): void {
    for (const sha256 of [key?.sha256 ?? '', key?.former?.sha256 ?? '']) {
      this.#met.delete(sha256)
      this.#metBefore.delete(sha256)
    }
  }
}

/** A key that was rotated, by what it was before: it ends when that is no longer taken. */
function formerOf(key: StoredKey, former: FormerKey): StoredKey {
  const { sha256, prefix } = former
  return { ...key, sha256, prefix, expiresAtMs: formerUntilMs(former, key) }
}
