import { looksLikeKey } from '../catalog/key.ts'
import { CatalogError } from '../catalog/watch.ts'
import { noteChange } from '../routes/audit-note.ts'
import { keyRevocation } from '../routes/key-notes.ts'
import type { Snapshot } from '../schema/catalog.ts'
import { CommandFailure, parse, UsageError } from './arguments.ts'
import { openServed, WITHOUT_SECRETS } from './catalog.ts'
import { commandActor, configAt, type Desk, environmentOf } from './desk.ts'
import { withState } from './state.ts'

/**
 * `larkway key revoke ID`. The state is asked before the configuration is read: a key that leaked can be revoked also
 * while the configuration is broken.
 *
 * @throws UsageError, CommandFailure for a key that the state does not have
 */
export async function revokeKey(args: readonly string[], desk: Desk): Promise<void> {
  const { values, positionals } = parse(args, { config: { type: 'string' } }, 1)
  const [id] = positionals
  if (id === undefined) throw new UsageError('key revoke takes the id of a key; see larkway key list')
  if (looksLikeKey(id)) throw new UsageError('key revoke takes the id of the key, not the key itself')
  const environment = environmentOf(desk)
  const revoked = await withState(environment, async ({ catalog, keys }) => {
    const key = (await keys.list()).find((one) => one.id === id)
    if (key?.revokedAtMs === null) await noteChange(catalog, keyRevocation(key, commandActor('key revoke')))
    return keys.revoke(id)
  })
  if (revoked === null) throw new CommandFailure(await whyUnknown(id, desk, values.config))
  const { prefix, workspace, revokedAtMs } = revoked
  const since = revokedAtMs === null ? '' : ` since ${new Date(revokedAtMs).toISOString()}`
  desk.print(`${id} (${prefix}…, ${workspace}) is revoked${since}\n`)
}

async function whyUnknown(id: string, desk: Desk, config: string | undefined): Promise<string> {
  let snapshot: Snapshot
  try {
    snapshot = (await openServed(configAt(desk, config), WITHOUT_SECRETS)).current()
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error
    return `the state has no key "${id}", and the configuration is not valid, see larkway check`
  }
  const isOfFile = [...snapshot.keys.values()].some(({ key }) => key.id === id)
  if (!isOfFile) return `there is no key "${id}"; see larkway key list`
  return `"${id}" is a key of the configuration: remove it there`
}
