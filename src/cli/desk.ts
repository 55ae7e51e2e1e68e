import { type Environment, readEnvironment } from '../config.ts'
import type { AppPrincipal, Snapshot } from '../schema/catalog.ts'
import type { Actor } from '../schema/catalog-store.ts'
import type { AccountTerms } from '../schema/ledger.ts'
import type { State } from '../schema/state.ts'
import { CommandFailure } from './arguments.ts'
import { openServed, servedPath, WITHOUT_SECRETS } from './catalog.ts'

type Env = Readonly<Record<string, string | undefined>>

/** What a command that looks into the state has to do with outside. */
export interface Desk {
  readonly env: Env
  readonly print: (text: string) => void
}

/** @throws CommandFailure that names every bad variable */
export function environmentOf({ env }: Desk): Environment {
  try {
    return readEnvironment(env)
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : String(error))
  }
}

/** Where the configuration is that is served here; undefined: the demo is. */
export function configAt({ env }: Desk, config: string | undefined): string | undefined {
  return servedPath(config ?? (env.LARKWAY_CONFIG || undefined))
}

/**
 * What is served here: the configuration, and what is published beside it. Secrets are not read.
 *
 * @throws CatalogError when the configuration is missing or faulty
 */
export async function servedAt(
  desk: Desk,
  config: string | undefined,
  { catalog }: Pick<State, 'catalog'>,
): Promise<Snapshot> {
  const serving = await openServed(configAt(desk, config), WITHOUT_SECRETS)
  serving.offerPublished(await catalog.published())
  return serving.current()
}

/** Who changes something by a command, as the audit list names it. */
export function commandActor(command: string): Actor {
  return { via: 'cli', keyId: null, name: `larkway ${command}` }
}

/** @throws CommandFailure that lists the workspaces that there are */
export function workspaceIn({ apps }: Snapshot, id: string): ReadonlyMap<string, AppPrincipal> {
  const found = apps.get(id)
  if (found === undefined) throw new CommandFailure(`there is no workspace "${id}"; there ${listed(apps)}`)
  return found
}

/** What the workspace of these apps may spend; one without an app has nobody who could. */
export function termsOf(apps: ReadonlyMap<string, AppPrincipal>): AccountTerms {
  const [app] = apps.values()
  return app?.workspace.terms ?? { grant: null, trial: null, budgetMicros: null }
}

/** `are "a", "b"`, for a sentence about what there is. */
export function listed(named: ReadonlyMap<string, unknown>): string {
  const names = [...named.keys()].sort().map((name) => `"${name}"`)
  return names.length === 0 ? 'is none' : `${names.length === 1 ? 'is' : 'are'} ${names.join(', ')}`
}
