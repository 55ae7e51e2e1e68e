import type { ConfiguredProvider } from '../../../contracts/catalog.ts'
import { catalogParts, partOf } from '../../../gateway/admin/parts.ts'
import { priceOn } from '../../../gateway/call/facts/price.ts'
import { resolveFacts } from '../../../gateway/catalog/facts.ts'
import type { ProviderFields, WorkspaceFields } from '../../../gateway/catalog/file.ts'
import { Issues } from '../../../gateway/catalog/issues.ts'
import type { ModelAnswer, ModelsAnswer } from '../answers/providers.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'

const PATH = '/workspaces/:workspace/models'

/** Providers that a workspace can build routes of, its own and the platform's, with their known models. */
export function modelsEndpoint(context: ConsoleContext): ConsoleRoute {
  return consoleEndpoint(context, 'GET', PATH, {}, listModelsOf)
}

function listModelsOf({ context, viewer, params }: ConsoleCall<typeof PATH, unknown, unknown>): ModelsAnswer {
  const usable = context.catalog
    .good()
    .providers.filter(({ access, workspace }) => access === 'platform' || workspace === params.workspace)
  const parts = [null, params.workspace].flatMap((owner) => catalogParts(context.catalog, 'provider', owner))
  const fieldsOf = new Map(parts.map(({ name, fields }) => [name, fields as unknown as ProviderFields]))
  const own = partOf(context.catalog, {
    kind: 'workspace',
    workspace: params.workspace,
    name: params.workspace,
  })
  const { prices } = (own?.fields ?? {}) as Pick<WorkspaceFields, 'prices'>
  return {
    providers: usable.map((provider) => ({
      name: provider.name,
      kind: provider.kind,
      access: provider.access,
      models: modelAnswers(context, provider, fieldsOf.get(provider.name), prices),
      // A model of the platform needs a price that is known, and only operators may state one.
      open: provider.access === 'byok' || viewer.role === 'operator',
    })),
  }
}

/** Models of the built-in table that are still offered, with the facts declared for all models of the provider. */
function modelAnswers(
  context: ConsoleContext,
  configured: ConfiguredProvider,
  fields: ProviderFields | undefined,
  prices: WorkspaceFields['prices'],
): ModelAnswer[] {
  const protocol = context.deps.services.providers.get(configured.kind)
  if (protocol === undefined || fields === undefined) return []
  const today = new Date(context.clock.wallNow()).toISOString().slice(0, 10)
  const table = context.catalog.models()
  return table
    .all()
    .filter(({ kind, endsOn }) => kind === configured.kind && (endsOn ?? today) >= today)
    .flatMap(({ model, note }) => {
      const entry = { provider: configured.name, model }
      const provider = { configured, protocol, fields }
      const known = { table: table.factsOf(configured.kind, model), prices }
      const facts = resolveFacts(provider, entry, known, [], new Issues())
      if (facts === null) return []
      const { capabilities, features, hints, price, translates } = facts
      const priceToday = price === null ? null : priceOn(price, context.clock.wallNow())
      return [
        {
          model,
          capabilities,
          features,
          hints,
          price: priceToday,
          translates,
          ...(note === null ? {} : { note }),
        },
      ]
    })
}
