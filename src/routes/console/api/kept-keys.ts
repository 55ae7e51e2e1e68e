import { invalid } from '../../../inbound/refusals.ts'
import type { StoredKey, StoredKeys } from '../../../schema/stored-keys.ts'
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

interface KnownKeys {
  readonly version: string
  readonly ofWorkspace: ReadonlyMap<string, readonly StoredKey[]>
  readonly names: ReadonlyMap<string, string>
}

/** What was read last of each state: thousands of keys are read anew when one of them changes, and not otherwise. */
const known = new WeakMap<StoredKeys, KnownKeys>()

async function readKeys({ doors }: ConsoleDesk): Promise<KnownKeys> {
  const { keys } = doors.services.state
  const version = await keys.version()
  const last = known.get(keys)
  if (last?.version === version) return last
  const all = await keys.list()
  const read = {
    version,
    ofWorkspace: Map.groupBy(all, ({ workspace }) => workspace),
    names: new Map(all.map(({ id, name }) => [id, name])),
  }
  known.set(keys, read)
  return read
}

/** @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function storedKeys(desk: ConsoleDesk, workspace: string): Promise<readonly StoredKey[]> {
  return (await readKeys(desk)).ofWorkspace.get(workspace) ?? []
}

/** Names by the ids of keys, those of the configuration file too. */
export async function keyNames(desk: ConsoleDesk): Promise<(id: string) => string | null> {
  const stored = await readKeys(desk).catch(() => null)
  const inFile = new Map<string, string>()
  for (const { key } of desk.doors.services.snapshot().keys.values()) inFile.set(key.id, key.name)
  return (id) => stored?.names.get(id) ?? inFile.get(id) ?? null
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
