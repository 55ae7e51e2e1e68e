import { CAPABILITIES, type Capability } from '../../contracts/calls.ts'
import {
  type AppPrincipal,
  DEFAULT_SCOPES,
  type EndUserSettings,
  type EndUserTerms,
  type Principal,
  type Purpose,
  type Route,
} from '../../contracts/catalog.ts'
import type { Limits } from '../../contracts/limits.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import { type RequireFields, requirementsOf } from '../../contracts/requirements.ts'
import type { AppFields, EndUserFields, KeyFields, SizeLimitFields, WorkspaceFields } from './file.ts'
import type { Issues, Path } from './issues.ts'
import { hasUnseen } from './key.ts'
import { foreignPart, type Named, type Plan, unknownPart, type WorkspaceDefinition } from './parts.ts'
import { checkPrices } from './prices.ts'
import { providerBasis, type ResolvedProvider } from './provider.ts'
import { rateLimitOf, unitRatesOf } from './rate-limit.ts'
import { remembering, type Sharing } from './sharing.ts'
import { resolveBudget, resolveInstant, resolveTerms } from './terms.ts'

/** Parts of the file that a workspace may refer to. */
export interface WorkspaceContext {
  readonly routes: Named<Route>
  readonly providers: Named<ResolvedProvider>
  readonly plans: ReadonlyMap<string, Plan>
  /** The limits of everyone. */
  readonly limits: Limits
  readonly rateLimit: RateLimit
  /** Both of these as a text: equal ones are made anew with every document. */
  readonly settings: string
  /** Collects the principals of all workspaces, by the hash of their key. */
  readonly principals: Map<string, Principal>
  /** Collects what the keys of each app have in common, by workspace and app. */
  readonly apps: Map<string, ReadonlyMap<string, AppPrincipal>>
  /** Collects the ids of all keys. */
  readonly keyIds: Set<string>
  readonly sharing: Sharing
}

type App = Omit<AppPrincipal, 'workspace'>

/** The apps of a workspace, and a principal for each of its keys; null: for want of an app. */
interface MadeWorkspace {
  readonly apps: ReadonlyMap<string, AppPrincipal>
  readonly principals: readonly (Principal | null)[]
}

const workspaceOf = remembering<MadeWorkspace>()

/** Adds the workspace's apps, and a principal for each of its keys. Why one cannot be is added to `issues`. */
export function resolveWorkspace(
  id: string,
  parts: WorkspaceDefinition,
  context: WorkspaceContext,
  issues: Issues,
): void {
  const { plan = '', prices = {} } = parts.fields
  const basis = [
    id,
    context.settings,
    context.plans.get(plan),
    ...[...parts.apps.values()].flatMap(routeNames).map((name = '') => context.routes.get(name)),
    ...Object.keys(prices).flatMap((name) => providerBasis(context.providers.get(name))),
  ]
  const make = () => makeWorkspace(id, parts, context, issues)
  const { apps, principals } = workspaceOf(parts, make, basis, issues)
  context.apps.set(id, apps)
  for (const [index, key] of parts.keys.entries()) {
    if (key === null) continue
    const at = ['workspaces', id, 'keys', index]
    if (context.keyIds.has(key.id)) issues.add([...at, 'id'], `another key has the id "${key.id}"`)
    context.keyIds.add(key.id)
    const sha256 = key.sha256.toLowerCase()
    const principal = principals[index]
    if (context.principals.has(sha256)) issues.add([...at, 'sha256'], 'another key has the same hash')
    else if (principal) context.principals.set(sha256, principal)
  }
}

function routeNames(app: AppFields | null): (string | undefined)[] {
  if (app === null) return []
  return [app.route, ...Object.values(app.capability_routes ?? {}), ...Object.values(app.purposes ?? {})]
}

