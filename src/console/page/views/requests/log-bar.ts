import { useRef, useState } from 'preact/hooks'
import { Button } from '../../components/button.ts'
import { Switch } from '../../components/choice.ts'
import { DateFields } from '../../components/date-fields.ts'
import { Select, TextInput } from '../../components/field.ts'
import { NamePicker } from '../../components/name-picker.ts'
import { useSearchText } from '../../components/paged.ts'
import type { Dates } from '../../components/range.ts'
import { h } from '../../h.ts'
import { useWorkspaces } from '../../session.ts'
import type { LogFilter, LogFilterName, LogRange } from './log-filter.ts'
import { chipText, filterFault, LOG_FILTERS, LOG_RANGES, logFilterNames, withFilter } from './log-filter.ts'

type Change = (fields: Readonly<Record<string, string | null>>) => void

interface LogFiltersProps {
  /** Null: the log is of all of them. */
  readonly workspace: string | null
  readonly filter: LogFilter
  readonly onChange: Change
  readonly refresh: { readonly run: () => void; readonly busy: boolean }
  /** The address of what matches, as a file. */
  readonly exportOf: (format: 'csv' | 'json') => string
}

/** The bar above the log: an id, the time, the outcome, and chips for everything else. */
export function LogFilters(props: LogFiltersProps) {
  const { workspace, filter, onChange, refresh, exportOf } = props
  const [adding, setAdding] = useState(false)
  const bar = useRef<HTMLDivElement>(null)
  // The pressed button disappears; the focus stays in the bar.
  const stay: Change = (fields) => {
    onChange(fields)
    bar.current?.querySelector<HTMLElement>('[aria-controls]')?.focus()
  }
  const add: Change = (fields) => {
    setAdding(false)
    stay(fields)
  }
  return h(
    'div',
    { class: 'stack log-bar', role: 'search', 'aria-label': 'Filter the log', ref: bar },
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
      h(Button, { icon: 'refresh', onClick: refresh.run, busy: refresh.busy }, 'Refresh'),
    ),
    h(
      'div',
      { id: 'log-add', hidden: !adding },
      adding ? h(AddFilter, { workspace, filter, onAdd: add }) : null,
    ),
    h(Chips, { filter, onChange, onRemove: stay, exportOf }),
  )
}

/** The list's filters, and ways to take the list along. */
function Chips(
  props: Pick<LogFiltersProps, 'filter' | 'onChange' | 'exportOf'> & { readonly onRemove: Change },
) {
  const { filter, onChange, onRemove, exportOf } = props
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
          onClick: () => onRemove(withFilter(chip[0], null)),
        },
        chipText(chip),
      ),
    ),
    h(Switch, {
      label: 'Show playground',
      checked: filter.playground,
      onChange: (playground: boolean) => onChange(withFilter('playground', playground ? 'true' : null)),
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

/** Asked for once typing has paused, or after a paste. */
function IdSearch({ id, onChange }: { readonly id: string; readonly onChange: Change }) {
  const [text, setText] = useSearchText(id, (typed) => onChange({ id: typed.trim() }))
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
      ? h(DateFields, {
          type: 'datetime-local',
          dates: { from: localOf(from), to: localOf(to) },
          mayBeOpen: true,
          onChange: (changed: Partial<Dates>) =>
            onChange(
              Object.fromEntries(Object.entries(changed).map(([name, text]) => [name, momentOf(text)])),
            ),
        })
      : null,
  ]
}

function momentOf(local: string): string | null {
  return local === '' ? null : new Date(local).toISOString()
}

/** As a field of the browser takes it, in the reader's own time zone. */
function localOf(moment: string): string {
  if (moment === '') return ''
  const at = new Date(moment)
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

function AddFilter(props: Pick<LogFiltersProps, 'workspace' | 'filter'> & { readonly onAdd: Change }) {
  const { workspace, filter, onAdd } = props
  const names = logFilterNames(workspace)
  const [name, setName] = useState<LogFilterName>(names[0] ?? 'app')
  const [value, setValue] = useState('')
  const [fault, setFault] = useState<string | null>(null)
  const add = (added: string) => {
    const found = filterFault(name, added)
    setFault(found)
    if (found === null) onAdd(withFilter(name, added))
  }
  const choose = (chosen: LogFilterName) => {
    setName(chosen)
    setValue('')
    setFault(null)
  }
  // Apps and keys are offered where it is known whose.
  const owner = workspace ?? filter.chips.find(([chip]) => chip === 'workspace')?.[1] ?? null
  const choice = choiceOf(name, { workspace: owner, value, onChange: (id) => id !== '' && add(id) })
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
      options: names.map((one) => ({ value: one, label: LOG_FILTERS[one].label })),
      onChange: choose,
    }),
    choice ?? [
      h(TextInput, {
        label: LOG_FILTERS[name].label,
        value,
        error: fault,
        maxLength: 512,
        mono: true,
        onInput: setValue,
        ...suffixOf(name),
      }),
      h(Button, { type: 'submit', kind: 'primary' }, 'Add'),
    ],
  )
}

interface ChoiceProps {
  /** Workspace whose apps and keys are offered; null: none. */
  readonly workspace: string | null
  readonly value: string
  readonly onChange: (value: string) => unknown
}

const CHOOSE = { value: '', label: 'Choose' }

/** List of a filter's values; null: they are typed. */
function choiceOf(name: LogFilterName, { workspace, ...props }: ChoiceProps) {
  const filter = LOG_FILTERS[name]
  const { label, kind } = filter
  if (kind === 'workspace') return h(WorkspaceChoice, { key: name, label, ...props })
  if (filter.kind === 'choice') return h(Select, { label, ...props, options: [CHOOSE, ...filter.choices] })
  if (workspace === null || (kind !== 'app' && kind !== 'key')) return null
  const of = kind === 'app' ? 'apps' : 'keys'
  return h(NamePicker, { key: name, workspace, of, label, all: 'Choose', ...props })
}

function WorkspaceChoice(props: Omit<ChoiceProps, 'workspace'> & { readonly label: string }) {
  const { value: listed } = useWorkspaces()
  return h(Select, { ...props, options: [CHOOSE, ...(listed ?? []).map(({ id }) => id)] })
}

function suffixOf(name: LogFilterName) {
  const { kind } = LOG_FILTERS[name]
  if (kind === 'milliseconds') return { suffix: 'ms', inputMode: 'numeric' as const }
  return kind === 'usd' ? { suffix: 'USD', inputMode: 'decimal' as const } : {}
}
