import { rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { recordId } from '../contracts/catalog-store.ts'
import type { StoredKey } from '../contracts/stored-keys.ts'
import { importCatalog } from '../gateway/admin/import.ts'
import { documentOf, fieldsOfKey, portableParts, renderCatalog } from '../gateway/catalog/document.ts'
import type { ImportPlan } from '../gateway/catalog/import-plan.ts'
import type { Serving } from '../gateway/catalog/serving.ts'
import { CommandFailure, parse, table, UsageError } from './arguments.ts'
import {
  type CliContext,
  CONFIG_HELP,
  configAt,
  EXIT_HELP,
  environmentOf,
  modelsAt,
  openServed,
  STATE_HELP,
  secretOpener,
  servedAt,
  withAdmin,
  withState,
} from './context.ts'

const EXPORT_USAGE = `larkway export [--config FILE] [--out FILE]

Writes what is served as one configuration: the file, and what was made in the console or by commands, with the keys of
the state by their hashes. Revoked keys are left out. Credentials are written as references, or sealed; larkway check
and larkway import can read those where LARKWAY_SECRET_KEYS is the same.

  --out FILE           default: standard output
  ${CONFIG_HELP}

${STATE_HELP}

${EXIT_HELP}
`

const IMPORT_USAGE = `larkway import FILE [--dry-run] [--config FILE]

Publishes the parts that a configuration defines, and stores its keys, in the state: all parts or none. They are checked
as larkway check does, and together with what is served here, so the command needs the environment of the servers. Parts
that exist already stay, nothing is removed, and drafts of published parts are dropped. Parts that the servers'
configuration defines stay there: an identical one is skipped, another one of that name is refused. Credentials are
references as usual, file: with an absolute path.

  --dry-run            report what would be done, and change nothing
  ${CONFIG_HELP}

${STATE_HELP} They serve what was imported within 5 s.

${EXIT_HELP}
`

const EXPORT_FLAGS = {
  config: { type: 'string' },
  out: { type: 'string' },
  help: { type: 'boolean' },
} as const
const IMPORT_FLAGS = {
  'dry-run': { type: 'boolean' },
  config: { type: 'string' },
  help: { type: 'boolean' },
} as const

/**
 * `larkway export`: the file and the state as one file.
 *
 * @throws UsageError, CatalogError, CommandFailure
 */
export async function exportFile(args: readonly string[], context: CliContext): Promise<number> {
  const { config, out, help } = parse(args, EXPORT_FLAGS, 0).values
  if (help === true) context.print(EXPORT_USAGE)
  else {
    const text = await exportText(context, config)
    if (out === undefined) context.print(text)
    else await writeWhole(out, text)
  }
  return 0
}

async function exportText(context: CliContext, config: string | undefined): Promise<string> {
  const path = configAt(context, config)
  const { serving, stored } = await withState(environmentOf(context), async (state) => ({
    serving: await servedAt(context, config, state),
    stored: await state.keys.list(),
  }))
  const { apps, keys, rateLimit } = serving.current()
  const file = portableParts(serving.document(), dirname(path ?? '.'), rateLimit)
  const isDemo = path === undefined
  // A key of the file wins over one of the state.
  const taken = new Set([...keys].flatMap(([sha256, { key }]) => [sha256, key.id]))
  const kept = stored.filter(
    (key) =>
      key.revokedAtMs === null && key.kind !== 'playground' && !taken.has(key.sha256) && !taken.has(key.id),
  )
  const isServed = ({ workspace, app }: StoredKey) => apps.get(workspace)?.has(app) === true
  const document = documentOf(
    [...file.records, ...serving.records()],
    [...(isDemo ? [] : file.keys), ...kept.filter(isServed).map((key) => fieldsOfKey(key, rateLimit))],
  )
  const orphans = kept.filter((key) => !isServed(key))
  return renderCatalog(document, omissions(serving, orphans))
}

/** Comments on parts that are missing from the export. */
function omissions(serving: Serving, orphans: readonly StoredKey[]): string[] {
  return [
    ...serving.broken().map(({ record }) => `Left out, since it does not fit: ${recordId(record)}`),
    ...orphans.map(
      ({ id, workspace, app }) => `Left out, since there is no app ${workspace}/${app}: the key ${id}`,
    ),
  ]
}

/** Writes a file as a whole or not at all. @throws CommandFailure */
async function writeWhole(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}`
  try {
    await writeFile(draft, text, { flag: 'wx', mode: 0o600 })
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true })
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'failed'
    throw new CommandFailure(`${path} cannot be written (${code})`)
  }
}

/**
 * `larkway import`: the parts of a file into the state.
 *
 * @throws UsageError, CommandFailure, CatalogError for the imported file, also together with what is served
 */
export async function importFile(args: readonly string[], context: CliContext): Promise<number> {
  const { values, positionals } = parse(args, IMPORT_FLAGS, 1)
  if (values.help === true) {
    context.print(IMPORT_USAGE)
    return 0
  }
  const [path] = positionals
  if (path === undefined) throw new UsageError('import takes a configuration file; see larkway import --help')
  const secrets = { env: context.env, open: await secretOpener(context.env) }
  const config = configAt(context, values.config)
  const isDry = values['dry-run'] === true
  const plan = await withAdmin(context, { command: 'import' }, async ({ actor, admin }) => {
    const { table: models } = await modelsAt(environmentOf(context), admin.state.catalog)
    const input = {
      imported: () => openServed(path, secrets, models),
      served: () => openServed(config, secrets, models),
      paths: { imported: path, served: config },
      isDry,
    }
    return importCatalog(actor, input, admin)
  })
  context.print(report(plan, isDry))
  return 0
}

function report({ records, recordsThere, keys, keysThere, revoked }: ImportPlan, isDry: boolean): string {
  const rows = [
    ...records.map((record) => [recordId(record), record.before === null ? 'new' : 'changed']),
    ...keys.map(({ id }) => [`key/${id}`, 'new']),
    ...revoked.map(({ id }) => [`key/${id}`, 'was revoked, and stays so']),
  ]
  const what = `${countedNoun(records.length, 'record')} and ${countedNoun(keys.length, 'key')}`
  const there = `${countedNoun(recordsThere, 'record')} and ${countedNoun(keysThere, 'key')}`
  const done = isDry ? 'would be imported' : 'imported'
  return `${rows.length === 0 ? '' : table(rows)}${what} ${done}; ${there} there already\n`
}

function countedNoun(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}
