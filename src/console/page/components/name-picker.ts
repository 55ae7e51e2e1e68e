import { useState } from 'preact/hooks'
import type { NamesAnswer } from '../../server/answers/workspaces.ts'
import { api } from '../api.ts'
import { h } from '../h.ts'
import { useLoad } from '../load.ts'
import { apiPath, queryOf } from '../paths.ts'
import { Select, TextInput } from './field.ts'

/** Most names offered at once; with more, only those that match the text. */
const OFFERED_MAX = 50

/** Chooses an app or a key of a workspace. The server offers names: thousands of them cost no more than a few. */
export function NamePicker(props: {
  readonly workspace: string
  readonly of: 'apps' | 'keys'
  readonly label: string
  /** Label of the empty choice. */
  readonly all: string
  readonly value: string
  readonly onChange: (id: string) => void
}) {
  const { workspace, of, label, all, value, onChange } = props
  const [typed, setTyped] = useState<string | null>(null)
  const names = (search: string, signal: AbortSignal) => {
    const query = queryOf({ of, search, limit: OFFERED_MAX })
    return api.get<NamesAnswer>(apiPath`/workspaces/${workspace}/names` + query, { signal })
  }
  const search = typed ?? value
  const whole = useLoad((signal) => names('', signal), [workspace, of])
  const found = useLoad(
    async (signal) => (search === '' ? null : await names(search, signal)),
    [workspace, of, search],
  )
  const few = whole.value === null || whole.value.total <= OFFERED_MAX
  const offered = nameOptions(few ? whole.value : (found.value ?? whole.value))
  const chosen = nameOptions(found.value).find(({ id }) => id === value)?.label ?? value
  if (few) {
    const options = offered.map(({ id, label }) => ({ value: id, label }))
    const listed = value === '' || options.some((option) => option.value === value)
    // A link may name something that is not listed, e.g. a key revoked long ago.
    const more = listed ? [] : [{ value, label: chosen }]
    return h(Select, { label, value, options: [{ value: '', label: all }, ...options, ...more], onChange })
  }
  const type = (text: string) => {
    const match = offered.find((option) => option.label === text)
    setTyped(match || text === '' ? null : text)
    if (match || text === '') onChange(match?.id ?? '')
  }
  return h(TextInput, {
    label,
    type: 'search',
    placeholder: all,
    value: typed ?? chosen,
    suggestions: offered.map((option) => option.label),
    onInput: type,
  })
}

/** Names that several share are told apart by their ids. */
function nameOptions(answer: NamesAnswer | null) {
  const names = answer?.names ?? []
  const counts = new Map<string, number>()
  for (const { name } of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return names.map(({ id, name }) => ({ id, label: counts.get(name) === 1 ? name : `${name} (${id})` }))
}
