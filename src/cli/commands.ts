import { readVersion } from '../contracts/version.ts'
import { CommandFailure, parse, UsageError } from './arguments.ts'
import type { CliContext } from './context.ts'

const HELP = `larkway <command>

  serve [--processes N]        run the gateway; docs/configuration.md lists its environment. N processes (1 to 64) share
                               the port, and Redis and S3 or the data folder; LARKWAY_MEMORY_MIB is the budget of each
  worker                       work on jobs and webhooks, beside servers with the same Redis and bucket
  check [file] [--providers] [--models FILE|URL]
                               validate the configuration: print every issue, or what it amounts to (default:
                               LARKWAY_CONFIG, else larkway.yaml), and the certificate of TLS; with --providers, ask
                               each provider for its models; with --models, by the facts of a signed document
  doctor [--call [--yes]]      look at all that a node here depends on, and say what is wrong; with --call, try entries
  schema                       print the JSON Schema of the configuration, for editors
  route explain --key K --endpoint E [...]
                               tell which entry would serve a request, and why the others would not
  route diff OLD NEW           compare the routes of two configuration files
  models [kind] [--stale]      list known models: capabilities, features, price, and the date of that knowledge; with
                               --stale, those that have ended, end within 90 days, are deprecated or were looked up
                               longer ago
  models update [--from FILE|URL] [--force | --shipped]
                               put a newer signed document of these facts into the state, for all servers; without
                               --from, tell which one is in force. Nothing is fetched unless --from names a URL
  key create|change|rotate|revoke|list
                               manage API keys in the state, without a restart or a change of the configuration
  key make|hash                make an API key for the configuration; print the hash of one
  credits add|show             add credits to workspaces; show balances and spending
  jobs list|show|retry|cancel  manage transcription jobs and jobs of the queue, with its dead list
  webhooks list|redeliver|test list pending webhook deliveries; deliver again; test a workspace's webhook
  usage [--by D] [--sql Q]     calls, cost, quantities and latencies by workspace, app, model, …; for finance as FOCUS
  secrets make|rotate          make a key of LARKWAY_SECRET_KEYS; seal what is kept with a new one
  state accept-loss            go on with a Redis that has lost everything it held
  backup FOLDER                copy the data folder of a node that may run meanwhile
  restore FOLDER               make a data folder out of such a copy
  export [--out FILE]          write the configuration, and what was made in the console, as one configuration
  import FILE [--dry-run]      publish what a configuration defines, beside the one that is served
  transcribe FILE|FOLDER|-...  upload recordings, have each transcribed, and print or write the transcript; goes on
                               with what was interrupted
  listen FILE|-                stream audio to a node at real time, and print the transcript as it grows
  sandbox [--host H] [--port P]
                               run the sandbox provider alone (default: 127.0.0.1, any free port)
  help                         print this text
  version                      print the version

doctor, key, credits, jobs, webhooks, usage, secrets, state, backup, restore, export, import, transcribe,
listen and route explain have a --help of their own.
Exit code: 0 when done, 1 when the command failed or was refused, 2 for a wrong command line.
`

export type Command = (args: string[], context: CliContext) => Promise<number>

/** Each loads what it needs when it is given. */
const COMMANDS: Readonly<Record<string, Command>> = {
  check,
  doctor: async (...given) => (await import('./doctor.ts')).doctor(...given),
  schema: async (args, { print }) => (await import('./schema.ts')).printSchema(args, print),
  route,
  models,
  key: async (...given) => (await import('./key.ts')).key(...given),
  credits: async (...given) => (await import('./credits.ts')).credits(...given),
  jobs: async (...given) => (await import('./jobs.ts')).jobs(...given),
  webhooks: async (...given) => (await import('./webhooks.ts')).webhooks(...given),
  usage: async (...given) => (await import('./usage.ts')).usage(...given),
  secrets: async (...given) => (await import('./secrets.ts')).secrets(...given),
  state: async (...given) => (await import('./backup.ts')).state(...given),
  transcribe: async (...given) => (await import('./transcribe.ts')).transcribe(...given),
  listen: async (...given) => (await import('./listen.ts')).listen(...given),
  backup: async (...given) => (await import('./backup.ts')).backup(...given),
  restore: async (...given) => (await import('./backup.ts')).restore(...given),
  export: async (...given) => (await import('./transfer.ts')).exportFile(...given),
  import: async (...given) => (await import('./transfer.ts')).importFile(...given),
  version,
  help,
  '--help': help,
  '--version': version,
}

