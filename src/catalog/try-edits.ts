import type { CatalogEdit, ServedCatalog } from '../schema/catalog-desk.ts'
import { type RecordName, recordId } from '../schema/catalog-store.ts'
import { type Fault, linesOf } from './faults.ts'
import { type MergedRecord, mergeCatalog } from './merge.ts'
import type { Surroundings } from './provider.ts'
import type { Sharing } from './sharing.ts'
import { buildShared } from './snapshot.ts'

/** Where the paths of a change's faults begin: at the record, if it is of one alone, or at the root. */
export type FaultPaths = 'record' | 'root'

/** Builds the catalog of a file and records after edits. Faults as in `TriedChange`. */
export function tryEdits(
  file: unknown,
  records: readonly MergedRecord[],
  edits: readonly CatalogEdit[],
  surroundings: Surroundings,
  sharing: Sharing,
  paths: FaultPaths,
): ServedCatalog | { readonly faults: readonly string[] } {
  const after = new Map<string, MergedRecord>(records.map((record) => [recordId(record), record]))
  for (const edit of edits) {
    const id = recordId(edit.record)
    if (edit.do === 'publish') after.set(id, { ...edit.record, fields: edit.fields })
    else after.delete(id)
  }
  const merged = mergeCatalog(file, [...after.values()])
  const put = new Set(edits.filter((edit) => edit.do === 'publish').map(({ record }) => recordId(record)))
  const [only = null] = edits.length === 1 && paths === 'record' ? put : []
  const isOnly = (record: RecordName): boolean => recordId(record) === only
  const placed = (record: RecordName, path: Fault['path']): Fault['path'] =>
    isOnly(record) ? path : [...placeOf(record), ...path]

  const faults: Fault[] = []
  for (const record of merged.shadowed)
    if (put.has(recordId(record)))
      faults.push({ path: placed(record, []), message: 'is defined by the configuration file' })
  for (const [record, { path, message }] of merged.misfits)
    faults.push({ path: placed(record, path), message })
  const built = buildShared(merged.document, surroundings, sharing)
  if ('found' in built) {
    for (const { path, message } of built.found) {
      const owner = merged.ownerOf(path)
      const isItsOwn = owner !== null && isOnly(owner.record)
      faults.push({ path: isItsOwn ? owner.path : path, message })
    }
  }
  return faults.length > 0 || 'found' in built ? { faults: linesOf(faults) } : built
}

/** Where the document of a file has what the record holds. */
export function placeOf({ kind, workspace, name }: RecordName): string[] {
  if (kind === 'head') return []
  const inWorkspace = kind === 'app' || kind === 'purpose'
  return inWorkspace ? ['workspaces', workspace ?? '', `${kind}s`, name] : [`${kind}s`, name]
}
