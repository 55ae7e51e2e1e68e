import { type Static, Type } from 'typebox'
import { type Route, routesOf } from '../../../contracts/catalog.ts'
import type { CatalogRecord, RecordFields, RecordVersion } from '../../../contracts/catalog-store.ts'
import { operatorFacts } from '../../../gateway/admin/change.ts'
import { issuesFor } from '../../../gateway/admin/issues.ts'
import { catalogParts, type Part, partOf } from '../../../gateway/admin/parts.ts'
import {
  discardDraft,
  NOTE_MAX,
  noRoute,
  publishRoute,
  putRoute,
  type RouteName,
  removeRoute,
  rollBackRoute,
  routeRecord,
  saveDraft,
} from '../../../gateway/admin/routes.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import { diffRoutes } from '../../../gateway/catalog/diff.ts'
import { type EntryFields, type RouteFields, RouteShape } from '../../../gateway/catalog/file.ts'
import { shaped } from '../../../gateway/catalog/parts.ts'
import { routeVersion } from '../../../gateway/catalog/route.ts'
import type { RouteAnswer, RouteSummary, RoutesAnswer, VersionAnswer } from '../answers/routes.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { PAGING, paged } from './lists.ts'
import type { Viewing } from './workspaces.ts'

const LIST = '/workspaces/:workspace/routes'
const PATH = `${LIST}/:route` as const
const PAGE_VERSIONS = 50

const Revision = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const VersionNumber = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })

const Note = Type.Optional(
  Type.String({
    maxLength: NOTE_MAX,
    description: 'why, on one line, for the versions and the audit list',
  }),
)

const Replaced = Type.Optional(
  Type.Union([VersionNumber, Type.Null()], {
    description: 'of the published version that is replaced; null: there is none; absent: whichever there is',
  }),
)

const RouteBody = Type.Object({
  fields: Type.Object({}, { additionalProperties: true, description: 'as in a configuration file' }),
  number: Replaced,
  note: Note,
  force: Type.Optional(
    Type.Boolean({ description: 'publishes beside a draft of other fields, which stays; else that is 409' }),
  ),
})

const DraftBody = Type.Object({
  fields: Type.Object(
    {},
    { additionalProperties: true, description: 'as in a configuration file; they may have issues' },
  ),
  revision: Type.Union([Revision, Type.Null()], {
    description: 'of the draft that is replaced; null: there is none',
  }),
})

const PublishBody = Type.Object({ revision: Revision, number: Replaced, note: Note })
const DiscardQuery = Type.Object({ revision: Type.Optional(Revision) })
const RollBackBody = Type.Object({ number: VersionNumber, replaces: Replaced })
const ListQuery = Type.Object(PAGING)
const VersionsQuery = Type.Object({ below: Type.Optional(VersionNumber) })

type Call<Body = unknown, Query = unknown> = ConsoleCall<typeof PATH, Body, Query>

/** The routes of a workspace: their drafts, publication, versions and roll-back. */
export function routeEndpoints(context: ConsoleContext): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', LIST, { query: ListQuery }, (call) =>
      routeSummaries(call, call.params.workspace, call.query),
    ),
    consoleEndpoint(context, 'GET', PATH, {}, showRoute),
    consoleEndpoint(context, 'PUT', PATH, { body: RouteBody }, replaceRoute),
    consoleEndpoint(context, 'DELETE', PATH, {}, deleteRoute),
    consoleEndpoint(context, 'PUT', `${PATH}/draft`, { body: DraftBody }, putDraft),
    consoleEndpoint(context, 'DELETE', `${PATH}/draft`, { query: DiscardQuery }, deleteDraft),
    consoleEndpoint(context, 'POST', `${PATH}/publish`, { body: PublishBody }, postPublication),
    consoleEndpoint(context, 'GET', `${PATH}/versions`, { query: VersionsQuery }, listVersions),
    consoleEndpoint(context, 'POST', `${PATH}/rollback`, { body: RollBackBody }, postRollBack),
  ]
}

/** Workspace and name of a route in a path. */
function routeName({ workspace, route: name }: Call['params']) {
  return { workspace, name }
}

/** @throws GatewayError NOT_FOUND */
async function showRoute(call: Call): Promise<RouteAnswer> {
  const answer = await routeAnswer(call, routeRecord(routeName(call.params)))
  if (answer === null) throw noRoute()
  return answer
}

async function replaceRoute(call: Call<Static<typeof RouteBody>>): Promise<RouteAnswer> {
  const { context, viewer, params, body } = call
  const { number, note = '', force = false } = body
  const fields = body.fields as RecordFields
  await putRoute(viewer.actor, { ...routeName(params), fields, number, note, force }, context.admin)
  return showRoute(call)
}

async function putDraft(call: Call<Static<typeof DraftBody>>): Promise<RouteAnswer> {
  const { context, viewer, params, body } = call
  const { revision } = body
  const fields = body.fields as RecordFields
  await saveDraft(viewer.actor, { ...routeName(params), fields, revision }, context.admin)
  return showRoute(call)
}

