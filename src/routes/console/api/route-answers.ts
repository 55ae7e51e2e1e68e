import { type Static, Type } from 'typebox'
import { diffRoutes } from '../../../catalog/diff.ts'
import { type EntryFields, type RouteFields, RouteShape } from '../../../catalog/file.ts'
import { shaped } from '../../../catalog/parts.ts'
import { routeVersion } from '../../../catalog/route.ts'
import type { Route } from '../../../schema/catalog.ts'
import type { CatalogRecord, RecordDraft, RecordFields, RecordName } from '../../../schema/catalog-store.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import type { RouteAnswer, RouteSummary, RoutesAnswer } from './answers.ts'
import type { Editor } from './change-part.ts'
import { faultsFor } from './faults.ts'
import { operatorFacts } from './operator-facts.ts'
import { PAGING, paged } from './paging.ts'
import { type Part, partOf, partsOf } from './parts.ts'

export type RouteName = RecordName & { readonly kind: 'route'; readonly workspace: string }

/** The routes of a workspace, those that are drafts only among them, by name. */
export async function routeSummaries(
  editor: Editor,
  workspace: string,
  paging: Static<typeof RoutesQuery>,
): Promise<RoutesAnswer> {
  const { desk } = editor
  const records = (await desk.records.list(workspace)).filter(({ kind }) => kind === 'route')
  const drafts = new Map(records.flatMap(({ name, draft }) => (draft === null ? [] : [[name, draft]])))
  const parts = new Map(partsOf(desk, 'route', workspace).map((part) => [part.name, part]))
  const own = desk.catalog.good().routes.filter((route) => route.workspace === workspace)
  const served = new Map(own.map((route) => [route.name, route]))
  const apps = appsByRoute(desk, workspace)
  const names = [...new Set([...parts.keys(), ...drafts.keys()])].sort()
  const standing = names.map((name) => ({
    name,
    part: parts.get(name) ?? null,
    draft: drafts.get(name) ?? null,
    served: served.get(name) ?? null,
    apps: apps.get(name) ?? [],
  }))
  const { page, total } = paged(standing, paging, (one) => [one.name, ...entryNames(one), ...one.apps])
  return { routes: page.map((one) => summaryOf(editor, one)), total, all: names.length }
}

export const RoutesQuery = Type.Object(PAGING)

/** What there is under the name of a route. */
interface StandingRoute {
  readonly name: string
  readonly part: Part | null
  readonly draft: RecordDraft | null
  readonly served: Route | null
  readonly apps: readonly string[]
}

/** `provider/model` of what serves, else of the draft. */
function entryNames({ part, draft, served }: StandingRoute): readonly string[] {
  if (served === null) return entriesIn(part?.fields ?? draft?.fields ?? {})
  return served.entries.map(({ provider, model }) => `${provider.name}/${model}`)
}

function summaryOf({ viewer }: Editor, route: StandingRoute): RouteSummary {
  const { name, part, draft, served, apps } = route
  const fields = part?.fields ?? draft?.fields ?? {}
  return {
    name,
    managed_by: part?.managedBy ?? 'console',
    version: served?.version ?? null,
    in_service: served?.published ?? false,
    strategy: served?.strategy ?? (typeof fields.strategy === 'string' ? fields.strategy : 'priority'),
    number: part?.version?.number ?? null,
    entries: entryNames(route),
    has_draft: draft !== null,
    apps,
    published_at: timestamp(part?.version?.atMs ?? null),
    published_by: part?.version?.by.name ?? null,
    ...(part === null || part.faults.length === 0 ? {} : { faults: faultsFor(viewer.role, part.faults) }),
  }
}

/** A route as it stands; null: there is none, and no draft of one. */
export async function routeAnswer(editor: Editor, record: RouteName): Promise<RouteAnswer | null> {
  const { desk } = editor
  const part = partOf(desk, record)
  const { draft = null } = (await desk.records.get(record)) ?? {}
  if (part === null && draft === null) return null
  return answerOf(editor, record, part, draft)
}

