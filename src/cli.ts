import { readFile } from 'node:fs/promises'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import type { Principal, Route } from './schema/catalog.ts'

const HELP = `larkway <command>

  serve                        run the gateway; its environment is in the README
  check [file]                 validate the configuration: every fault, or what it amounts to
                               (default: LARKWAY_CONFIG, else larkway.yaml)
  key make                     make an API key, and show it this once with its hash
  key hash [key]               print the hash of a key for the configuration; reads standard input without one
  sandbox [--host H] [--port P]
                               run the sandbox provider alone (default: 127.0.0.1, any free port)
  help
  version
`

/** A command line that cannot be followed; the message is all that the user sees. */
class UsageError extends Error {}

type Command = (args: string[]) => Promise<number>

const COMMANDS: Readonly<Record<string, Command>> = {
  serve,
  check,
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

async function check(args: string[]): Promise<number> {
  const { positionals } = parse(args, {}, 1)
  const { LARKWAY_CONFIG } = process.env
  const path = positionals[0] ?? (LARKWAY_CONFIG || 'larkway.yaml')
  const { CatalogError, openCatalog } = await import('./catalog/watch.ts')
  const { factsOf, PROVIDERS } = await import('./providers/index.ts')
  try {
    const catalog = await openCatalog({ path, kinds: PROVIDERS, factsOf, env: process.env })
    const { routes, notices, snapshot } = catalog.good
    print(`${path} is valid.\n\n${routeTable(routes)}\n${keyTable([...snapshot.keys.values()])}`)
    for (const notice of notices) print(`note: ${notice}\n`)
    return 0
  } catch (error) {
    if (!(error instanceof CatalogError)) throw error
    print(`${error.message}\n`)
    return 1
  }
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

type Flags = NonNullable<Parameters<typeof parseArgs>[0]>['options'] & {}

/** @throws UsageError for a flag that is unknown, and for more than `most` words */
function parse<const Given extends Flags>(args: string[], options: Given, most: number) {
  try {
    const parsed = parseArgs({ args, options, allowPositionals: true, strict: true })
    if (parsed.positionals.length <= most) return parsed
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : 'that is no command line')
  }
  throw new UsageError('too many words')
}

function routeTable(routes: readonly Route[]): string {
  const rows = routes.map(({ workspace, name, version, strategy, published, entries }) => [
    workspace,
    name,
    version,
    published ? strategy : 'unpublished',
    entries.map(({ provider, model }) => `${provider.name}/${model}`).join(', '),
  ])
  return table([['WORKSPACE', 'ROUTE', 'VERSION', 'STRATEGY', 'ENTRIES'], ...rows])
}

function keyTable(principals: readonly Principal[]): string {
  const rows = principals.map(({ workspace, app, key: { id, scopes, rateLimit, expiresAtMs }, route }) => [
    workspace.id,
    app.id,
    id,
    route.name,
    scopes.join(','),
    `${rateLimit.requestsPerMinute}/min, burst ${rateLimit.burst}`,
    expiresAtMs === null ? 'never' : new Date(expiresAtMs).toISOString(),
  ])
  return table([['WORKSPACE', 'APP', 'KEY', 'ROUTE', 'SCOPES', 'RATE LIMIT', 'EXPIRES'], ...rows])
}

/** Columns as wide as their widest cell. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  return `${lines.map((line) => line.trimEnd()).join('\n')}\n`
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
  process.exitCode = await command(args)
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  process.stderr.write(`larkway: ${error.message}\n`)
  process.exitCode = 2
}
