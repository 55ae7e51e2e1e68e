import type { DatabaseSync } from 'node:sqlite'
import {
  type AuditLine,
  type AuditNote,
  type CatalogChange,
  type CatalogChanged,
  type CatalogStep,
  type RecordName,
  recordId,
} from '../../schema/catalog-store.ts'
import { createAuditRows } from './catalog-audit.ts'
import { createCatalogReads } from './catalog-rows.ts'
import { createCatalogTokens } from './catalog-tokens.ts'

/** What a change of a record goes by. */
type Standing = {
  readonly workspace: string | null
  readonly revision: number
  readonly has_draft: number
  readonly published: number | null
}

/** The methods of `CatalogStore`, each within a transaction of its caller. */
export function createCatalog(db: DatabaseSync, now: () => number) {
  const reads = createCatalogReads(db)
  const audit = createAuditRows(db)
  const tokens = createCatalogTokens(db)
  const take = createSteps(db)
  const raise = db.prepare('UPDATE catalog_version SET version = version + 1')
  const mark = db.prepare('SAVEPOINT change')
  const undo = db.prepare('ROLLBACK TO change')
  const unmark = db.prepare('RELEASE change')

  /** @returns the version of the catalog after it; empty: a conflict */
  const change = ({ expected, steps, by, audit: notes }: CatalogChange, nowMs: number): string => {
    if (expected !== null && expected !== reads.catalogVersion()) return ''
    mark.run()
    let isPublished = false
    for (const step of steps) {
      const taken = take(step, JSON.stringify(by), nowMs)
      if (taken === 'conflict') {
        undo.run()
        unmark.run()
        return ''
      }
      if (taken === 'published') isPublished = true
    }
    unmark.run()
    if (isPublished) raise.run()
    for (const note of notes) audit.add(note, nowMs)
    return reads.catalogVersion()
  }

  return {
    operations: {
      ...reads,

      changeCatalog(wanted: CatalogChange): CatalogChanged {
        const nowMs = now()
        const version = tokens.once('change', wanted.token, nowMs, () => change(wanted, nowMs))
        return version === '' ? { state: 'conflict' } : { state: 'done', version }
      },

      noteChange(token: string, note: AuditNote): void {
        const nowMs = now()
        tokens.once('note', token, nowMs, () => {
          audit.add(note, nowMs)
          return ''
        })
      },

      auditLines: (workspace: string | null, below: number | null, limit: number): AuditLine[] =>
        audit.list(workspace, below, limit),
    },
    purge: tokens.purge,
  }
}

/** `published`: what is published is another than before. */
type Taken = 'conflict' | 'done' | 'published'

/** Takes one step of a change, or finds that it cannot be taken: then the caller undoes those before it. */
function createSteps(db: DatabaseSync) {
  const find = db.prepare(`
    SELECT workspace, revision, draft_fields IS NOT NULL AS has_draft, published
    FROM catalog_records WHERE id = ?`)
  // A name that is free again may become another's.
  const make = db.prepare(`
    INSERT INTO catalog_records (id, kind, workspace, name, revision) VALUES (:id, :kind, :workspace, :name, 0)
    ON CONFLICT DO UPDATE SET workspace = :workspace`)
  const putDraft = db.prepare(`
    UPDATE catalog_records
    SET revision = revision + 1, draft_fields = :fields, draft_at_ms = :nowMs, draft_by = :by WHERE id = :id`)
  const dropDraft = db.prepare(`
    UPDATE catalog_records SET draft_fields = NULL, draft_at_ms = NULL, draft_by = NULL WHERE id = ?`)
  const addVersion = db.prepare(`
    INSERT INTO catalog_versions (record, number, workspace, fields, hash, at_ms, by, note)
    SELECT :id, coalesce(max(number), 0) + 1, :workspace, :fields, :hash, :nowMs, :by, :note
    FROM catalog_versions WHERE record = :id`)
  const publish = db.prepare(`
    UPDATE catalog_records SET published = (SELECT max(number) FROM catalog_versions WHERE record = id)
    WHERE id = ?`)
  const withdraw = db.prepare('UPDATE catalog_records SET published = NULL WHERE id = ?')

  const makeRecord = ({ kind, workspace, name }: RecordName, id: string) =>
    void make.run({ id, kind, workspace, name })

  return (step: CatalogStep, by: string, nowMs: number): Taken => {
    const { record } = step
    const id = recordId(record)
    const found = find.get(id) as Standing | undefined
    const before = found && (found.has_draft === 1 || found.published !== null) ? found : null
    // It stands in another's name.
    if (before && before.workspace !== record.workspace) return 'conflict'

    if (step.do === 'draft') {
      const revision = before?.has_draft === 1 ? before.revision : null
      if (revision !== step.revision) return 'conflict'
      makeRecord(record, id)
      putDraft.run({ id, fields: JSON.stringify(step.fields), nowMs, by })
      return 'done'
    }
    if (step.do === 'publish') {
      const { workspace } = record
      makeRecord(record, id)
      addVersion.run({
        ...{ id, workspace, fields: JSON.stringify(step.fields), hash: step.hash },
        ...{ nowMs, by, note: step.note },
      })
      publish.run(id)
      dropDraft.run(id)
      return 'published'
    }
    dropDraft.run(id)
    if (step.do === 'discard' || before === null || before.published === null) return 'done'
    withdraw.run(id)
    return 'published'
  }
}
