import { randomUUID } from 'node:crypto'
import type { AuditNote, CatalogStore } from '../../contracts/catalog-store.ts'
import { hashFields } from '../../contracts/json.ts'
import type { AdminActor } from './actor.ts'

/** The audit list is kept for good, so no line of it is long. Characters. */
const DETAIL_MAX = 2_000

/** A change of something that is kept outside the catalog. */
export interface AuditedChange extends Pick<AuditNote, 'action' | 'workspace' | 'target'> {
  /** State before and after the change, of which only a hash is kept; null or absent: nothing. */
  readonly before?: object | null
  readonly after?: object | null
  /** A sentence without secrets. */
  readonly detail?: string | null
}

/**
 * Puts a change on the audit list. Commands do this before the change itself, so that nothing happens unlisted; a
 * change that fails afterwards is listed all the same.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
export function audit(
  catalog: Pick<CatalogStore, 'note'>,
  { author: by }: AdminActor,
  change: AuditedChange,
): Promise<void> {
  const { before = null, after = null, detail = null, ...note } = change
  const hashes = { before: before && hashFields(before), after: after && hashFields(after) }
  return catalog.note(randomUUID(), { ...note, by, ...hashes, detail: detail && shortened(detail) })
}

/** A change of something that belongs to a workspace as a whole. */
export function workspaceChange(action: string, workspace: string): AuditedChange {
  return { action, workspace, target: `workspace/${workspace}` }
}

function shortened(detail: string): string {
  return detail.length <= DETAIL_MAX ? detail : `${detail.slice(0, DETAIL_MAX).toWellFormed()}…`
}
