import { randomUUID } from 'node:crypto'
import { dirname } from 'node:path'
import { type AuditNote, type CatalogChange, recordId } from '../../contracts/catalog-store.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { hashFields } from '../../contracts/json.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import type { RateLimitFields } from '../catalog/file.ts'
import { type ImportedRecord, type ImportPlan, planImport } from '../catalog/import-plan.ts'
import { at } from '../catalog/parts.ts'
import { rateLimitOf } from '../catalog/rate-limit.ts'
import type { Serving } from '../catalog/serving.ts'
import { CatalogError } from '../catalog/watch.ts'
import { type AdminActor, type AdminContext, requireOperator } from './actor.ts'
import { keepKeys, requireRoomForKeys } from './keys.ts'

/** How often the plan is made again because someone else has published something. */
const TRIES_MAX = 5

export interface ImportInput {
  /** Reads the imported file. */
  readonly imported: () => Promise<Serving>
  /** Reads what is served, before what is published comes to it. */
  readonly served: () => Promise<Serving>
  readonly paths: {
    readonly imported: string
    /** Path of the served configuration; undefined: the demo. */
    readonly served: string | undefined
  }
  /** Plan and check, and change nothing. */
  readonly isDry: boolean
}

type ImportContext = Pick<AdminContext, 'state' | 'refreshKeys' | 'nowMs'>

/**
 * Publishes what a configuration file defines, and keeps its keys, in the state: all records or none.
 *
 * @returns what was imported, or would be
 * @throws CatalogError for the imported file, also beside what is served; GatewayError PERMISSION_DENIED,
 *         INVALID_REQUEST for too many keys, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function importCatalog(
  actor: AdminActor,
  input: ImportInput,
  context: ImportContext,
): Promise<ImportPlan> {
  requireOperator(actor)
  const { state } = context
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const { plan, version } = await plannedImport(input, context)
    await requireRoomForKeys(plan.keys, state.keys)
    if (input.isDry) return plan
    const change = changeFor(actor, plan, version)
    const isDone = change === null || (await state.catalog.change(change)).state === 'done'
    if (!isDone) continue
    await keepKeys(actor, plan.keys, context)
    return plan
  }
  throw new GatewayError('CONFLICT', 'others keep publishing at the same time: try again')
}

/** A plan that fits what is served. @throws CatalogError */
async function plannedImport(
  input: ImportInput,
  { state: { catalog, keys }, nowMs }: ImportContext,
): Promise<{ readonly plan: ImportPlan; readonly version: string }> {
  const { paths } = input
  const imported = await input.imported()
  const serving = await input.served()
  // Only names and owners of drafts count. Published records are those that the plan is checked against.
  const drafts = (await catalog.list(null)).map((record) => ({ ...record, fields: null }))
  const published = await catalog.published()
  serving.offerPublished(published)
  const plan = planImport(
    {
      imported: { document: imported.document(), folder: dirname(paths.imported) },
      served: { document: serving.document(), folder: dirname(paths.served ?? '.') },
      kept: [...drafts, ...published.records],
      stored: await keys.list(),
      rateLimit: defaultRateLimit(imported, serving),
    },
    nowMs(),
  )
  if ('issues' in plan) throw new CatalogError(paths.imported, plan.issues)
  const edits = plan.records.map((record) => ({ do: 'publish' as const, record, fields: record.fields }))
  const tried = serving.tryChange(edits, 'root')
  if ('issues' in tried) throw new CatalogError(`${paths.imported}, beside what is served,`, tried.issues)
  return { plan, version: tried.version }
}

/** The rate limit of keys that do not give one, or not all of it. */
function defaultRateLimit(imported: Serving, served: Serving): RateLimit {
  const own = at(imported.document(), 'rate_limit') as RateLimitFields | undefined
  return rateLimitOf(own, served.current().rateLimit)
}

/** Null where no record is to be published. */
function changeFor(
  { author: by }: AdminActor,
  { records }: ImportPlan,
  expected: string,
): CatalogChange | null {
  if (records.length === 0) return null
  return {
    token: randomUUID(),
    expected,
    steps: records.map(({ kind, workspace, name, fields }) => {
      const record = { kind, workspace, name }
      return { do: 'publish', record, fields, hash: hashFields(fields), note: 'imported' }
    }),
    by,
    audit: records.map((record) => auditNote(record, by)),
  }
}

function auditNote(record: ImportedRecord, by: AuditNote['by']): AuditNote {
  const { kind, workspace, fields, before } = record
  return {
    by,
    action: `${kind}.publish`,
    workspace,
    target: recordId(record),
    before: before && hashFields(before),
    after: hashFields(fields),
    detail: 'imported',
  }
}
