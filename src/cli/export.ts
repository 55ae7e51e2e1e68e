import { rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { documentOf, portableParts } from '../catalog/portable.ts'
import { renderCatalog } from '../catalog/render.ts'
import type { Serving } from '../catalog/serving.ts'
import { fieldsOfKey } from '../catalog/stored-key.ts'
import { isPlaygroundKey } from '../routes/console/api/playground-key.ts'
import { recordId } from '../schema/catalog-store.ts'
import type { StoredKey } from '../schema/stored-keys.ts'
import { CommandFailure, parse } from './arguments.ts'
import { openServed, WITHOUT_SECRETS } from './catalog.ts'
import { configAt, type Desk, environmentOf } from './desk.ts'
import { withState } from './state.ts'

const USAGE = `larkway export [--config FILE] [--out FILE]

Writes what is served as one configuration: that of the file, and what was made in the console or by commands, the keys
of the state among it by their hashes. Left out are keys that were revoked. Credentials are the references that they
were, or sealed; larkway check and larkway import take them where LARKWAY_SECRET_KEYS is the same.

  --config FILE        default: LARKWAY_CONFIG, else larkway.yaml when it exists, else the demo
  --out FILE           default: standard output

The state is that of the servers with the same REDIS_URL, else the file in LARKWAY_DATA; they may run meanwhile.
`

const FLAGS = { config: { type: 'string' }, out: { type: 'string' }, help: { type: 'boolean' } } as const

/**
 * `larkway export`: the file and the state as one file.
 *
 * @throws UsageError, CatalogError, CommandFailure
 */
export async function exportCatalog(args: readonly string[], desk: Desk): Promise<number> {
  const { config, out, help } = parse(args, FLAGS, 0).values
  if (help === true) desk.print(USAGE)
  else {
    const text = await rendered(desk, config)
    if (out === undefined) desk.print(text)
    else await write(out, text)
  }
  return 0
}

async function rendered(desk: Desk, config: string | undefined): Promise<string> {
  const path = configAt(desk, config)
  const serving = await openServed(path, WITHOUT_SECRETS)
  const stored = await withState(environmentOf(desk), async ({ catalog, keys }) => {
    serving.offerPublished(await catalog.published())
    return keys.list()
  })
  const { apps, keys, rateLimit } = serving.current()
  const file = portableParts(serving.document(), dirname(path ?? '.'), rateLimit)
  const isDemo = path === undefined
  // What the file has of a key holds.
  const taken = new Set([...keys].flatMap(([sha256, { key }]) => [sha256, key.id]))
  const kept = stored.filter(
    (key) =>
      key.revokedAtMs === null && !isPlaygroundKey(key) && !taken.has(key.sha256) && !taken.has(key.id),
  )
  const isServed = ({ workspace, app }: StoredKey) => apps.get(workspace)?.has(app) === true
  const document = documentOf(
    [...file.records, ...serving.records()],
    [...(isDemo ? [] : file.keys), ...kept.filter(isServed).map(fieldsOfKey)],
  )
  const orphans = kept.filter((key) => !isServed(key))
  return renderCatalog(document, notesOf(serving, orphans))
}

/** What a reader has to know who wonders what became of something. */
function notesOf(serving: Serving, orphans: readonly StoredKey[]): string[] {
  return [
    ...serving.broken().map(({ record }) => `Left out, since it does not fit: ${recordId(record)}`),
    ...orphans.map(
      ({ id, workspace, app }) => `Left out, since there is no app ${workspace}/${app}: the key ${id}`,
    ),
  ]
}

/** Whole or not at all. @throws CommandFailure */
async function write(path: string, text: string): Promise<void> {
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
