import { existsSync, readFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import type { AppPrincipal, Snapshot } from '../contracts/catalog.ts'
import type { CatalogService, ServedCatalog } from '../contracts/catalog-service.ts'
import { GatewayError } from '../contracts/errors.ts'
import type { Job } from '../contracts/jobs.ts'
import { createLogger } from '../contracts/log.ts'
import type { ModelsInForce, ModelTable } from '../contracts/models.ts'
import { unseal } from '../contracts/sealing.ts'
import { findSecretKeys } from '../contracts/secrets.ts'
import type { State } from '../contracts/state.ts'
import { systemClock } from '../contracts/time.ts'
import type { AdminActor, AdminContext } from '../gateway/admin/actor.ts'
import { openDemo } from '../gateway/catalog/demo.ts'
import { makeKey } from '../gateway/catalog/key.ts'
import { type SecretSources, WITHOUT_SECRETS } from '../gateway/catalog/secret.ts'
import { catalogService, type Serving } from '../gateway/catalog/serving.ts'
import { openCatalog } from '../gateway/catalog/watch.ts'
import { createJobSignals } from '../gateway/jobs/watch.ts'
import { DEFAULT_DATA, type Environment, readEnvironment, withSecretFiles } from '../gateway/node/config.ts'
import { openObjects, openState } from '../gateway/node/stores.ts'
import { createWebhookPoster } from '../gateway/outbound/post-webhook.ts'
import { SHIPPED } from '../gateway/providers/facts.ts'
import { modelKeys, modelsInForce } from '../gateway/providers/feed.ts'
import { PROVIDERS } from '../gateway/providers/index.ts'
import { createBudget } from '../gateway/storage/budget.ts'
import { createJobObjects } from '../gateway/storage/job-objects.ts'
import { signWebhook } from '../gateway/workers/webhook-signature.ts'
import { CommandFailure, UsageError } from './arguments.ts'

const DEFAULT_CONFIG = 'larkway.yaml'
/** Memory for removing objects, which needs next to none. */
const REMOVAL_BYTES = 16 * 1024 * 1024

type Env = Readonly<Record<string, string | undefined>>

/** The surroundings of a command. */
export interface CliContext {
  readonly env: Env
  readonly print: (text: string) => void
  /** Standard input; absent: nothing is given there. */
  readonly input?: Readable
  /** Width of the terminal that is printed to; absent: what is printed goes elsewhere. */
  readonly columns?: number | undefined
  /** Writes to the terminal beside what is printed; absent: there is none. */
  readonly draw?: ((text: string) => void) | undefined
  /** Writes a sentence to standard error. */
  readonly complain?: (sentence: string) => void
}

/**
 * A command whose first argument is an action.
 *
 * @param usage its help
 * @param table each resolves with the exit code; default: 0
 * @throws UsageError for an action that there is not
 */
export function actions(
  name: string,
  usage: string,
  table: Readonly<Record<string, (args: readonly string[], context: CliContext) => Promise<unknown>>>,
) {
  return async (args: readonly string[], context: CliContext): Promise<number> => {
    const [action = '', ...rest] = args
    if (args.includes('--help')) {
      context.print(usage)
      return 0
    }
    if (!Object.hasOwn(table, action)) {
      const names = Object.keys(table)
        .join(', ')
        .replace(/, ([^,]*)$/, ' or $1')
      throw new UsageError(`${name} takes ${names}; see larkway ${name} --help`)
    }
    const code = await table[action]!(rest, context)
    return typeof code === 'number' ? code : 0
  }
}

/** Help on options that several commands take, and on what all of them have in common. */
export const CONFIG_HELP =
  '--config FILE        default: LARKWAY_CONFIG, else larkway.yaml when it exists, else the demo'
export const STATE_HELP = `The command works on the state of the servers with the same REDIS_URL, else on the file in
LARKWAY_DATA. Servers may be running.`
export const EXIT_HELP =
  'Exit code: 0 when done, 1 when the command failed or was refused, 2 for a wrong command line.'

/** @throws CommandFailure that names every bad variable */
export function environmentOf({ env }: Pick<CliContext, 'env'>): Environment {
  try {
    return readEnvironment(env)
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : String(error))
  }
}

/** The configuration that a server would serve here; undefined: the demo. */
export function configAt({ env }: CliContext, given: string | undefined): string | undefined {
  const named = given ?? (env.LARKWAY_CONFIG || undefined)
  return named ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined)
}

