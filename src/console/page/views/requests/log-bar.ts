import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Switch } from '../../components/choice.ts'
import { Select, TextInput } from '../../components/field.ts'
import { NamePicker } from '../../components/name-picker.ts'
import { h } from '../../h.ts'
import {
  chipText,
  filterFault,
  LOG_FILTER_NAMES,
  LOG_FILTERS,
  LOG_RANGES,
  type LogFilter,
  type LogFilterName,
  type LogRange,
} from './log-filter.ts'

const SEARCH_AFTER_MS = 400

type Change = (fields: Readonly<Record<string, string | null>>) => void

interface LogFiltersProps {
  readonly workspace: string
  readonly filter: LogFilter
  readonly onChange: Change
  /** The address of what matches, as a file. */
  readonly exportOf: (format: 'csv' | 'json') => string
}

/** The bar above the log: an id, the time, the outcome, and chips for everything else. */
export function LogFilters(props: LogFiltersProps) {
  const { workspace, filter, onChange, exportOf } = props
  const [adding, setAdding] = useState(false)
  const add: Change = (fields) => {
    setAdding(false)
    onChange(fields)
  }
  return h(
    'div',
    { class: 'stack log-bar', role: 'search', 'aria-label': 'Filter the log' },
    h(
      'div',
      { class: 'filters requests-filters' },
      h(IdSearch, { id: filter.id, onChange }),
      h(RangeFields, { filter, onChange }),
      h(Select, {
        label: 'Outcome',
        value: filter.outcome,
        options: [
          { value: '', label: 'All outcomes' },
          { value: 'ok', label: 'Succeeded' },
          { value: 'error', label: 'Failed' },
          { value: 'left', label: 'Client left' },
          { value: 'canceled', label: 'Canceled' },
        ],
        onChange: (outcome: string) => onChange({ outcome }),
      }),
      h(
        Button,
        { icon: 'plus', expanded: adding, controls: 'log-add', onClick: () => setAdding(!adding) },
        'Filter',
      ),
    ),
    h('div', { id: 'log-add', hidden: !adding }, adding ? h(AddFilter, { workspace, onAdd: add }) : null),
    h(Chips, { filter, onChange, exportOf }),
  )
}

/** What the list is narrowed to, and ways to take it along. */
function Chips(props: Pick<LogFiltersProps, 'filter' | 'onChange' | 'exportOf'>) {
  const { filter, onChange, exportOf } = props
  return h(
    'div',
    { class: 'log-chips' },
    filter.chips.map((chip) =>
      h(
        Button,
        {
          key: chip[0],
          small: true,
          icon: 'close',
          label: `Remove filter ${chipText(chip)}`,
          onClick: () => onChange({ [chip[0]]: null, ...(chip[0] === 'key_id' ? { key: null } : {}) }),
        },
        chipText(chip),
      ),
    ),
    h(Switch, {
      label: 'Show playground',
      checked: filter.playground,
      onChange: (playground: boolean) => onChange({ playground: playground ? 'true' : null }),
    }),
    h(
      'span',
      { class: 'log-export' },
      h('span', { class: 'quiet small' }, 'Export'),
      (['csv', 'json'] as const).map((format) =>
        h(
          'a',
          {
            key: format,
            class: 'button button-plain button-small',
            href: exportOf(format),
            download: '',
            title: 'The newest 100,000 at most',
          },
          h('span', { class: 'button-text' }, format.toUpperCase()),
        ),
      ),
    ),
  )
}

/** Asked for once somebody has finished typing, or pasted. */
function IdSearch({ id, onChange }: { readonly id: string; readonly onChange: Change }) {
  const [text, setText] = useState(id)
  const latest = useRef({ id, onChange })
  latest.current = { id, onChange }
  useEffect(() => setText(id), [id])
  useEffect(() => {
    const wanted = text.trim()
    if (wanted === latest.current.id) return
    const timer = setTimeout(() => latest.current.onChange({ id: wanted }), SEARCH_AFTER_MS)
    return () => clearTimeout(timer)
  }, [text])
  return h(TextInput, {
    label: 'Request, trace, job or session ID',
    type: 'search',
    mono: true,
    maxLength: 256,
    value: text,
    onInput: setText,
  })
}

