import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { CatalogService } from '../../contracts/catalog-service.ts'
import {
  type AuditNote,
  type CatalogStep,
  type RecordDraft,
  type RecordFields,
  type RecordName,
  recordId,
} from '../../contracts/catalog-store.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { FACT_SHAPES } from '../../contracts/facts.ts'
import { hashFields } from '../../contracts/json.ts'
import { arrayIn, at } from '../catalog/parts.ts'
import { type AdminActor, type AdminContext, requireOwner } from './actor.ts'
import { issuesError, issuesFor } from './issues.ts'
import { catalogParts, type Part, partOf } from './parts.ts'

/** How often a change is checked and made again when others publish at the same time. */
const TRIES_MAX = 8
/** Parts of a kind that one workspace may have: every node holds, and checks, all of them. */
const PARTS_MAX = 500

export type ChangeContext = Pick<AdminContext, 'state' | 'catalog'>

/** The next state of one part of the catalog. */
export interface PartChange {
  readonly record: RecordName
  /** Null: it is removed. */
  readonly fields: RecordFields | null
  /** In the audit list: `route.publish`. */
  readonly action: string
  /** A reason, for the versions and the audit list. */
  readonly note?: string | null
  /** The draft as it was read, null: none. If it is another by then nothing is changed. Absent: it does not count. */
  readonly draft?: RecordDraft | null
  /** The published fields are not those of the draft, which stays. */
  readonly keepsDraft?: boolean
  /** Fields that are published and in force already make no version and no line. Absent: they do. */
  readonly skipsSame?: boolean
  /**
   * Has to have happened before the change, which is possible by the newest catalog. It comes again where the change
   * comes to nothing, so it is idempotent.
   */
  readonly first?: () => Promise<void>
}

/**
 * Publishes a change of the catalog: checks it against all that is served, stores it with a line on the audit list, and
 * makes this node serve it. It is checked again when someone else has published in between.
 *
 * @param decide gives the change; asked again for each try. Null: there is nothing to change
 * @throws GatewayError INVALID_REQUEST with `details.issues`, NOT_FOUND for a part to be removed, CONFLICT,
 *         DEPENDENCY_UNAVAILABLE, also where this node cannot serve what others have published
 */
export async function changePart(
  actor: AdminActor,
  decide: (catalog: CatalogService) => PartChange | null | Promise<PartChange | null>,
  context: ChangeContext,
): Promise<void> {
  const catalog = await context.catalog()
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const change = await decide(catalog)
    if (change === null) {
      if (await isNewest(catalog, context)) return
      continue
    }
    const { record, fields } = change
    requireOwner(actor, record.workspace)
    const part = partOf(catalog, record)
    requireChangeable(part, change, catalog)
    if (change.skipsSame && isInForce(part, fields)) {
      if (await isNewest(catalog, context)) return
      continue
    }
    const own = fields === null || actor.role === 'operator' ? [] : operatorFacts(catalog, record, fields)
    const tried = catalog.tryChange([
      fields === null ? { do: 'remove', record } : { do: 'publish', record, fields },
    ])
    if ('issues' in tried) throw issuesError([...own, ...issuesFor(actor.role, tried.issues)])
    if (own.length > 0) throw issuesError(own)
    if (change.first) {
      if (!(await isNewest(catalog, context))) continue
      await change.first()
    }
    const { state } = await context.state.catalog.change({
      token: randomUUID(),
      expected: tried.version,
      steps: changeSteps(change),
      by: actor.author,
      audit: [auditNote(change, part, actor)],
    })
    await catalog.refresh()
    if (state === 'done') return
    await requireNewest(catalog, context)
  }
  throw conflict()
}

/**
 * Saves or drops a draft, which changes nothing that is served.
 *
 * @param action for the audit list; null: it is not worth a line
 * @throws GatewayError CONFLICT when the draft is not the one that the step names, DEPENDENCY_UNAVAILABLE
 */
export async function changeDraft(
  actor: AdminActor,
  step: Extract<CatalogStep, { readonly do: 'draft' | 'discard' }>,
  action: string | null,
  context: ChangeContext,
): Promise<void> {
  const { record } = step
  const { workspace } = record
  requireOwner(actor, workspace)
  const note = { by: actor.author, workspace, target: recordId(record), before: null, detail: null }
  const after = step.do === 'draft' ? hashFields(step.fields) : null
  const { state } = await context.state.catalog.change({
    token: randomUUID(),
    expected: null,
    steps: [step],
    by: actor.author,
    audit: action === null ? [] : [{ ...note, action, after }],
  })
  if (state === 'conflict') throw conflict()
}

/**
 * Whether this node has read everything published, which may include this very part. If not, it reads it.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
async function isNewest(catalog: CatalogService, context: ChangeContext): Promise<boolean> {
  if ((await context.state.catalog.version()) === catalog.version()) return true
  await catalog.refresh()
  await requireNewest(catalog, context)
  return false
}

function isInForce(part: Part | null, fields: RecordFields | null): boolean {
  if (part === null || fields === null || part.issues.length > 0) return false
  return part.version?.hash === hashFields(fields)
}

/** @throws GatewayError INVALID_REQUEST, NOT_FOUND */
function requireChangeable(
  part: Part | null,
  { record: { kind, workspace, name }, fields }: PartChange,
  catalog: CatalogService,
): void {
  if (part?.managedBy === 'file') throw managedByFile({ kind, name })
  if (part !== null) return
  if (fields === null) throw new GatewayError('NOT_FOUND', `there is no such ${kind}`)
  if (kind !== 'head' && workspace !== null && kind !== 'workspace')
    requireRoom(catalog, { kind, workspace, name })
}

