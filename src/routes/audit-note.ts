import { randomUUID } from 'node:crypto'
import { hashFields } from '../catalog/canonical.ts'
import type { Principal } from '../schema/catalog.ts'
import type { Actor, AuditNote, CatalogStore } from '../schema/catalog-store.ts'

/** Lines stay for good, so that none is long, whatever it tells of. */
const DETAIL_MAX = 2_000

/** A change of something that is kept outside the catalog, as the audit list has it. */
export interface NotedChange extends Pick<AuditNote, 'action' | 'workspace' | 'target'> {
  readonly by: Actor
  /** What is there before and after it, of which only a hash is kept; null or absent: nothing. */
  readonly before?: object | null
  readonly after?: object | null
  /** In words, without a secret. */
  readonly detail?: string | null
}

/** Whom a key stands for, as the audit list names who changed something. */
export function actorOf({ key: { id, name } }: Pick<Principal, 'key'>, via: Actor['via']): Actor {
  return { via, keyId: id, name }
}

/**
 * Puts a change on the audit list. It is done before the change, so that nothing happens which the list does not show;
 * a change that fails then is on it all the same.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
export function noteChange(catalog: Pick<CatalogStore, 'note'>, change: NotedChange): Promise<void> {
  const { before = null, after = null, detail = null, ...note } = change
  const hashes = { before: hashOf(before), after: hashOf(after) }
  return catalog.note(randomUUID(), { ...note, ...hashes, detail: detail && shortened(detail) })
}

function shortened(detail: string): string {
  return detail.length <= DETAIL_MAX ? detail : `${detail.slice(0, DETAIL_MAX).toWellFormed()}…`
}

function hashOf(value: object | null): string | null {
  return value === null ? null : hashFields(value)
}
