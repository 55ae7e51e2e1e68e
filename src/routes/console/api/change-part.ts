import { randomUUID } from 'node:crypto'
import { hashFields } from '../../../catalog/canonical.ts'
import { GatewayError } from '../../../errors.ts'
import {
  type AuditNote,
  type CatalogStep,
  type RecordDraft,
  type RecordFields,
  type RecordName,
  recordId,
} from '../../../schema/catalog-store.ts'
import type { ConsoleCall } from '../endpoint.ts'
import { faultsFor, refusedFor } from './faults.ts'
import { operatorFacts } from './operator-facts.ts'
import { type Part, partOf, partsOf } from './parts.ts'

/** How often a change is checked and made anew when others publish at the same time. */
const MAX_TRIES = 8
/** Parts of a kind that one workspace may have: every node holds, and checks, all of them. */
const MAX_PARTS = 500

/** Who changes something. */
export type Editor = Pick<ConsoleCall<string, unknown, unknown>, 'desk' | 'viewer'>

/** What is to become of one part of the catalog. */
export interface PartChange {
  readonly record: RecordName
  /** Null: it is taken away. */
  readonly fields: RecordFields | null
  /** In the audit list: `route.publish`. */
  readonly action: string
  /** Why, for the versions and the audit list. */
  readonly note?: string | null
  /** The draft as it was looked at: when it is another by then, nothing is changed. Absent: it does not count. */
  readonly draft?: RecordDraft | null
  /** What is published is not the draft, which stays. */
  readonly keepsDraft?: boolean
}

/**
 * Puts a change of the catalog in force: checks it against all that is served, publishes it with a line in the audit
 * list, and has this node serve it. It is checked anew when somebody else has published meanwhile.
 *
 * @param decide what is to become of the part; asked again each time
 * @throws GatewayError INVALID_REQUEST with `details.faults`, NOT_FOUND for what is to be taken away, CONFLICT,
 *         DEPENDENCY_UNAVAILABLE, also where this node cannot serve what others have published
 */
export async function changePart(
  { desk, viewer }: Editor,
  decide: () => PartChange | Promise<PartChange>,
): Promise<void> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const change = await decide()
    const { record, fields } = change
    const part = partOf(desk, record)
    requireChangeable(part, change, desk)
    const own = fields === null || viewer.role === 'operator' ? [] : operatorFacts(desk, record, fields)
    const tried = desk.catalog.tryChange([
      fields === null ? { do: 'remove', record } : { do: 'publish', record, fields },
    ])
    if ('faults' in tried) throw refusedFor([...own, ...faultsFor(viewer.role, tried.faults)])
    if (own.length > 0) throw refusedFor(own)
    const { state } = await desk.records.change({
      token: randomUUID(),
      expected: tried.version,
      steps: stepsOf(change),
      by: viewer.actor,
      audit: [noteOf(change, part, viewer.actor)],
    })
    await desk.catalog.refresh()
    if (state === 'done') return
    await requireNewest(desk)
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
  { desk, viewer }: Editor,
  step: Extract<CatalogStep, { readonly do: 'draft' | 'discard' }>,
  action: string | null,
): Promise<void> {
  const { record } = step
  const note = {
    by: viewer.actor,
    workspace: record.workspace,
    target: recordId(record),
    before: null,
    detail: null,
  }
  const after = step.do === 'draft' ? hashFields(step.fields) : null
  const { state } = await desk.records.change({
    token: randomUUID(),
    expected: null,
    steps: [step],
    by: viewer.actor,
    audit: action === null ? [] : [{ ...note, action, after }],
  })
  if (state === 'conflict') throw conflict()
}

/** @throws GatewayError INVALID_REQUEST, NOT_FOUND */
function requireChangeable(
  part: Part | null,
  { record: { kind, workspace, name }, fields }: PartChange,
  desk: Editor['desk'],
): void {
  if (part?.managedBy === 'file')
    throw refusedFor([`the ${kind} "${name}" is managed by the configuration file: change it there`])
  if (part !== null) return
  if (fields === null) throw new GatewayError('NOT_FOUND', `there is no such ${kind}`)
  if (kind !== 'head' && workspace !== null && kind !== 'workspace')
    requireRoom(desk, { kind, workspace, name })
}

/**
 * A node that has refused the newest catalog checks changes against an older one, and each would conflict.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
async function requireNewest({ catalog, records }: Editor['desk']): Promise<void> {
  if (catalog.refused().length === 0 || (await records.version()) === catalog.version()) return
  throw new GatewayError(
    'DEPENDENCY_UNAVAILABLE',
    'this node cannot serve the newest catalog beside its configuration file, so that nothing can be changed here',
  )
}

/** @throws GatewayError INVALID_REQUEST when a workspace has as many parts of a kind as it may have */
export function requireRoom(desk: Editor['desk'], { kind, workspace }: RecordName, more = 0): void {
  if (kind === 'head' || partsOf(desk, kind, workspace).length + more < MAX_PARTS) return
  throw refusedFor([`the workspace has ${MAX_PARTS} ${kind}s, and may have no more`])
}

export function conflict(): GatewayError {
  return new GatewayError('CONFLICT', 'somebody else has changed it meanwhile: load it again')
}

function stepsOf({
  record,
  fields,
  note = null,
  draft = null,
  keepsDraft = false,
}: PartChange): CatalogStep[] {
  if (fields === null) return [{ do: 'remove', record }]
  const publish: CatalogStep = { do: 'publish', record, fields, hash: hashFields(fields), note }
  if (draft === null) return [publish]
  // Replacing the draft by itself is what fails when it is another by now; publishing drops it.
  const held: CatalogStep = { do: 'draft', record, fields: draft.fields, revision: draft.revision }
  return keepsDraft ? [held, publish, { ...held, revision: null }] : [held, publish]
}

function noteOf(
  { record, fields, action, note = null }: PartChange,
  part: Part | null,
  by: AuditNote['by'],
): AuditNote {
  return {
    by,
    action,
    workspace: record.workspace,
    target: recordId(record),
    before: part?.version?.hash ?? null,
    after: fields === null ? null : hashFields(fields),
    detail: note,
  }
}
