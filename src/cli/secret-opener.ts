import type { SecretSources } from '../catalog/secret.ts'
import { DEFAULT_DATA } from '../config.ts'
import { open } from '../sealing.ts'
import { findSecretKeys } from '../secrets.ts'
import { CommandFailure } from './arguments.ts'

/**
 * Opens sealed credentials as the servers do that have the same environment. What it returns throws CommandFailure
 * where their keys are none: a configuration in which nothing is sealed can do without.
 */
export async function secretOpener({
  LARKWAY_SECRET_KEYS,
  LARKWAY_DATA,
}: Readonly<Record<string, string | undefined>>): Promise<SecretSources['open']> {
  const keys = await findSecretKeys(LARKWAY_SECRET_KEYS || undefined, LARKWAY_DATA || DEFAULT_DATA).catch(
    (error: unknown) => new CommandFailure(error instanceof Error ? error.message : String(error)),
  )
  return (sealed, context) => {
    if (keys instanceof CommandFailure) throw keys
    return open(keys, sealed, context)
  }
}