async function deleteDraft(call: Call<unknown, Static<typeof DiscardQuery>>): Promise<RouteAnswer> {
  const name = routeName(call.params)
  await discardDraft(call.viewer.actor, { ...name, revision: call.query.revision }, call.context.admin)
  const record = routeRecord(name)
  return (await routeAnswer(call, record)) ?? emptyRoute(record)
}

async function postPublication(call: Call<Static<typeof PublishBody>>): Promise<RouteAnswer> {
  const { context, viewer, params, body } = call
  const { revision, number, note = '' } = body
  await publishRoute(viewer.actor, { ...routeName(params), revision, number, note }, context.admin)
  return showRoute(call)
}

async function postRollBack(call: Call<Static<typeof RollBackBody>>): Promise<RouteAnswer> {
  const { context, viewer, params, body } = call
  await rollBackRoute(viewer.actor, { ...routeName(params), ...body }, context.admin)
  return showRoute(call)
}

async function deleteRoute({ context, viewer, params }: Call): Promise<{ deleted: true }> {
  await removeRoute(viewer.actor, routeName(params), context.admin)
  return { deleted: true }
}

/** Versions of a route, also of one that was removed: it can be rolled back to one of them. */
async function listVersions(
  call: Call<unknown, Static<typeof VersionsQuery>>,
): Promise<{ versions: VersionAnswer[] }> {
  const { context, query } = call
  const { catalog } = context.admin.state
  const record = routeRecord(routeName(call.params))
  const part = partOf(context.catalog, record)
  const versions = await catalog.versions(record, query.below ?? null, PAGE_VERSIONS)
  if (versions.length === 0 && part === null && (await catalog.get(record)) === null) throw noRoute()
  const current = part?.version?.number ?? null
  return { versions: versions.map((version) => versionAnswer(record, version, current)) }
}

function versionAnswer(record: RouteName, version: RecordVersion, current: number | null): VersionAnswer {
  const { number, fields, hash, atMs, by, note } = version
  return {
    number,
    version: versionOfFields(record, fields),
    hash,
    published_at: timestamp(atMs),
    published_by: by.name,
    note,
    fields: fields as unknown as VersionAnswer['fields'],
    current: number === current,
  }
}

/** The routes of a workspace by name, drafts included. */
async function routeSummaries(
  viewing: Viewing,
  workspace: string,
  paging: Static<typeof ListQuery>,
): Promise<RoutesAnswer> {
  const { context } = viewing
  const records = (await context.admin.state.catalog.list(workspace)).filter(({ kind }) => kind === 'route')
  const drafts = new Set(records.flatMap(({ name, hasDraft }) => (hasDraft ? [name] : [])))
  const parts = new Map(catalogParts(context.catalog, 'route', workspace).map((part) => [part.name, part]))
  const own = context.catalog.good().routes.filter((route) => route.workspace === workspace)
  const served = new Map(own.map((route) => [route.name, route]))
  const apps = appsByRoute(context, workspace)
  const names = [...new Set([...parts.keys(), ...drafts])].sort()
  const standing = names.map((name) => ({
    name,
    part: parts.get(name) ?? null,
    hasDraft: drafts.has(name),
    served: served.get(name) ?? null,
    apps: apps.get(name) ?? [],
    ...factsIn(parts.get(name)?.fields ?? {}),
  }))
  // One after the other: a draft may be large, and of its fields only these are kept.
  const withDrafts = async (some: readonly StandingRoute[]) => {
    const whole: StandingRoute[] = []
    for (const one of some) {
      const record = routeRecord({ workspace, name: one.name })
      const found = one.part === null ? await context.admin.state.catalog.get(record) : null
      whole.push(found?.draft ? { ...one, ...factsIn(found.draft.fields) } : one)
    }
    return whole
  }
  const isSearched = paging.search !== undefined
  const searched = isSearched ? await withDrafts(standing) : standing
  const { page, total } = paged(searched, paging, (one) => [one.name, ...entryNames(one), ...one.apps])
  const shown = isSearched ? page : await withDrafts(page)
  return { routes: shown.map((one) => summaryOf(viewing, one)), total, all: names.length }
}

/** Everything that has the name of a route. */
interface StandingRoute {
  readonly name: string
  readonly part: Part | null
  readonly hasDraft: boolean
  readonly served: Route | null
  readonly apps: readonly string[]
  readonly entries: readonly string[]
  readonly strategy: string
}

function factsIn(fields: RecordFields): Pick<StandingRoute, 'entries' | 'strategy'> {
  const strategy = typeof fields.strategy === 'string' ? fields.strategy : 'priority'
  return { entries: entriesIn(fields), strategy }
}

/** `provider/model` of the entries that serve, else of its fields. */
function entryNames({ entries, served }: StandingRoute): readonly string[] {
  return served?.entries.map(({ provider, model }) => `${provider.name}/${model}`) ?? entries
}

