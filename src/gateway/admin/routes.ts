import type { CatalogService } from '../../contracts/catalog-service.ts'
import type { RecordDraft, RecordFields, RecordName } from '../../contracts/catalog-store.ts'
import { recordId } from '../../contracts/catalog-store.ts'
import { GatewayError } from '../../contracts/errors.ts'
import { hashFields } from '../../contracts/json.ts'
import { hasUnseen } from '../catalog/key.ts'
import { invalidField } from '../edge/refusals.ts'
import { type AdminActor, requireOwner } from './actor.ts'
import { requireOwnName } from './catalog.ts'
import type { ChangeContext } from './change.ts'
import { changeDraft, changePart, conflict, managedByFile, requireRoom } from './change.ts'
import { type Part, partOf } from './parts.ts'

export interface RouteInput {
  readonly workspace: string
  readonly name: string
}

export type RouteName = RecordName & { readonly kind: 'route'; readonly workspace: string }

export function routeRecord({ workspace, name }: RouteInput): RouteName {
  return { kind: 'route', workspace, name }
}

/**
 * Saves a draft of a route, whatever issues it has. Only its beginning is on the audit list: it serves no calls, and
 * the page saves it with every change.
 *
 * @param revision of the draft that is replaced; null: there is none
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function saveDraft(
  actor: AdminActor,
  input: RouteInput & { readonly fields: RecordFields; readonly revision: number | null },
  context: ChangeContext,
): Promise<void> {
  const { workspace, revision } = input
  requireOwner(actor, workspace)
  const record = routeRecord(input)
  const catalog = await context.catalog()
  const part = partOf(catalog, record)
  if (part?.managedBy === 'file') throw managedByFile(record)
  if (part === null && revision === null) await requireNewRoute(record, catalog, context)
  const fields = ownFields(input)
  const action = revision === null ? 'route.draft' : null
  await changeDraft(actor, { do: 'draft', record, fields, revision }, action, context)
}

/** JSON of a route's fields: those of all routes and drafts of a workspace are read for each list of them. */
const FIELDS_BYTES_MAX = 65_536

/** The fields of a route, which name its workspace. @throws GatewayError INVALID_REQUEST where they name another */
function ownFields({ workspace, fields }: RouteInput & { readonly fields: RecordFields }): RecordFields {
  if (Buffer.byteLength(JSON.stringify(fields)) > FIELDS_BYTES_MAX)
    throw invalidField('fields', `must have at most ${FIELDS_BYTES_MAX} bytes of JSON`)
  if ((fields.workspace ?? workspace) === workspace) return { ...fields, workspace }
  throw invalidField('fields.workspace', `must be ${workspace}`)
}

/**
 * Drops the draft of a route. It is no error when there is none: the answer of the first time may have been lost.
 *
 * @param revision of the draft as its author has seen it; absent: whichever there is
 * @throws GatewayError NOT_FOUND, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function discardDraft(
  actor: AdminActor,
  input: RouteInput & { readonly revision?: number | undefined },
  context: ChangeContext,
): Promise<void> {
  requireOwner(actor, input.workspace)
  const record = routeRecord(input)
  const before = await context.state.catalog.get(record)
  if (before?.draft && before.draft.revision !== (input.revision ?? before.draft.revision)) throw conflict()
  if (before?.draft) await changeDraft(actor, { do: 'discard', record }, 'route.discard', context)
}

/**
 * Publishes the draft of a route.
 *
 * @param revision of the draft as its author has seen it
 * @param number   as of `putRoute`: a roll-back since then leaves the draft as it is
 * @param note     why, in the words of the author; empty: they did not say
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function publishRoute(
  actor: AdminActor,
  input: Pick<RoutePut, 'workspace' | 'name' | 'number' | 'note'> & { readonly revision: number },
  context: ChangeContext,
): Promise<void> {
  requireOwner(actor, input.workspace)
  const record = routeRecord(input)
  const note = publicationNote(input.note)
  const decide = async (catalog: CatalogService) => {
    const { draft = null } = (await context.state.catalog.get(record)) ?? {}
    const part = partOf(catalog, record)
    if (draft?.revision !== input.revision) throw draft === null && part === null ? noRoute() : conflict()
    if (!isReplaced(input, part)) throw conflict()
    return { record, fields: draft.fields, draft, note, action: 'route.publish' }
  }
  await changePart(actor, decide, context)
}

/** The intended state of a route, for `putRoute`. */
export interface RoutePut extends RouteInput {
  readonly fields: RecordFields
  /** Number of the published version that is replaced; null: there is none; absent: whichever there is. */
  readonly number?: number | null | undefined
  /** As of `publishRoute`. */
  readonly note: string
  /** Publishes beside a draft of other fields, which stays. */
  readonly force: boolean
}

