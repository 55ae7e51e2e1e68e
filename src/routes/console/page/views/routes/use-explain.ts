import { useEffect, useRef, useState } from 'preact/hooks'
import type { RouteFields } from '../../../../../catalog/file.ts'
import type { ExplainAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { type ApiError, toApiError } from '../../api-error.ts'
import { apiPath } from '../../paths.ts'
import { type ReadSample, readSample, type SampleForm } from './sample-form.ts'

const ASK_AFTER_MS = 250

export interface Explanation {
  /** The last answer, which stays while the next one is on its way; null: there was none yet. */
  readonly answer: ExplainAnswer | null
  /** Of the sample that the answer is for; empty: none. */
  readonly purpose: string
  readonly error: ApiError | null
  readonly busy: boolean
  /** What of the form cannot be read. */
  readonly faults: NonNullable<ReadSample['faults']>
  readonly retry: () => void
}

/**
 * What a route would do with a sample request, asked a little after each change of either.
 *
 * @param fields the route as it is on the screen; null: as it is published
 */
export function useExplain(
  { workspace, route, fields }: { workspace: string; route: string; fields: RouteFields | null },
  form: SampleForm,
): Explanation {
  const [known, setKnown] = useState<{
    answer: ExplainAnswer | null
    purpose: string
    error: ApiError | null
  }>({
    answer: null,
    purpose: '',
    error: null,
  })
  const [busy, setBusy] = useState(true)
  const [turn, setTurn] = useState(0)
  const first = useRef(true)
  const { sample, faults } = readSample(form)
  const { endpoint, app, purpose } = form
  const body = sample && {
    endpoint,
    sample,
    route,
    ...(fields ? { fields } : {}),
    ...(app === '' ? {} : { app }),
  }
  const asked = body === null ? null : JSON.stringify(body)

  useEffect(() => {
    if (body === null) return
    const abort = new AbortController()
    setBusy(true)
    const ask = async () => {
      try {
        const path = apiPath`/workspaces/${workspace}/explain`
        const answer = await api.post<ExplainAnswer>(path, body, { signal: abort.signal })
        if (!abort.signal.aborted) setKnown({ answer, purpose, error: null })
      } catch (thrown) {
        if (!abort.signal.aborted) setKnown((old) => ({ ...old, error: toApiError(thrown) }))
      }
      if (!abort.signal.aborted) setBusy(false)
    }
    const timer = setTimeout(ask, first.current ? 0 : ASK_AFTER_MS)
    first.current = false
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  }, [workspace, asked, turn])

  return {
    ...known,
    busy: busy && body !== null,
    faults: faults ?? {},
    retry: () => setTurn((old) => old + 1),
  }
}
