import { useState } from 'preact/hooks'
import type { ModelAnswer, ModelsAnswer, RouteAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { Select } from '../../parts/field.ts'
import { Fault } from '../../parts/states.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { CAPABILITY_NAMES } from '../routes/words.ts'
import type { Standing } from './view.ts'

const NAME = 'main'

/** Publishes a route of one model, and creates the app that uses it. */
export function RouteStep(props: {
  readonly workspace: string
  readonly standing: Standing
  readonly onDone: () => void
}) {
  const { workspace, standing, onDone } = props
  const { setup, models } = standing
  const offered = offeredOf(models, setup.providers)
  const [chosen, setChosen] = useState<string | null>(null)
  const value = chosen ?? offered.find(({ model }) => model.capabilities.includes('audio_input'))?.name
  const picked = offered.find(({ name }) => name === value) ?? offered[0]
  const { run, busy, error } = useAction(async () => {
    const route = setup.route?.name ?? `${workspace}.${NAME}`
    const place = apiPath`/workspaces/${workspace}`
    if (setup.route === null && picked !== undefined) {
      const { provider, model } = picked
      const fields = { workspace, entries: [{ provider, model: model.model }] }
      const path = place + apiPath`/routes/${route}`
      const { draft } = await api.put<RouteAnswer>(`${path}/draft`, { fields, revision: null })
      await api.post(`${path}/publish`, { revision: draft?.revision })
    }
    await api.put(place + apiPath`/apps/${NAME}`, { route })
    onDone()
  })
  if (setup.route === null && picked === undefined)
    return html`<p>
        The models of ${setup.providers.join(', ')} aren’t in the built-in table, so their capabilities must be set in
        the route builder.
      </p>
      <div><${LinkButton} kind="primary" href=${pathOf(workspace, 'routes')}>Create a route<//></div>`
  return html`<div class="stack">
    ${
      setup.route === null
        ? html`<${Select}
            label="Model"
            value=${picked?.name ?? ''}
            onChange=${setChosen}
            options=${offered.map(({ name, model }) => ({ value: name, label: `${name} (${abilities(model)})` }))}
            hint=${html`Publishes the route <code>${workspace}.${NAME}</code> with this model, and creates the app${' '}
              <code>${NAME}</code> that uses it. Add fallback models later.`}
          />`
        : html`<p>Creates the app <code>${NAME}</code>, which uses the route <code>${setup.route.name}</code>.</p>`
    }
    <${Fault} error=${error} what="Not published" />
    <div>
      <${Button} kind="primary" onClick=${() => run()} busy=${busy}>
        ${setup.route === null ? 'Publish route' : 'Create app'}
      <//>
    </div>
  </div>`
}

interface Offered {
  readonly name: string
  readonly provider: string
  readonly model: ModelAnswer
}

/** In the order of the providers: those of the workspace come first. */
function offeredOf({ providers }: ModelsAnswer, order: readonly string[]): readonly Offered[] {
  return providers
    .toSorted((one, other) => order.indexOf(one.name) - order.indexOf(other.name))
    .flatMap(({ name: provider, models }) =>
      models.map((model) => ({ name: `${provider}/${model.model}`, provider, model })),
    )
}

const NAMED_MAX = 3

function abilities({ capabilities }: ModelAnswer): string {
  const names = capabilities.map((one) => CAPABILITY_NAMES[one])
  const rest = names.length - NAMED_MAX
  return `${names.slice(0, NAMED_MAX).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`
}