/**
 * Makes fields the published ones of a route, in one step. Where they are, nothing is changed, whatever else was asked:
 * it may be sent again. A draft of the same fields is published by it; one of other fields is someone's work, and
 * would undo this when it is published.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST, CONFLICT for another version or a draft, DEPENDENCY_UNAVAILABLE
 */
export async function putRoute(actor: AdminActor, input: RoutePut, context: ChangeContext): Promise<void> {
  requireOwner(actor, input.workspace)
  const record = routeRecord(input)
  const note = publicationNote(input.note)
  const fields = ownFields(input)
  const hash = hashFields(fields)
  const decide = async (catalog: CatalogService) => {
    const part = partOf(catalog, record)
    if (part?.managedBy === 'file') throw managedByFile(record)
    if (part?.version?.hash === hash) return null
    if (part === null) await requireNewRoute(record, catalog, context)
    if (!isReplaced(input, part)) throw conflict()
    const { draft = null } = (await context.state.catalog.get(record)) ?? {}
    const keepsDraft = draft !== null && hashFields(draft.fields) !== hash
    if (keepsDraft && !input.force) throw draftInTheWay(draft)
    return { record, fields, draft, keepsDraft, note, action: 'route.publish' }
  }
  await changePart(actor, decide, context)
}

/** Whether the published version is the one that is to be replaced. */
const isReplaced = ({ number }: Pick<RoutePut, 'number'>, part: Part | null) =>
  number === undefined || number === (part?.version?.number ?? null)

function draftInTheWay({ revision, atMs, by }: RecordDraft): GatewayError {
  const details = { draft: { revision, saved_by: by.name, saved_at: new Date(atMs).toISOString() } }
  const message =
    'the route has a draft of other fields: publish or drop it, or send `force` to leave it beside'
  return new GatewayError('CONFLICT', message, { details })
}

/** Characters of a note on a publication: it stays in two lists for good. */
export const NOTE_MAX = 500

/** @throws GatewayError INVALID_REQUEST for one that is long, or that would not look like what it says */
function publicationNote(text: string): string | null {
  const note = text.trim()
  if (note.length > NOTE_MAX) throw invalidField('note', `must have at most ${NOTE_MAX} characters`)
  if (hasUnseen(note)) throw invalidField('note', 'must be one line, without control characters')
  return note === '' ? null : note
}

/**
 * Publishes the fields of an older version again. A draft stays as it is.
 *
 * @param replaces as `number` of `putRoute`
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function rollBackRoute(
  actor: AdminActor,
  input: RouteInput & { readonly number: number; readonly replaces?: RoutePut['number'] },
  context: ChangeContext,
): Promise<void> {
  const { number } = input
  requireOwner(actor, input.workspace)
  const record = routeRecord(input)
  const decide = async (served: CatalogService) => {
    const { catalog } = context.state
    const [older, now] = await Promise.all([catalog.versionOf(record, number), catalog.get(record)])
    if (older === null) throw new GatewayError('NOT_FOUND', 'there is no such version')
    if (!isReplaced({ number: input.replaces }, partOf(served, record))) throw conflict()
    const draft = now?.draft ?? null
    const note = `rolled back to ${number}`
    return { record, fields: older.fields, note, draft, keepsDraft: true, action: 'route.rollback' }
  }
  await changePart(actor, decide, context)
}

/**
 * Removes a route, or the draft of one that was never published.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST while an app leads to it, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function removeRoute(
  actor: AdminActor,
  input: RouteInput,
  context: ChangeContext,
): Promise<void> {
  requireOwner(actor, input.workspace)
  const record = routeRecord(input)
  if (partOf(await context.catalog(), record) !== null)
    return changePart(actor, () => ({ record, fields: null, action: 'route.remove' }), context)
  const { draft = null } = (await context.state.catalog.get(record)) ?? {}
  if (draft === null) throw noRoute()
  return changeDraft(actor, { do: 'discard', record }, 'route.discard', context)
}

export function noRoute(): GatewayError {
  return new GatewayError('NOT_FOUND', 'there is no such route')
}

/** @throws GatewayError INVALID_REQUEST for a name that is not to be had */
async function requireNewRoute(
  record: RouteName,
  catalog: CatalogService,
  { state }: ChangeContext,
): Promise<void> {
  const all = (await state.catalog.list(record.workspace)).filter((one) => one.kind === 'route')
  if (all.some((one) => recordId(one) === recordId(record))) return
  requireOwnName(record, 'route')
  requireRoom(catalog, record, all.filter((one) => !one.isPublished).length)
}
