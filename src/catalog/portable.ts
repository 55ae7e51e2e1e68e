import { resolve } from 'node:path'
import type { RateLimit } from '../schema/state.ts'
import type { MergedRecord } from './merge.ts'
import { mergeCatalog } from './merge.ts'
import { type SplitDocument, splitDocument, type WorkspaceKey } from './split.ts'
import { fieldsOfKey, keyOfFields } from './stored-key.ts'

const FILE = 'file:'

/**
 * The parts of a document in a form that says the same wherever it stands: paths of secrets are absolute, and keys are
 * written as those of the state are.
 *
 * @param folder     where relative paths begin
 * @param rateLimit  what a rate limit of a key does not say
 */
export function portableParts(document: unknown, folder: string, rateLimit: RateLimit): SplitDocument {
  const { records, keys } = splitDocument(document)
  return {
    records: records.map((record) => withAbsolutePath(record, folder)),
    keys: keys.map((key) => fieldsOfKey(keyOfFields(key, rateLimit, 0))),
  }
}

export function withAbsolutePath(record: MergedRecord, folder: string): MergedRecord {
  const { api_key } = record.fields
  if (record.kind !== 'provider' || typeof api_key !== 'string' || !api_key.startsWith(FILE)) return record
  const path = resolve(folder, api_key.slice(FILE.length))
  return { ...record, fields: { ...record.fields, api_key: `${FILE}${path}` } }
}

/** The document of such parts. Of records of one name the first wins. */
export function documentOf(records: readonly MergedRecord[], keys: readonly WorkspaceKey[]): unknown {
  const { document } = mergeCatalog({ providers: {}, routes: {}, workspaces: {} }, records)
  const { workspaces } = document
  const withKeys = Object.entries(workspaces as object).map(([id, fields]) => {
    const own = keys.filter(({ workspace }) => workspace === id).map((key) => key.fields)
    return [id, own.length === 0 ? fields : { ...fields, keys: own.sort((a, b) => (a.id < b.id ? -1 : 1)) }]
  })
  return { ...document, workspaces: Object.fromEntries(withKeys) }
}
