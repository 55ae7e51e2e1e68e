import { useState } from 'preact/hooks'
import type { ApiError } from './api.ts'
import { useAction } from './load.ts'

/** Fields of a form that cannot be saved → why. */
export type Issues<Fields> = { readonly [Name in keyof Fields]?: string | null }

/** Fields that are text. */
type TextName<Fields> = { [Name in keyof Fields]: Fields[Name] extends string ? Name : never }[keyof Fields]

interface Bound {
  readonly value: string
  readonly onInput: (value: string) => void
  readonly onChange: (value: string) => void
  readonly error: string | null
}

export interface Form<Fields> {
  readonly fields: Fields
  readonly set: (change: Partial<Fields> | ((old: Fields) => Partial<Fields>)) => void
  /** The issue to show at a field: from the first attempt to save on, or once the field has text. */
  readonly issue: (name: keyof Fields) => string | null
  /** Props of a control of text: its value, its change and its issue. */
  readonly bind: (name: TextName<Fields>) => Bound
  /** Saving was attempted. */
  readonly tried: boolean
  /** Saves, unless there are issues: then they are shown. */
  readonly submit: () => void
  readonly busy: boolean
  readonly error: ApiError | null
}

/**
 * The state of a form.
 *
 * @param start the fields at first
 * @param check finds the issues of the fields
 */
export function useForm<Fields extends object>(
  start: () => Fields,
  check: (fields: Fields) => Issues<Fields>,
  save: (fields: Fields) => Promise<unknown>,
): Form<Fields> {
  const [fields, setFields] = useState(start)
  const [tried, setTried] = useState(false)
  const { run, busy, error } = useAction(() => save(fields))
  const issues = check(fields)
  const set: Form<Fields>['set'] = (change) =>
    setFields((old) => ({ ...old, ...(typeof change === 'function' ? change(old) : change) }))
  const issue = (name: keyof Fields) => (tried || fields[name] !== '' ? (issues[name] ?? null) : null)
  return {
    fields,
    set,
    issue,
    bind: (name) => {
      const change = (value: string) => set({ [name]: value } as Partial<Fields>)
      return { value: String(fields[name]), onInput: change, onChange: change, error: issue(name) }
    },
    tried,
    submit: () => {
      setTried(true)
      if (Object.values(issues).every((issue) => issue == null)) void run()
    },
    busy,
    error,
  }
}
