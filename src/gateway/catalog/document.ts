import { resolve } from 'node:path'
import { CORE_SCHEMA, dump, realMapTag } from 'js-yaml'
import type { TSchema } from 'typebox'
import { DEFAULT_SCOPES } from '../../contracts/catalog.ts'
import type { RecordName } from '../../contracts/catalog-store.ts'
import { instantMs } from '../../contracts/instants.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import type { StoredKey } from '../../contracts/stored-keys.ts'
import { CatalogFile, CatalogHead, type KeyFields } from './file.ts'
import { type MergedRecord, mergeCatalog } from './merge.ts'
import { at } from './parts.ts'
import { fieldsOfRateLimit, rateLimitOf } from './rate-limit.ts'
import { parseUsd } from './terms.ts'

/** An API key of the file, and whose it is. */
export interface WorkspaceKey {
  readonly workspace: string
  readonly fields: KeyFields
}

/** A document in parts: the reverse of merging. */
interface SplitDocument {
  /** Records of the same kind keep the order of the document. */
  readonly records: readonly MergedRecord[]
  readonly keys: readonly WorkspaceKey[]
}

/** Lists that are not fields of the record of their workspace. */
const LISTS = new Set(['apps', 'keys', 'purposes'])

/** @param document a valid one */
export function splitDocument(document: unknown): SplitDocument {
  const head = entriesAt(document).filter(([key]) => Object.hasOwn(CatalogHead.properties, key))
  const records: MergedRecord[] = []
  const keys: WorkspaceKey[] = []
  const add = (kind: RecordName['kind'], workspace: string | null, name: string, fields: unknown) =>
    records.push({ kind, workspace, name, fields: fields as MergedRecord['fields'] })

  if (head.length > 0) add('head', null, 'head', Object.fromEntries(head))
  for (const [name, fields] of entriesAt(document, 'plans')) add('plan', null, name, fields)
  for (const [id, whole] of entriesAt(document, 'workspaces')) {
    add('workspace', id, id, Object.fromEntries(entriesAt(whole).filter(([key]) => !LISTS.has(key))))
    for (const [name, fields] of entriesAt(whole, 'purposes')) add('purpose', id, name, fields)
    for (const [name, fields] of entriesAt(whole, 'apps')) add('app', id, name, fields)
    for (const [, fields] of entriesAt(whole, 'keys'))
      keys.push({ workspace: id, fields: fields as KeyFields })
  }
  for (const kind of ['provider', 'route'] as const)
    for (const [name, fields] of entriesAt(document, `${kind}s`)) add(kind, ownerOf(fields), name, fields)
  return { records, keys }
}

function ownerOf(fields: unknown): string | null {
  const owner = at(fields, 'workspace')
  return typeof owner === 'string' ? owner : null
}

function entriesAt(value: unknown, key?: string): [string, unknown][] {
  return Object.entries(Object(key === undefined ? value : at(value, key)))
}

const FILE = 'file:'

/**
 * The parts of a document in a form that says the same wherever it stands: paths of secrets are absolute, and keys are
 * written as those of the state are.
 *
 * @param folder     where relative paths begin
 * @param rateLimit  what a rate limit of a key does not say
 */
export function portableParts(document: unknown, folder: string, rateLimit: RateLimit): SplitDocument {
  const { records, keys } = splitDocument(document)
  return {
    records: records.map((record) => withAbsolutePath(record, folder)),
    keys: keys.map((key) => fieldsOfKey(keyOfFields(key, rateLimit, 0), rateLimit)),
  }
}

export function withAbsolutePath(record: MergedRecord, folder: string): MergedRecord {
  if (record.kind === 'head') return { ...record, fields: withAbsoluteSecret(record.fields, folder) }
  const { api_key } = record.fields
  if (record.kind !== 'provider' || typeof api_key !== 'string' || !api_key.startsWith(FILE)) return record
  const path = resolve(folder, api_key.slice(FILE.length))
  return { ...record, fields: { ...record.fields, api_key: `${FILE}${path}` } }
}

/** The head with an absolute path of the secret of its OpenID client. */
function withAbsoluteSecret(fields: MergedRecord['fields'], folder: string): MergedRecord['fields'] {
  const secret = at(at(fields.console, 'oidc'), 'client_secret')
  if (typeof secret !== 'string' || !secret.startsWith(FILE)) return fields
  const client_secret = `${FILE}${resolve(folder, secret.slice(FILE.length))}`
  const { console } = fields
  return {
    ...fields,
    console: { ...Object(console), oidc: { ...Object(at(console, 'oidc')), client_secret } },
  }
}

