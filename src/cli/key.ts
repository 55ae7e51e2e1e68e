import { Readable } from 'node:stream'
import { text as textOf } from 'node:stream/consumers'
import { SCOPES, type Snapshot } from '../contracts/catalog.ts'
import type { StoredKey } from '../contracts/stored-keys.ts'
import { systemClock } from '../contracts/time.ts'
import type { KeyChange } from '../gateway/admin/keys.ts'
import { changeKey, createKey, OVERLAP_SECONDS_MAX, revokeKey, rotateKey } from '../gateway/admin/keys.ts'
import {
  BURST_MAX,
  formerInForce,
  hashKey,
  looksLikeKey,
  makeKey,
  REQUESTS_PER_MINUTE_MAX,
  UNITS_PER_MINUTE_MAX,
} from '../gateway/catalog/key.ts'
import { fieldsOfRateLimit } from '../gateway/catalog/rate-limit.ts'
import { formatUsd } from '../gateway/catalog/terms.ts'
import { CatalogError } from '../gateway/catalog/watch.ts'
import { CommandFailure, json, parse, required, rfc3339, table, UsageError, whole } from './arguments.ts'
import {
  actions,
  type CliContext,
  CONFIG_HELP,
  EXIT_HELP,
  environmentOf,
  STATE_HELP,
  servedAt,
  withAdmin,
  withState,
  workspaceIn,
} from './context.ts'

const USAGE = `larkway key <action>

API keys: those of the configuration, which this command only lists, and those of the state.

  create --workspace W --app A [options]
                       create an API key and keep its hash in the state; the key is shown this once
    --name TEXT          default: its id
    --scopes LIST        of ${SCOPES.join(', ')}; default: all but
                       admin and operator
    --expires TIME       e.g. 2027-01-31T00:00:00Z; default: never
    --requests-per-minute N   --burst N   --tokens-per-minute N   --audio-seconds-per-minute N
                         rate limit; a part that is left out is the configuration's, and 0 tokens or seconds no limit
    --budget-usd N       cap per calendar month in UTC
  change ID [options]  change a key of the state: --name, --scopes, --expires, --budget-usd, --requests-per-minute and
                       the others of the rate limit. What is left out stays; \`none\` takes a limit away, for requests
                       or the burst the whole rate limit, so that the configuration's holds
  rotate ID [--overlap SECONDS]
                       give a key of the state a new secret, shown this once; its id, limits and spending stay, and the
                       old secret is taken for the overlap (default: a day; 0: refused from now on)
  list [--workspace W] [--json]
                       list all keys; an unserved one belongs to a workspace or an app that the configuration lacks
  revoke ID            refuse a key of the state from now on
  make                 make an API key for the configuration; it is shown this once, with its hash
  hash [key]           print the hash of a key for the configuration; without a key, read it from standard input

  ${CONFIG_HELP}

${STATE_HELP} They notice new and revoked keys within 5 s.

${EXIT_HELP}
`

/** `larkway key`: API keys of the configuration and of the state. @throws UsageError, CommandFailure, CatalogError */
export const key = actions('key', USAGE, {
  create: runCreate,
  change,
  rotate,
  list,
  revoke,
  make: printKey,
  hash: printHash,
})

const text = { type: 'string' } as const
const CREATE_FLAGS = {
  workspace: text,
  app: text,
  name: text,
  scopes: text,
  expires: text,
  'requests-per-minute': text,
  burst: text,
  'tokens-per-minute': text,
  'audio-seconds-per-minute': text,
  'budget-usd': text,
  config: text,
} as const

/** Flags by the fields that they give. */
const FLAG_NAMES = {
  app: '--app',
  name: '--name',
  scopes: '--scopes',
  expires_at: '--expires',
  budget_usd_per_month: '--budget-usd',
  'rate_limit.requests_per_minute': '--requests-per-minute',
  'rate_limit.burst': '--burst',
  'rate_limit.tokens_per_minute': '--tokens-per-minute',
  'rate_limit.audio_seconds_per_minute': '--audio-seconds-per-minute',
}

/** Creates a key, and prints it with its id. It is stored nowhere else. */
async function runCreate(args: readonly string[], context: CliContext): Promise<void> {
  const { values } = parse(args, CREATE_FLAGS, 0)
  const workspace = required('key create', 'workspace', values.workspace)
  const input = {
    workspace,
    app: required('key create', 'app', values.app),
    name: values.name ?? null,
    scopes: values.scopes?.split(',').map((scope) => scope.trim()) ?? null,
    rateLimit: rateLimitIn(values),
    budgetUsd: values['budget-usd'] ?? null,
    expiresAt: values.expires ?? null,
  }
  const options = { command: 'key create', config: values.config, flags: FLAG_NAMES, workspace }
  const { plain, stored } = await withAdmin(context, options, ({ actor, admin }) =>
    createKey(actor, input, admin),
  )
  context.print(`key  ${plain}\nid   ${stored.id}\n`)
}

