import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { OverviewAnswer, OverviewStep } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { type ApiError, toApiError } from '../../api-error.ts'
import { type Load, useEvery } from '../../load.ts'
import { queryOf } from '../../paths.ts'
import { HISTORY_MS, merged, sinceOf } from './history.ts'

const EVERY_MS = 5_000

/** The newest answer, with an hour of steps. */
export interface Seen {
  readonly answer: OverviewAnswer
  readonly steps: readonly OverviewStep[]
}

/** What is going on, every 5 s while the tab is seen: an hour at first, and then only what is new. */
export function useLive(workspace: string | null): Load<Seen> {
  const [seen, setSeen] = useState<Seen | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const [busy, setBusy] = useState(true)
  const abort = useRef<AbortController | null>(null)
  const latest = useRef<Seen | null>(null)

  const load = useCallback(async () => {
    // A server that is slower than the clock is not asked twice.
    if (abort.current) return
    const mine = new AbortController()
    abort.current = mine
    setBusy(true)
    const known = latest.current?.steps ?? []
    try {
      const since = sinceOf(known, nowOf(latest.current))
      const path = `/overview${queryOf({ workspace, since: Math.floor(since) })}`
      const answer = await api.get<OverviewAnswer>(path, { signal: mine.signal })
      latest.current = { answer, steps: merged(known, answer.steps, Date.parse(answer.now)) }
      setSeen(latest.current)
      setError(null)
    } catch (thrown) {
      if (mine.signal.aborted) return
      setError(toApiError(thrown))
    } finally {
      if (abort.current === mine) abort.current = null
      if (!mine.signal.aborted) setBusy(false)
    }
  }, [workspace])

  useEffect(() => {
    void load()
    return () => {
      abort.current?.abort()
      abort.current = null
      latest.current = null
      setSeen(null)
    }
  }, [load])
  useEvery(EVERY_MS, load)

  const common = { reload: load, set: setSeen, busy }
  if (seen) return { ...common, state: 'ready', value: seen, error }
  if (error) return { ...common, state: 'failed', value: null, error }
  return { ...common, state: 'loading', value: null, error: null }
}

/** By the clock of the server, which may not be this one: the first time, more than an hour is asked for. */
function nowOf(seen: Seen | null): number {
  return seen ? Date.parse(seen.answer.now) : Date.now() - HISTORY_MS
}
