import type { DatabaseSync } from 'node:sqlite'
import {
  type Actor,
  type CatalogRecord,
  type PublishedCatalog,
  type RecordDraft,
  type RecordName,
  type RecordVersion,
  recordId,
} from '../../schema/catalog-store.ts'

/** Most versions in one page. */
const PAGE_MAX = 1000

/** A record and, where it has one, its version in force. */
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

type VersionRow = {
  readonly number: number
  readonly fields: string
  readonly hash: string
  readonly at_ms: number
  readonly by: string
  readonly note: string | null
}

/** The methods of `CatalogStore` that read records, each within a transaction of its caller. */
export function createCatalogReads(db: DatabaseSync) {
  const version = db.prepare('SELECT version FROM catalog_version')
  const published = db.prepare(`
    SELECT r.kind, r.workspace AS owner, r.name, v.*
    FROM catalog_records AS r JOIN catalog_versions AS v ON v.record = r.id AND v.number = r.published
    ORDER BY r.id`)
  const find = db.prepare('SELECT * FROM catalog_records WHERE id = ? AND workspace IS ?')
  const standing = 'SELECT * FROM catalog_records WHERE (draft_fields IS NOT NULL OR published IS NOT NULL)'
  const list = db.prepare(`${standing} ORDER BY id`)
  const listOf = db.prepare(`${standing} AND workspace = ? ORDER BY id`)
  const findVersion = db.prepare(
    'SELECT * FROM catalog_versions WHERE record = ? AND workspace IS ? AND number = ?',
  )
  const listVersions = db.prepare(`
    SELECT * FROM catalog_versions
    WHERE record = :id AND workspace IS :workspace AND number < :below
    ORDER BY number DESC LIMIT :limit`)

  const catalogVersion = (): string => String(version.get()?.version)

  const recordVersion = (record: RecordName, number: number): RecordVersion | null => {
    const row = findVersion.get(recordId(record), record.workspace, number) as VersionRow | undefined
    return row ? versionOf(row) : null
  }

  const recordOf = (row: RecordRow): CatalogRecord => {
    const { kind, workspace, name } = row
    const inForce = row.published === null ? null : recordVersion({ kind, workspace, name }, row.published)
    return { kind, workspace, name, draft: draftOf(row), published: inForce }
  }

  return {
    catalogVersion,

    publishedCatalog(): PublishedCatalog {
      const rows = published.all() as (VersionRow &
        Pick<RecordRow, 'kind' | 'name'> & { readonly owner: string | null })[]
      const records = rows.map(({ kind, owner, name, ...row }) => ({
        ...{ kind, workspace: owner, name },
        ...versionOf(row),
      }))
      return { version: catalogVersion(), records }
    },

    catalogRecord(record: RecordName): CatalogRecord | null {
      const row = find.get(recordId(record), record.workspace) as RecordRow | undefined
      return row ? recordOf(row) : null
    },

    catalogRecords(workspace: string | null): CatalogRecord[] {
      const rows = workspace === null ? list.all() : listOf.all(workspace)
      return (rows as RecordRow[]).map(recordOf)
    },

    recordVersion,

    recordVersions(record: RecordName, below: number | null, limit: number): RecordVersion[] {
      const { workspace } = record
      const page = { below: below ?? Number.MAX_SAFE_INTEGER, limit: Math.min(limit, PAGE_MAX) }
      return (listVersions.all({ id: recordId(record), workspace, ...page }) as VersionRow[]).map(versionOf)
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

function versionOf({ number, fields, hash, at_ms, by, note }: VersionRow): RecordVersion {
  return {
    number,
    fields: JSON.parse(fields) as RecordVersion['fields'],
    hash,
    atMs: at_ms,
    by: JSON.parse(by) as Actor,
    note,
  }
}
