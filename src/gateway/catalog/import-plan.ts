import { type RecordFields, type RecordName, recordId } from '../../contracts/catalog-store.ts'
import { canonicalJson } from '../../contracts/json.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import type { StoredKey } from '../../contracts/stored-keys.ts'
import { fieldsOfKey, keyOfFields, portableParts, splitDocument, withAbsolutePath } from './document.ts'
import { type Issue, issueLines } from './issues.ts'
import type { MergedRecord } from './merge.ts'
import { recordPath } from './try-edits.ts'

/** A document, and the folder where its relative paths begin. */
interface Placed {
  readonly document: unknown
  readonly folder: string
}

export interface ImportSources {
  readonly imported: Placed
  /** The servers' own document: its definitions stay there. */
  readonly served: Placed
  /** All that the state has, also without effect; `fields` null: not published. Of one name the last counts. */
  readonly kept: readonly (RecordName & { readonly fields: MergedRecord['fields'] | null })[]
  readonly stored: readonly StoredKey[]
  /** Defaults for the parts of a key's rate limit that are left out. */
  readonly rateLimit: RateLimit
}

/** A record to be published. */
export type ImportedRecord = MergedRecord & {
  /** Fields published under the same name; null: none. */
  readonly before: RecordFields | null
}

/** Changes that an import would make. */
export interface ImportPlan {
  /** Records that are not there already. */
  readonly records: readonly ImportedRecord[]
  readonly recordsThere: number
  readonly keys: readonly StoredKey[]
  readonly keysThere: number
  /** Keys that the state has, revoked: they stay so. */
  readonly revoked: readonly StoredKey[]
}

/**
 * Compares a valid document with what there is. Nothing is taken away by an import.
 *
 * @returns the issues where the file of the servers, or the state, says otherwise
 */
export function planImport(
  sources: ImportSources,
  nowMs: number,
): ImportPlan | { readonly issues: readonly string[] } {
  const issues: Issue[] = []
  const records = planRecords(sources, issues)
  const keys = planKeys(sources, nowMs, issues)
  return issues.length > 0 ? { issues: issueLines(issues) } : { ...records, ...keys }
}

const OF_ANOTHER = 'must have another name: in the state, this one belongs to another workspace'
const DEFINED_OTHERWISE = 'must be changed in the configuration of the servers, which defines it differently'

type RecordsPlan = Pick<ImportPlan, 'records' | 'recordsThere'>

function planRecords({ imported, served, kept }: ImportSources, issues: Issue[]): RecordsPlan {
  const ofFile = byId(splitDocument(served.document).records)
  const ofState = byId(kept)
  const records: ImportedRecord[] = []
  let recordsThere = 0
  for (const record of splitDocument(imported.document).records) {
    const id = recordId(record)
    const known = ofState.get(id)
    if (known !== undefined && known.workspace !== record.workspace)
      issues.push({ path: recordPath(record), message: OF_ANOTHER })
    const rest =
      record.kind === 'head'
        ? headToImport(record, ofFile.get(id)?.fields, known?.fields, issues)
        : recordToImport(record, imported, ofFile.get(id), served, issues)
    if (rest === null || (known?.fields && saysSame(known.fields, rest.fields))) recordsThere += 1
    else records.push({ ...rest, before: known?.fields ?? null })
  }
  return { records, recordsThere }
}

/** Null where the file has it. */
function recordToImport(
  record: MergedRecord,
  imported: Placed,
  ofFile: MergedRecord | undefined,
  served: Placed,
  issues: Issue[],
): MergedRecord | null {
  if (ofFile === undefined) return record
  const [mine, theirs] = [withAbsolutePath(record, imported.folder), withAbsolutePath(ofFile, served.folder)]
  if (!saysSame(mine.fields, theirs.fields))
    issues.push({ path: recordPath(record), message: DEFINED_OTHERWISE })
  return null
}

/** Setting by setting; those that were published before and are not in the import stay. Null where nothing is left. */
function headToImport(
  head: MergedRecord,
  ofFile: RecordFields | undefined,
  ofState: RecordFields | null | undefined,
  issues: Issue[],
): MergedRecord | null {
  const free: [string, unknown][] = []
  for (const [key, value] of Object.entries(head.fields)) {
    if (ofFile === undefined || !Object.hasOwn(ofFile, key)) free.push([key, value])
    else if (!saysSame(ofFile[key], value)) issues.push({ path: [key], message: DEFINED_OTHERWISE })
  }
  return free.length === 0 ? null : { ...head, fields: { ...ofState, ...Object.fromEntries(free) } }
}

type KeysPlan = Pick<ImportPlan, 'keys' | 'keysThere' | 'revoked'>

function planKeys(
  { imported, served, stored, rateLimit }: ImportSources,
  nowMs: number,
  issues: Issue[],
): KeysPlan {
  const ofFile = portableParts(served.document, served.folder, rateLimit).keys
  const keys: StoredKey[] = []
  const revoked: StoredKey[] = []
  let keysThere = 0
  for (const key of splitDocument(imported.document).keys) {
    const made = keyOfFields(key, rateLimit, nowMs)
    const portable = fieldsOfKey(made, rateLimit)
    const isIt = ({ id, sha256 }: Pick<StoredKey, 'id' | 'sha256'>) =>
      id === made.id || sha256 === made.sha256
    const inFile = ofFile.find(({ fields }) => isIt(fields))
    const inState = stored.find(isIt)
    const known = inFile ?? (inState && fieldsOfKey(inState, rateLimit))
    const refuse = (message: string) =>
      issues.push({ path: ['workspaces', key.workspace, 'keys', made.id], message })
    if (known === undefined) keys.push(made)
    else if (!saysSame(known, portable))
      refuse(inFile === undefined ? 'the state has another key of this id or hash' : DEFINED_OTHERWISE)
    else if (inFile === undefined && inState !== undefined && inState.revokedAtMs !== null)
      revoked.push(inState)
    else keysThere += 1
  }
  return { keys, keysThere, revoked }
}

function byId<Source extends RecordName>(records: readonly Source[]): ReadonlyMap<string, Source> {
  return new Map(records.map((record) => [recordId(record), record]))
}

function saysSame(one: unknown, other: unknown): boolean {
  return canonicalJson(one) === canonicalJson(other)
}
