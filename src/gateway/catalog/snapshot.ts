import { domainToASCII } from 'node:url'
import type { Static } from 'typebox'
import type { AppPrincipal, Principal, Route } from '../../contracts/catalog.ts'
import type { ServedCatalog } from '../../contracts/catalog-service.ts'
import { DEFAULT_LIMITS } from '../../contracts/limits.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import { hasShape } from '../../contracts/shape.ts'
import type { UsageRetention } from '../../contracts/usage-lake.ts'
import { isHostName } from '../outbound/remote-url.ts'
import { resolveAlerts } from './alerts.ts'
import { CatalogFile, CatalogHead, type MetricFields } from './file.ts'
import { checkShape, type Issue, Issues, issueLines, withoutUnknownKeys } from './issues.ts'
import type { WorkspaceDefinition } from './parts.ts'
import { arrayIn, at, isNamedList, plansIn, providersIn, routesIn, shaped, workspacesIn } from './parts.ts'
import { type ProviderContext, type ResolvedProvider, resolveProvider } from './provider.ts'
import { rateLimitOf } from './rate-limit.ts'
import { resolveRoute } from './route.ts'
import { NOTHING_SHARED, remembering, type Sharing } from './sharing.ts'
import { resolveSignIn, resolveTraceUrl } from './sign-in.ts'
import { resolveWorkspace } from './workspace.ts'

const DEFAULT_RATE_LIMIT: RateLimit = { requestsPerMinute: 600, burst: 100 }
const DEFAULT_DEADLINE_SECONDS = 120
const DEFAULT_VIDEO_DEADLINE_SECONDS = 300

/** A configuration that can be served, or all that is wrong with it. */
export type Reading = ServedCatalog | { readonly issues: readonly string[] }

/** The same, with the issues as they were found. */
type Built = ServedCatalog | { readonly found: readonly Issue[] }

/** Makes the snapshot out of a parsed file, as `buildShared` does. */
export function buildSnapshot(document: unknown, surroundings: ProviderContext): Reading {
  const built = buildShared(document, surroundings, NOTHING_SHARED)
  return 'found' in built ? { issues: issueLines(built.found) } : built
}

/**
 * Makes the snapshot out of a parsed file. All issues are found at once: a part that has not the right shape hides
 * neither what is wrong elsewhere nor that its name exists.
 *
 * @param sharing what the snapshot before may go on serving as it is
 */
export function buildShared(document: unknown, surroundings: ProviderContext, sharing: Sharing): Built {
  const issues = new Issues()
  const file = checkDocument(document, issues)
  const plans = plansIn(file)
  const workspaces = workspacesIn(file)

  const providers = new Map<string, ResolvedProvider | null>()
  const owners = new Set(workspaces.keys())
  for (const [name, fields] of providersIn(file)) {
    const made = fields && resolveProvider(name, fields, owners, surroundings, issues)
    providers.set(name, made && { ...made, configured: sharing.provider(made.configured) })
  }

  const routes = new Map<string, Route | null>()
  for (const [name, parts] of routesIn(file)) {
    const workspace = parts && workspaces.get(parts.fields.workspace)
    const context = { providers, plans, workspace, surroundings, sharing }
    routes.set(name, parts && resolveRoute(name, parts, context, issues))
  }

  const head = shaped(CatalogHead, headOf(file))
  const rateLimit = rateLimitOf(head?.rate_limit, DEFAULT_RATE_LIMIT)
  const limits = { ...DEFAULT_LIMITS, ...head?.limits }
  const principals = new Map<string, Principal>()
  const apps = new Map<string, ReadonlyMap<string, AppPrincipal>>()
  const context = {
    routes,
    providers,
    plans,
    rateLimit,
    limits,
    settings: JSON.stringify([limits, rateLimit]),
    principals,
    apps,
    keyIds: new Set<string>(),
    sharing,
  }
  for (const [id, parts] of workspaces) if (parts !== null) resolveWorkspace(id, parts, context, issues)

  const signIn = resolveSignIn(head?.console ?? null, surroundings, issues)
  const traceUrl = resolveTraceUrl(head?.console ?? null, issues)
  const audioUrlDomains = domainsOf(arrayIn(at(file, 'audio_url_domains')), issues)
  const named = { workspaces: owners, providers: new Set(providers.keys()), sources: surroundings }
  const alerts = head?.alerts === undefined ? null : resolveAlerts(head.alerts, named, issues)
  if (issues.found.length > 0) return { found: issues.found }
  return {
    snapshot: {
      limits,
      ...timesIn(head),
      keys: principals,
      apps,
      rateLimit,
      audioUrlDomains,
      ...(alerts === null ? {} : { alerts }),
      ...(traceUrl === null ? {} : { traceUrl }),
      ...tenantLabelsIn(head?.metrics),
      modelsIssuedAt: surroundings.models.issuedAt,
      usageRetention: retentionIn(head?.usage?.retention_days, workspaces),
    },
    signIn,
    routes: [...routes.values()].filter((route) => route !== null),
    providers: [...providers.values()].flatMap((provider) =>
      provider === null ? [] : [provider.configured],
    ),
  }
}

