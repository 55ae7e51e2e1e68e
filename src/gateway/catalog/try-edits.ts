import type {
  BrokenRecord,
  CatalogEdit,
  PublishedRecord,
  ServedCatalog,
} from '../../contracts/catalog-service.ts'
import { type RecordName, recordId } from '../../contracts/catalog-store.ts'
import { type Issue, issueLines } from './issues.ts'
import { type Merged, type MergedRecord, mergeCatalog } from './merge.ts'
import type { ProviderContext } from './provider.ts'
import type { Sharing } from './sharing.ts'
import { buildShared } from './snapshot.ts'

/** Base of the paths in a change's issues: the record, if the change is of one alone, or the root. */
export type IssuePaths = 'record' | 'root'

/** Builds the catalog of a file and records after edits. Faults as in `TriedChange`. */
export function tryEdits(
  file: unknown,
  records: readonly MergedRecord[],
  edits: readonly CatalogEdit[],
  surroundings: ProviderContext,
  sharing: Sharing,
  paths: IssuePaths,
): ServedCatalog | { readonly issues: readonly string[] } {
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
  const placed = (record: RecordName, path: Issue['path']): Issue['path'] =>
    isOnly(record) ? path : [...recordPath(record), ...path]

  const issues: Issue[] = []
  for (const record of merged.shadowed)
    if (put.has(recordId(record)))
      issues.push({ path: placed(record, []), message: 'is defined by the configuration file' })
  for (const [record, { path, message }] of merged.misfits)
    issues.push({ path: placed(record, path), message })
  const built = buildShared(merged.document, surroundings, sharing)
  if ('found' in built) {
    for (const { path, message } of built.found) {
      const owner = merged.ownerOf(path)
      const isItsOwn = owner !== null && isOnly(owner.record)
      issues.push({ path: isItsOwn ? owner.path : path, message })
    }
  }
  return issues.length > 0 || 'found' in built ? { issues: issueLines(issues) } : built
}

/** Path of the record's contents in the document of a file. */
export function recordPath({ kind, workspace, name }: RecordName): string[] {
  if (kind === 'head') return []
  const inWorkspace = kind === 'app' || kind === 'purpose'
  return inWorkspace ? ['workspaces', workspace ?? '', `${kind}s`, name] : [`${kind}s`, name]
}

/** As much of the records as can be served beside a file. */
export interface Fitting {
  readonly good: ServedCatalog
  /** All but the broken ones, in the order of the given. */
  readonly records: readonly PublishedRecord[]
  /** Records that have an effect. */
  readonly served: readonly PublishedRecord[]
  readonly shadowed: readonly PublishedRecord[]
  readonly broken: readonly BrokenRecord[]
}

/**
 * Merges what can be merged: a record at issue is left out, then what depends on it, until the rest is whole.
 *
 * @returns the issues of the file when it is not valid by itself
 */
export function fitRecords(
  file: unknown,
  published: readonly PublishedRecord[],
  surroundings: ProviderContext,
  sharing: Sharing,
): Fitting | { readonly issues: readonly string[] } {
  let records = published
  const broken: BrokenRecord[] = []
  for (;;) {
    const merged = mergeCatalog(file, records)
    const built = buildShared(merged.document, surroundings, sharing)
    const found = faultsByRecord(merged, 'found' in built ? built.found : [])
    for (const [record, issues] of found) broken.push({ record, issues: issueLines(issues) })
    records = records.filter((record) => !found.has(record))
    if (!('found' in built)) {
      const shadowed = new Set(merged.shadowed)
      const served = records.filter((record) => !shadowed.has(record))
      return { good: built, records, served, shadowed: merged.shadowed, broken: sorted(broken) }
    }
    // Records add to a file and take nothing from it, so what is left at issue is the file itself.
    if (found.size === 0) return { issues: issueLines(built.found) }
  }
}

function faultsByRecord(
  { misfits, ownerOf }: Merged<PublishedRecord>,
  found: readonly Issue[],
): ReadonlyMap<PublishedRecord, Issue[]> {
  const issues = new Map<PublishedRecord, Issue[]>([...misfits].map(([record, issue]) => [record, [issue]]))
  for (const { path, message } of found) {
    const owner = ownerOf(path)
    if (owner === null) continue
    const list = issues.get(owner.record) ?? []
    list.push({ path: owner.path, message })
    issues.set(owner.record, list)
  }
  return issues
}

function sorted(broken: readonly BrokenRecord[]): BrokenRecord[] {
  return [...broken].sort((a, b) => (recordId(a.record) < recordId(b.record) ? -1 : 1))
}