function makeWorkspace(
  id: string,
  { fields, apps, keys }: WorkspaceDefinition,
  context: WorkspaceContext,
  issues: Issues,
): MadeWorkspace {
  const path = ['workspaces', id]
  const { name = id, plan = null } = fields
  if (plan !== null && !context.plans.has(plan)) issues.add([...path, 'plan'], `there is no plan "${plan}"`)
  const planned = plan === null ? undefined : context.plans.get(plan)
  const includes = planned?.includes ?? null
  const terms = resolveTerms(fields, path, issues)
  const endUsers = resolveEndUsers(fields.end_users, context.rateLimit, [...path, 'end_users'], issues)
  const known = endUsers === null ? {} : { endUsers }
  const rates = fields.rate_limit === undefined ? {} : { unitRates: unitRatesOf(fields.rate_limit) }
  const workspace = { id, name, plan, includes, terms, ...demanded(fields), ...known, ...rates }
  const given = { ...planned?.limits, ...fields.limits }
  const ofWorkspace = Object.keys(given).length === 0 ? context.limits : { ...context.limits, ...given }
  checkAgreed(id, fields.prices, context.providers, [...path, 'prices'], issues)

  const resolved = new Map<string, AppPrincipal | null>()
  for (const [appId, fieldsOfApp] of apps) {
    const at = [...path, 'apps', appId]
    const app = fieldsOfApp && resolveApp(id, appId, fieldsOfApp, fields, context.routes, at, issues)
    const limits = narrowed(ofWorkspace, fieldsOfApp?.limits)
    const own = limits === context.limits ? {} : { limits }
    resolved.set(appId, app && context.sharing.app({ workspace, ...own, ...app }))
  }
  const principals = keys.map((key, index) => {
    if (key === null) return null
    const at = [...path, 'keys', index]
    const app = resolved.get(key.app)
    if (app === undefined) issues.add([...at, 'app'], `the workspace has no app "${key.app}"`)
    const identity = resolveKey(key, context, at, issues)
    return app ? context.sharing.principal(key.sha256.toLowerCase(), { ...app, key: identity }) : null
  })
  const made = [...resolved].filter((one): one is [string, AppPrincipal] => one[1] !== null)
  return { apps: new Map(made), principals }
}

/** The limits of an app: its workspace's admins can set it less than the workspace has, not more. */
function narrowed(limits: Limits, fields: SizeLimitFields = {}): Limits {
  const own = Object.entries(fields) as [keyof SizeLimitFields, number][]
  if (own.length === 0) return limits
  return {
    ...limits,
    ...Object.fromEntries(own.map(([name, most]) => [name, Math.min(most, limits[name] ?? most)])),
  }
}

/** Adds issues of the prices of a workspace: of providers that it cannot use, and of what their shape cannot hold. */
function checkAgreed(
  workspace: string,
  prices: WorkspaceFields['prices'],
  providers: Named<ResolvedProvider>,
  path: Path,
  issues: Issues,
): void {
  for (const [name, list] of Object.entries(prices ?? {})) {
    const owner = providers.get(name)?.configured.workspace ?? null
    if (!providers.has(name)) issues.add([...path, name], unknownPart('provider', name))
    else if (owner !== null && owner !== workspace) issues.add([...path, name], foreignPart('provider', name))
    checkPrices(list, [...path, name], issues)
  }
}

