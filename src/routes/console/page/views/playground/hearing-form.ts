import type { Redaction, TranscriptFormat } from '../../../../../schema/calls.ts'
import type { Profile } from '../../../../../schema/catalog.ts'
import { html } from '../../html.ts'
import { Checkbox, Checkboxes } from '../../parts/choice.ts'
import { Select, TextInput } from '../../parts/field.ts'
import { type Abilities, keeps } from './abilities.ts'
import { type HearingOptions, PROFILES, REDACTIONS, TIMESTAMPS, TRANSCRIPT_FORMATS } from './options.ts'

const LANGUAGES = [
  'ar',
  'de',
  'en',
  'es',
  'fr',
  'hi',
  'it',
  'ja',
  'ko',
  'nl',
  'pl',
  'pt',
  'ru',
  'sv',
  'tr',
  'uk',
  'zh',
]

const KEPT_BY_NONE = 'No model of the route supports this: the request would be rejected.'

interface FormProps {
  readonly options: HearingOptions
  readonly purposes: readonly string[]
  readonly abilities: Abilities | null
  readonly onChange: (fields: Partial<HearingOptions>) => void
}

/** The options of a transcription. What no entry of the route keeps says so. */
export function HearingForm({ options, purposes, abilities, onChange }: FormProps) {
  const { language, timestamps, responseFormat, diarization, asJob } = options
  const lacking = (timestamps === 'word' || timestamps === 'both') && !keeps(abilities, 'word_timestamps')
  const lackingSegments =
    (timestamps === 'segment' || timestamps === 'both') && !keeps(abilities, 'segment_timestamps')
  return html`<div class="stack">
    <${TextInput}
      label="Language"
      optional
      hint="ISO 639 code, e.g. en. A hint; some providers ignore it."
      suggestions=${LANGUAGES}
      maxLength=${35}
      value=${language}
      onInput=${(value: string) => onChange({ language: value })}
    />
    <${Select}
      label="Timestamps"
      hint="Word timestamps highlight the transcript during playback."
      error=${lacking || lackingSegments ? KEPT_BY_NONE : null}
      value=${timestamps ?? ''}
      options=${[
        { value: '', label: 'none' },
        ...TIMESTAMPS.map((one) => ({
          value: one,
          label: one === 'both' ? 'words and segments' : `${one}s`,
        })),
      ]}
      onChange=${(value: string) => onChange({ timestamps: TIMESTAMPS.find((one) => one === value) ?? null })}
    />
    <${Select}
      label="Response format"
      value=${responseFormat}
      options=${TRANSCRIPT_FORMATS}
      onChange=${(value: TranscriptFormat) => onChange({ responseFormat: value })}
    />
    <${Checkbox}
      label="Diarization"
      hint=${diarization && !keeps(abilities, 'diarization') ? KEPT_BY_NONE : null}
      checked=${diarization}
      onChange=${(on: boolean) => onChange({ diarization: on })}
    />
    <${Checkbox}
      label="Send as a job"
      hint="For long recordings: it continues when you close this page, and its result is kept."
      checked=${asJob}
      onChange=${(on: boolean) => onChange({ asJob: on })}
    />
    <${More} options=${options} purposes=${purposes} abilities=${abilities} onChange=${onChange} />
  </div>`
}

function More({ options, purposes, abilities, onChange }: FormProps) {
  const { keyterms, redaction, purpose, profile } = options
  const set = [keyterms.trim(), redaction.join(''), purpose, profile ?? ''].filter(
    (value) => value !== '',
  ).length
  return html`<details class="more">
    <summary>More options${set === 0 ? '' : ` (${set} set)`}</summary>
    <div class="stack">
      <${TextInput}
        label="Keyterms"
        optional
        hint="Words to recognize, one per line or separated by commas."
        error=${keyterms.trim() !== '' && !keeps(abilities, 'keyterms') ? KEPT_BY_NONE : null}
        rows=${3}
        value=${keyterms}
        onInput=${(value: string) => onChange({ keyterms: value })}
      />
      <${Checkboxes}
        legend="Redaction"
        hint="Content to redact from the transcript."
        error=${redaction.length > 0 && !keeps(abilities, 'redaction') ? KEPT_BY_NONE : null}
        inline
        options=${REDACTIONS.map((value) => ({ value, label: value }))}
        chosen=${redaction}
        onChange=${(chosen: readonly Redaction[]) => onChange({ redaction: chosen })}
      />
      <${Selectors} purpose=${purpose} profile=${profile} purposes=${purposes} onChange=${onChange} />
    </div>
  </details>`
}

/** What picks the route, and among its entries, for any call. */
export function Selectors(props: {
  readonly purpose: string
  readonly profile: Profile | null
  readonly purposes: readonly string[]
  readonly onChange: (fields: { purpose?: string; profile?: Profile | null }) => void
}) {
  const { purpose, profile, purposes, onChange } = props
  return html`<${Select}
      label="Purpose"
      hint=${purposes.length === 0 ? 'No purposes in this workspace.' : 'Selects the route that the app assigns to it.'}
      value=${purpose}
      options=${[{ value: '', label: 'none' }, ...purposes]}
      onChange=${(value: string) => onChange({ purpose: value })}
    />
    <${Select}
      label="Profile"
      hint="Prefers entries with this profile."
      value=${profile ?? ''}
      options=${[{ value: '', label: 'none' }, ...PROFILES]}
      onChange=${(value: string) => onChange({ profile: PROFILES.find((one) => one === value) ?? null })}
    />`
}
