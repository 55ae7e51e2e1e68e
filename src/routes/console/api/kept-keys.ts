import { invalid } from '../../../inbound/refusals.ts'
import type { StoredKey } from '../../../schema/stored-keys.ts'
import { noteChange } from '../../audit-note.ts'
import { keyCreation } from '../../key-notes.ts'
import type { ConsoleDesk } from '../desk.ts'
import type { Viewer } from '../session.ts'
import { refusedFor } from './faults.ts'

/** Records of keys that one workspace may have, revoked ones among them: every node reads all of them. */
const MAX_KEYS = 5_000

/**
 * Notes a new key on the audit list and keeps it. This node knows it when this has resolved, the others soon after.
 *
 * @throws GatewayError INVALID_REQUEST when the workspace has too many, DEPENDENCY_UNAVAILABLE
 */
export async function keepKey(
  desk: ConsoleDesk,
  viewer: Viewer,
  key: StoredKey,
  action = 'key.create',
): Promise<void> {
  if ((await storedKeys(desk, key.workspace)).length >= MAX_KEYS)
    throw refusedFor([`the workspace has ${MAX_KEYS} keys, revoked ones among them, and may have no more`])
  await noteChange(desk.records, { ...keyCreation(key, viewer.actor), action })
  await desk.doors.services.state.keys.create(key)
  await desk.refreshKeys()
}

/** @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function storedKeys({ doors }: ConsoleDesk, workspace: string): Promise<StoredKey[]> {
  const keys = await doors.services.state.keys.list()
  return keys.filter((key) => key.workspace === workspace)
}

/** Those of the keys that open something: neither revoked nor expired. */
export function validKeys(keys: readonly StoredKey[], nowMs: number): StoredKey[] {
  return keys.filter(
    ({ revokedAtMs, expiresAtMs }) => revokedAtMs === null && (expiresAtMs === null || expiresAtMs > nowMs),
  )
}

/** An app that keys may stand for. @throws GatewayError INVALID_REQUEST */
export function appIn({ doors }: ConsoleDesk, workspace: string, app: string): string {
  if (doors.services.snapshot().apps.get(workspace)?.has(app) === true) return app
  throw invalid('app: the workspace has no app of this name', 'app')
}