/** Commands that answer --help by themselves. */
const OWN_HELP: ReadonlySet<string> = new Set([
  ...['doctor', 'route', 'key', 'credits', 'jobs', 'webhooks', 'usage', 'secrets', 'state', 'backup'],
  ...['restore', 'export', 'import', 'transcribe', 'listen'],
])

/** A terminal that commands are given at, and the environment of its shell. */
export interface Terminal extends CliContext {
  readonly complain: (sentence: string) => void
}

/**
 * Runs a command to its end.
 *
 * @param programs commands that go on until the process is told to stop, which are the process's own
 * @returns the exit code
 */
export async function runCommand(
  [name = 'help', ...args]: readonly string[],
  terminal: Terminal,
  programs: Readonly<Record<string, Command>> = {},
): Promise<number> {
  const commands = { ...COMMANDS, ...programs }
  try {
    const command = Object.hasOwn(commands, name) ? commands[name] : undefined
    if (command === undefined) throw new UsageError(`there is no command "${name}"; see larkway help`)
    const asksHelp = args.includes('--help') && !OWN_HELP.has(name)
    return await (asksHelp ? help : command)(args, terminal)
  } catch (error) {
    // A refusal of the system, such as of a file that cannot be written, is no fault of the program.
    if (error instanceof UsageError || error instanceof CommandFailure || isFromSystem(error)) {
      terminal.complain(error.message)
      return error instanceof UsageError ? 2 : 1
    }
    const { CatalogError } = await import('../gateway/catalog/watch.ts')
    if (!(error instanceof CatalogError)) throw error
    // The faults of a configuration are the output of a command.
    terminal.print(`${error.message}\n`)
    return 1
  }
}

function isFromSystem(error: unknown): error is Error {
  return error instanceof Error && 'syscall' in error
}

async function check(args: string[], context: CliContext): Promise<number> {
  const flags = { providers: { type: 'boolean' }, models: { type: 'string' } } as const
  const { values, positionals } = parse(args, flags, 1)
  const { providers = false, models: from } = values
  const path = positionals[0] ?? configPath(context)
  const read = async (from: string) => (await import('./models-update.ts')).readDocument(from, context)
  const models = from === undefined ? undefined : (await read(from)).table
  const { check } = await import('./check.ts')
  return check({ path, env: context.env, providers, models }, context.print)
}

async function route(args: string[], context: CliContext): Promise<number> {
  const [action, ...rest] = args
  if (args.includes('--help') && action !== 'explain') return help(args, context)
  const { diffFiles, explainRoute } = await import('./route.ts')
  if (action === 'explain') return explainRoute(rest, configPath(context), context.print)
  if (action === 'diff') return diffFiles(rest, context.print)
  throw new UsageError('route takes explain or diff')
}

function configPath({ env }: CliContext): string {
  return env.LARKWAY_CONFIG || 'larkway.yaml'
}

async function models(args: string[], context: CliContext): Promise<number> {
  if (args[0] === 'update') return (await import('./models-update.ts')).updateModels(args.slice(1), context)
  return (await import('./models.ts')).listKnownModels(args, context.print)
}

async function version(_: string[], { print }: CliContext): Promise<number> {
  print(`larkway ${await readVersion()}\n`)
  return 0
}

async function help(_: string[], { print }: CliContext): Promise<number> {
  print(HELP)
  return 0
}
