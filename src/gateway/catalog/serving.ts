import { createHash } from 'node:crypto'
import type { Snapshot } from '../../contracts/catalog.ts'
import type {
  BrokenRecord,
  CatalogEdit,
  CatalogService,
  PublishedRecord,
  ServedCatalog,
  TriedChange,
} from '../../contracts/catalog-service.ts'
import { type CatalogStore, type PublishedCatalog, recordId } from '../../contracts/catalog-store.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { Logger } from '../../contracts/log.ts'
import type { ModelsInForce, ModelTable, StoredModels } from '../../contracts/models.ts'
import { type Clock, nextTurn } from '../../contracts/time.ts'
import { withPartsOf } from './parts.ts'
import { type Polling, startPolling } from './polling.ts'
import type { ProviderContext } from './provider.ts'
import { NOTHING_SHARED, shareWith } from './sharing.ts'
import { type Fitting, fitRecords, type IssuePaths, tryEdits } from './try-edits.ts'

interface Refused {
  readonly issues: readonly string[]
}

/** A file that was parsed, or what stands for it. */
export interface CatalogText {
  readonly document: unknown
  /** Changes with the text. */
  readonly hash: string
}

/** Outcome of an offer. If it has issues, the running snapshot stays in force. */
export type Offered = { readonly changed: boolean } | Refused

/** The file and the published catalog that a snapshot is made of. */
interface Sources {
  readonly file: CatalogText
  /** Null: it could not be read yet. */
  readonly published: PublishedCatalog | null
  readonly models: ModelTable
}

interface InForce extends Sources {
  readonly fitting: Fitting
  /** Changes with the file, with the published catalog, and with every secret file that they name. */
  readonly fingerprint: string
}

/**
 * Makes the first snapshot, of a file alone.
 *
 * @returns the issues when that is not valid
 */
export function openServing(file: CatalogText, surroundings: ProviderContext): Serving | Refused {
  const first = make({ file, published: null, models: surroundings.models }, surroundings, null)
  return 'issues' in first ? first : new Serving(first, surroundings)
}

/** The catalog service of a process that serves a snapshot. @param refresh as `CatalogService` has it */
export function catalogService(serving: Serving, refresh: () => Promise<void>): CatalogService {
  return {
    current: () => serving.current(),
    good: () => serving.good(),
    models: () => serving.models(),
    document: () => serving.document(),
    records: () => serving.records(),
    shadowed: () => serving.shadowed(),
    broken: () => serving.broken(),
    refused: () => serving.refused(),
    version: () => serving.version(),
    tryChange: (edits) => serving.tryChange(edits),
    refresh,
  }
}

/** The snapshot in force, and what it is made of. Does no I/O but for the secret files that providers name. */
export class Serving implements Omit<CatalogService, 'refresh'> {
  readonly #surroundings: ProviderContext
  #inForce: InForce
  /** Last offer of each source that is valid by itself, even when it was refused and is not in force. */
  #newest: Sources
  /** Issues of the last offered file alone. */
  #fileIssues: readonly string[] = []
  #refused: readonly string[] = []
  /** Issues of the newest file and catalog with the newest facts of models. */
  #factsIssues: readonly string[] = []

  constructor(first: InForce, surroundings: ProviderContext) {
    this.#surroundings = surroundings
    this.#inForce = first
    this.#newest = first
  }

  /** Takes a file when it is valid by itself, and costs no published record that is in force. */
  offerFile(file: CatalogText | Refused): Offered {
    const { document } = this.#newest.file
    const alone =
      'issues' in file ? file : this.#alone({ ...file, document: withPartsOf(document, file.document) })
    this.#fileIssues = 'issues' in alone ? alone.issues : []
    this.#newest = { ...this.#newest, file: 'issues' in alone ? this.#inForce.file : alone.file }
    return 'issues' in alone ? alone : this.#settle()
  }

  /**
   * Takes a published catalog. Records that do not fit are left out, except where one of that name is in force: then
   * all stays as it is. So at the start nothing hinders, and later nothing that is served is lost.
   */
  offerPublished(published: PublishedCatalog): Offered {
    this.#newest = { ...this.#newest, published: this.#withKnown(published) }
    return this.#settle()
  }

