import { createHash } from 'node:crypto'
import { type FSWatcher, readFileSync, watch } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import type { Snapshot } from '../schema/catalog.ts'
import { readCatalog } from './parse.ts'
import type { Surroundings } from './provider.ts'
import type { Good } from './snapshot.ts'

/** Editors and deployment tools write a file in several steps; reading waits until they are this long at rest. */
const REST_MS = 200

/** What became of a reload. With faults the running snapshot stays in force. */
export type Reload = { readonly changed: boolean } | { readonly faults: readonly string[] }

/** Where the snapshot in force comes from. */
export interface CatalogSource {
  /** Whole and immutable; a reload puts another in its place. */
  readonly current: Snapshot
  /** The snapshot in force, and what else the file says. */
  readonly good: Good
  /** Reads the file and its secrets again. Never rejects; one reload runs after the other. */
  reload(): Promise<Reload>
  /** Reloads by itself whenever the file changes, until `close`. Keeps no process alive. */
  watch(onReload: (outcome: Reload) => void): void
  close(): void
}

export interface CatalogOptions {
  readonly path: string
  readonly kinds: Surroundings['kinds']
  readonly factsOf: Surroundings['factsOf']
  readonly env: Surroundings['env']
}

/** A configuration that cannot be served. The message lists every fault, one to a line. */
export class CatalogError extends Error {
  override readonly name = 'CatalogError'
  readonly faults: readonly string[]

  constructor(path: string, faults: readonly string[]) {
    super(`${path} is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`)
    this.faults = faults
  }
}

/**
 * Reads a configuration file for the first time.
 *
 * @throws CatalogError when it is missing or faulty
 */
export async function openCatalog(options: CatalogOptions): Promise<CatalogSource> {
  const first = await load(options)
  if ('faults' in first) throw new CatalogError(options.path, first.faults)
  return new WatchedCatalog(options, first)
}

interface Loaded {
  readonly good: Good
  /** Changes with the text of the file and of every secret file that it names. */
  readonly fingerprint: string
}

async function load(options: CatalogOptions): Promise<Loaded | { readonly faults: readonly string[] }> {
  const { path, ...outside } = options
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    return { faults: [`/: the file cannot be read (${code})`] }
  }
  const hash = createHash('sha256').update(text)
  const readSecret = (named: string) => {
    const secret = readFileSync(resolve(dirname(path), named), 'utf8')
    hash.update('\0').update(secret)
    return secret
  }
  const reading = readCatalog(text, { ...outside, readSecret })
  return 'faults' in reading ? reading : { good: reading, fingerprint: hash.digest('hex') }
}

class WatchedCatalog implements CatalogSource {
  readonly #options: CatalogOptions
  #loaded: Loaded
  #last: Promise<unknown> = Promise.resolve()
  #watcher: FSWatcher | null = null
  #rest: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: CatalogOptions, first: Loaded) {
    this.#options = options
    this.#loaded = first
  }

  get current(): Snapshot {
    return this.#loaded.good.snapshot
  }

  get good(): Good {
    return this.#loaded.good
  }

  reload(): Promise<Reload> {
    const next = this.#last.then(() => this.#reload())
    this.#last = next
    return next
  }

  async #reload(): Promise<Reload> {
    const loaded = await load(this.#options)
    if ('faults' in loaded) return loaded
    if (this.#closed || loaded.fingerprint === this.#loaded.fingerprint) return { changed: false }
    this.#loaded = loaded
    return { changed: true }
  }

  watch(onReload: (outcome: Reload) => void): void {
    if (this.#closed || this.#watcher !== null) return
    const { path } = this.#options
    const name = basename(path)
    const changed = (_event: string, file: string | null) => {
      // Many editors, and every careful tool, put a new file in the old one's place: the folder is watched, because a
      // watch on the file would stay with the old one. Kubernetes swaps a link named `..data` beside it.
      if (file !== null && file !== name && file !== '..data') return
      clearTimeout(this.#rest)
      this.#rest = setTimeout(
        () => void this.reload().then((outcome) => this.#closed || onReload(outcome)),
        REST_MS,
      )
      this.#rest.unref()
    }
    const failed = (error: unknown) => {
      this.#watcher?.close()
      const reason = error instanceof Error ? error.message : String(error)
      onReload({ faults: [`/: changes of the file are not seen (${reason}); SIGHUP reads it again`] })
    }
    try {
      this.#watcher = watch(dirname(resolve(path)), { persistent: false }, changed)
      this.#watcher.on('error', failed)
    } catch (error) {
      failed(error)
    }
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#rest)
    this.#watcher?.close()
  }
}
