import type { CatalogService, PublishedRecord } from '../../contracts/catalog-service.ts'
import type { RecordFields, RecordKind, RecordName } from '../../contracts/catalog-store.ts'
import type { AccountTerms } from '../../contracts/ledger.ts'
import { Issues } from '../catalog/issues.ts'
import { at } from '../catalog/parts.ts'
import { resolveTerms } from '../catalog/terms.ts'

/** Place in which a part of the catalog is defined, and so can be changed. */
export type ManagedBy = 'file' | 'console'

/** The catalog as far as its parts are read. */
export type PartSource = Pick<CatalogService, 'document' | 'records' | 'broken'>

type PartKind = Exclude<RecordKind, 'head'>

/** A named part of the catalog, wherever it is defined. */
export interface Part {
  readonly name: string
  /** As the configuration file has them, or would. */
  readonly fields: RecordFields
  readonly managedBy: ManagedBy
  /** Null: of the file. */
  readonly version: PublishedRecord | null
  /** Why it is published and not in force; empty: it is in force. */
  readonly issues: readonly string[]
}

/**
 * The parts of a kind that this node knows, by name: those of the file, and the published ones beside them.
 *
 * @param workspace that owns them; null: the platform's, and every workspace and plan
 */
export function catalogParts(catalog: PartSource, kind: PartKind, workspace: string | null): Part[] {
  const parts = new Map<string, Part>()
  const add = (version: PublishedRecord, issues: readonly string[]): void => {
    const { name, fields } = version
    const isMeant = version.kind === kind && (kind === 'workspace' || version.workspace === workspace)
    if (isMeant && !parts.has(name)) parts.set(name, { name, fields, managedBy: 'console', version, issues })
  }
  for (const [name, fields] of fileParts(catalog.document(), kind, workspace))
    parts.set(name, { name, fields, managedBy: 'file', version: null, issues: [] })
  for (const record of catalog.records()) add(record, [])
  for (const { record, issues } of catalog.broken()) add(record, issues)
  return [...parts.values()].sort((one, other) => (one.name < other.name ? -1 : 1))
}

/** Null: there is none of that name, or it belongs to another. */
export function partOf(catalog: PartSource, { kind, workspace, name }: RecordName): Part | null {
  if (kind === 'head') return null
  return catalogParts(catalog, kind, workspace).find((part) => part.name === name) ?? null
}

/** The file is in force, so it has the right shape. */
function fileParts(document: unknown, kind: PartKind, workspace: string | null): [string, RecordFields][] {
  const isInWorkspace = kind === 'app' || kind === 'purpose'
  const place = isInWorkspace ? at(at(document, 'workspaces'), workspace ?? '') : document
  const all = Object.entries(Object(at(place, `${kind}s`)) as Readonly<Record<string, RecordFields>>)
  if (kind !== 'route' && kind !== 'provider') return all
  return all.filter(([, fields]) => (fields.workspace ?? null) === workspace)
}

/** Grant, trial and budget of a workspace by the catalog in force. */
export function accountTerms(
  catalog: PartSource & Pick<CatalogService, 'current'>,
  workspace: string,
): AccountTerms {
  const [app] = catalog.current().apps.get(workspace)?.values() ?? []
  if (app !== undefined) return app.workspace.terms
  // A workspace without an app has no resolved terms yet; its fields are valid.
  const { fields = {} } = partOf(catalog, { kind: 'workspace', workspace, name: workspace }) ?? {}
  return resolveTerms(fields, [], new Issues())
}