export function managedByFile({ kind, name }: Pick<RecordName, 'kind' | 'name'>): GatewayError {
  return issuesError([`the ${kind} "${name}" is managed by the configuration file: change it there`])
}

/**
 * A node that has refused the newest catalog checks changes against an older one, and each would conflict.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
async function requireNewest(catalog: CatalogService, { state }: ChangeContext): Promise<void> {
  if (catalog.refused().length === 0 || (await state.catalog.version()) === catalog.version()) return
  throw new GatewayError(
    'DEPENDENCY_UNAVAILABLE',
    'this node cannot serve the newest catalog beside its configuration file, so nothing can be changed here',
  )
}

/** @throws GatewayError INVALID_REQUEST when a workspace has as many parts of a kind as it may have */
export function requireRoom(catalog: CatalogService, { kind, workspace }: RecordName, more = 0): void {
  if (kind === 'head' || catalogParts(catalog, kind, workspace).length + more < PARTS_MAX) return
  throw issuesError([`the workspace may have at most ${PARTS_MAX} ${kind}s`])
}

export function conflict(): GatewayError {
  return new GatewayError('CONFLICT', 'someone else changed it; reload and try again')
}

function changeSteps({ record, fields, note = null, draft, keepsDraft = false }: PartChange): CatalogStep[] {
  if (fields === null) return [{ do: 'remove', record }]
  const publish = { do: 'publish', record, fields, hash: hashFields(fields), note } as const
  if (draft === undefined) return [publish]
  if (keepsDraft && draft !== null) return [{ ...publish, keeps: draft.revision }]
  // Replacing the draft by itself is what fails when it is another by now; publishing drops it.
  const { revision = null } = draft ?? {}
  return [{ do: 'draft', record, fields: draft?.fields ?? fields, revision }, publish]
}

function auditNote(
  { record, fields, action, note = null }: PartChange,
  part: Part | null,
  { author }: AdminActor,
): AuditNote {
  return {
    by: author,
    action,
    workspace: record.workspace,
    target: recordId(record),
    before: part?.version?.hash ?? null,
    after: fields === null ? null : hashFields(fields),
    detail: note,
  }
}

const FACTS = Object.keys(FACT_SHAPES)
const ONLY_OPERATORS = 'only an operator may set this'

/**
 * Issues of fields that an admin may not publish: facts of a model that the platform bills, with which a workspace
 * could set its own price, and regular expressions, which run on the node for everybody. Values that an operator has
 * published before may stay.
 */
export function operatorFacts(catalog: CatalogService, record: RecordName, fields: RecordFields): string[] {
  const before = partOf(catalog, record)?.fields ?? {}
  if (record.kind === 'provider') return patternIssues(fields, before, '')
  if (record.kind !== 'route') return []
  const platform = new Set(
    catalog.good().providers.flatMap(({ name, access }) => (access === 'platform' ? [name] : [])),
  )
  const known = arrayIn(before.entries)
  return [...shadowFacts(platform, fields, before), ...entryFacts()]

  function entryFacts(): string[] {
    return arrayIn(fields.entries).flatMap((entry, index) => {
      const same = known.filter((one) => entryId(one) === entryId(entry))
      const path = `/entries/${index}`
      if (!platform.has(String(at(entry, 'provider')))) {
        return same.some((one) => patternIssues(entry, one, path).length === 0)
          ? []
          : patternIssues(entry, {}, path)
      }
      const declared = FACTS.filter((fact) => at(entry, fact) !== undefined)
      const isKept = same.some((one) =>
        declared.every((fact) => isDeepStrictEqual(at(one, fact), at(entry, fact))),
      )
      return isKept
        ? []
        : declared.map((fact) => `${path}/${fact}: ${ONLY_OPERATORS} for a model of the platform`)
    })
  }
}

/** Calls of a shadow are never charged: those at a provider of the platform are at the expense of its operator. */
function shadowFacts(platform: ReadonlySet<string>, fields: RecordFields, before: RecordFields): string[] {
  const [shadow, known] = [at(fields, 'shadow'), at(before, 'shadow')]
  if (shadow === undefined || isDeepStrictEqual(shadow, known)) return []
  const entry = at(shadow, 'entry')
  if (platform.has(String(at(entry, 'provider'))))
    return [`/shadow: ${ONLY_OPERATORS} for a model of the platform`]
  return patternIssues(entry, at(known, 'entry'), '/shadow/entry')
}

function patternIssues(fields: unknown, before: unknown, path: string): string[] {
  const pattern = at(at(fields, 'limits'), 'voice_pattern')
  const isKept = pattern === undefined || pattern === at(at(before, 'limits'), 'voice_pattern')
  return isKept ? [] : [`${path}/limits/voice_pattern: ${ONLY_OPERATORS}`]
}

/** Provider and model, which identify an entry across versions. */
function entryId(entry: unknown): string {
  return JSON.stringify([at(entry, 'provider'), at(entry, 'model')])
}
