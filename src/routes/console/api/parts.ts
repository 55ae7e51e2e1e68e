import { at } from '../../../catalog/parts.ts'
import type { PublishedRecord } from '../../../schema/catalog-desk.ts'
import type { RecordFields, RecordKind, RecordName } from '../../../schema/catalog-store.ts'
import type { ConsoleDesk } from '../desk.ts'
import type { ManagedBy } from './answers.ts'

type PartKind = Exclude<RecordKind, 'head'>

/** A named part of the catalog, wherever it is defined. */
export interface Part {
  readonly name: string
  /** As the file has them, or would. */
  readonly fields: RecordFields
  readonly managedBy: ManagedBy
  /** Null: of the file. */
  readonly version: PublishedRecord | null
  /** Why it is published and not in force; empty: it is in force. */
  readonly faults: readonly string[]
}

/**
 * The parts of a kind that this node knows, by name: those of the file, and the published ones beside them.
 *
 * @param workspace whose they are; null: the platform's, and every workspace and plan
 */
export function partsOf(
  { catalog }: Pick<ConsoleDesk, 'catalog'>,
  kind: PartKind,
  workspace: string | null,
): Part[] {
  const parts = new Map<string, Part>()
  const add = (version: PublishedRecord, faults: readonly string[]): void => {
    const { name, fields } = version
    const isMeant = version.kind === kind && (kind === 'workspace' || version.workspace === workspace)
    if (isMeant && !parts.has(name)) parts.set(name, { name, fields, managedBy: 'console', version, faults })
  }
  for (const [name, fields] of fileParts(catalog.document(), kind, workspace))
    parts.set(name, { name, fields, managedBy: 'file', version: null, faults: [] })
  for (const record of catalog.records()) add(record, [])
  for (const { record, faults } of catalog.broken()) add(record, faults)
  return [...parts.values()].sort((one, other) => (one.name < other.name ? -1 : 1))
}

/** Null: there is none of that name, or it is another's. */
export function partOf(
  desk: Pick<ConsoleDesk, 'catalog'>,
  { kind, workspace, name }: RecordName,
): Part | null {
  if (kind === 'head') return null
  return partsOf(desk, kind, workspace).find((part) => part.name === name) ?? null
}

/** The file is in force, so that it has the right shape. */
function fileParts(document: unknown, kind: PartKind, workspace: string | null): [string, RecordFields][] {
  const isInWorkspace = kind === 'app' || kind === 'purpose'
  const place = isInWorkspace ? at(at(document, 'workspaces'), workspace ?? '') : document
  const all = Object.entries(Object(at(place, `${kind}s`)) as Readonly<Record<string, RecordFields>>)
  if (kind !== 'route' && kind !== 'provider') return all
  return all.filter(([, fields]) => (fields.workspace ?? null) === workspace)
}
