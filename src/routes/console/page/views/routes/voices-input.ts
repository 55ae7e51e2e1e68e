import { useState } from 'preact/hooks'
import type { EntryFields } from '../../../../../catalog/file.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { TextInput } from '../../parts/field.ts'

type Voices = NonNullable<EntryFields['voices']>
type Row = readonly [asked: string, given: string]

/** Names of voices as callers say them, and what they are called here. Rows that are not whole are not saved. */
export function VoicesInput(props: {
  readonly value: EntryFields['voices']
  readonly onChange: (value: Voices | undefined) => void
  readonly error: string | null
  readonly disabled: boolean
}) {
  const { value, onChange, error, disabled } = props
  const [rows, setRows] = useState<readonly Row[]>(() => Object.entries(value ?? {}))
  const change = (next: readonly Row[]) => {
    setRows(next)
    const whole = next.filter(([asked, given]) => asked !== '' && given !== '')
    onChange(whole.length === 0 ? undefined : Object.fromEntries(whole))
  }
  const repeated = rows.find(
    ([asked], index) => asked !== '' && rows.findIndex(([other]) => other === asked) < index,
  )
  return html`<fieldset class="choices">
    <legend class="field-label">Voices</legend>
    <p class="field-hint">Voice names in requests, and the provider’s names for them.</p>
    ${rows.map(
      ([asked, given], index) => html`<div class="routes-voice" key=${index}>
        <${TextInput}
          label=${`Voice ${index + 1} in requests`}
          hideLabel
          placeholder="asked for"
          value=${asked}
          onInput=${(text: string) => change(rows.with(index, [text, given]))}
          disabled=${disabled}
          maxLength=${256}
        />
        <span class="quiet" aria-hidden="true">→</span>
        <${TextInput}
          label=${`Voice ${index + 1} at the provider`}
          hideLabel
          placeholder="provider's"
          value=${given}
          onInput=${(text: string) => change(rows.with(index, [asked, text]))}
          disabled=${disabled}
          maxLength=${256}
          mono
        />
        ${
          disabled
            ? null
            : html`<${Button}
                kind="quiet"
                small
                icon="trash"
                label=${`Remove voice ${asked || index + 1}`}
                onClick=${() => change(rows.toSpliced(index, 1))}
              />`
        }
      </div>`,
    )}
    ${repeated === undefined ? null : html`<p class="field-error" role="alert">${repeated[0]} is there twice.</p>`}
    ${error === null ? null : html`<p class="field-error" role="alert">${error}</p>`}
    ${
      disabled
        ? null
        : html`<div><${Button} small icon="plus" onClick=${() => setRows([...rows, ['', '']])}>Add voice<//></div>`
    }
  </fieldset>`
}
