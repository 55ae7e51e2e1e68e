import { useState } from 'preact/hooks'
import type { ApiError } from './api.ts'
import { useAction } from './load.ts'

/** Fields of a form that cannot be saved → why. */
export type Issues<Fields> = { readonly [Name in keyof Fields]?: string | null }

export interface Form<Fields> {
  readonly fields: Fields
  readonly set: (change: Partial<Fields> | ((old: Fields) => Partial<Fields>)) => void
  /** The issue to show at a field: from the first attempt to save on, or once the field has text. */
  readonly issue: (name: keyof Fields) => string | null
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
  return {
    fields,
    set: (change) =>
      setFields((old) => ({ ...old, ...(typeof change === 'function' ? change(old) : change) })),
    issue: (name) => (tried || fields[name] !== '' ? (issues[name] ?? null) : null),
    tried,
    submit: () => {
      setTried(true)
      if (Object.values(issues).every((issue) => issue == null)) void run()
    },
    busy,
    error,
  }
}
