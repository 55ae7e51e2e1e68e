import type { RecordName } from '../schema/catalog-store.ts'
import { CatalogHead, type KeyFields } from './file.ts'
import type { MergedRecord } from './merge.ts'
import { at } from './parts.ts'

/** An API key of the file, and whose it is. */
export interface WorkspaceKey {
  readonly workspace: string
  readonly fields: KeyFields
}

/** A document in parts: the reverse of merging. */
export interface SplitDocument {
  /** Those of a kind in the order of the document. */
  readonly records: readonly MergedRecord[]
  readonly keys: readonly WorkspaceKey[]
}

/** Lists that are not fields of the record of their workspace. */
const LISTS = new Set(['apps', 'keys', 'purposes'])

/** @param document a valid one */
export function splitDocument(document: unknown): SplitDocument {
  const head = entriesAt(document).filter(([key]) => Object.hasOwn(CatalogHead.properties, key))
  const records: MergedRecord[] = []
  const keys: WorkspaceKey[] = []
  const add = (kind: RecordName['kind'], workspace: string | null, name: string, fields: unknown) =>
    records.push({ kind, workspace, name, fields: fields as MergedRecord['fields'] })

  if (head.length > 0) add('head', null, 'head', Object.fromEntries(head))
  for (const [name, fields] of entriesAt(document, 'plans')) add('plan', null, name, fields)
  for (const [id, whole] of entriesAt(document, 'workspaces')) {
    add('workspace', id, id, Object.fromEntries(entriesAt(whole).filter(([key]) => !LISTS.has(key))))
    for (const [name, fields] of entriesAt(whole, 'purposes')) add('purpose', id, name, fields)
    for (const [name, fields] of entriesAt(whole, 'apps')) add('app', id, name, fields)
    for (const [, fields] of entriesAt(whole, 'keys'))
      keys.push({ workspace: id, fields: fields as KeyFields })
  }
  for (const kind of ['provider', 'route'] as const)
    for (const [name, fields] of entriesAt(document, `${kind}s`)) add(kind, ownerOf(fields), name, fields)
  return { records, keys }
}

function ownerOf(fields: unknown): string | null {
  const owner = at(fields, 'workspace')
  return typeof owner === 'string' ? owner : null
}

function entriesAt(value: unknown, key?: string): [string, unknown][] {
  return Object.entries(Object(key === undefined ? value : at(value, key)))
}