function summaryOf({ viewer }: Viewing, route: StandingRoute): RouteSummary {
  const { name, part, hasDraft, served, apps } = route
  return {
    name,
    managed_by: part?.managedBy ?? 'console',
    version: served?.version ?? null,
    in_service: served?.published ?? false,
    strategy: served?.strategy ?? route.strategy,
    number: part?.version?.number ?? null,
    entries: entryNames(route),
    has_draft: hasDraft,
    apps,
    published_at: timestamp(part?.version?.atMs ?? null),
    published_by: part?.version?.by.name ?? null,
    ...(part === null || part.issues.length === 0 ? {} : { issues: issuesFor(viewer.role, part.issues) }),
  }
}

/** The route as it is now; null: it does not exist, nor does a draft of it. */
async function routeAnswer(viewing: Viewing, record: RouteName): Promise<RouteAnswer | null> {
  const { context } = viewing
  const part = partOf(context.catalog, record)
  const { draft = null } = (await context.admin.state.catalog.get(record)) ?? {}
  if (part === null && draft === null) return null
  return answerOf(viewing, record, part, draft)
}

/** The answer about a route of which nothing is left. */
function emptyRoute({ name, workspace }: RouteName): RouteAnswer {
  return { name, workspace, managed_by: 'console', apps: [], published: null, draft: null }
}

function answerOf(
  { context, viewer }: Viewing,
  record: RouteName,
  part: Part | null,
  draft: CatalogRecord['draft'],
): RouteAnswer {
  const published =
    part === null
      ? null
      : {
          number: part.version?.number ?? null,
          version: servedRoute(context, record)?.version ?? versionOfFields(record, part.fields) ?? '',
          fields: part.fields as unknown as RouteFields,
          published_at: timestamp(part.version?.atMs ?? null),
          published_by: part.version?.by.name ?? null,
          note: part.version?.note ?? null,
        }
  return {
    name: record.name,
    workspace: record.workspace,
    managed_by: part?.managedBy ?? 'console',
    apps: appsByRoute(context, record.workspace).get(record.name) ?? [],
    published,
    draft: draft && {
      revision: draft.revision,
      fields: draft.fields as unknown as RouteFields,
      saved_at: timestamp(draft.atMs),
      saved_by: draft.by.name,
      ...judged({ context, viewer }, record, draft.fields),
    },
    ...(part === null || part.issues.length === 0 ? {} : { issues: issuesFor(viewer.role, part.issues) }),
  }
}

/** The outcome if fields were published now. */
function judged(
  { context, viewer }: Viewing,
  record: RouteName,
  fields: RecordFields,
): {
  readonly version: string | null
  readonly issues: readonly string[]
  readonly changes: readonly string[]
} {
  const own = viewer.role === 'operator' ? [] : operatorFacts(context.catalog, record, fields)
  const tried = context.catalog.tryChange([{ do: 'publish', record, fields }])
  if ('issues' in tried)
    return { version: null, issues: [...own, ...issuesFor(viewer.role, tried.issues)], changes: [] }
  const isIt = ({ name }: Route) => name === record.name
  const after = tried.routes.filter(isIt)
  const [change] = diffRoutes(context.catalog.good().routes.filter(isIt), after)
  return {
    version: own.length > 0 ? null : (after[0]?.version ?? null),
    issues: own,
    changes: change?.lines ?? [],
  }
}

/** Null: it is not in force. */
function servedRoute({ catalog }: ConsoleContext, { name, workspace }: RouteName): Route | null {
  return catalog.good().routes.find((route) => route.name === name && route.workspace === workspace) ?? null
}

/** The version of fields; null: they do not have the shape of a route. */
function versionOfFields({ name }: RouteName, fields: RecordFields): string | null {
  const whole = shaped(RouteShape, fields)
  return whole && routeVersion(name, whole, whole.entries as readonly EntryFields[])
}

/** Apps by the name of a route that they lead to, also for one capability or purpose only. */
export function appsByRoute(
  { catalog }: ConsoleContext,
  workspace: string,
): ReadonlyMap<string, readonly string[]> {
  const leading = new Map<string, string[]>()
  const apps = [...(catalog.current().apps.get(workspace)?.values() ?? [])]
  for (const principal of apps.sort((a, b) => (a.app.id < b.app.id ? -1 : 1))) {
    for (const { name } of routesOf(principal)) {
      const known = leading.get(name)
      if (known === undefined) leading.set(name, [principal.app.id])
      else known.push(principal.app.id)
    }
  }
  return leading
}

/** `provider/model` of each entry, as far as the fields have entries. */
function entriesIn({ entries }: RecordFields): string[] {
  if (!Array.isArray(entries)) return []
  return entries.map((entry: unknown) => {
    const { provider = '?', model = '?' } = Object(entry) as Readonly<Record<string, unknown>>
    return `${String(provider)}/${String(model)}`
  })
}
