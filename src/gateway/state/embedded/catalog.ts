import {
  type Actor,
  type AuditLine,
  type AuditNote,
  type CatalogChange,
  type CatalogRecord,
  type CatalogStep,
  type CatalogStore,
  type RecordDraft,
  type RecordName,
  type RecordVersion,
  recordId,
} from '../../../contracts/catalog-store.ts'
import type { StoredModels } from '../../../contracts/models.ts'
import { createPurge, type StateDatabase } from './database.ts'
import type { Operations } from './subjects.ts'

/** Most versions, or lines of the audit list, in one page. */
const PAGE_MAX = 1000
/** How long a change is known by its token, so that it may be sent again. */
const KNOWN_MS = 600_000

/** As much of a record as decides whether a step may be taken. */
type Standing = {
  readonly workspace: string | null
  readonly revision: number
  readonly has_draft: number
  readonly published: number | null
}

export function createCatalog(db: StateDatabase, now: () => number) {
  const reads = createCatalogReads(db)
  const audit = createAuditRows(db)
  const tokens = createCatalogTokens(db)
  const take = createSteps(db)
  const raise = db.prepare('UPDATE catalog_version SET version = version + 1')
  const models = createModels(db)
  const mark = db.prepare('SAVEPOINT change')
  const undo = db.prepare('ROLLBACK TO change')
  const unmark = db.prepare('RELEASE change')

  /** @returns the version of the catalog after it; empty: a conflict */
  const change = ({ expected, steps, by, audit: notes }: CatalogChange, nowMs: number): string => {
    if (expected !== null && expected !== reads.version()) return ''
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
    return reads.version()
  }

  const operations: Operations<CatalogStore> = {
    ...reads,

    change(wanted) {
      const nowMs = now()
      const version = tokens.once('change', wanted.token, nowMs, () => change(wanted, nowMs))
      return version === '' ? { state: 'conflict' } : { state: 'done', version }
    },

    note(token, note) {
      const nowMs = now()
      tokens.once('note', token, nowMs, () => {
        audit.add(note, nowMs)
        return ''
      })
    },

    audit: audit.list,

    models: models.find,

    putModels(token, put, note) {
      const nowMs = now()
      tokens.once('note', token, nowMs, () => {
        models.put(put)
        raise.run()
        audit.add(note, nowMs)
        return ''
      })
    },
  }
  return {
    operations,
    purge: tokens.purge,
  }
}

/** The document of facts about models, beside the one of the program. */
function createModels(db: StateDatabase) {
  const find = db.prepare('SELECT json FROM catalog_models')
  const add = db.prepare('INSERT INTO catalog_models (json) VALUES (?)')
  const drop = db.prepare('DELETE FROM catalog_models')
  return {
    find(): StoredModels | null {
      const row = find.get()
      return row === undefined ? null : (JSON.parse(String(row.json)) as StoredModels)
    },

    put(models: StoredModels | null): void {
      drop.run()
      if (models !== null) add.run(JSON.stringify(models))
    },
  }
}

/** `published`: the published catalog has changed. */
type StepResult = 'conflict' | 'done' | 'published'

/** Takes one step of a change, or answers that it cannot be taken: then the caller undoes the steps before it. */
function createSteps(db: StateDatabase) {
  const find = db.prepare(`
    SELECT workspace, revision, draft_fields IS NOT NULL AS has_draft, published
    FROM catalog_records WHERE id = ?`)
  // A name that is free again may get another owner.
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

  return (step: CatalogStep, by: string, nowMs: number): StepResult => {
    const { record } = step
    const id = recordId(record)
    const found = find.get(id) as Standing | undefined
    const before = found && (found.has_draft === 1 || found.published !== null) ? found : null
    // The name has another owner.
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
      const keepsDraft = step.keeps !== undefined
      if (keepsDraft && !(before?.has_draft === 1 && before.revision === step.keeps)) return 'conflict'
      makeRecord(record, id)
      addVersion.run({
        ...{ id, workspace, fields: JSON.stringify(step.fields), hash: step.hash },
        ...{ nowMs, by, note: step.note },
      })
      publish.run(id)
      if (!keepsDraft) dropDraft.run(id)
      return 'published'
    }
    dropDraft.run(id)
    if (step.do === 'discard' || before === null || before.published === null) return 'done'
    withdraw.run(id)
    return 'published'
  }
}

type EntryRow = Pick<RecordRow, 'kind' | 'workspace' | 'name'> & {
  readonly has_draft: number
  readonly is_published: number
}

type RecordRow = {
  readonly id: string
  readonly kind: RecordName['kind']
  readonly workspace: string | null
  readonly name: string
  readonly revision: number
  readonly draft_fields: string | null
  readonly draft_at_ms: number
  readonly draft_by: string
  readonly published: number | null
}

const VERSION = 'number, fields, hash, at_ms AS atMs, by, note'

type VersionRow = Omit<RecordVersion, 'fields' | 'by'> & { readonly fields: string; readonly by: string }

