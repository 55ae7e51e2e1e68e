import { DEFAULT_LIMITS } from '../limits.ts'
import type { AppPrincipal, Principal, Route } from '../schema/catalog.ts'
import type { ServedCatalog } from '../schema/catalog-desk.ts'
import type { RateLimit } from '../schema/state.ts'
import { checkDocument } from './check-document.ts'
import { audioDomain } from './domain.ts'
import { type Fault, Faults, linesOf } from './faults.ts'
import { CatalogHead } from './file.ts'
import { arrayIn, at, plansIn, providersIn, routesIn, shaped, workspacesIn } from './parts.ts'
import { type ResolvedProvider, resolveProvider, type Surroundings } from './provider.ts'
import { resolveRoute } from './route.ts'
import { NOTHING_SHARED, type Sharing } from './sharing.ts'
import { rateLimitOf, resolveWorkspace } from './workspace.ts'

const DEFAULT_RATE_LIMIT: RateLimit = { requestsPerMinute: 600, burst: 100 }
const DEFAULT_DEADLINE_SECONDS = 120
const DEFAULT_VIDEO_DEADLINE_SECONDS = 300

/** A configuration that can be served, or all that is wrong with it. */
export type Reading = ServedCatalog | { readonly faults: readonly string[] }

/** The same, with the faults as they were found. */
export type Built = ServedCatalog | { readonly found: readonly Fault[] }

/** Makes the snapshot out of a parsed file, as `buildShared` does. */
export function buildSnapshot(document: unknown, surroundings: Surroundings): Reading {
  const built = buildShared(document, surroundings, NOTHING_SHARED)
  return 'found' in built ? { faults: linesOf(built.found) } : built
}

/**
 * Makes the snapshot out of a parsed file. All faults are found at once: a part that has not the right shape hides
 * neither what is wrong elsewhere nor that its name exists.
 *
 * @param sharing what the snapshot before may go on serving as it is
 */
export function buildShared(document: unknown, surroundings: Surroundings, sharing: Sharing): Built {
  const faults = new Faults()
  const file = checkDocument(document, faults)
  const plans = plansIn(file)
  const workspaces = workspacesIn(file)

  const providers = new Map<string, ResolvedProvider | null>()
  const owners = new Set(workspaces.keys())
  for (const [name, fields] of providersIn(file))
    providers.set(name, fields && resolveProvider(name, fields, owners, surroundings, faults))

  const routes = new Map<string, Route | null>()
  const purposes = new Map(
    [...workspaces].map(([id, parts]) => [id, parts && new Set(Object.keys(parts.fields.purposes ?? {}))]),
  )
  for (const [name, parts] of routesIn(file)) {
    const made = parts && resolveRoute(name, parts, { providers, plans, purposes, surroundings }, faults)
    routes.set(name, made && sharing.route(made))
  }

  const head = shaped(CatalogHead, headOf(file))
  const rateLimit = rateLimitOf(head?.rate_limit, DEFAULT_RATE_LIMIT)
  const principals = new Map<string, Principal>()
  const apps = new Map<string, ReadonlyMap<string, AppPrincipal>>()
  const context = { routes, plans, rateLimit, principals, apps, keyIds: new Set<string>(), sharing }
  for (const [id, parts] of workspaces) if (parts !== null) resolveWorkspace(id, parts, context, faults)

  const audioUrlDomains = domainsOf(arrayIn(at(file, 'audio_url_domains')), faults)
  if (faults.found.length > 0) return { found: faults.found }
  const limits = { ...DEFAULT_LIMITS, ...head?.limits }
  const deadlineMs = (head?.deadline_seconds ?? DEFAULT_DEADLINE_SECONDS) * 1000
  const videoDeadlineMs = (head?.video_deadline_seconds ?? DEFAULT_VIDEO_DEADLINE_SECONDS) * 1000
  return {
    snapshot: { limits, deadlineMs, videoDeadlineMs, keys: principals, apps, rateLimit, audioUrlDomains },
    routes: [...routes.values()].filter((route) => route !== null),
    providers: [...providers.values()].flatMap((provider) =>
      provider === null ? [] : [provider.configured],
    ),
  }
}

/** What stands outside the named lists. */
function headOf(file: unknown): unknown {
  const members = Object.keys(CatalogHead.properties).map((name) => [name, at(file, name)] as const)
  return Object.fromEntries(members.filter(([, value]) => value !== undefined))
}

function domainsOf(texts: readonly unknown[], faults: Faults): string[] {
  const domains = new Set<string>()
  for (const [index, text] of texts.entries()) {
    if (typeof text !== 'string') continue
    const domain = audioDomain(text)
    if (domain === null)
      faults.add(['audio_url_domains', index], 'must be a host name, or "*." and a host name')
    else domains.add(domain)
  }
  return [...domains]
}
