import { randomUUID } from 'node:crypto'
import { dirname } from 'node:path'
import { hashFields } from '../catalog/canonical.ts'
import type { RateLimitFields } from '../catalog/file.ts'
import { type ImportedRecord, type ImportPlan, planImport } from '../catalog/import-plan.ts'
import { at } from '../catalog/parts.ts'
import type { Serving } from '../catalog/serving.ts'
import { CatalogError, openCatalog } from '../catalog/watch.ts'
import { rateLimitOf } from '../catalog/workspace.ts'
import { factsOf } from '../providers/facts.ts'
import { PROVIDERS } from '../providers/index.ts'
import { noteChange } from '../routes/audit-note.ts'
import { keyCreation } from '../routes/key-notes.ts'
import { type AuditNote, type CatalogChange, recordId } from '../schema/catalog-store.ts'
import type { RateLimit, State } from '../schema/state.ts'
import { CommandFailure, parse, UsageError } from './arguments.ts'
import { openServed, type Secrets } from './catalog.ts'
import { commandActor, configAt, type Desk, environmentOf } from './desk.ts'
import { secretOpener } from './secret-opener.ts'
import { withState } from './state.ts'
import { table } from './table.ts'

const USAGE = `larkway import FILE [--dry-run] [--config FILE]

Publishes what a configuration defines, and keeps its keys, in the state: all or nothing of what has to fit together. It
is checked as larkway check does, and beside what is served here, so it wants the environment of the servers. What is
there already is left alone; nothing is removed; a draft of what is published is dropped. What the configuration of the
servers defines stays there: the same again is skipped, something else under its name is a fault. Credentials are
references as ever, file: with an absolute path.

  --dry-run            say what would be done
  --config FILE        what is served here; default: LARKWAY_CONFIG, else larkway.yaml when it exists, else the demo

The state is that of the servers with the same REDIS_URL, else the file in LARKWAY_DATA; they may run meanwhile, and
serve what was imported within 5 s.
`

const FLAGS = {
  'dry-run': { type: 'boolean' },
  config: { type: 'string' },
  help: { type: 'boolean' },
} as const

/** How often the plan is made anew because somebody else has published something. */
const TRIES = 5
const BY = commandActor('import')

/**
 * `larkway import`: the parts of a file into the state.
 *
 * @throws UsageError, CommandFailure, CatalogError for the imported file, also beside what is served
 */
export async function importCatalog(args: readonly string[], desk: Desk): Promise<number> {
  const { values, positionals } = parse(args, FLAGS, 1)
  if (values.help === true) {
    desk.print(USAGE)
    return 0
  }
  const [path] = positionals
  if (path === undefined) throw new UsageError('import takes a configuration file; see larkway import --help')
  const secrets = { env: desk.env, open: await secretOpener(desk.env) }
  const importing: Importing = { path, config: configAt(desk, values.config), secrets }
  const isDry = values['dry-run'] === true
  const plan = await withState(environmentOf(desk), (state) => run(importing, state, isDry))
  desk.print(report(plan, isDry))
  return 0
}

interface Importing {
  /** Of the imported file. */
  readonly path: string
  /** Of the configuration that is served; undefined: the demo. */
  readonly config: string | undefined
  readonly secrets: Secrets
}

async function run(importing: Importing, state: State, isDry: boolean): Promise<ImportPlan> {
  for (let tries = TRIES; tries > 0; tries--) {
    const { plan, version } = await planned(importing, state)
    if (isDry) return plan
    const change = changeOf(plan, version)
    const isDone = change === null || (await state.catalog.change(change)).state === 'done'
    if (!isDone) continue
    for (const key of plan.keys) {
      await noteChange(state.catalog, keyCreation(key, BY))
      await state.keys.create(key)
    }
    return plan
  }
  throw new CommandFailure('somebody else publishes all the time; try again')
}

/** What is to be done; all of it fits what is served. @throws CatalogError */
async function planned(
  { path, config, secrets }: Importing,
  { catalog, keys }: State,
): Promise<{ readonly plan: ImportPlan; readonly version: string }> {
  const imported = (await openCatalog({ path, kinds: PROVIDERS, factsOf, ...secrets })).serving
  const serving = await openServed(config, secrets)
  // Of the drafts the names count: whose they are. What is published is all of the moment that is checked against.
  const drafts = (await catalog.list(null)).map((record) => ({ ...record, fields: null }))
  const published = await catalog.published()
  serving.offerPublished(published)
  const plan = planImport(
    {
      imported: { document: imported.document(), folder: dirname(path) },
      served: { document: serving.document(), folder: dirname(config ?? '.') },
      kept: [...drafts, ...published.records],
      stored: await keys.list(),
      rateLimit: rateLimitIn(imported, serving),
    },
    Date.now(),
  )
  if ('faults' in plan) throw new CatalogError(path, plan.faults)
  const edits = plan.records.map((record) => ({ do: 'publish' as const, record, fields: record.fields }))
  const tried = serving.tryChange(edits, 'root')
  if ('faults' in tried) throw new CatalogError(`${path}, beside what is served,`, tried.faults)
  return { plan, version: tried.version }
}

/** What a key's rate limit leaves out. */
function rateLimitIn(imported: Serving, served: Serving): RateLimit {
  const own = at(imported.document(), 'rate_limit') as RateLimitFields | undefined
  return rateLimitOf(own, served.current().rateLimit)
}

/** Null where no record is to be published. */
function changeOf({ records }: ImportPlan, expected: string): CatalogChange | null {
  if (records.length === 0) return null
  return {
    token: randomUUID(),
    expected,
    steps: records.map(({ kind, workspace, name, fields }) => {
      const record = { kind, workspace, name }
      return { do: 'publish', record, fields, hash: hashFields(fields), note: 'imported' }
    }),
    by: BY,
    audit: records.map(noteOf),
  }
}

function noteOf(record: ImportedRecord): AuditNote {
  const { kind, workspace, fields, before } = record
  return {
    by: BY,
    action: `${kind}.publish`,
    workspace,
    target: recordId(record),
    before: before && hashFields(before),
    after: hashFields(fields),
    detail: 'imported',
  }
}

function report({ records, recordsThere, keys, keysThere, revoked }: ImportPlan, isDry: boolean): string {
  const rows = [
    ...records.map((record) => [recordId(record), record.before === null ? 'new' : 'changed']),
    ...keys.map(({ id }) => [`key/${id}`, 'new']),
    ...revoked.map(({ id }) => [`key/${id}`, 'was revoked, and stays so']),
  ]
  const what = `${counted(records.length, 'record')} and ${counted(keys.length, 'key')}`
  const there = `${counted(recordsThere, 'record')} and ${counted(keysThere, 'key')}`
  const done = isDry ? 'would be imported' : 'imported'
  return `${rows.length === 0 ? '' : table(rows)}${what} ${done}; ${there} there already\n`
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}
