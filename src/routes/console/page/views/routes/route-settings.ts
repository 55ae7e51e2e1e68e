import type { Strategy } from '../../../../../schema/catalog.ts'
import { html } from '../../html.ts'
import { Checkbox } from '../../parts/choice.ts'
import { Select } from '../../parts/field.ts'
import { Note } from '../../parts/states.ts'
import type { Edit, Editing } from './editing.ts'
import type { RouteFaults } from './route-faults.ts'
import { members, STRATEGY_WORDS } from './words.ts'

/** What is of the route as a whole. */
export function RouteSettings(props: {
  readonly editing: Editing
  readonly edit: (edit: Edit) => void
  readonly faults: RouteFaults
  readonly readOnly: boolean
}) {
  const { editing, edit, faults, readOnly } = props
  const { strategy, published } = editing
  return html`<div class="stack stack-tight">
    ${
      faults.others.length > 0
        ? html`<${Note} tone="bad">
            <ul class=${faults.others.length > 1 ? 'faults' : ''}>
              ${faults.others.map((line) => html`<li key=${line}>${line}</li>`)}
            </ul>
          <//>`
        : null
    }
    <div class="routes-settings">
      <${Select}
        label="Strategy"
        value=${strategy}
        onChange=${(value: Strategy) => edit({ do: 'strategy', strategy: value })}
        options=${members(STRATEGY_WORDS).map((value) => ({ value, label: STRATEGY_WORDS[value].name }))}
        hint=${STRATEGY_WORDS[strategy]?.means}
        error=${faults.fields.get('strategy')?.join(' ') ?? null}
        disabled=${readOnly}
      />
      <${Checkbox}
        label="Enabled"
        checked=${published}
        onChange=${(on: boolean) => edit({ do: 'published', published: on })}
        hint=${published ? 'Apps can use this route.' : 'Requests from its apps fail.'}
        disabled=${readOnly}
      />
    </div>
  </div>`
}
