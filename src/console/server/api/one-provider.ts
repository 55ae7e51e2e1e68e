import type { ConfiguredProvider } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { issuesFor } from '../../../gateway/admin/issues.ts'
import { catalogParts, type Part } from '../../../gateway/admin/parts.ts'
import type { ProviderDetailAnswer, ProviderUse } from '../answers/providers.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { credentialOf } from './providers.ts'
import { appsByRoute } from './routes.ts'
import type { Viewing } from './workspaces.ts'

/** Routes that an answer lists. */
const USES_MAX = 200

/**
 * One provider and what uses it: to a workspace its own and those of the platform, with its own routes alone; to
 * operators every provider, with the routes of all.
 */
export function oneProviderEndpoints(context: ConsoleContext): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', '/workspaces/:workspace/providers/:name', {}, ({ params, ...call }) =>
      oneProvider(call, params.name, params.workspace),
    ),
    consoleEndpoint(context, 'GET', '/providers/:name', { role: 'operator' }, ({ params, ...call }) =>
      oneProvider(call, params.name, null),
    ),
  ]
}

/** @param workspace null: every one */
function oneProvider(viewing: Viewing, name: string, workspace: string | null): ProviderDetailAnswer {
  const { context, viewer } = viewing
  const { catalog } = context
  const served = catalog.good().providers.find((provider) => provider.name === name)
  const everyOwner = served === undefined ? [null, ...catalog.current().apps.keys()] : [served.workspace]
  const owners = workspace === null ? everyOwner : [workspace, null]
  const found = firstOf(owners, (owner) => {
    const part = catalogParts(catalog, 'provider', owner).find((one) => one.name === name)
    return part === undefined ? null : { part, owner }
  })
  if (found === null) throw new GatewayError('NOT_FOUND', 'there is no such provider')
  const uses = usesOf(context, name, workspace)
  const isSeen = viewer.role === 'operator' || found.owner !== null
  return {
    ...nameplate(found.part, served),
    workspace: found.owner,
    credential: isSeen ? credentialOf(found.part) : null,
    managed_by: isSeen ? found.part.managedBy : null,
    ...(found.part.issues.length === 0 ? {} : { issues: issuesFor(viewer.role, found.part.issues) }),
    used_by: uses.slice(0, USES_MAX),
    used_by_total: uses.length,
  }
}

function nameplate({ name, fields }: Part, served: ConfiguredProvider | undefined) {
  const access: ProviderDetailAnswer['access'] = fields.access === 'platform' ? 'platform' : 'byok'
  return { name, kind: served?.kind ?? String(fields.kind), access }
}

/** Published routes with an entry of a provider, by workspace and name. @param workspace null: of every one */
function usesOf(context: ConsoleContext, provider: string, workspace: string | null): ProviderUse[] {
  const apps = new Map<string, ReadonlyMap<string, readonly string[]>>()
  const appsOf = (owner: string) => {
    const known = apps.get(owner) ?? appsByRoute(context, owner)
    apps.set(owner, known)
    return known
  }
  return context.catalog
    .good()
    .routes.filter((route) => route.published && (workspace === null || route.workspace === workspace))
    .flatMap((route) => {
      const own = route.entries.filter((entry) => entry.provider.name === provider)
      if (own.length === 0) return []
      return [
        {
          workspace: route.workspace,
          route: route.name,
          models: [...new Set(own.map(({ model }) => model))],
          others: route.entries.length - own.length,
          apps: appsOf(route.workspace).get(route.name) ?? [],
        },
      ]
    })
    .sort((one, other) => {
      const [a, b] = [one, other].map(({ workspace: owner, route }) => `${owner}\0${route}`) as [
        string,
        string,
      ]
      return a < b ? -1 : 1
    })
}

/** The first value that `find` returns for an item. */
function firstOf<Item, Found>(items: Iterable<Item>, find: (item: Item) => Found | null): Found | null {
  for (const item of items) {
    const found = find(item)
    if (found !== null) return found
  }
  return null
}