function timesIn(head: Static<typeof CatalogHead> | null) {
  const staleSeconds = head?.keys_stale_after_seconds
  return {
    deadlineMs: (head?.deadline_seconds ?? DEFAULT_DEADLINE_SECONDS) * 1000,
    videoDeadlineMs: (head?.video_deadline_seconds ?? DEFAULT_VIDEO_DEADLINE_SECONDS) * 1000,
    ...(staleSeconds === undefined ? {} : { keysStaleAfterMs: staleSeconds * 1000 }),
  }
}

/** Tenants that metrics tell apart unless the file says. */
const MAX_TENANTS = 100

function tenantLabelsIn({ tenant_labels: labels, max_tenants: most = MAX_TENANTS }: MetricFields = {}) {
  return labels === undefined ? {} : { tenantLabels: { labels, most } }
}

/** Days that records of usage are kept unless the file says: a year, and the month in which it is looked through. */
const USAGE_DAYS = 400

function retentionIn(
  days = USAGE_DAYS,
  workspaces: ReadonlyMap<string, WorkspaceDefinition | null>,
): UsageRetention {
  const ofOwn = [...workspaces].flatMap(([id, parts]) => {
    const own = parts?.fields.usage?.retention_days
    return own === undefined ? [] : [[id, own] as const]
  })
  return { days, byWorkspace: new Map(ofOwn) }
}

/** Fields outside the named lists. */
function headOf(file: unknown): unknown {
  const members = Object.keys(CatalogHead.properties).map((name) => [name, at(file, name)] as const)
  return Object.fromEntries(members.filter(([, value]) => value !== undefined))
}

function domainsOf(texts: readonly unknown[], issues: Issues): string[] {
  const domains = new Set<string>()
  for (const [index, text] of texts.entries()) {
    if (typeof text !== 'string') continue
    const domain = audioDomain(text)
    if (domain === null)
      issues.add(['audio_url_domains', index], 'must be a host name, or "*." and a host name')
    else domains.add(domain)
  }
  return [...domains]
}

type Document = Readonly<Record<string, unknown>>

const { plans, providers, routes, workspaces } = CatalogFile.properties
/**
 * The named lists of a document. Nothing is said of one of them as a whole, so that its parts can be checked alone, and
 * once: most stay through a change of the catalog.
 */
const LISTS = Object.entries({ plans, providers, routes, workspaces }).map(([key, shape]) => {
  const remembered = remembering<boolean>()
  const isShaped = (name: string, part: unknown) =>
    remembered(part, () => hasShape(shape, { [name]: part }, isLarge(part)), [name])
  return [key, isShaped] as const
})

/** More keys or apps make a workspace a large one: its check takes 0.3 to 2 s where the shape is not compiled. */
const [MANY_KEYS, MANY_APPS] = [1_000, 50]

function isLarge(part: unknown): boolean {
  const apps = Object.keys(Object(at(part, 'apps')))
  return arrayIn(at(part, 'keys')).length > MANY_KEYS || apps.length > MANY_APPS
}

/**
 * Adds every way in which a document has not the shape of a file. To find them all takes fifty times as long as to find
 * that there are none, on the thread that serves: it is done for the parts that have some, not for all of a catalog.
 *
 * @returns the document without the keys that are unknown, so that the rest can be looked at further
 */
export function checkDocument(document: unknown, issues: Issues): unknown {
  const misshapen = misshapenIn(document)
  if (hasShape(CatalogFile, misshapen)) return document
  checkShape(CatalogFile, misshapen, [], issues)
  const cleaned = withoutUnknownKeys(CatalogFile, misshapen)
  if (!isNamedList(document) || !isNamedList(misshapen) || !isNamedList(cleaned)) return cleaned
  const lists = LISTS.flatMap(([key]) => {
    const list = document[key]
    return isNamedList(list) ? [[key, withCleaned(list, at(misshapen, key), at(cleaned, key))]] : []
  })
  return { ...cleaned, ...Object.fromEntries(lists) }
}

/** The document with nothing in its lists but the parts that have not the right shape. */
function misshapenIn(document: unknown): unknown {
  if (!isNamedList(document)) return document
  const lists = LISTS.flatMap(([key, isShaped]) => {
    const list = document[key]
    if (!isNamedList(list)) return []
    const parts = Object.entries(list).filter(([name, part]) => !isShaped(name, part))
    return [[key, Object.fromEntries(parts)]]
  })
  return { ...document, ...Object.fromEntries(lists) }
}

/** A list with its misshapen parts as they were cleaned; one that has no name to go by is gone. */
function withCleaned(list: Document, misshapen: unknown, cleaned: unknown): Document {
  const parts = Object.keys(list).flatMap((name) => {
    const from = at(misshapen, name) === undefined ? list : cleaned
    const part = at(from, name)
    return part === undefined ? [] : [[name, part]]
  })
  return Object.fromEntries(parts)
}

/** Characters that the URL parser behind `domainToASCII` would cut off, decode or skip instead of refusing. */
const NO_HOST = /[/\\?#:@%[\]\s]/

/**
 * A host that audio may be fetched from, as lists keep it: lower case, IDNA-encoded, perhaps with `*.` before it for
 * its subdomains.
 *
 * @returns null for anything else: a scheme, port, path, IP address, or a name without a dot
 */
export function audioDomain(text: string): string | null {
  if (NO_HOST.test(text)) return null
  const wildcard = text.startsWith('*.') ? '*.' : ''
  const host = domainToASCII(text.slice(wildcard.length))
  return isHostName(host) ? wildcard + host : null
}
