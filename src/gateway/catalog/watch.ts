import { hash } from 'node:crypto'
import { type FSWatcher, readFileSync, watch } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import type { ModelTable } from '../../contracts/models.ts'
import { type Clock, systemClock, type Timer } from '../../contracts/time.ts'
import { parseInThread } from './parse-text.ts'
import type { ProviderContext } from './provider.ts'
import { type CatalogText, type Offered, openServing, type Serving } from './serving.ts'

/** Editors and deployment tools write a file in several steps; reading waits until they are this long at rest. */
const REST_MS = 200

/** Sources of the snapshot in force: a file, and the catalog that is published beside it. */
export interface CatalogSource {
  /** Serves the catalog. It takes published records itself; `reload` offers it the file. */
  readonly serving: Serving
  /** Reads the file and its secrets again. Never rejects; one reload runs after the other. */
  reload(): Promise<Offered>
  /** Reloads by itself whenever the file changes, until `close`. Keeps no process alive. */
  watch(onReload: (outcome: Offered) => void): void
  close(): void
}

export interface CatalogOptions extends Omit<ProviderContext, 'readSecret'> {
  readonly path: string
  /** Facts by which the file is judged where it is not valid by `models`, as nodes do that run: see `offerModels`. */
  readonly otherwise?: ModelTable
  readonly clock?: Clock
  /** Default: files, a relative path being one from the folder of the configuration. */
  readonly readSecret?: ProviderContext['readSecret']
}

/** A configuration that cannot be served. The message lists every fault, one to a line. */
export class CatalogError extends Error {
  override readonly name = 'CatalogError'
  readonly issues: readonly string[]

  constructor(path: string, issues: readonly string[]) {
    super(`${path} is not valid:\n${issues.map((fault) => `  ${fault}`).join('\n')}`)
    this.issues = issues
  }
}

/**
 * Reads a configuration file for the first time.
 *
 * @throws CatalogError when it is missing or faulty
 */
export async function openCatalog({
  path,
  otherwise,
  clock = systemClock,
  ...outside
}: CatalogOptions): Promise<CatalogSource> {
  const file = await readFileText(path)
  if ('issues' in file) throw new CatalogError(path, file.issues)
  const readSecret = (named: string) => readFileSync(resolve(dirname(path), named), 'utf8')
  const open = (models: ModelTable) => openServing(file, { readSecret, ...outside, models })
  const first = open(outside.models)
  const serving = 'issues' in first && otherwise !== undefined ? open(otherwise) : first
  if (!('issues' in serving)) return new WatchedCatalog(path, serving, clock)
  throw new CatalogError(path, 'issues' in first ? first.issues : serving.issues)
}

async function readFileText(path: string): Promise<CatalogText | { readonly issues: readonly string[] }> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    return { issues: [`/: the file cannot be read (${code})`] }
  }
  const parsed = await parseInThread(text)
  return 'issues' in parsed ? parsed : { ...parsed, hash: hash('sha256', text) }
}

class WatchedCatalog implements CatalogSource {
  readonly serving: Serving
  readonly #path: string
  #last: Promise<unknown> = Promise.resolve()
  #watcher: FSWatcher | null = null
  #rest: Timer | null = null
  readonly #clock: Clock
  #closed = false

  constructor(path: string, serving: Serving, clock: Clock) {
    this.#path = path
    this.#clock = clock
    this.serving = serving
  }

  reload(): Promise<Offered> {
    const next = this.#last.then(() => this.#reload())
    this.#last = next
    return next
  }

  async #reload(): Promise<Offered> {
    const file = await readFileText(this.#path)
    return this.#closed ? { changed: false } : this.serving.offerFile(file)
  }

  watch(onReload: (outcome: Offered) => void): void {
    if (this.#closed || this.#watcher !== null) return
    const path = this.#path
    const name = basename(path)
    const changed = (_event: string, file: string | null) => {
      // Many editors, and every careful tool, put a new file in the old one's place: the folder is watched, because a
      // watch on the file would stay with the old one. Kubernetes swaps a link named `..data` beside it.
      if (file !== null && file !== name && file !== '..data') return
      this.#rest?.close()
      const reload = () => void this.reload().then((outcome) => this.#closed || onReload(outcome))
      this.#rest = this.#clock.after(REST_MS, reload).unref()
    }
    const failed = (error: unknown) => {
      this.#watcher?.close()
      const reason = error instanceof Error ? error.message : String(error)
      onReload({ issues: [`/: changes of the file are not seen (${reason}); SIGHUP reads it again`] })
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
    this.#rest?.close()
    this.#watcher?.close()
  }
}
