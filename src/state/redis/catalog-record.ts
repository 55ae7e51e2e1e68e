import {
  type AuditLine,
  type CatalogRecord,
  type CatalogStep,
  type RecordDraft,
  type RecordKind,
  type RecordName,
  type RecordVersion,
  recordId,
} from '../../schema/catalog-store.ts'
import { integerOf, textOf } from './reply.ts'

/** As the scripts have it: no workspace, and no id of one, is empty. */
export const ownerOf = (workspace: string | null): string => workspace ?? ''

/** A step as `change_catalog.lua` reads it: what it does, id, owner, JSON, revision. */
export function stepTexts(step: CatalogStep, by: RecordDraft['by']): readonly string[] {
  const { record } = step
  const head = [step.do, recordId(record), ownerOf(record.workspace)]
  if (step.do === 'draft') {
    const { fields, revision } = step
    return [...head, JSON.stringify({ fields, by }), revision === null ? '' : String(revision)]
  }
  if (step.do !== 'publish') return [...head, '', '']
  const { fields, hash, note } = step
  return [...head, JSON.stringify({ fields, hash, by, note }), '']
}

/** Ids name kind and name; of what is named within a workspace the owner stands between them. */
export function nameOf(id: string, owner: string): RecordName {
  const kind = id.slice(0, id.indexOf('/')) as RecordKind
  const workspace = owner === '' ? null : owner
  return { kind, workspace, name: id.slice(recordId({ kind, workspace, name: '' }).length) }
}

export function recordOf(
  name: RecordName,
  draft: string | null | undefined,
  published: string | null | undefined,
): CatalogRecord {
  return {
    ...name,
    draft: typeof draft === 'string' ? draftOf(draft) : null,
    published: typeof published === 'string' ? versionOf(published) : null,
  }
}

function draftOf(text: string): RecordDraft {
  const { number: revision, atMs, value } = stampedIn<Pick<RecordDraft, 'fields' | 'by'>>(text)
  return { ...value, revision, atMs }
}

export function versionOf(text: string): RecordVersion {
  const { number, atMs, value } = stampedIn<Omit<RecordVersion, 'number' | 'atMs'>>(text)
  return { number, atMs, ...value }
}

export function lineOf(text: string): AuditLine {
  const { number, atMs, value } = stampedIn<Omit<AuditLine, 'number' | 'atMs'>>(text)
  return { number, atMs, ...value }
}

/** `<number> <epoch milliseconds> <JSON>`, written by the scripts alone. */
function stampedIn<Value>(text: string) {
  const [number, atMs] = text.split(' ', 2)
  const json = text.slice(textOf(number).length + textOf(atMs).length + 2)
  return { number: integerOf(number), atMs: integerOf(atMs), value: JSON.parse(json) as Value }
}
