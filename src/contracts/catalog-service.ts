import type { ConfiguredProvider, Route, Snapshot } from './catalog.ts'
import type { RecordFields, RecordName, RecordVersion } from './catalog-store.ts'
import type { ModelTable } from './models.ts'
import type { SignInSettings } from './sign-in.ts'

/** A catalog that can be served. */
export interface ServedCatalog {
  readonly snapshot: Snapshot
  readonly signIn: SignInSettings
  /** Every route, also those that no key leads to. */
  readonly routes: readonly Route[]
  /** Every provider, with its credential. */
  readonly providers: readonly ConfiguredProvider[]
}

export type PublishedRecord = RecordName & RecordVersion

/** A published record that is not in force, because it does not fit the file or what it depends on is not there. */
export interface BrokenRecord {
  readonly record: PublishedRecord
  /** Lines such as `/entries/0/provider: there is no provider "x"`; paths begin at the record. */
  readonly issues: readonly string[]
}

/** A step of a `CatalogChange` that changes what is served. */
export type CatalogEdit =
  | { readonly do: 'publish'; readonly record: RecordName; readonly fields: RecordFields }
  | { readonly do: 'remove'; readonly record: RecordName }

/** The catalog as a change would leave it, or the reasons why it cannot be served. */
export type TriedChange =
  | (ServedCatalog & {
      /** The published catalog that it was checked against: `expected` of the `CatalogChange`. */
      readonly version: string
    })
  | {
      /** Paths begin at the record where the change is of one and they lead into it, else at the whole catalog. */
      readonly issues: readonly string[]
    }

/** The catalog that this node serves: that of the file, and beside it what is published in the state. */
export interface CatalogService {
  current(): Snapshot
  /** The snapshot in force, with its routes and providers. */
  good(): ServedCatalog
  /** The facts of models in force. */
  models(): ModelTable
  /** The parsed configuration file, or the demo's document without one. Its names win. */
  document(): unknown
  /** The published records in force. */
  records(): readonly PublishedRecord[]
  /** Records that the file names too, so that they have no effect. */
  shadowed(): readonly PublishedRecord[]
  /** Records that were left out, with their issues. */
  broken(): readonly BrokenRecord[]
  /** Why the newest file or the newest published catalog is not in force, e.g. on a banner; empty: it is. */
  refused(): readonly string[]
  /**
   * Version of the published catalog in force.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when it could never be read since the start
   */
  version(): string
  /** Reads the state now. Resolves when what it holds is in force, or could not be read or served; never rejects. */
  refresh(): Promise<void>
  /**
   * Builds the catalog with a change, and puts nothing in force. What the file names too cannot be published.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the published catalog could never be read since the start
   */
  tryChange(edits: readonly CatalogEdit[]): TriedChange
}