function createCatalogReads(
  db: StateDatabase,
): Pick<Operations<CatalogStore>, 'version' | 'published' | 'get' | 'list' | 'versions' | 'versionOf'> {
  const findCatalogVersion = db.prepare('SELECT version FROM catalog_version')
  const listPublished = db.query<VersionRow & RecordName>(`
    SELECT r.kind, r.workspace, r.name, ${VERSION}
    FROM catalog_records AS r JOIN catalog_versions AS v ON v.record = r.id AND v.number = r.published
    ORDER BY r.id`)
  const find = db.query<RecordRow>('SELECT * FROM catalog_records WHERE id = ? AND workspace IS ?')
  const standing = `
    SELECT kind, workspace, name, draft_fields IS NOT NULL AS has_draft, published IS NOT NULL AS is_published
    FROM catalog_records WHERE (draft_fields IS NOT NULL OR published IS NOT NULL)`
  const list = db.query<EntryRow>(`${standing} ORDER BY id`)
  const listOf = db.query<EntryRow>(`${standing} AND workspace = ? ORDER BY id`)
  const findVersion = db.query<VersionRow>(`
    SELECT ${VERSION} FROM catalog_versions WHERE record = ? AND workspace IS ? AND number = ?`)
  const listVersions = db.query<VersionRow>(`
    SELECT ${VERSION} FROM catalog_versions
    WHERE record = :id AND workspace IS :workspace AND number < :below
    ORDER BY number DESC LIMIT :limit + 0`)

  const version = (): string => String(findCatalogVersion.get()?.version)

  const versionNumbered = (record: RecordName, number: number): RecordVersion | null => {
    const row = findVersion.get(recordId(record), record.workspace, number)
    return row ? versionOf(row) : null
  }

  const recordOf = (row: RecordRow): CatalogRecord => {
    const { kind, workspace, name } = row
    const inForce = row.published === null ? null : versionNumbered({ kind, workspace, name }, row.published)
    return { kind, workspace, name, draft: draftOf(row), published: inForce }
  }

  return {
    version,

    published: () => ({ version: version(), records: listPublished.all().map(versionOf) }),

    get(record) {
      const row = find.get(recordId(record), record.workspace)
      return row ? recordOf(row) : null
    },

    list(workspace) {
      const rows = workspace === null ? list.all() : listOf.all(workspace)
      return rows.map(({ has_draft, is_published, ...record }) => {
        return { ...record, hasDraft: has_draft === 1, isPublished: is_published === 1 }
      })
    },

    versionOf: versionNumbered,

    versions(record, below, limit) {
      const { workspace } = record
      const page = { below: below ?? Number.MAX_SAFE_INTEGER, limit: Math.min(limit, PAGE_MAX) }
      return listVersions.all({ id: recordId(record), workspace, ...page }).map(versionOf)
    },
  }
}

function draftOf({ draft_fields, revision, draft_at_ms, draft_by }: RecordRow): RecordDraft | null {
  if (draft_fields === null) return null
  return {
    fields: JSON.parse(draft_fields) as RecordDraft['fields'],
    revision,
    atMs: draft_at_ms,
    by: JSON.parse(draft_by) as Actor,
  }
}

function versionOf<Row extends VersionRow>({ fields, by, ...row }: Row) {
  return { ...row, fields: JSON.parse(fields) as RecordVersion['fields'], by: JSON.parse(by) as Actor }
}

const LINE = `number, at_ms AS atMs, by, action, workspace, target, hash_before AS before, hash_after AS after, detail`

type LineRow = Omit<AuditLine, 'by'> & { readonly by: string }

function createAuditRows(db: StateDatabase) {
  // The number is the row's, one more than the largest, because no line is ever deleted.
  const add = db.prepare(`
    INSERT INTO catalog_audit (at_ms, by, action, workspace, target, hash_before, hash_after, detail)
    VALUES (:atMs, :by, :action, :workspace, :target, :before, :after, :detail)`)
  const list = db.query<LineRow>(`
    SELECT ${LINE} FROM catalog_audit WHERE number < :below
    ORDER BY number DESC LIMIT :limit + 0`)
  const listOf = db.query<LineRow>(`
    SELECT ${LINE} FROM catalog_audit WHERE workspace = :workspace AND number < :below
    ORDER BY number DESC LIMIT :limit + 0`)

  return {
    add(note: AuditNote, nowMs: number): void {
      const { by, action, workspace, target, before, after, detail } = note
      add.run({
        ...{ atMs: nowMs, by: JSON.stringify(by), action, workspace },
        ...{ target, before, after, detail },
      })
    },

    list(workspace: string | null, below: number | null, limit: number): AuditLine[] {
      const page = { below: below ?? Number.MAX_SAFE_INTEGER, limit: Math.min(limit, PAGE_MAX) }
      const rows = workspace === null ? list.all(page) : listOf.all({ ...page, workspace })
      return rows.map(({ by, ...row }) => ({ ...row, by: JSON.parse(by) as Actor }))
    },
  }
}

type Purpose = 'change' | 'note'

/** Remembers changes by their tokens, with their answers, so that each is made once. */
function createCatalogTokens(db: StateDatabase) {
  const find = db.prepare(
    'SELECT answer FROM catalog_tokens WHERE purpose = ? AND token = ? AND until_ms > ?',
  )
  const put = db.prepare(
    'INSERT OR REPLACE INTO catalog_tokens (purpose, token, answer, until_ms) VALUES (?, ?, ?, ?)',
  )
  return {
    /** Runs `work` unless it was run with this token. @returns what it answered then or now */
    once(purpose: Purpose, token: string, nowMs: number, work: () => string): string {
      const known = find.get(purpose, token, nowMs)
      if (known) return String(known.answer)
      const answer = work()
      put.run(purpose, token, answer, nowMs + KNOWN_MS)
      return answer
    },
    purge: createPurge(db, 'catalog_tokens', 'until_ms'),
  }
}