const { workspace: _, app: __, ...CHANGE_FLAGS } = CREATE_FLAGS
const RATE_FLAGS = ['requests-per-minute', 'burst', 'tokens-per-minute', 'audio-seconds-per-minute'] as const

/** Takes a limit away. */
const NONE = 'none'

/** Parts that are not given are null; 0 is no limit. */
function rateLimitIn(values: { readonly [Flag in (typeof RATE_FLAGS)[number]]?: string | undefined }) {
  const units = (flag: (typeof RATE_FLAGS)[number]) =>
    ['0', NONE].includes(values[flag] ?? '') ? 0 : whole(flag, values[flag], UNITS_PER_MINUTE_MAX)
  return {
    requestsPerMinute: whole('requests-per-minute', values['requests-per-minute'], REQUESTS_PER_MINUTE_MAX),
    burst: whole('burst', values.burst, BURST_MAX),
    tokensPerMinute: units('tokens-per-minute'),
    audioSecondsPerMinute: units('audio-seconds-per-minute'),
  }
}

/** Changes the settings of a key that are given. */
async function change(args: readonly string[], context: CliContext): Promise<void> {
  const { values, positionals } = parse(args, CHANGE_FLAGS, 1)
  const id = keyId('key change', positionals)
  const { name, scopes, expires, 'budget-usd': budget } = values
  const given = RATE_FLAGS.map((flag) => values[flag]).filter((part) => part !== undefined)
  const hasNone = values['requests-per-minute'] === NONE || values.burst === NONE
  if (hasNone && given.some((part) => part !== NONE))
    throw new UsageError('none at --requests-per-minute or --burst takes the whole rate limit away')
  const changes: KeyChange = {
    ...(name === undefined ? {} : { name }),
    ...(scopes === undefined ? {} : { scopes: scopes.split(',').map((scope) => scope.trim()) }),
    ...(given.length === 0 ? {} : { rateLimit: hasNone ? null : rateLimitIn(values) }),
    ...(budget === undefined ? {} : { budgetUsd: budget === NONE ? null : budget }),
    ...(expires === undefined ? {} : { expiresAt: expires === NONE ? null : expires }),
  }
  if (Object.keys(changes).length === 0)
    throw new UsageError('key change takes what to change; see larkway key --help')
  const options = { command: 'key change', config: values.config, flags: FLAG_NAMES }
  const { prefix, workspace } = await withAdmin(context, options, ({ actor, admin }) =>
    changeKey(actor, { id, workspace: null }, changes, admin),
  )
  context.print(`${id} (${prefix}…, ${workspace}) is changed\n`)
}

const OVERLAP_SECONDS = 24 * 3_600

/** Gives a key a new secret, and prints it. It is stored nowhere else. */
async function rotate(args: readonly string[], context: CliContext): Promise<void> {
  const { values, positionals } = parse(args, { config: text, overlap: text }, 1)
  const id = keyId('key rotate', positionals)
  const overlap =
    values.overlap === '0' ? 0 : (whole('overlap', values.overlap, OVERLAP_SECONDS_MAX) ?? OVERLAP_SECONDS)
  const options = { command: 'key rotate', config: values.config, flags: { overlap_seconds: '--overlap' } }
  const { plain, stored } = await withAdmin(context, options, ({ actor, admin }) =>
    rotateKey(actor, { id, workspace: null }, overlap, admin),
  )
  const former = formerInForce(stored, systemClock.wallNow())
  const old = former === null ? 'refused' : `${former.prefix}… until ${rfc3339(former.untilMs)}`
  context.print(`key  ${plain}\nid   ${id}\nold  ${old}\n`)
}

function keyId(command: string, [id]: readonly string[]): string {
  if (id === undefined) throw new UsageError(`${command} takes the id of a key; see larkway key list`)
  if (looksLikeKey(id)) throw new UsageError(`${command} takes the id of the key, not the key itself`)
  return id
}

/** Revokes a key. The state is read before the configuration, so a leaked key can be revoked while that is broken. */
async function revoke(args: readonly string[], context: CliContext): Promise<void> {
  const { values, positionals } = parse(args, { config: { type: 'string' } }, 1)
  const id = keyId('key revoke', positionals)
  const options = { command: 'key revoke', config: values.config }
  const { prefix, workspace, revokedAtMs } = await withAdmin(context, options, ({ actor, admin }) =>
    revokeKey(actor, { id, workspace: null }, admin),
  ).catch((error: unknown) => {
    if (!(error instanceof CatalogError)) throw error
    throw new CommandFailure(
      'the state has no such key, and the configuration is not valid: see larkway check',
    )
  })
  const since = revokedAtMs === null ? '' : ` since ${rfc3339(revokedAtMs)}`
  context.print(`${id} (${prefix}…, ${workspace}) is revoked${since}\n`)
}

