import { hash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import type { AuditNote } from '../contracts/catalog-store.ts'
import { newId } from '../contracts/ids.ts'
import type { ModelTable, StoredModels } from '../contracts/models.ts'
import type { State } from '../contracts/state.ts'
import { deadline, systemClock } from '../contracts/time.ts'
import { CatalogError } from '../gateway/catalog/watch.ts'
import { documentAge, SHIPPED } from '../gateway/providers/facts.ts'
import { DOCUMENT_BYTES_MAX, modelKeys, readFeed } from '../gateway/providers/feed.ts'
import { CommandFailure, parse, UsageError } from './arguments.ts'
import { type CliContext, environmentOf, modelsAt, operatorBy, servedAt, withState } from './context.ts'

const FETCH_MS = 30_000

/**
 * `larkway models update`: puts a signed document of facts about models into the state, where every server takes it up,
 * or tells which one is in force.
 *
 * @throws UsageError, CommandFailure when the document cannot be had, is refused, is older than the one in force, or
 *         does not fit what is served here
 */
export async function updateModels(args: readonly string[], context: CliContext): Promise<number> {
  const { values } = parse(
    [...args],
    { from: { type: 'string' }, force: { type: 'boolean' }, shipped: { type: 'boolean' } },
    0,
  )
  const { from, force = false, shipped = false } = values
  if (shipped && (from !== undefined || force)) throw new UsageError('--shipped goes with no other option')
  const document = from === undefined ? null : await readDocument(from, context)
  return withState(environmentOf(context), async (state) => {
    const before = await modelsAt(environmentOf(context), state.catalog)
    if (before.refused !== null)
      context.print(`The stored document is refused, since ${before.refused}; that of the program holds.\n`)
    if (shipped) {
      await requireValid(SHIPPED, context, state)
      await put(state, null, before.table.issuedAt)
      context.print(`The facts of models are those of the program again, of ${SHIPPED.issuedAt}.\n`)
      return 0
    }
    if (document === null) {
      context.print(tableStatus(before.table, systemClock.wallNow()))
      return 0
    }
    const { text, table } = document
    const { issuedAt: present } = before.table
    if (table.issuedAt === present) {
      context.print(`The facts of models are those of ${present} already; nothing has changed.\n`)
      return 0
    }
    if (table.issuedAt < present && !force)
      throw new CommandFailure(
        `${from} is of ${table.issuedAt}, and the document in force is newer, of ${present}; --force takes it anyway`,
      )
    if (!force) await requireValid(table, context, state)
    await put(state, { text, over: present }, present)
    context.print(`The facts of models are those of ${table.issuedAt} now, in place of ${present}.\n`)
    return 0
  })
}

function tableStatus(table: ModelTable, nowMs: number): string {
  const origin = table.origin === 'shipped' ? 'the program' : 'the state'
  const age = documentAge(table, nowMs)
  return `The facts of models in force are of ${table.issuedAt}, from ${origin}; the program has those of ${
    SHIPPED.issuedAt
  }.\n${age === null ? '' : `Warning: ${age}.\n`}`
}

/** @throws CommandFailure when what is served here, and valid, would not be by these facts */
async function requireValid(table: ModelTable, context: CliContext, state: State): Promise<void> {
  const serving = await servedAt(context, undefined, state).catch((error: unknown) => {
    if (error instanceof CatalogError) return null
    throw error
  })
  const offered = serving?.offerModels(table)
  if (offered === undefined || !('issues' in offered)) return
  const issues = offered.issues.map((issue) => `  ${issue}`).join('\n')
  throw new CommandFailure(`no server takes facts by which the configuration is not valid:\n${issues}`)
}

async function put({ catalog }: State, models: StoredModels | null, before: string): Promise<void> {
  const note: AuditNote = {
    by: operatorBy('models update').author,
    action: models === null ? 'models.remove' : 'models.update',
    workspace: null,
    target: 'models',
    before: hash('sha256', before),
    after: models === null ? null : hash('sha256', models.text),
    detail: null,
  }
  await catalog.putModels(newId('call'), models, note)
}

/**
 * Reads a signed document of facts about models.
 *
 * @param from a file, or a URL
 * @throws CommandFailure when it cannot be had, or is refused
 */
export async function readDocument(from: string, context: CliContext) {
  const keys = modelKeys(environmentOf(context).LARKWAY_MODELS_KEYS)
  const text = await documentAt(from)
  try {
    return { text, table: readFeed(text, keys) }
  } catch (error) {
    throw new CommandFailure(`${from} is refused: ${(error as Error).message}`, { cause: error })
  }
}

async function documentAt(from: string): Promise<string> {
  const isUrl = /^https?:\/\//i.test(from)
  try {
    return isUrl ? await fetched(new URL(from)) : await fileText(from)
  } catch (error) {
    if (error instanceof CommandFailure) throw error
    throw new CommandFailure(`${from} cannot be read: ${(error as Error).message}`, { cause: error })
  }
}

async function fileText(path: string): Promise<string> {
  const { size } = await stat(path)
  if (size > DOCUMENT_BYTES_MAX) throw new Error(TOO_LARGE)
  return readFile(path, 'utf8')
}

const TOO_LARGE = `it is larger than ${DOCUMENT_BYTES_MAX / 1024 / 1024} MiB`
const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

/** The signature vouches for it, so that TLS is asked for only lest everyone on the way see who asks. */
async function fetched(url: URL): Promise<string> {
  if (url.protocol !== 'https:' && !LOOPBACK.has(url.hostname))
    throw new CommandFailure(`${url.href} must be an https URL`)
  const reply = await fetch(url, { signal: deadline(systemClock, FETCH_MS) })
  if (!reply.ok) throw new Error(`the server answers ${reply.status}`)
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of reply.body ?? []) {
    bytes += chunk.byteLength
    if (bytes > DOCUMENT_BYTES_MAX) throw new Error(TOO_LARGE)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
