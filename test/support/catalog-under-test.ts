import { createHash, randomUUID } from 'node:crypto'
import type {
  Actor,
  AuditNote,
  CatalogChange,
  CatalogChanged,
  CatalogStep,
  CatalogStore,
  RecordFields,
  RecordName,
} from '../../src/contracts/catalog-store.ts'

export const ANNA: Actor = { via: 'console', keyId: 'key_anna', name: 'anna' }
export const CLI: Actor = { via: 'cli', keyId: null, name: 'larkway import' }

export const routeOf = (workspace: string, name = 'voice'): RecordName => ({
  kind: 'route',
  workspace,
  name: `${workspace}.${name}`,
})

export function noteOf(over: Partial<AuditNote> = {}): AuditNote {
  return {
    by: ANNA,
    action: 'route.publish',
    workspace: 'acme',
    target: 'route/acme.voice',
    before: null,
    after: 'a'.repeat(64),
    detail: null,
    ...over,
  }
}

/** A change that may be made to any version of the catalog, and adds no line to the audit list. */
export function changeOf(steps: readonly CatalogStep[], over: Partial<CatalogChange> = {}): CatalogChange {
  return { token: randomUUID(), expected: null, steps, by: ANNA, audit: [], ...over }
}

export const hashOf = (fields: RecordFields): string =>
  createHash('sha256').update(JSON.stringify(fields)).digest('hex')

export const draft = (
  record: RecordName,
  fields: RecordFields,
  revision: number | null = null,
): CatalogStep => ({ do: 'draft', record, fields, revision })

export const discard = (record: RecordName): CatalogStep => ({ do: 'discard', record })

export const publish = (
  record: RecordName,
  fields: RecordFields,
  note: string | null = null,
): CatalogStep & { readonly do: 'publish' } => ({ do: 'publish', record, fields, hash: hashOf(fields), note })

export const remove = (record: RecordName): CatalogStep => ({ do: 'remove', record })

/** @throws Error when the change conflicts */
export async function done(
  catalog: Pick<CatalogStore, 'change'>,
  steps: readonly CatalogStep[],
  over: Partial<CatalogChange> = {},
): Promise<string> {
  const changed: CatalogChanged = await catalog.change(changeOf(steps, over))
  if (changed.state !== 'done') throw new Error(`the change came to ${changed.state}`)
  return changed.version
}

/** All that a catalog shows of some records. Moments only, and how the versions of its states are written, differ. */
export async function viewOf(catalog: CatalogStore, records: readonly RecordName[]): Promise<unknown> {
  const published = await catalog.published()
  return withoutMoments({
    published: published.records,
    all: await catalog.list(null),
    records: await Promise.all(records.map((record) => catalog.get(record))),
    versions: await Promise.all(records.map((record) => catalog.versions(record, null, 1000))),
    audit: await catalog.audit(null, null, 1000),
  })
}

/** A copy in which no `atMs` stands. */
export function withoutMoments(value: unknown): unknown {
  if (value === undefined) return undefined
  return JSON.parse(JSON.stringify(value, (name, part) => (name === 'atMs' ? undefined : part)))
}