function RangeFields({ filter, onChange }: { readonly filter: LogFilter; readonly onChange: Change }) {
  const { range, from, to } = filter
  const choose = (chosen: LogRange) => {
    if (chosen !== 'custom') return onChange({ range: chosen, from: null, to: null })
    const hours = range === 'custom' ? null : LOG_RANGES[range].hours
    const begins = hours === null ? '' : new Date(Date.now() - hours * 3_600_000).toISOString()
    onChange({ range: 'custom', from: begins })
  }
  return [
    h(Select<LogRange>, {
      label: 'Time',
      // An id is looked for at any time.
      value: filter.id !== '' && range !== 'custom' ? 'all' : range,
      options: [
        ...Object.entries(LOG_RANGES).map(([value, { label }]) => ({ value: value as LogRange, label })),
        { value: 'custom', label: 'Between two times' },
      ],
      onChange: choose,
    }),
    range === 'custom'
      ? (['from', 'to'] as const).map((name) =>
          h(TextInput, {
            key: name,
            label: name === 'from' ? 'From' : 'To',
            type: 'datetime-local',
            value: localOf(name === 'from' ? from : to),
            onInput: (text: string) =>
              onChange({ [name]: text === '' ? null : new Date(text).toISOString() }),
          }),
        )
      : null,
  ]
}

/** As a field of the browser takes it, in the reader's own time zone. */
function localOf(moment: string): string {
  if (moment === '') return ''
  const at = new Date(moment)
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

function AddFilter(props: { readonly workspace: string; readonly onAdd: Change }) {
  const { workspace, onAdd } = props
  const [name, setName] = useState<LogFilterName>('app')
  const [value, setValue] = useState('')
  const [fault, setFault] = useState<string | null>(null)
  const { label, kind } = LOG_FILTERS[name]
  const add = (added: string) => {
    const found = filterFault(name, added)
    setFault(found)
    if (found === null) onAdd({ [name]: added })
  }
  const choose = (chosen: LogFilterName) => {
    setName(chosen)
    setValue('')
    setFault(null)
  }
  const pick = { workspace, label, all: `Choose`, value, onChange: (id: string) => id !== '' && add(id) }
  return h(
    'form',
    {
      class: 'filters requests-filters log-add',
      onSubmit: (event: Event) => {
        event.preventDefault()
        add(value.trim())
      },
    },
    h(Select<LogFilterName>, {
      label: 'Filter by',
      value: name,
      options: LOG_FILTER_NAMES.map((one) => ({ value: one, label: LOG_FILTERS[one].label })),
      onChange: choose,
    }),
    kind === 'app' || kind === 'key'
      ? h(NamePicker, { key: name, ...pick, of: kind === 'app' ? 'apps' : 'keys' })
      : kind === 'choice'
        ? h(Select, {
            label,
            value,
            options: [{ value: '', label: 'Choose' }, ...LOG_FILTERS[name].choices],
            onChange: (chosen: string) => chosen !== '' && add(chosen),
          })
        : h(TextInput, {
            label,
            value,
            error: fault,
            maxLength: 512,
            mono: true,
            onInput: setValue,
            ...(kind === 'milliseconds' ? { suffix: 'ms', inputMode: 'numeric' as const } : {}),
            ...(kind === 'usd' ? { suffix: 'USD', inputMode: 'decimal' as const } : {}),
          }),
    kind === 'app' || kind === 'key' || kind === 'choice'
      ? null
      : h(Button, { type: 'submit', kind: 'primary' }, 'Add'),
  )
}