/** Sources of secrets. */
export type Secrets = Omit<SecretSources, 'readSecret'> & Partial<Pick<SecretSources, 'readSecret'>>

/**
 * Opens sealed credentials as servers with the same environment do. The result throws CommandFailure where the keys are
 * invalid: a configuration in which nothing is sealed can do without them.
 */
export async function secretOpener(env: Env): Promise<SecretSources['open']> {
  const { LARKWAY_SECRET_KEYS, LARKWAY_DATA } = withSecretFiles(env)
  const keys = await findSecretKeys(LARKWAY_SECRET_KEYS || undefined, LARKWAY_DATA || DEFAULT_DATA).catch(
    (error: unknown) => new CommandFailure(error instanceof Error ? error.message : String(error)),
  )
  return (sealed, context) => {
    if (keys instanceof CommandFailure) throw keys
    return unseal(keys, sealed, context)
  }
}

/**
 * Reads a configuration without its secrets, so that it can be explained and compared where they are missing.
 *
 * @throws CatalogError when it is missing or invalid
 */
export async function readWithoutSecrets(path: string): Promise<ServedCatalog> {
  return (await openServed(path, WITHOUT_SECRETS)).good()
}

/**
 * The configuration that a server would serve before it has read the state. The key of the demo is made up.
 *
 * @param path as `configAt` returns it
 * @throws CatalogError when it is missing or invalid
 */
export async function openServed(
  path: string | undefined,
  secrets: Secrets,
  models: ModelTable = SHIPPED,
): Promise<Serving> {
  const kinds = PROVIDERS
  if (path !== undefined)
    return (await openCatalog({ path, kinds, models, otherwise: SHIPPED, ...secrets })).serving
  const readSecret = (named: string) => readFileSync(named, 'utf8')
  const demo = openDemo({ key: makeKey(), kinds, models: SHIPPED, readSecret, ...secrets })
  demo.offerModels(models)
  return demo
}

/**
 * The configuration that is served here, with what is published beside it, and without secrets.
 *
 * @throws CatalogError when the configuration is missing or invalid
 */
export async function servedAt(
  context: CliContext,
  config: string | undefined,
  { catalog }: Pick<State, 'catalog'>,
): Promise<Serving> {
  const { table } = await modelsAt(environmentOf(context), catalog)
  const serving = await openServed(configAt(context, config), WITHOUT_SECRETS, table)
  serving.offerPublished(await catalog.published())
  return serving
}

/** The facts of models that servers judge by: those in the state, else the program's. */
export async function modelsAt(
  { LARKWAY_MODELS_KEYS }: Environment,
  catalog: State['catalog'],
): Promise<ModelsInForce> {
  return modelsInForce(await catalog.models(), modelKeys(LARKWAY_MODELS_KEYS))
}

type Place = Pick<Environment, 'REDIS_URL' | 'LARKWAY_DATA'>

/**
 * Works on the state of the servers with the same environment: Redis, else the file of the data folder. A server may be
 * running.
 *
 * @throws CommandFailure when the state cannot be opened, does not answer, or a command is refused
 */
export async function withState<Result>(
  place: Place,
  work: (state: State) => Promise<Result>,
): Promise<Result> {
  const state = await openStateAt(place)
  try {
    return await work(state)
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    if (error.code !== 'DEPENDENCY_UNAVAILABLE') throw new CommandFailure(error.message, { cause: error })
    const { cause } = error
    const name = state.kind === 'redis' ? 'Redis' : 'the state'
    throw new CommandFailure(`${name} does not answer${cause instanceof Error ? `: ${cause.message}` : ''}`)
  } finally {
    await state.close()
  }
}

async function openStateAt(place: Place): Promise<State> {
  const { REDIS_URL, LARKWAY_DATA } = place
  if (REDIS_URL === undefined && !existsSync(LARKWAY_DATA))
    throw new CommandFailure(
      `there is no data folder ${LARKWAY_DATA}: set LARKWAY_DATA to the server's, which makes it when it starts`,
    )
  try {
    // A log would stand between the lines of the command.
    const state = await openState(place, createLogger('silent'))
    await state.memory?.watch(null)
    return state
  } catch (error) {
    throw new CommandFailure(error instanceof Error ? error.message : String(error))
  }
}

