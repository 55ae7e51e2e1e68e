import { storedKeys } from '../../../gateway/admin/keys.ts'
import { catalogParts } from '../../../gateway/admin/parts.ts'
import { isValid } from '../../../gateway/catalog/key.ts'
import type { SetupAnswer } from '../answers/workspaces.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import { fileKeys } from './keys.ts'

const PATH = '/workspaces/:workspace/setup'
/** Reads such as `GET /v1/me` are no calls: as many are looked past. */
const LOOKED_AT = 20

/** How far a workspace has come on its way to the first request. */
export function setupEndpoint(context: ConsoleContext): ConsoleRoute {
  return consoleEndpoint(context, 'GET', PATH, {}, showSetup)
}

async function showSetup(call: ConsoleCall<typeof PATH, unknown, unknown>): Promise<SetupAnswer> {
  const { context, params } = call
  const { workspace } = params
  const { providers, routes } = context.catalog.good()
  const usable = providers.filter((one) => one.access === 'platform' || one.workspace === workspace)
  const own = routes.filter((route) => route.workspace === workspace)
  const apps = catalogParts(context.catalog, 'app', workspace).filter(({ issues }) => issues.length === 0)
  const app = apps.find(({ fields }) => own.some(({ name }) => name === fields.route)) ?? null
  const route = own.find(({ name }) => name === app?.fields.route) ?? own[0] ?? null
  const { keys: keyStore } = context.deps.services.state
  const stored = (await storedKeys(keyStore, workspace)).filter((key) => key.kind !== 'playground')
  const nowMs = context.clock.wallNow()
  const keys = [
    ...fileKeys(context.deps.services.snapshot(), workspace),
    ...stored.filter((key) => isValid(key, nowMs)),
  ]
  const entry = route?.entries[0]
  return {
    providers: usable.toSorted((one, other) => rank(one) - rank(other)).map(({ name }) => name),
    route: route && {
      name: route.name,
      entry: entry === undefined ? null : `${entry.provider.name}/${entry.model}`,
      kind: entry?.provider.kind ?? null,
      capabilities: [...new Set(route.entries.flatMap(({ facts }) => [...facts.capabilities]))],
    },
    app: app?.name ?? null,
    keys: keys.length,
    called: await wasCalled(context, workspace, [...keys, ...stored]),
  }
}

function rank({ access }: { readonly access: 'byok' | 'platform' }): number {
  return access === 'byok' ? 0 : 1
}

/** Also long ago, when no request of that time is kept any more: then one of the keys says when it was used. */
async function wasCalled(
  { state }: ConsoleContext,
  workspace: string,
  keys: readonly { readonly id: string }[],
): Promise<boolean> {
  const filter = { outcome: null, path: null, app: null, keyId: null, jobId: null, requestId: null }
  const [kept, uses] = await Promise.all([
    state.requests.list({ workspace, ...filter, beforeMs: null, afterMs: null, limit: LOOKED_AT }),
    state.keyUses.read(keys.map(({ id }) => id)),
  ])
  return kept.some(({ method }) => method !== 'GET') || Object.keys(uses).length > 0
}
