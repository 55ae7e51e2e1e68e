import { useRef, useState } from 'preact/hooks'
import { html } from '../../html.ts'
import { TextInput } from '../../parts/field.ts'
import { jsonText, readJsonObject } from './json-text.ts'

type JsonObject = Readonly<Record<string, unknown>>

/**
 * An object as JSON text. What cannot be read stays in the field, with the reason beside it, and is told by `onUnread`;
 * the value is then still the last one that could be read.
 */
export function JsonInput(props: {
  readonly label: string
  readonly value: JsonObject | undefined
  readonly onChange: (value: JsonObject | undefined) => void
  readonly onUnread: (why: string) => void
  readonly hint?: string
  readonly error?: string | null
  readonly disabled?: boolean
  readonly placeholder?: string
}) {
  const { label, value, onChange, onUnread, hint, error, disabled, placeholder } = props
  const [text, setText] = useState(() => jsonText(value))
  const [fault, setFault] = useState<string | null>(null)
  const known = useRef(jsonText(value))
  const given = jsonText(value)
  // Somebody else set the value: what was typed here is over.
  if (given !== known.current) {
    known.current = given
    setText(given)
    setFault(null)
  }
  const type = (typed: string) => {
    const read = readJsonObject(typed)
    setText(typed)
    setFault(read.fault)
    if (read.fault !== null) return onUnread(read.fault)
    known.current = jsonText(read.value)
    onChange(read.value)
  }
  return html`<${TextInput}
    label=${label}
    value=${text}
    onInput=${type}
    rows=${Math.min(16, Math.max(3, text.split('\n').length))}
    mono
    optional
    hint=${hint}
    error=${fault ?? error}
    disabled=${disabled}
    placeholder=${placeholder}
  />`
}
