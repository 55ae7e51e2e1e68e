import type { Actor } from '../schema/catalog-store.ts'
import type { StoredKey } from '../schema/stored-keys.ts'
import type { NotedChange } from './audit-note.ts'

/** How the audit list tells of a key that is made, or brought from elsewhere. */
export function keyCreation(key: StoredKey, by: Actor): NotedChange {
  const { id, workspace, name, prefix, app, scopes } = key
  const detail = `${name} (${prefix}…) for the app ${app}: ${scopes.join(', ')}`
  return { action: 'key.create', workspace, target: `key/${id}`, by, after: notedKey(key), detail }
}

export function keyRevocation(key: StoredKey, by: Actor): NotedChange {
  const { id, workspace, name, prefix, app } = key
  const detail = `${name} (${prefix}…) of the app ${app}`
  return { action: 'key.revoke', workspace, target: `key/${id}`, by, before: notedKey(key), detail }
}

/** What the hash on the audit list is made of. */
function notedKey({ sha256: _, ...key }: StoredKey): object {
  return key
}
