import type { AudioFormat } from '../../../../../schema/audio.ts'
import type { Feature, Hint } from '../../../../../schema/calls.ts'
import type { Profile } from '../../../../../schema/catalog.ts'
import type { OperationName } from '../../../../../schema/operations.ts'
import type { RouteAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { Checkbox, Checkboxes } from '../../parts/choice.ts'
import { Select, TextInput } from '../../parts/field.ts'
import { FIELDS_OF, type ReadSample, type SampleForm, usualBytes } from './sample-form.ts'
import { ENDPOINT_WORDS, FEATURE_WORDS, FORMAT_WORDS, HINT_WORDS, members, PROFILE_WORDS } from './words.ts'

interface SampleFieldsProps {
  readonly form: SampleForm
  readonly onChange: (form: SampleForm) => void
  readonly faults: NonNullable<ReadSample['faults']>
  readonly route: RouteAnswer
  readonly workspace: WorkspaceAnswer
}

/** What the sample request asks for; only what its endpoint looks at is shown. */
export function SampleFields(props: SampleFieldsProps) {
  const { form, onChange, route, workspace } = props
  const set = (change: Partial<SampleForm>) => onChange({ ...form, ...change })
  const apps = workspace.apps.map(({ id }) => ({
    value: id,
    label: route.apps.includes(id) ? id : `${id} (uses another route)`,
  }))
  const isHeard = FIELDS_OF[form.endpoint].includes('features')
  return html`<div class="stack">
    <${Select}
      label="Endpoint"
      value=${form.endpoint}
      onChange=${(endpoint: OperationName) => set({ endpoint })}
      options=${members(ENDPOINT_WORDS).map((value) => ({ value, label: ENDPOINT_WORDS[value] }))}
    />
    ${isHeard ? html`<${Heard} ...${props} set=${set} />` : html`<${Told} ...${props} set=${set} />`}
    <details class="more">
      <summary>Caller</summary>
      <div class="stack">
        <${Select}
          label="App"
          value=${form.app}
          onChange=${(app: string) => set({ app })}
          options=${[{ value: '', label: 'One that uses this route' }, ...apps]}
        />
        <${Select}
          label="Purpose"
          value=${form.purpose}
          onChange=${(purpose: string) => set({ purpose })}
          options=${[
            { value: '', label: 'None' },
            ...workspace.purposes.map(({ purpose, enabled }) => ({
              value: purpose,
              label: enabled ? purpose : `${purpose} (disabled)`,
            })),
          ]}
        />
        <${Select}
          label="Profile"
          value=${form.profile}
          onChange=${(profile: Profile | '') => set({ profile })}
          options=${[
            { value: '', label: 'None' },
            ...members(PROFILE_WORDS).map((value) => ({ value, label: PROFILE_WORDS[value] })),
          ]}
        />
      </div>
    </details>
  </div>`
}

interface PartProps extends SampleFieldsProps {
  readonly set: (change: Partial<SampleForm>) => void
}

/** `language` is a field of its own. */
const HINT_CHOICES = members(HINT_WORDS).filter((hint) => hint !== 'language')

/** Of a transcription or a translation. */
function Heard({ form, set, faults }: PartProps) {
  const usual = usualBytes(form)
  return html`
    <${Checkboxes}
      legend="Required features"
      options=${members(FEATURE_WORDS).map((value) => ({ value, label: FEATURE_WORDS[value] }))}
      chosen=${form.features}
      onChange=${(features: readonly Feature[]) => set({ features })}
      inline
    />
    <div class="routes-pair">
      <${TextInput}
        label="Language"
        value=${form.language}
        onInput=${(language: string) => set({ language })}
        placeholder="any"
        maxLength=${16}
      />
      <${TextInput}
        label="Duration"
        value=${form.duration}
        onInput=${(duration: string) => set({ duration })}
        error=${faults.duration ?? null}
      />
      <${Select}
        label="Format"
        value=${form.format}
        onChange=${(format: AudioFormat) => set({ format })}
        options=${members(FORMAT_WORDS).map((value) => ({ value, label: FORMAT_WORDS[value] }))}
      />
      <${TextInput}
        label="Size"
        value=${form.megabytes}
        onInput=${(megabytes: string) => set({ megabytes })}
        placeholder=${usual === null ? '' : (usual / 1_000_000).toFixed(usual < 10_000_000 ? 2 : 0)}
        error=${faults.megabytes ?? null}
        suffix="MB"
        inputMode="decimal"
      />
      <${TextInput}
        label="Channels"
        value=${form.channels}
        onInput=${(channels: string) => set({ channels })}
        error=${faults.channels ?? null}
        inputMode="numeric"
      />
    </div>
    <details class="more">
      <summary>Optional hints</summary>
      <${Checkboxes}
        legend="Also sends"
        hideLegend
        options=${HINT_CHOICES.map((value) => ({ value, label: HINT_WORDS[value] }))}
        chosen=${form.hints}
        onChange=${(hints: readonly Hint[]) => set({ hints })}
        inline
      />
    </details>
  `
}

type Typed = 'characters' | 'voice' | 'speed' | 'responseFormat' | 'size' | 'seconds' | 'count' | 'dimensions'
type Ticked = 'images' | 'tools' | 'spoken'

const TYPED: Readonly<Record<Typed, { readonly label: string; readonly placeholder?: string }>> = {
  characters: { label: 'Characters of text' },
  voice: { label: 'Voice', placeholder: 'any' },
  speed: { label: 'Speed', placeholder: '1' },
  responseFormat: { label: 'Response format', placeholder: 'any' },
  size: { label: 'Size', placeholder: '1024x1024' },
  seconds: { label: 'Duration, s', placeholder: 'any' },
  count: { label: 'How many' },
  dimensions: { label: 'Dimensions', placeholder: 'any' },
}

const TICKED: Readonly<Record<Ticked, string>> = {
  images: 'Has pictures',
  tools: 'Has tools',
  spoken: 'Audio output',
}

/** Of all other endpoints. */
function Told({ form, set, faults }: PartProps) {
  const fields: readonly string[] = FIELDS_OF[form.endpoint]
  const ticks = members(TICKED).filter((name) => fields.includes(name))
  return html`
    <div class="routes-pair">
      ${members(TYPED)
        .filter((name) => fields.includes(name))
        .map(
          (name) => html`<${TextInput}
            key=${name}
            label=${TYPED[name].label}
            placeholder=${TYPED[name].placeholder}
            value=${form[name]}
            onInput=${(text: string) => set({ [name]: text })}
            error=${faults[name] ?? null}
          />`,
        )}
    </div>
    ${
      ticks.length === 0
        ? null
        : html`<div class="choices-inline">
            ${ticks.map(
              (name) => html`<${Checkbox}
                key=${name}
                label=${TICKED[name]}
                checked=${form[name]}
                onChange=${(on: boolean) => set({ [name]: on })}
              />`,
            )}
          </div>`
    }
  `
}