export interface AdminOptions {
  /** For the audit list: `larkway key create`. */
  readonly command: string
  readonly config?: string | undefined
  /** Fields of commands by the flags that give them, so that a refusal names the flag. */
  readonly flags?: Readonly<Record<string, string>>
  /** The workspace that the command is about: a refusal lists its apps. */
  readonly workspace?: string
}

/** The operator at the command line, and all that commands work on. */
export interface CliAdmin {
  readonly actor: AdminActor
  readonly admin: AdminContext
  readonly state: State
}

/**
 * Gives commands as the operator that everyone at this command line is.
 *
 * @throws CommandFailure of `withState`, UsageError when a flag is refused, CatalogError of a command that needs the
 *         configuration
 */
export async function withAdmin<Result>(
  context: CliContext,
  options: AdminOptions,
  work: (admin: CliAdmin) => Promise<Result>,
): Promise<Result> {
  const environment = environmentOf(context)
  return withState(environment, async (state) => {
    const removals: Promise<void>[] = []
    let served: Promise<CatalogService> | null = null
    const catalog = () => {
      served ??= serviceAt(context, options.config, state)
      return served
    }
    const insecure = environment.LARKWAY_INSECURE_WEBHOOKS
    const admin: AdminContext = {
      state,
      catalog,
      webhooks: { secretKeys: [], insecure },
      sending: {
        post: (...args) => createWebhookPoster({ insecure })(...args),
        signer: { sign: async (signable) => signWebhook(signable) },
        clock: systemClock,
      },
      objects: {
        removeInput(job) {
          removals.push(removeInput(environment, job))
          return Promise.resolve()
        },
      },
      signals: createJobSignals(),
      refreshKeys: async () => {},
      nowMs: systemClock.wallNow,
    }
    try {
      return await work({ actor: operatorBy(options.command), admin, state })
    } catch (error) {
      throw error instanceof GatewayError ? await adminRefusal(error, options, catalog) : error
    } finally {
      await Promise.all(removals)
    }
  })
}

/** The actor of a command, as the audit list names it. */
export function operatorBy(command: string): AdminActor {
  return {
    role: 'operator',
    workspace: null,
    author: { via: 'cli', keyId: null, name: `larkway ${command}` },
  }
}

async function serviceAt(
  context: CliContext,
  config: string | undefined,
  state: State,
): Promise<CatalogService> {
  const serving = await servedAt(context, config, state)
  return catalogService(serving, async () => void serving.offerPublished(await state.catalog.published()))
}

/** A refusal in the words of the command line: flags instead of fields, and the names that there are. */
async function adminRefusal(
  error: GatewayError,
  { flags = {}, workspace }: AdminOptions,
  catalog: () => Promise<CatalogService>,
): Promise<Error> {
  const { code, message, extra } = error
  const { param } = extra
  if (code === 'NOT_FOUND' && workspace !== undefined) {
    const { apps } = (await catalog()).current()
    if (!apps.has(workspace))
      return new CommandFailure(`${message}; there ${listedNames(apps)}`, { cause: error })
  }
  const flag = param === undefined ? undefined : flags[param]
  if (flag === undefined) return error
  const sentence = message.replace(`\`${param}\``, flag)
  if (param !== 'app' || workspace === undefined) return new UsageError(sentence)
  const apps = (await catalog()).current().apps.get(workspace) ?? new Map()
  return new CommandFailure(`${sentence}; there ${listedNames(apps)}`, { cause: error })
}

/** Removes the audio of a cancelled job from the store that the environment names, if it is here. */
async function removeInput(environment: Environment, job: Job): Promise<void> {
  if (environment.S3_BUCKET === undefined && !existsSync(environment.LARKWAY_DATA)) return
  const objects = await openObjects(environment)
  try {
    await createJobObjects({ objects, budget: createBudget(REMOVAL_BYTES) }).removeInput(job)
  } finally {
    await objects.close()
  }
}

/** @throws CommandFailure that lists the workspaces that there are */
export function workspaceIn({ apps }: Snapshot, id: string): ReadonlyMap<string, AppPrincipal> {
  const found = apps.get(id)
  if (found === undefined) throw new CommandFailure(`there is no such workspace; there ${listedNames(apps)}`)
  return found
}

/** `are "a", "b"`, for a sentence that says which names there are. */
function listedNames(named: ReadonlyMap<string, unknown>): string {
  const names = [...named.keys()].sort().map((name) => `"${name}"`)
  return names.length === 0 ? 'is none' : `${names.length === 1 ? 'is' : 'are'} ${names.join(', ')}`
}
