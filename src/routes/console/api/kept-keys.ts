import { invalid } from '../../../inbound/refusals.ts'
import type { StoredKey } from '../../../schema/stored-keys.ts'
import { noteChange } from '../../audit-note.ts'
import { keyCreation } from '../../key-notes.ts'
import type { ConsoleDesk } from '../desk.ts'
import type { Viewer } from '../session.ts'

/** Notes a new key on the audit list and keeps it. This node knows it when this has resolved, the others soon after. */
export async function keepKey(desk: ConsoleDesk, viewer: Viewer, key: StoredKey): Promise<void> {
  await noteChange(desk.records, keyCreation(key, viewer.actor))
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
