import type { BrokenRecord, PublishedRecord, ServedCatalog } from '../schema/catalog-desk.ts'
import { recordId } from '../schema/catalog-store.ts'
import { type Fault, linesOf } from './faults.ts'
import { type Merged, mergeCatalog } from './merge.ts'
import type { Surroundings } from './provider.ts'
import type { Sharing } from './sharing.ts'
import { buildShared } from './snapshot.ts'

/** As much of the records as can be served beside a file. */
export interface Fitting {
  readonly good: ServedCatalog
  /** All but the broken ones, in the order of the given. */
  readonly records: readonly PublishedRecord[]
  /** Of them those that have an effect. */
  readonly served: readonly PublishedRecord[]
  readonly shadowed: readonly PublishedRecord[]
  readonly broken: readonly BrokenRecord[]
}

/**
 * Merges what can be merged: a record at fault is left out, then what depends on it, until the rest is whole.
 *
 * @returns the faults of the file when it is not valid by itself
 */
export function fitRecords(
  file: unknown,
  published: readonly PublishedRecord[],
  surroundings: Surroundings,
  sharing: Sharing,
): Fitting | { readonly faults: readonly string[] } {
  let records = published
  const broken: BrokenRecord[] = []
  for (;;) {
    const merged = mergeCatalog(file, records)
    const built = buildShared(merged.document, surroundings, sharing)
    const found = faultsByRecord(merged, 'found' in built ? built.found : [])
    for (const [record, faults] of found) broken.push({ record, faults: linesOf(faults) })
    records = records.filter((record) => !found.has(record))
    if (!('found' in built)) {
      const shadowed = new Set(merged.shadowed)
      const served = records.filter((record) => !shadowed.has(record))
      return { good: built, records, served, shadowed: merged.shadowed, broken: sorted(broken) }
    }
    // Records add to a file and take nothing from it, so what is left at fault is the file itself.
    if (found.size === 0) return { faults: linesOf(built.found) }
  }
}

function faultsByRecord(
  { misfits, ownerOf }: Merged<PublishedRecord>,
  found: readonly Fault[],
): ReadonlyMap<PublishedRecord, Fault[]> {
  const faults = new Map<PublishedRecord, Fault[]>([...misfits].map(([record, fault]) => [record, [fault]]))
  for (const { path, message } of found) {
    const owner = ownerOf(path)
    if (owner === null) continue
    const list = faults.get(owner.record) ?? []
    list.push({ path: owner.path, message })
    faults.set(owner.record, list)
  }
  return faults
}

function sorted(broken: readonly BrokenRecord[]): BrokenRecord[] {
  return [...broken].sort((a, b) => (recordId(a.record) < recordId(b.record) ? -1 : 1))
}
