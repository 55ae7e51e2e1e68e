import type { DatabaseSync } from 'node:sqlite'
import type { Actor, AuditLine, AuditNote } from '../../schema/catalog-store.ts'

/** Most lines in one page. */
const PAGE_MAX = 1000

type LineRow = {
  readonly number: number
  readonly at_ms: number
  readonly by: string
  readonly action: string
  readonly workspace: string | null
  readonly target: string
  readonly hash_before: string | null
  readonly hash_after: string | null
  readonly detail: string | null
}

export type AuditRows = ReturnType<typeof createAuditRows>

/** The list of all changes. */
export function createAuditRows(db: DatabaseSync) {
  // The number is that of the row, one more than the largest: none is ever deleted.
  const add = db.prepare(`
    INSERT INTO catalog_audit (at_ms, by, action, workspace, target, hash_before, hash_after, detail)
    VALUES (:atMs, :by, :action, :workspace, :target, :before, :after, :detail)`)
  const list = db.prepare(`
    SELECT * FROM catalog_audit WHERE number < :below
    ORDER BY number DESC LIMIT :limit`)
  const listOf = db.prepare(`
    SELECT * FROM catalog_audit WHERE workspace = :workspace AND number < :below
    ORDER BY number DESC LIMIT :limit`)

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
      return (rows as LineRow[]).map(lineOf)
    },
  }
}

function lineOf({ at_ms, by, hash_before, hash_after, ...row }: LineRow): AuditLine {
  const { number, action, workspace, target, detail } = row
  return {
    ...{ number, atMs: at_ms, by: JSON.parse(by) as Actor, action, workspace, target },
    ...{ before: hash_before, after: hash_after, detail },
  }
}
