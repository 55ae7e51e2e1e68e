import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { parse, UsageError } from './cli/arguments.ts'

const HELP = `larkway <command>

  serve                        run the gateway; its environment is in the README
  check [file] [--providers]   validate the configuration: every fault, or what it amounts to
                               (default: LARKWAY_CONFIG, else larkway.yaml); with --providers ask
                               each configured provider for its models
  route explain --key K --endpoint E [...]
                               which entry would serve a request, and why the others would not
  route diff OLD NEW           what changed in the routes between two configuration files
  models [kind]                what is known of each model: capabilities, features, price, since when
  key make                     make an API key, and show it this once with its hash
  key hash [key]               print the hash of a key for the configuration; reads standard input without one
  sandbox [--host H] [--port P]
                               run the sandbox provider alone (default: 127.0.0.1, any free port)
  help
  version
`

type Command = (args: string[]) => Promise<number>

const COMMANDS: Readonly<Record<string, Command>> = {
  serve,
  check: checkCommand,
  route,
  models,
  key,
  sandbox,
  version,
  help: async () => print(HELP),
  '--help': async () => print(HELP),
  '--version': version,
}

async function serve(args: string[]): Promise<number> {
  parse(args, {}, 0)
  const { serve } = await import('./main.ts')
  try {
    await serve(process.env)
    return 0
  } catch (error) {
    process.stderr.write(`larkway: ${error instanceof Error ? error.message : String(error)}\n`)
    // What was opened before the failure would keep the process alive.
    process.exit(1)
  }
}

async function checkCommand(args: string[]): Promise<number> {
  const { values, positionals } = parse(args, { providers: { type: 'boolean' } }, 1)
  const path = positionals[0] ?? configPath()
  const { check } = await import('./cli/check.ts')
  return printingFaults(() => check({ path, env: process.env, providers: values.providers === true }, print))
}

async function route(args: string[]): Promise<number> {
  const [action, ...rest] = args
  if (args.includes('--help') && action !== 'explain') return print(HELP)
  if (action === 'explain') {
    const { explainRoute } = await import('./cli/explain.ts')
    return printingFaults(() => explainRoute(rest, configPath(), print))
  }
  if (action === 'diff') {
    const { diffFiles } = await import('./cli/diff.ts')
    return printingFaults(() => diffFiles(rest, print))
  }
  throw new UsageError('route takes explain or diff')
}

function configPath(): string {
  return process.env.LARKWAY_CONFIG || 'larkway.yaml'
}

/** A faulty configuration is an answer of these commands, not a failure of theirs. */
async function printingFaults(command: () => Promise<number>): Promise<number> {
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
  const { positionals } = parse(args, {}, 2)
  const [action, given] = positionals
  const { hashKey, looksLikeKey, makeKey } = await import('./catalog/key.ts')
  if (action === 'make' && given === undefined) {
    const made = makeKey()
    return print(`key     ${made}\nsha256  ${hashKey(made)}\n`)
  }
  if (action !== 'hash') throw new UsageError('key takes make or hash')
  const plain = (given ?? (await text(process.stdin))).trim()
  if (!looksLikeKey(plain)) throw new UsageError('that is no API key of Larkway, or one with a typing error')
  return print(`${hashKey(plain)}\n`)
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
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(text) as { version: string }
  return print(`larkway ${version}\n`)
}

/** Writes to standard output; the exit code of a command that has done its work. */
function print(text: string): number {
  process.stdout.write(text)
  return 0
}

const [name = 'help', ...args] = process.argv.slice(2)
const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
try {
  if (command === undefined) throw new UsageError(`there is no command "${name}"; see larkway help`)
  const help = args.includes('--help') && command !== route
  process.exitCode = help ? print(HELP) : await command(args)
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  process.stderr.write(`larkway: ${error.message}\n`)
  process.exitCode = 2
}