/** The document of such parts. Of records of one name the first wins. */
export function documentOf(records: readonly MergedRecord[], keys: readonly WorkspaceKey[]): unknown {
  const { document } = mergeCatalog({ providers: {}, routes: {}, workspaces: {} }, records)
  const { workspaces } = document
  const withKeys = Object.entries(workspaces as object).map(([id, fields]) => {
    const own = keys.filter(({ workspace }) => workspace === id).map((key) => key.fields)
    return [id, own.length === 0 ? fields : { ...fields, keys: own.sort((a, b) => (a.id < b.id ? -1 : 1)) }]
  })
  return { ...document, workspaces: Object.fromEntries(withKeys) }
}

/** Prefix shown for a key from a file: only its hash is known, and every key begins like this. */
const PREFIX = 'lk_live_'

/** A key of the state as the file has it. @param fallback what a rate limit of that file does not say */
export function fieldsOfKey(key: StoredKey, fallback: RateLimit): WorkspaceKey {
  const { id, name, app, sha256, scopes, rateLimit, budgetMicros, expiresAtMs } = key
  const fields: KeyFields = {
    id,
    ...(name === id ? {} : { name }),
    app,
    sha256,
    scopes: [...scopes],
    ...(expiresAtMs === null ? {} : { expires_at: new Date(expiresAtMs).toISOString() }),
    ...(rateLimit === null ? {} : { rate_limit: fieldsOfRateLimit(rateLimit, fallback) }),
    ...(budgetMicros === null ? {} : { budget_usd: { per_month: budgetMicros / 1_000_000 } }),
  }
  return { workspace: key.workspace, fields }
}

/**
 * A key of a valid file as the state has it.
 *
 * @param fallback what a rate limit does not say
 */
export function keyOfFields(
  { workspace, fields }: WorkspaceKey,
  fallback: RateLimit,
  nowMs: number,
): StoredKey {
  const { id, name = id, app, sha256, scopes = DEFAULT_SCOPES, expires_at, rate_limit, budget_usd } = fields
  return {
    id,
    sha256: sha256.toLowerCase(),
    prefix: PREFIX,
    workspace,
    app,
    name,
    scopes,
    rateLimit: rate_limit === undefined ? null : rateLimitOf(rate_limit, fallback),
    budgetMicros: budget_usd === undefined ? null : parseUsd(String(budget_usd.per_month)),
    expiresAtMs: expires_at === undefined ? null : instantMs(expires_at),
    createdAtMs: nowMs,
    revokedAtMs: null,
  }
}

const HEADING = `# The catalog that Larkway serves, as \`larkway export\` writes it. What begins with "sealed:" opens
# with the LARKWAY_SECRET_KEYS of the servers that it comes from.
`
/** With maps, which keep the order of their keys; objects do not, where names are numbers. */
const SCHEMA = CORE_SCHEMA.withTags(realMapTag)

/**
 * A document as a file: equal documents give the same text. Keys are in the order of the documentation, names in
 * alphabetical order.
 *
 * @param notes sentences for the head of the file
 */
export function renderCatalog(document: unknown, notes: readonly string[]): string {
  const head = HEADING + notes.map((note) => `# ${note}\n`).join('')
  const value = ordered(CatalogFile, document)
  return `${head}\n${dump(value, { schema: SCHEMA, noRefs: true, lineWidth: -1, quoteStyle: 'double' })}`
}

/** The value with its keys in the order of the schema; those that the schema does not name in that of the alphabet. */
function ordered(schema: TSchema | undefined, value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = inner(schema, 'items')
    return value.map((item) => ordered(items, item))
  }
  if (typeof value !== 'object' || value === null) return value
  const properties = Object(inner(schema, 'properties'))
  const [named] = Object.values(Object(inner(schema, 'patternProperties')))
  const places = Object.keys(properties)
  const place = (key: string) => (Object.hasOwn(properties, key) ? places.indexOf(key) : places.length)
  const sorted = Object.entries(value).sort(([a], [b]) => place(a) - place(b) || (a < b ? -1 : 1))
  return new Map(sorted.map(([key, part]) => [key, ordered(properties[key] ?? named, part)]))
}

function inner(schema: TSchema | undefined, key: string): TSchema | undefined {
  return schema === undefined ? undefined : Reflect.get(schema, key)
}