  /** The same with the records that were there before: what is remembered of their fields goes by their identity. */
  #withKnown({ version, records }: PublishedCatalog): PublishedCatalog {
    const known = new Map(this.#newest.published?.records.map((record) => [recordId(record), record]))
    const same = (record: PublishedRecord) => {
      const before = known.get(recordId(record))
      return before?.hash === record.hash && before.number === record.number ? before : record
    }
    return { version, records: records.map(same) }
  }

  /**
   * Takes facts of models when they cost nothing that is served, and all of it is valid with them; else as soon as a
   * file or a catalog comes that is.
   */
  offerModels(models: ModelTable): Offered {
    this.#newest = { ...this.#newest, models }
    const offered = this.#settle()
    return areSame(this.#inForce.models, models) ? offered : { issues: this.#factsIssues }
  }

  /** A file by itself, by the newest facts of models, else by those in force. */
  #alone(file: CatalogText): InForce | Refused {
    const { models } = this.#newest
    const { good } = this.#inForce.fitting
    const made = make({ file, published: null, models }, this.#surroundings, good)
    if (!('issues' in made) || areSame(models, this.#inForce.models)) return made
    return make({ ...this.#inForce, file, published: null }, this.#surroundings, good)
  }

  /** Puts the newest file and catalog in force, else of one of them the one before; with the newest facts if it can. */
  #settle(): Offered {
    const { file, published, models } = this.#inForce
    const newest = this.#newest
    const pairs: Pick<Sources, 'file' | 'published'>[] = [newest]
    if (newest.file !== file && newest.published !== published)
      pairs.push({ file, published: newest.published }, { file: newest.file, published })
    const tables = areSame(newest.models, models) ? [newest.models] : [newest.models, models]
    const candidates = pairs.flatMap((pair) => tables.map((table) => ({ ...pair, models: table })))
    let refused: readonly string[] = []
    for (const [index, candidate] of candidates.entries()) {
      const made = make(candidate, this.#surroundings, this.#inForce.fitting.good)
      const losses = 'issues' in made ? made.issues : this.#lossesIn(made.fitting)
      if (index === 0) this.#factsIssues = losses
      if (index < tables.length) refused = losses
      if ('issues' in made || losses.length > 0) continue
      const changed = made.fingerprint !== this.#inForce.fingerprint
      if (changed) this.#inForce = made
      if (index >= tables.length) break
      this.#refused = []
      return { changed }
    }
    this.#refused = refused
    return { issues: refused }
  }

  /** Why records that are served now would not be any more. */
  #lossesIn({ broken }: Fitting): string[] {
    const served = new Set(this.#inForce.fitting.served.map(recordId))
    return broken
      .filter(({ record }) => served.has(recordId(record)))
      .flatMap(({ record, issues }) => issues.map((issue) => `${recordId(record)} ${issue}`))
  }

  current(): Snapshot {
    return this.#inForce.fitting.good.snapshot
  }

  good(): ServedCatalog {
    return this.#inForce.fitting.good
  }

  models(): ModelTable {
    return this.#inForce.models
  }

  document(): unknown {
    return this.#inForce.file.document
  }

  records(): readonly PublishedRecord[] {
    return this.#inForce.fitting.served
  }

  shadowed(): readonly PublishedRecord[] {
    return this.#inForce.fitting.shadowed
  }

  broken(): readonly BrokenRecord[] {
    return this.#inForce.fitting.broken
  }

  refused(): readonly string[] {
    return [...this.#fileIssues, ...this.#refused]
  }

  /** Whether the published catalog could be read since the start. */
  isWhole(): boolean {
    return this.#inForce.published !== null
  }

  version(): string {
    if (this.#inForce.published === null) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    return this.#inForce.published.version
  }

  tryChange(edits: readonly CatalogEdit[], paths: IssuePaths = 'record'): TriedChange {
    const version = this.version()
    const { file, fitting } = this.#inForce
    const sharing = shareWith(fitting.good)
    const { document } = file
    const surroundings = { ...this.#surroundings, models: this.#inForce.models }
    const tried = tryEdits(document, fitting.records, edits, surroundings, sharing, paths)
    return 'issues' in tried ? tried : { ...tried, version }
  }
}

function areSame(some: ModelTable, others: ModelTable): boolean {
  return some.issuedAt === others.issuedAt && some.origin === others.origin
}

function make(
  { file, published, models }: Sources,
  surroundings: ProviderContext,
  before: ServedCatalog | null,
): InForce | Refused {
  const hash = createHash('sha256')
  const readSecret = (path: string) => {
    const secret = surroundings.readSecret(path)
    hash.update('\0').update(secret)
    return secret
  }
  const sharing = before === null ? NOTHING_SHARED : shareWith(before)
  const fitting = fitRecords(
    file.document,
    published?.records ?? [],
    { ...surroundings, models, readSecret },
    sharing,
  )
  if ('issues' in fitting) return fitting
  const version = published?.version ?? null
  const fingerprint = JSON.stringify([file.hash, version, models.issuedAt, models.origin, hash.digest('hex')])
  return { file, published, models, fitting, fingerprint }
}

interface PublishedPollOptions {
  readonly serving: Serving
  readonly store: Pick<CatalogStore, 'version' | 'published' | 'models'>
  /** Takes what the state keeps in place of the program's facts of models; null: nothing. */
  readonly readModels: (stored: StoredModels | null) => ModelsInForce
  readonly log: Logger
  readonly pollMs?: number
  readonly clock?: Clock
}

/**
 * Has the catalog served that is published in the state, and served anew whenever that changes. While the state is away
 * the last known one stays in force.
 */
export function pollPublished({
  serving,
  store,
  readModels,
  log,
  pollMs,
  clock,
}: PublishedPollOptions): Polling {
  /** Version that was read last, in force or not; null: it has to be read. */
  let version: string | null = null
  /** Facts that what is served is not valid with. */
  let refusedFacts: ModelTable | null = null

  async function read(): Promise<void> {
    if (refusedFacts !== null && areSame(refusedFacts, serving.models())) tellTaken(refusedFacts)
    if (version !== null && (await store.version()) === version) return
    const [published, stored] = await Promise.all([store.published(), store.models()])
    // Thousands of records take as long to be parsed as to be judged.
    await nextTurn()
    const before = exclusionsOf(serving)
    takeModels(readModels(stored))
    const offered = serving.offerPublished(published)
    version = published.version
    const about = { catalog_version: version, records: published.records.length }
    if (!('issues' in offered)) log.info(about, 'published catalog read')
    else {
      const { issues } = offered
      log.error({ ...about, issues }, 'published catalog refused, it does not fit; the old one stays')
    }
    logExclusions(before)
  }

  function takeModels({ table, refused }: ModelsInForce): void {
    if (refused !== null)
      log.error(`the stored facts of models are refused, since ${refused}; those of the program hold`)
    if (areSame(table, refusedFacts ?? serving.models())) return
    const offered = serving.offerModels(table)
    if ('issues' in offered) {
      refusedFacts = table
      log.error({ issues: offered.issues }, `${nameOf(table)} refused, the catalog is not valid with them`)
    } else tellTaken(table)
  }

  function tellTaken(table: ModelTable): void {
    refusedFacts = null
    log.info(`${nameOf(table)} are in force`)
  }

  function logExclusions(before: string): void {
    if (exclusionsOf(serving) === before) return
    const left_out = serving.broken().map(({ record, issues }) => ({ record: recordId(record), issues }))
    if (left_out.length === 0) log.info('every published record is served')
    else log.error({ left_out }, 'published records do not fit the configuration and are left out')
  }

  return startPolling({
    read,
    onAway: (error) => {
      const known = serving.isWhole() ? serving.records().length : null
      log.warn({ err: error, known }, 'the published catalog cannot be read; the last known one holds')
    },
    onBack: () => log.info('the published catalog can be read again'),
    pollMs,
    clock,
  })
}

function nameOf({ issuedAt, origin }: ModelTable): string {
  return `facts of models of ${issuedAt} (${origin})`
}

function exclusionsOf(serving: Serving): string {
  return JSON.stringify(serving.broken().map(({ record, issues }) => [recordId(record), issues]))
}
