import type { Entry, Principal, Purpose, Route } from '../schema/catalog.ts'
import type { Provider } from '../schema/provider.ts'
import type { Selectors } from '../schema/selectors.ts'
import { assignedRoute, candidatesOf } from './capabilities.ts'
import type { Consideration, Group, Left } from './consideration.ts'
import { type Demand, entitledEntries, leftUnable } from './eligibility.ts'

export interface PurposeResolution {
  readonly requested: string | null
  /** What `lk_purpose_source` says when an entry outside the purpose answers. */
  readonly otherwise: 'none' | 'purpose_unknown' | 'purpose_unavailable' | 'fallback_purpose_exhausted'
  /** What it says when an entry of the purpose answers. */
  readonly source: 'body' | 'header' | null
  /** Why the purpose is unavailable, for the explanation; null when it is not. */
  readonly unavailable: 'disabled' | 'unpublished' | 'capability' | null
}

/** A consideration in the making. */
export type Draft = { -readonly [Name in keyof Consideration]: Consideration[Name] }

export interface Listing {
  readonly purpose: PurposeResolution
  /** The route that serves without the purpose. */
  readonly assigned: Route
  /** Every entry of every route that is looked at, group after group, in the order of its route. */
  readonly drafts: readonly Draft[]
}

/**
 * Which routes a call leads to, and which of their entries are candidates by what the routes themselves say. A purpose
 * that cannot be used changes nothing of the routing: it never stands in for a capability.
 */
export function listEntries(
  principal: Principal,
  asked: Selectors['purpose'],
  demand: Demand,
  providers: ReadonlyMap<string, Provider>,
): Listing {
  const assigned = assignedRoute(principal, demand.operation, demand.capabilities)
  const drafts: Draft[] = []
  if (asked === null) {
    addRoute(drafts, assigned, principal, IN_ASSIGNED)
    return { purpose: NOT_ASKED, assigned, drafts }
  }
  const bound = boundPurpose(principal, asked.label)
  const unavailable = bound === null ? null : unavailability(bound, demand, providers)
  if (bound !== null && unavailable !== 'disabled') {
    const { route } = bound
    addRoute(drafts, route, principal, groupByTag(route, asked.label))
    drafts.sort((a, b) => Number(a.group !== 'purpose') - Number(b.group !== 'purpose'))
  }
  addRoute(drafts, assigned, principal, IN_ASSIGNED)
  const usable = bound !== null && unavailable === null
  const failing = bound === null ? 'purpose_unknown' : 'purpose_unavailable'
  return {
    purpose: {
      requested: asked.label,
      otherwise: usable ? 'fallback_purpose_exhausted' : failing,
      source: asked.source,
      unavailable,
    },
    assigned,
    drafts,
  }
}

const NOT_ASKED: PurposeResolution = { requested: null, otherwise: 'none', source: null, unavailable: null }

type BoundPurpose = Purpose & { readonly route: Route }

/** The purpose of a label; null where the workspace declares none such or the app binds it to no route. */
function boundPurpose({ purposes }: Principal, label: string): BoundPurpose | null {
  const declared = purposes.find(({ purpose }) => purpose === label)
  return declared !== undefined && isBound(declared) ? declared : null
}

function isBound(purpose: Purpose): purpose is BoundPurpose {
  return purpose.route !== null
}

/** Whether some call of a key would be served for a purpose: it leads to a published route that the plan allows. */
export function isUsable(purpose: Purpose, workspace: Principal['workspace']): boolean {
  return purpose.enabled && isBound(purpose) && entitledEntries(purpose.route, workspace).length > 0
}

function unavailability(
  { enabled, route }: BoundPurpose,
  demand: Demand,
  providers: ReadonlyMap<string, Provider>,
): PurposeResolution['unavailable'] {
  if (!enabled) return 'disabled'
  if (!route.published) return 'unpublished'
  const able = candidatesOf(route).some(
    (entry) => leftUnable(entry, providers.get(entry.provider.kind), demand) === null,
  )
  return able ? null : 'capability'
}

/** The entries of a route that carry the label are the purpose; when none does, all of them are. */
function groupByTag(route: Route, label: string): (entry: Entry) => Group {
  const tagged = candidatesOf(route).some(({ purposes }) => purposes.includes(label))
  return ({ purposes }) => (!tagged || purposes.includes(label) ? 'purpose' : 'purpose_route')
}

function addRoute(
  drafts: Draft[],
  route: Route,
  { workspace }: Principal,
  groupOf: (entry: Entry) => Group,
): void {
  const unusable: Left | null =
    route.workspace !== workspace.id ? { why: 'workspace' } : route.published ? null : { why: 'unpublished' }
  const candidates = candidatesOf(route)
  for (const entry of route.entries) {
    const left = unusable ?? (candidates.includes(entry) ? null : { why: 'not_pinned' as const })
    drafts.push({ route, entry, group: groupOf(entry), rank: null, left, lastResort: false })
  }
}

const IN_ASSIGNED = (): Group => 'assigned_route'