const LIST_FLAGS = { workspace: text, config: text, json: { type: 'boolean' } } as const

/** A key as it is listed; of the key itself only the prefix, where that is known. */
type Row = Omit<StoredKey, 'sha256' | 'prefix' | 'createdAtMs' | 'kind' | 'former'> & {
  readonly source: 'file' | 'state'
  readonly prefix: string | null
  readonly createdAtMs: number | null
  readonly former: { readonly prefix: string; readonly until: string | undefined } | null
  readonly state: 'active' | 'revoked' | 'expired' | 'unserved'
}

/** Lists the keys of the configuration, then those of the state, revoked ones included. */
async function list(args: readonly string[], context: CliContext): Promise<void> {
  const { workspace, config, json: asJson } = parse(args, LIST_FLAGS, 0).values
  const { snapshot, stored } = await withState(environmentOf(context), async (state) => ({
    snapshot: (await servedAt(context, config, state)).current(),
    stored: await state.keys.list(),
  }))
  const all = [...fileRows(snapshot), ...stored.map((key) => storedRow(key, snapshot))]
  const rows = all.filter((row) => workspace === undefined || row.workspace === workspace)
  // A workspace that the configuration lacks may still have keys.
  if (workspace !== undefined && rows.length === 0) workspaceIn(snapshot, workspace)
  context.print(asJson === true ? json(rows.map(jsonRow)) : keyTable(rows, snapshot))
}

function fileRows({ keys }: Snapshot): Row[] {
  return [...keys.values()].map(({ workspace, app, key }) => ({
    ...key,
    workspace: workspace.id,
    app: app.id,
    source: 'file',
    prefix: null,
    createdAtMs: null,
    revokedAtMs: null,
    former: null,
    state: isExpired(key.expiresAtMs) ? 'expired' : 'active',
  }))
}

function storedRow(stored: StoredKey, { apps }: Snapshot): Row {
  const { sha256: _, kind: _kind, former: _former, ...key } = stored
  const former = formerInForce(stored, systemClock.wallNow())
  const served = apps.get(key.workspace)?.has(key.app) === true
  const ended = key.revokedAtMs !== null ? 'revoked' : isExpired(key.expiresAtMs) ? 'expired' : null
  const state = ended ?? (served ? 'active' : 'unserved')
  const beside = former && { prefix: former.prefix, until: rfc3339(former.untilMs) }
  return { ...key, source: 'state', former: beside, state }
}

function isExpired(expiresAtMs: number | null): boolean {
  return expiresAtMs !== null && expiresAtMs <= systemClock.wallNow()
}

function keyTable(rows: readonly Row[], { rateLimit: fallback }: Snapshot): string {
  const cells = rows.map((row) => {
    const { requestsPerMinute, burst } = row.rateLimit ?? fallback
    return [
      row.id,
      row.workspace,
      row.app,
      row.source,
      row.state,
      row.prefix ?? '-',
      row.name,
      row.scopes.join(','),
      rfc3339(row.expiresAtMs) ?? 'never',
      `${requestsPerMinute}/min, burst ${burst}`,
      row.budgetMicros === null ? '-' : `${formatUsd(row.budgetMicros)}/month`,
    ]
  })
  const head = ['KEY', 'WORKSPACE', 'APP', 'SOURCE', 'STATE', 'PREFIX', 'NAME', 'SCOPES', 'EXPIRES']
  return table([[...head, 'RATE LIMIT', 'BUDGET USD'], ...cells])
}

function jsonRow({ rateLimit, budgetMicros, createdAtMs, expiresAtMs, revokedAtMs, ...row }: Row) {
  return {
    ...row,
    rate_limit: rateLimit && fieldsOfRateLimit(rateLimit),
    budget_usd: budgetMicros === null ? null : budgetMicros / 1_000_000,
    created_at: rfc3339(createdAtMs),
    expires_at: rfc3339(expiresAtMs),
    revoked_at: rfc3339(revokedAtMs),
  }
}

async function printKey(args: readonly string[], { print }: CliContext): Promise<void> {
  parse(args, {}, 0)
  const plain = makeKey()
  print(`key     ${plain}\nsha256  ${hashKey(plain)}\n`)
}

async function printHash(
  args: readonly string[],
  { input = Readable.from([]), print }: CliContext,
): Promise<void> {
  const [given] = parse(args, {}, 1).positionals
  const plain = (given ?? (await textOf(input))).trim()
  if (!looksLikeKey(plain))
    throw new UsageError('this is not an API key of Larkway, or it has a typing error')
  print(`${hashKey(plain)}\n`)
}
