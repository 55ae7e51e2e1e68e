import { type RecordFields, type RecordName, recordId } from '../schema/catalog-store.ts'
import type { RateLimit } from '../schema/state.ts'
import type { StoredKey } from '../schema/stored-keys.ts'
import { canonicalJson } from './canonical.ts'
import { type Fault, linesOf } from './faults.ts'
import type { MergedRecord } from './merge.ts'
import { portableParts, withAbsolutePath } from './portable.ts'
import { splitDocument, type WorkspaceKey } from './split.ts'
import { fieldsOfKey, keyOfFields } from './stored-key.ts'
import { placeOf } from './try-edits.ts'

/** A document, and the folder where its relative paths begin. */
interface Placed {
  readonly document: unknown
  readonly folder: string
}

export interface ImportSources {
  readonly imported: Placed
  /** What the servers have of their own: what it defines stays defined there. */
  readonly served: Placed
  /** All that the state has, also without effect; `fields` null: not published. Of one name the last counts. */
  readonly kept: readonly (RecordName & { readonly fields: MergedRecord['fields'] | null })[]
  readonly stored: readonly StoredKey[]
  /** What a rate limit of a key does not say. */
  readonly rateLimit: RateLimit
}

/** A record to be published. */
export type ImportedRecord = MergedRecord & {
  /** What is published in its place; null: nothing. */
  readonly before: RecordFields | null
}

/** What an import would change. */
export interface ImportPlan {
  /** Those that are not there already. */
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
 * @returns the faults where the file of the servers, or the state, says otherwise
 */
export function planImport(
  sources: ImportSources,
  nowMs: number,
): ImportPlan | { readonly faults: readonly string[] } {
  const faults: Fault[] = []
  const records = planRecords(sources, faults)
  const keys = planKeys(sources, nowMs, faults)
  return faults.length > 0 ? { faults: linesOf(faults) } : { ...records, ...keys }
}

const OF_ANOTHER = 'the state has one of this name that belongs to another workspace'
const DEFINED_OTHERWISE = 'the configuration of the servers defines it otherwise'

type RecordsPlan = Pick<ImportPlan, 'records' | 'recordsThere'>

function planRecords({ imported, served, kept }: ImportSources, faults: Fault[]): RecordsPlan {
  const ofFile = byId(splitDocument(served.document).records)
  const ofState = byId(kept)
  const records: ImportedRecord[] = []
  let recordsThere = 0
  for (const record of splitDocument(imported.document).records) {
    const id = recordId(record)
    const known = ofState.get(id)
    if (known !== undefined && known.workspace !== record.workspace)
      faults.push({ path: placeOf(record), message: OF_ANOTHER })
    const rest =
      record.kind === 'head'
        ? headToImport(record, ofFile.get(id)?.fields, known?.fields, faults)
        : recordToImport(record, imported, ofFile.get(id), served, faults)
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
  faults: Fault[],
): MergedRecord | null {
  if (ofFile === undefined) return record
  const [mine, theirs] = [withAbsolutePath(record, imported.folder), withAbsolutePath(ofFile, served.folder)]
  if (!saysSame(mine.fields, theirs.fields))
    faults.push({ path: placeOf(record), message: DEFINED_OTHERWISE })
  return null
}

/** Setting by setting; those that were published before and are not in the import stay. Null where nothing is left. */
function headToImport(
  head: MergedRecord,
  ofFile: RecordFields | undefined,
  ofState: RecordFields | null | undefined,
  faults: Fault[],
): MergedRecord | null {
  const free: [string, unknown][] = []
  for (const [key, value] of Object.entries(head.fields)) {
    if (ofFile === undefined || !Object.hasOwn(ofFile, key)) free.push([key, value])
    else if (!saysSame(ofFile[key], value)) faults.push({ path: [key], message: DEFINED_OTHERWISE })
  }
  return free.length === 0 ? null : { ...head, fields: { ...ofState, ...Object.fromEntries(free) } }
}

type KeysPlan = Pick<ImportPlan, 'keys' | 'keysThere' | 'revoked'>

function planKeys(
  { imported, served, stored, rateLimit }: ImportSources,
  nowMs: number,
  faults: Fault[],
): KeysPlan {
  const ofFile = portableParts(served.document, served.folder, rateLimit).keys
  const keys: StoredKey[] = []
  const revoked: StoredKey[] = []
  let keysThere = 0
  for (const key of splitDocument(imported.document).keys) {
    const made = keyOfFields(key, rateLimit, nowMs)
    const portable = fieldsOfKey(made)
    const isIt = ({ fields: { id, sha256 } }: WorkspaceKey) => id === made.id || sha256 === made.sha256
    const inFile = ofFile.find(isIt)
    const inState = stored.find((one) => isIt(fieldsOfKey(one)))
    const known = inFile ?? (inState && fieldsOfKey(inState))
    const refuse = (message: string) =>
      faults.push({ path: ['workspaces', key.workspace, 'keys', made.id], message })
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
