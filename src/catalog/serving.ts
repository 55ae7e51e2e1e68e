import { createHash } from 'node:crypto'
import { GatewayError } from '../errors.ts'
import type { Snapshot } from '../schema/catalog.ts'
import type {
  BrokenRecord,
  CatalogDesk,
  CatalogEdit,
  PublishedRecord,
  ServedCatalog,
  TriedChange,
} from '../schema/catalog-desk.ts'
import { type PublishedCatalog, recordId } from '../schema/catalog-store.ts'
import { type Fitting, fitRecords } from './fit.ts'
import type { Surroundings } from './provider.ts'
import { NOTHING_SHARED, shareWith } from './sharing.ts'
import { type FaultPaths, tryEdits } from './try-edits.ts'

interface Faulty {
  readonly faults: readonly string[]
}

/** A file that was parsed, or what stands for it. */
export interface CatalogText {
  readonly document: unknown
  /** Changes with the text. */
  readonly hash: string
}

/** What became of an offer. With faults the running snapshot stays in force. */
export type Offered = { readonly changed: boolean } | Faulty

/** The file and the published catalog that a snapshot is made of. */
interface Sources {
  readonly file: CatalogText
  /** Null: it could not be read yet. */
  readonly published: PublishedCatalog | null
}

interface InForce extends Sources {
  readonly fitting: Fitting
  /** Changes with the file, with the published catalog, and with every secret file that they name. */
  readonly fingerprint: string
}

/**
 * Makes the first snapshot, of a file alone.
 *
 * @returns the faults when that is not valid
 */
export function openServing(file: CatalogText, surroundings: Surroundings): Serving | Faulty {
  const first = make({ file, published: null }, surroundings, null)
  return 'faults' in first ? first : new Serving(first, surroundings)
}

/** The snapshot in force, and what it is made of. Does no I/O but for the secret files that providers name. */
export class Serving implements Omit<CatalogDesk, 'refresh'> {
  readonly #surroundings: Surroundings
  #inForce: InForce
  /** What was offered last and is valid by itself: not what is in force where that was refused. */
  #newest: Sources
  /** What is wrong with the file that was offered last, by itself. */
  #fileFaults: readonly string[] = []
  #refused: readonly string[] = []

  constructor(first: InForce, surroundings: Surroundings) {
    this.#surroundings = surroundings
    this.#inForce = first
    this.#newest = first
  }

  /** Takes a file when it is valid by itself, and costs no published record that is in force. */
  offerFile(file: CatalogText | Faulty): Offered {
    const alone = 'faults' in file ? file : make({ file, published: null }, this.#surroundings, null)
    this.#fileFaults = 'faults' in alone ? alone.faults : []
    this.#newest = { ...this.#newest, file: 'faults' in alone ? this.#inForce.file : alone.file }
    return 'faults' in alone ? alone : this.#settle()
  }

  /**
   * Takes a published catalog. Records that do not fit are left out, except where one of that name is in force: then
   * all stays as it is. So at the start nothing hinders, and later nothing that is served is lost.
   */
  offerPublished(published: PublishedCatalog): Offered {
    this.#newest = { ...this.#newest, published }
    return this.#settle()
  }

  /** Puts the newest file and catalog in force, else of one of them the one before. */
  #settle(): Offered {
    const { file, published } = this.#inForce
    const { file: newestFile, published: newestPublished } = this.#newest
    const candidates: Sources[] = [this.#newest]
    if (newestFile !== file && newestPublished !== published)
      candidates.push({ file, published: newestPublished }, { file: newestFile, published })
    this.#refused = []
    for (const candidate of candidates) {
      const made = make(candidate, this.#surroundings, this.#inForce.fitting.good)
      const losses = 'faults' in made ? made.faults : this.#lossesIn(made.fitting)
      if ('faults' in made || losses.length > 0) {
        if (candidate === this.#newest) this.#refused = losses
        continue
      }
      const changed = made.fingerprint !== this.#inForce.fingerprint
      if (changed) this.#inForce = made
      if (candidate === this.#newest) return { changed }
      break
    }
    return { faults: this.#refused }
  }

  /** Why records that are served now would not be any more. */
  #lossesIn({ broken }: Fitting): string[] {
    const served = new Set(this.#inForce.fitting.served.map(recordId))
    return broken
      .filter(({ record }) => served.has(recordId(record)))
      .flatMap(({ record, faults }) => faults.map((fault) => `${recordId(record)} ${fault}`))
  }

  current(): Snapshot {
    return this.#inForce.fitting.good.snapshot
  }

  good(): ServedCatalog {
    return this.#inForce.fitting.good
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
    return [...this.#fileFaults, ...this.#refused]
  }

  /** Whether the published catalog could be read since the start. */
  isWhole(): boolean {
    return this.#inForce.published !== null
  }

  version(): string {
    if (this.#inForce.published === null) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
    return this.#inForce.published.version
  }

  tryChange(edits: readonly CatalogEdit[], paths: FaultPaths = 'record'): TriedChange {
    const version = this.version()
    const { file, fitting } = this.#inForce
    const sharing = shareWith(fitting.good)
    const { document } = file
    const tried = tryEdits(document, fitting.records, edits, this.#surroundings, sharing, paths)
    return 'faults' in tried ? tried : { ...tried, version }
  }
}

function make(
  { file, published }: Sources,
  surroundings: Surroundings,
  before: ServedCatalog | null,
): InForce | Faulty {
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
    { ...surroundings, readSecret },
    sharing,
  )
  if ('faults' in fitting) return fitting
  const fingerprint = JSON.stringify([file.hash, published?.version ?? null, hash.digest('hex')])
  return { file, published, fitting, fingerprint }
}
