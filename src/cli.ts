import { CommandFailure, parse, UsageError } from './cli/arguments.ts'
import { readVersion } from './version.ts'

const HELP = `larkway <command>

  serve [--processes N]        run the gateway; docs/configuration.md lists its environment. N processes (1 to 64) share
                               the port, Redis and S3; LARKWAY_MEMORY_MIB is the budget of each
  worker                       work on jobs and webhooks, beside servers with the same Redis and bucket
  check [file] [--providers]   validate the configuration: print every issue, or what it amounts to (default:
                               LARKWAY_CONFIG, else larkway.yaml); with --providers, ask each provider for its models
  schema                       print the JSON Schema of the configuration, for editors
  route explain --key K --endpoint E [...]
                               tell which entry would serve a request, and why the others would not
  route diff OLD NEW           compare the routes of two configuration files
  models [kind] [--stale]      list known models: capabilities, features, price, and the date of that knowledge; with
                               --stale, those that end within 90 days or were looked up longer ago
  key create|list|revoke       manage API keys in the state, without a restart or a change of the configuration
  key make|hash                make an API key for the configuration; print the hash of one
  credits add|show             add credits to workspaces; show balances and spending
  jobs list|show|retry|cancel  manage transcription jobs and jobs of the queue, with its dead list
  webhooks list|redeliver|test list pending webhook deliveries; deliver again; test a workspace's webhook
  export [--out FILE]          write the configuration, and what was made in the console, as one configuration
  import FILE [--dry-run]      publish what a configuration defines, beside the one that is served
  sandbox [--host H] [--port P]
                               run the sandbox provider alone (default: 127.0.0.1, any free port)
  help                         print this text
  version                      print the version

key, credits, jobs, webhooks, export, import and route explain have a --help of their own.
Exit code: 0 when done, 1 when the command failed or was refused, 2 for a wrong command line.
`

type Command = (args: string[]) => Promise<number>

const COMMANDS: Readonly<Record<string, Command>> = {
  serve,
  worker,
  check: checkCommand,
  schema,
  route,
  models,
  key,
  credits,
  jobs,
  webhooks,
  export: exportCommand,
  import: importCommand,
  sandbox,
  version,
  help: async () => print(HELP),
  '--help': async () => print(HELP),
  '--version': version,
}

/** Commands that answer --help by themselves. */
const OWN_HELP: ReadonlySet<string> = new Set([
  'route',
  'key',
  'credits',
  'jobs',
  'webhooks',
  'export',
  'import',
])

async function serve(args: string[]): Promise<number> {
  const { values } = parse(args, { processes: { type: 'string' } }, 0)
  const { readCount, serveProcesses } = await import('./cli/processes.ts')
  const count = readCount(values.processes ?? '1')
  return running(async () => {
    if (count > 1) return serveProcesses({ count, env: process.env, print, complain })
    const { serve } = await import('./main.ts')
    await serve(process.env)
    return 0
  })
}

async function worker(args: string[]): Promise<number> {
  parse(args, {}, 0)
  return running(async () => {
    const { work } = await import('./main.ts')
    await work(process.env)
    return 0
  })
}

async function running(start: () => Promise<number>): Promise<number> {
  try {
    return await start()
  } catch (error) {
    complain(error instanceof Error ? error.message : String(error))
    // Handles opened before the failure would keep the process alive.
    process.exit(1)
  }
}

async function checkCommand(args: string[]): Promise<number> {
  const { values, positionals } = parse(args, { providers: { type: 'boolean' } }, 1)
  const path = positionals[0] ?? configPath()
  const { check } = await import('./cli/check.ts')
  return printingIssues(() => check({ path, env: process.env, providers: values.providers === true }, print))
}

async function schema(args: string[]): Promise<number> {
  const { printSchema } = await import('./cli/schema.ts')
  return printSchema(args, print)
}

async function route(args: string[]): Promise<number> {
  const [action, ...rest] = args
  if (args.includes('--help') && action !== 'explain') return print(HELP)
  if (action === 'explain') {
    const { explainRoute } = await import('./cli/route.ts')
    return printingIssues(() => explainRoute(rest, configPath(), print))
  }
  if (action === 'diff') {
    const { diffFiles } = await import('./cli/route.ts')
    return printingIssues(() => diffFiles(rest, print))
  }
  throw new UsageError('route takes explain or diff')
}

function configPath(): string {
  return process.env.LARKWAY_CONFIG || 'larkway.yaml'
}

/** Prints what is wrong with a configuration as the output of a command. */
async function printingIssues(command: () => Promise<number>): Promise<number> {
  const { CatalogError } = await import('./catalog/watch.ts')
  try {
    return await command()
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error
    print(`${error.message}\n`)
    return 1
  }
}

async function models(args: string[]): Promise<number> {
  const { listKnownModels } = await import('./cli/models.ts')
  return listKnownModels(args, print)
}

async function key(args: string[]): Promise<number> {
  const { key } = await import('./cli/key.ts')
  return printingIssues(() => key(args, { env: process.env, print }))
}

async function credits(args: string[]): Promise<number> {
  const { credits } = await import('./cli/credits.ts')
  return printingIssues(() => credits(args, { env: process.env, print }))
}

async function jobs(args: string[]): Promise<number> {
  const { jobs } = await import('./cli/jobs.ts')
  return jobs(args, { env: process.env, print })
}

async function webhooks(args: string[]): Promise<number> {
  const { webhooks } = await import('./cli/webhooks.ts')
  return webhooks(args, { env: process.env, print })
}

async function exportCommand(args: string[]): Promise<number> {
  const { exportFile } = await import('./cli/transfer.ts')
  return printingIssues(() => exportFile(args, { env: process.env, print }))
}

async function importCommand(args: string[]): Promise<number> {
  const { importFile } = await import('./cli/transfer.ts')
  return printingIssues(() => importFile(args, { env: process.env, print }))
}

async function sandbox(args: string[]): Promise<number> {
  const { values } = parse(args, { host: { type: 'string' }, port: { type: 'string' } }, 0)
  const { host = '127.0.0.1', port = '0' } = values
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65535) throw new UsageError('--port takes 0 to 65535')
  const { startSandbox } = await import('./sandbox/server.ts')
  const { url } = await startSandbox({ host, port: Number(port) })
  print(`sandbox listens on ${url}\n`)
  return 0
}

async function version(): Promise<number> {
  return print(`larkway ${await readVersion()}\n`)
}

/** Writes to standard output. @returns the exit code of a command that has done its work */
function print(text: string): number {
  process.stdout.write(text)
  return 0
}

function complain(sentence: string): void {
  process.stderr.write(`larkway: ${sentence}\n`)
}

const [name = 'help', ...args] = process.argv.slice(2)
const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
try {
  if (command === undefined) throw new UsageError(`there is no command "${name}"; see larkway help`)
  const help = args.includes('--help') && !OWN_HELP.has(name)
  process.exitCode = help ? print(HELP) : await command(args)
} catch (error) {
  if (!(error instanceof UsageError || error instanceof CommandFailure)) throw error
  complain(error.message)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
