import { text } from 'node:stream/consumers'
import { hashKey, looksLikeKey, makeKey } from '../catalog/key.ts'
import { SCOPES } from '../schema/catalog.ts'
import { parse, UsageError } from './arguments.ts'
import type { Desk } from './desk.ts'
import { createKey } from './key-create.ts'
import { listKeys } from './key-list.ts'
import { revokeKey } from './key-revoke.ts'

const USAGE = `larkway key <action>

  create --workspace W --app A [options]
                       make an API key and keep its hash in the state; the key is shown this once
    --name TEXT          default: its id
    --scopes LIST        of ${SCOPES.join(', ')}; default: all but
                       admin and operator
    --expires TIME       e.g. 2027-01-31T00:00:00Z; default: never
    --requests-per-minute N   --burst N
                         rate limit; what is not given is the configuration's
    --budget-usd N       cap per calendar month in UTC
  list [--workspace W] [--json]
                       the keys of the configuration and those of the state; an unserved one is of a
                       workspace or an app that the configuration has no more
  revoke ID            refuse a key of the state from now on
  make                 make an API key for the configuration, and show it this once with its hash
  hash [key]           print the hash of a key for the configuration; reads standard input without one

  --config FILE        default: LARKWAY_CONFIG, else larkway.yaml when it exists, else the demo

The state is that of the servers with the same REDIS_URL, else the file in LARKWAY_DATA; they may run meanwhile, and
notice what was created or revoked within 5 s.
`

/**
 * `larkway key`: API keys, of the configuration and of the state.
 *
 * @returns the exit code
 * @throws UsageError, CommandFailure, CatalogError
 */
export async function key(args: readonly string[], desk: Desk): Promise<number> {
  const [action, ...rest] = args
  if (args.includes('--help')) desk.print(USAGE)
  else if (action === 'create') await createKey(rest, desk)
  else if (action === 'list') await listKeys(rest, desk)
  else if (action === 'revoke') await revokeKey(rest, desk)
  else if (action === 'make') desk.print(made(rest))
  else if (action === 'hash') desk.print(`${await hashed(rest)}\n`)
  else throw new UsageError('key takes create, list, revoke, make or hash')
  return 0
}

function made(args: readonly string[]): string {
  parse(args, {}, 0)
  const plain = makeKey()
  return `key     ${plain}\nsha256  ${hashKey(plain)}\n`
}

async function hashed(args: readonly string[]): Promise<string> {
  const [given] = parse(args, {}, 1).positionals
  const plain = (given ?? (await text(process.stdin))).trim()
  if (!looksLikeKey(plain)) throw new UsageError('that is no API key of Larkway, or one with a typing error')
  return hashKey(plain)
}
