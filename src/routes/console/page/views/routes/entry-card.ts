import type { EntryFields } from '../../../../../catalog/file.ts'
import type { Strategy } from '../../../../../schema/catalog.ts'
import type { HealthAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { lazy } from '../../lazy.ts'
import { Badge } from '../../parts/badge.ts'
import { Button } from '../../parts/button.ts'
import { fitnessOfEntries, Health } from '../../parts/health.ts'
import { Icon } from '../../parts/icon.ts'
import type { Edit, EditedEntry } from './editing.ts'
import { factsOfEntry } from './model-list.ts'
import { priceInWords, surchargesInWords } from './price-words.ts'
import { faultCount, faultsOfEntry, type RouteFaults } from './route-faults.ts'
import type { Surroundings } from './route-page.ts'
import type { Verdict } from './verdicts.ts'
import { CAPABILITY_NAMES, FEATURE_WORDS, PROFILE_WORDS, wordFor } from './words.ts'

const EntryForm = lazy({
  title: 'The settings',
  load: async () => (await import('./entry-form.ts')).EntryForm,
})

export interface EntryCardProps {
  readonly entry: EditedEntry
  readonly index: number
  readonly count: number
  readonly strategy: Strategy
  /** What would become of it with the sample request; null: it is not known yet. */
  readonly verdict: Verdict | null
  readonly faults: RouteFaults
  readonly surroundings: Surroundings
  /** Name of the route. */
  readonly route: string
  /** Null: not known yet. */
  readonly health: HealthAnswer | null
  readonly readOnly: boolean
  readonly open: boolean
  readonly onToggle: () => void
  readonly onRemove: () => void
  readonly onChangeModel: () => void
  readonly edit: (edit: Edit) => void
  readonly gripRef: (element: HTMLElement | null) => void
  readonly onGripDown: (event: PointerEvent) => void
  readonly onGripKey: (event: KeyboardEvent) => void
}

/** One entry: what it is, what it can do and costs, what would become of it, and (opened) its settings. */
export function EntryCard(props: EntryCardProps) {
  const { entry, index, faults, surroundings, readOnly, open, verdict, onRemove } = props
  const { fields } = entry
  const name = `${fields.provider}/${fields.model}`
  const id = `entry-${entry.key}`
  const wrong = faultCount(faults, index) + Object.keys(entry.unread).length
  const own = [...faultsOfEntry(faults, index, ''), ...faultsOfEntry(faults, index, 'model')]
  const provider = faultsOfEntry(faults, index, 'provider')
  return html`<article
    class=${`routes-card routes-card-${verdict?.tone ?? 'unknown'}`}
    aria-label=${`Entry ${index + 1}: ${name}`}
  >
    <div class="routes-card-head">
      ${readOnly ? html`<span class="routes-place">${index + 1}</span>` : html`<${Grip} ...${props} name=${name} />`}
      <div class="routes-card-name">
        <h3><span class="mono">${fields.model}</span></h3>
        <${Origin} fields=${fields} surroundings=${surroundings} />
      </div>
      <div class="routes-card-actions">
        ${wrong > 0 ? html`<${Badge} tone="bad">${wrong === 1 ? '1 error' : `${wrong} errors`}<//>` : null}
        <${Button}
          kind="quiet"
          small
          icon=${open ? 'up' : 'down'}
          expanded=${open}
          controls=${id}
          onClick=${props.onToggle}
        >
          Settings
        <//>
        ${
          readOnly
            ? null
            : html`<${Button}
                kind="quiet"
                small
                icon="trash"
                label=${`Remove entry ${index + 1}, ${name}`}
                onClick=${onRemove}
              />`
        }
      </div>
    </div>
    ${verdict === null && wrong > 0 ? null : html`<${VerdictLine} verdict=${verdict} />`}
    ${[...provider, ...own].map((line) => html`<p class="field-error" role="alert" key=${line}>${line}</p>`)}
    <div class="routes-health">
      <${Health} of=${props.health && fitnessOfEntries(props.health, props.route, [name])} />
    </div>
    <${Knowledge} fields=${fields} surroundings=${surroundings} />
    <div id=${id} hidden=${!open}>${open ? html`<${EntryForm} ...${props} />` : null}</div>
  </article>`
}

/** By which the entry is dragged, and moved by keys. */
function Grip(props: EntryCardProps & { readonly name: string }) {
  const { name, index, count, gripRef, onGripDown, onGripKey } = props
  return html`<button
    type="button"
    class="routes-grip"
    ref=${gripRef}
    onPointerDown=${onGripDown}
    onKeyDown=${onGripKey}
    aria-label=${`Move ${name}, ${index + 1} of ${count}: arrow keys, Home and End`}
    title="Drag, or press the arrow keys"
  >
    <${Icon} name="drag" /><span class="routes-place">${index + 1}</span>
  </button>`
}

function VerdictLine({ verdict }: { readonly verdict: Verdict | null }) {
  if (verdict === null) return html`<p class="routes-verdict quiet">…</p>`
  const { tone, words } = verdict
  const icon = tone === 'out' ? 'alert' : tone === 'first' ? 'check' : null
  return html`<p class=${`routes-verdict routes-verdict-${tone}`} data-verdict=${tone}>
    ${icon === null ? null : html`<${Icon} name=${icon} />`}<span>${words}</span>
  </p>`
}

function Origin({
  fields,
  surroundings,
}: {
  readonly fields: EntryFields
  readonly surroundings: Surroundings
}) {
  const { provider } = factsOfEntry(surroundings.models, fields)
  const access = provider === null ? 'unknown provider' : provider.access
  const kind = provider === null || provider.kind === fields.provider ? '' : ` · ${provider.kind}`
  const word = access === 'byok' ? 'own' : access === 'platform' ? 'shared' : access
  return html`<p class="small quiet">${fields.provider}${kind} · ${word}</p>`
}

/** What its model can do and costs, and which settings it has. */
function Knowledge({
  fields,
  surroundings,
}: {
  readonly fields: EntryFields
  readonly surroundings: Surroundings
}) {
  const { capabilities, features, price, translates } = factsOfEntry(surroundings.models, fields)
  const does = [
    ...capabilities.map((name) => wordFor(CAPABILITY_NAMES, name)),
    ...(translates ? ['Translation'] : []),
  ]
  const keeps = features.map((name) => wordFor(FEATURE_WORDS, name).toLowerCase())
  const more = surchargesInWords(price)
  const settings = settingsInWords(fields)
  return html`<div class="routes-known small">
    <p>
      ${does.length === 0 ? html`<span class="quiet">Unknown model</span>` : does.join(' · ')}
      ${keeps.length === 0 ? null : html`<span class="quiet"> · ${keeps.join(', ')}</span>`}
    </p>
    <p>${priceInWords(price)}${more === '' ? null : html`<span class="quiet"> · ${more}</span>`}</p>
    ${
      settings.length === 0
        ? null
        : html`<p class="row">${settings.map((words) => html`<${Badge} key=${words}>${words}<//>`)}</p>`
    }
  </div>`
}

function settingsInWords(fields: EntryFields): readonly string[] {
  const { weight, profile, purposes = [], plans = [], pinned, voices, retry_empty, options } = fields
  const voiceCount = Object.keys(voices ?? {}).length
  return [
    ...(pinned === true ? ['pinned'] : []),
    ...(profile === undefined ? [] : [wordFor(PROFILE_WORDS, profile).toLowerCase()]),
    ...(weight === undefined || weight === 1 ? [] : [`weight ${weight}`]),
    ...purposes.map((purpose) => `for ${purpose}`),
    ...(plans.length === 0 ? [] : [`plans ${plans.join(', ')}`]),
    ...(retry_empty === true ? ['retries when empty'] : []),
    ...(voiceCount === 0 ? [] : [voiceCount === 1 ? '1 voice' : `${voiceCount} voices`]),
    ...(Object.keys(options ?? {}).length === 0 ? [] : ['options']),
  ]
}