function resolveApp(
  workspace: string,
  id: string,
  fields: AppFields,
  { purposes: declared = {} }: WorkspaceFields,
  routes: Named<Route>,
  path: Path,
  issues: Issues,
): App | null {
  const routeNamed = (name: string, at: Path): Route | null => {
    const route = routes.get(name)
    if (route === undefined) issues.add(at, unknownPart('route', name))
    else if (route !== null && route.workspace !== workspace) issues.add(at, foreignPart('route', name))
    return route ?? null
  }

  const route = routeNamed(fields.route, [...path, 'route'])
  const capabilityRoutes = new Map<Capability, Route>()
  for (const capability of CAPABILITIES) {
    const name = fields.capability_routes?.[capability]
    if (name === undefined) continue
    const override = routeNamed(name, [...path, 'capability_routes', capability])
    if (override !== null) capabilityRoutes.set(capability, override)
  }
  const bound = new Map<string, Route | null>()
  for (const [purpose, name] of Object.entries(fields.purposes ?? {})) {
    const at = [...path, 'purposes', purpose]
    if (!Object.hasOwn(declared, purpose)) issues.add(at, 'the workspace declares no such purpose')
    bound.set(purpose, routeNamed(name, at))
  }
  const purposes: Purpose[] = Object.entries(declared).map(
    ([purpose, { description = '', enabled = true, require }]) => ({
      purpose,
      description,
      enabled,
      ...demanded({ require }),
      route: bound.get(purpose) ?? null,
    }),
  )
  return route === null ? null : { app: { id }, route, capabilityRoutes, purposes }
}

function demanded({ require }: { readonly require?: RequireFields | undefined }) {
  return require === undefined ? {} : { require: requirementsOf(require) }
}

function resolveKey(key: KeyFields, context: WorkspaceContext, path: Path, issues: Issues): Principal['key'] {
  const { id, name = id, scopes = DEFAULT_SCOPES, expires_at } = key
  return {
    id,
    name,
    scopes,
    rateLimit: rateLimitOf(key.rate_limit, context.rateLimit),
    expiresAtMs:
      expires_at === undefined ? null : resolveInstant(expires_at, [...path, 'expires_at'], issues),
    budgetMicros: resolveBudget(key.budget_usd, path, issues),
  }
}

/** UTF-16 units. OpenAI takes 64. */
export const END_USER_LENGTH_MAX = 128
export const END_USER_ID_RULE =
  `must be 1 to ${END_USER_LENGTH_MAX} characters of valid UTF-8, ` +
  'without control characters or blanks around'
/** Stands for bytes that are not UTF-8, so that ids which differ there would be one. */
const REPLACEMENT = '\ufffd'

/** One rule for headers, bodies and the ids that the file has terms for. */
export function isEndUserId(text: string): boolean {
  if (text.length === 0 || text.length > END_USER_LENGTH_MAX) return false
  return text.trim() === text && text.isWellFormed() && !hasUnseen(text) && !text.includes(REPLACEMENT)
}

/** As `EndUserHash` makes them. */
export const END_USER_HASH = /^eu_[A-Za-z0-9_-]{32}$/

/** Null: the workspace says nothing of them. */
function resolveEndUsers(
  fields: EndUserFields | undefined,
  fallback: RateLimit,
  path: Path,
  issues: Issues,
): EndUserSettings | null {
  if (fields === undefined) return null
  const { hash: isHashed = false, overrides = {}, ...all } = fields
  const termsOf = (one: Omit<EndUserFields, 'hash' | 'overrides'>, otherwise: EndUserTerms, at: Path) => ({
    budgetMicros:
      one.budget_usd === undefined ? otherwise.budgetMicros : resolveBudget(one.budget_usd, at, issues),
    rateLimit:
      one.rate_limit === undefined
        ? otherwise.rateLimit
        : rateLimitOf(one.rate_limit, otherwise.rateLimit ?? fallback),
  })
  const terms = termsOf(all, { budgetMicros: null, rateLimit: null }, path)
  const ofSingle = Object.entries(overrides).map(([id, one]) => {
    const at = [...path, 'overrides', id]
    if (isHashed && !END_USER_HASH.test(id))
      issues.add(at, 'must be a keyed hash: "eu_" and 32 letters, digits, "_" or "-"')
    else if (!isEndUserId(id)) issues.add(at, `is no id that a call can send: it ${END_USER_ID_RULE}`)
    return [id, termsOf(one, terms, at)] as const
  })
  return { isHashed, terms, overrides: new Map(ofSingle) }
}