/** What a route is answered with of which nothing is left. */
export function noRoute({ name, workspace }: RouteName): RouteAnswer {
  return { name, workspace, managed_by: 'console', apps: [], published: null, draft: null }
}

function answerOf(
  { desk, viewer }: Editor,
  record: RouteName,
  part: Part | null,
  draft: CatalogRecord['draft'],
): RouteAnswer {
  const published =
    part === null
      ? null
      : {
          number: part.version?.number ?? null,
          version: servedRoute(desk, record)?.version ?? versionOf(record, part.fields) ?? '',
          fields: part.fields as unknown as RouteFields,
          published_at: timestamp(part.version?.atMs ?? null),
          published_by: part.version?.by.name ?? null,
        }
  return {
    name: record.name,
    workspace: record.workspace,
    managed_by: part?.managedBy ?? 'console',
    apps: appsByRoute(desk, record.workspace).get(record.name) ?? [],
    published,
    draft: draft && {
      revision: draft.revision,
      fields: draft.fields as unknown as RouteFields,
      saved_at: timestamp(draft.atMs),
      saved_by: draft.by.name,
      ...judged({ desk, viewer }, record, draft.fields),
    },
    ...(part === null || part.faults.length === 0 ? {} : { faults: faultsFor(viewer.role, part.faults) }),
  }
}

/** What would become of fields if they were published now. */
function judged(
  { desk, viewer }: Editor,
  record: RouteName,
  fields: RecordFields,
): {
  readonly version: string | null
  readonly faults: readonly string[]
  readonly changes: readonly string[]
} {
  const own = viewer.role === 'operator' ? [] : operatorFacts(desk, record, fields)
  const tried = desk.catalog.tryChange([{ do: 'publish', record, fields }])
  if ('faults' in tried)
    return { version: null, faults: [...own, ...faultsFor(viewer.role, tried.faults)], changes: [] }
  const isIt = ({ name }: Route) => name === record.name
  const after = tried.routes.filter(isIt)
  const [change] = diffRoutes(desk.catalog.good().routes.filter(isIt), after)
  return {
    version: own.length > 0 ? null : (after[0]?.version ?? null),
    faults: own,
    changes: change?.lines ?? [],
  }
}

/** Null: it is not in force. */
export function servedRoute({ catalog }: ConsoleDesk, { name, workspace }: RouteName): Route | null {
  return catalog.good().routes.find((route) => route.name === name && route.workspace === workspace) ?? null
}

/** Of fields that have the shape of a route; null: they have not. */
export function versionOf({ name }: RouteName, fields: RecordFields): string | null {
  const whole = shaped(RouteShape, fields)
  return whole && routeVersion(name, whole, whole.entries as readonly EntryFields[])
}

/** By the name of a route, the apps that lead to it, be it for one capability or purpose only. */
function appsByRoute({ catalog }: ConsoleDesk, workspace: string): ReadonlyMap<string, readonly string[]> {
  const leading = new Map<string, string[]>()
  const apps = [...(catalog.current().apps.get(workspace)?.values() ?? [])]
  for (const { app, route, capabilityRoutes, purposes } of apps.sort((a, b) =>
    a.app.id < b.app.id ? -1 : 1,
  )) {
    const routes = new Set([route, ...capabilityRoutes.values(), ...purposes.map((one) => one.route)])
    for (const one of routes) {
      if (one === null) continue
      const known = leading.get(one.name)
      if (known === undefined) leading.set(one.name, [app.id])
      else known.push(app.id)
    }
  }
  return leading
}

/** `provider/model` of what may be no entries at all. */
function entriesIn({ entries }: RecordFields): string[] {
  if (!Array.isArray(entries)) return []
  return entries.map((entry: unknown) => {
    const { provider = '?', model = '?' } = Object(entry) as Readonly<Record<string, unknown>>
    return `${String(provider)}/${String(model)}`
  })
}
