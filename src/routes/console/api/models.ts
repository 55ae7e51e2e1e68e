import { resolveFacts } from '../../../catalog/facts.ts'
import { Faults } from '../../../catalog/faults.ts'
import type { ProviderFields } from '../../../catalog/file.ts'
import { priceOn } from '../../../gateway/price.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { DATED, factsOf } from '../../../providers/facts.ts'
import type { ConfiguredProvider } from '../../../schema/catalog.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { ModelAnswer, ModelsAnswer } from './answers.ts'
import { partsOf } from './parts.ts'

const PATH = '/workspaces/:workspace/models'

/** What routes of a workspace can be built of: its own providers and the platform's, with the models that are known. */
export function modelsEndpoint(desk: ConsoleDesk): EdgeRoute {
  return consoleEndpoint(desk, 'GET', PATH, {}, listModelsOf)
}

function listModelsOf({ desk, viewer, params }: ConsoleCall<typeof PATH, unknown, unknown>): ModelsAnswer {
  const usable = desk.catalog
    .good()
    .providers.filter(({ access, workspace }) => access === 'platform' || workspace === params.workspace)
  const parts = [null, params.workspace].flatMap((owner) => partsOf(desk, 'provider', owner))
  const fieldsOf = new Map(parts.map(({ name, fields }) => [name, fields as unknown as ProviderFields]))
  return {
    providers: usable.map((provider) => ({
      name: provider.name,
      kind: provider.kind,
      access: provider.access,
      models: modelsOf(desk, provider, fieldsOf.get(provider.name)),
      // A model of the platform needs a price that is known, and only operators may state one.
      open: provider.access === 'byok' || viewer.role === 'operator',
    })),
  }
}

/** Those of the built-in table that are still offered, with what is declared of all models of the provider. */
function modelsOf(
  desk: ConsoleDesk,
  configured: ConfiguredProvider,
  fields: ProviderFields | undefined,
): ModelAnswer[] {
  const protocol = desk.doors.services.providers.get(configured.kind)
  if (protocol === undefined || fields === undefined) return []
  const today = new Date(desk.nowMs()).toISOString().slice(0, 10)
  return DATED.filter(({ kind, endsOn }) => kind === configured.kind && (endsOn ?? today) >= today).flatMap(
    ({ model, note }) => {
      const entry = { provider: configured.name, model }
      const provider = { configured, protocol, fields }
      const facts = resolveFacts(provider, entry, factsOf(configured.kind, model), [], new Faults())
      if (facts === null) return []
      const { capabilities, features, hints, price, translates } = facts
      const priceToday = price === null ? null : priceOn(price, desk.nowMs())
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
    },
  )
}
