import { DEFAULT_LIMITS } from '../limits.ts'
import type { AppPrincipal, ConfiguredProvider, Principal, Route, Snapshot } from '../schema/catalog.ts'
import type { RateLimit } from '../schema/state.ts'
import { audioDomain } from './domain.ts'
import { checkShape, Faults, withoutUnknownKeys } from './faults.ts'
import { CatalogFile, CatalogHead } from './file.ts'
import { arrayIn, at, plansIn, providersIn, routesIn, shaped, workspacesIn } from './parts.ts'
import { type ResolvedProvider, resolveProvider, type Surroundings } from './provider.ts'
import { resolveRoute } from './route.ts'
import { rateLimitOf, resolveWorkspace } from './workspace.ts'

const DEFAULT_RATE_LIMIT: RateLimit = { requestsPerMinute: 600, burst: 100 }
const DEFAULT_DEADLINE_SECONDS = 120
const DEFAULT_VIDEO_DEADLINE_SECONDS = 300

/** A configuration that can be served, or all that is wrong with it. */
export type Reading = Good | { readonly faults: readonly string[] }

export interface Good {
  readonly snapshot: Snapshot
  /** Every route of the file, also those that no key leads to. */
  readonly routes: readonly Route[]
  /** Every provider of the file, with its credential. */
  readonly providers: readonly ConfiguredProvider[]
}

/**
 * Makes the snapshot out of a parsed file. All faults are found at once: a part that has not the right shape hides
 * neither what is wrong elsewhere nor that its name exists.
 */
export function buildSnapshot(document: unknown, surroundings: Surroundings): Reading {
  const faults = new Faults()
  checkShape(CatalogFile, document, [], faults)
  const file = withoutUnknownKeys(CatalogFile, document)
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
  for (const [name, parts] of routesIn(file))
    routes.set(name, parts && resolveRoute(name, parts, { providers, plans, purposes, surroundings }, faults))

  const head = shaped(CatalogHead, withoutUnknownKeys(CatalogHead, file))
  const rateLimit = rateLimitOf(head?.rate_limit, DEFAULT_RATE_LIMIT)
  const principals = new Map<string, Principal>()
  const apps = new Map<string, ReadonlyMap<string, AppPrincipal>>()
  const context = { routes, plans, rateLimit, principals, apps, keyIds: new Set<string>() }
  for (const [id, parts] of workspaces) if (parts !== null) resolveWorkspace(id, parts, context, faults)

  const audioUrlDomains = domainsOf(arrayIn(at(file, 'audio_url_domains')), faults)
  if (faults.lines.length > 0) return { faults: faults.lines }
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
