import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, onSignedInAgain, toApiError } from './api.ts'

export type Load<Value> = {
  /** Reloads, and keeps the value meanwhile. */
  readonly reload: () => void
  /** Puts a newer value in its place, such as the answer of a change. */
  readonly set: (value: Value) => void
  /** It is loading, be it for the first time or again. */
  readonly busy: boolean
} & (
  | { readonly state: 'loading'; readonly value: null; readonly error: null }
  | { readonly state: 'failed'; readonly value: null; readonly error: ApiError }
  /** `error`: reloading failed, so the value may be old. */
  | { readonly state: 'ready'; readonly value: Value; readonly error: ApiError | null }
)

/** The state of something that waits for another load. */
export const LOADING = {
  state: 'loading',
  value: null,
  error: null,
  busy: true,
  reload: () => {},
  set: () => {},
} as const

/** How often a server that cannot be reached is tried. */
const AWAY_MS = 5_000

interface Kept<Value> {
  readonly value: { readonly it: Value } | null
  readonly error: ApiError | null
  readonly busy: boolean
}

/**
 * Loads with `fn`: at once, when a dependency changes (then the old value goes), and every `everyMs` while the tab is
 * seen. Answers that come too late for the place are dropped, and their requests aborted. A server that says when to
 * come back is asked again then, and not before.
 */
export function useLoad<Value>(
  fn: (signal: AbortSignal) => Promise<Value>,
  deps: readonly unknown[],
  options: {
    readonly everyMs?: number
    /** Known already: shown while it loads for the first time. */
    readonly initial?: Value | null
  } = {},
): Load<Value> {
  const { everyMs = 0, initial = null } = options
  const [kept, setKept] = useState<Kept<Value>>(() => {
    return { value: initial === null ? null : { it: initial }, error: null, busy: true }
  })
  const [turn, setTurn] = useState(0)
  const latest = useRef(fn)
  latest.current = fn
  const running = useRef<AbortController | null>(null)
  const key = JSON.stringify(deps)
  const loadedKey = useRef(key)
  const fresh = loadedKey.current === key

  // Before the next frame: a view waits for one answer after the other.
  useLayoutEffect(() => {
    const abort = new AbortController()
    running.current = abort
    const isNew = loadedKey.current !== key
    loadedKey.current = key
    setKept((old) => (isNew ? { value: null, error: null, busy: true } : { ...old, busy: true }))
    latest.current(abort.signal).then(
      (value) => {
        if (!abort.signal.aborted) setKept({ value: { it: value }, error: null, busy: false })
      },
      (error: unknown) => {
        if (!abort.signal.aborted) setKept((old) => ({ ...old, error: toApiError(error), busy: false }))
      },
    )
    return () => abort.abort()
  }, [key, turn])

  const reload = useCallback(() => setTurn((old) => old + 1), [])
  const set = useCallback((value: Value) => {
    // The earlier request is out of date now.
    running.current?.abort()
    setKept({ value: { it: value }, error: null, busy: false })
  }, [])
  useEffect(() => onSignedInAgain(reload), [reload])
  // A server that is slower than the clock is not asked twice.
  const latestBusy = useRef(kept.busy)
  latestBusy.current = kept.busy
  // A view that asks once only comes back by itself when the server does.
  const isAway = everyMs === 0 && kept.error?.code === 'UNREACHABLE'
  const waitMs = kept.error?.retryAfterMs ?? (isAway ? AWAY_MS : null)
  const waits = waitMs !== null
  const again = useCallback(() => {
    if (!latestBusy.current && !waits) reload()
  }, [reload, waits])
  useEvery(everyMs, again)
  useEffect(() => {
    if (waitMs === null) return
    const timer = setTimeout(reload, waitMs)
    return () => clearTimeout(timer)
  }, [kept.error, reload])

  const common = { reload, set, busy: kept.busy || !fresh }
  if (!fresh) return { ...common, state: 'loading', value: null, error: null }
  if (kept.value) return { ...common, state: 'ready', value: kept.value.it, error: kept.error }
  if (kept.error) return { ...common, state: 'failed', value: null, error: kept.error }
  return { ...common, state: 'loading', value: null, error: null }
}

/** Calls `fn` every so often while the tab is seen, and at once when it is seen again. 0: never. */
export function useEvery(everyMs: number, fn: () => void): void {
  useEffect(() => {
    if (everyMs === 0) return
    let missed = false
    const timer = setInterval(() => {
      if (document.hidden) missed = true
      else fn()
    }, everyMs)
    const seen = () => {
      if (document.hidden || !missed) return
      missed = false
      fn()
    }
    document.addEventListener('visibilitychange', seen)
    return () => {
      clearInterval(timer)
      document.removeEventListener('visibilitychange', seen)
    }
  }, [everyMs, fn])
}

export interface Action<Arguments extends readonly unknown[]> {
  /** Runs it unless it runs already; true when it succeeded. */
  readonly run: (...args: Arguments) => Promise<boolean>
  readonly busy: boolean
  readonly error: ApiError | null
  readonly clear: () => void
}

/** A requested action, e.g. a save: if it is running, and how it failed. */
export function useAction<Arguments extends readonly unknown[]>(
  fn: (...args: Arguments) => Promise<unknown>,
): Action<Arguments> {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const running = useRef(false)
  const run = async (...args: Arguments) => {
    if (running.current) return false
    running.current = true
    setBusy(true)
    setError(null)
    try {
      await fn(...args)
      return true
    } catch (thrown) {
      setError(toApiError(thrown))
      return false
    } finally {
      running.current = false
      setBusy(false)
    }
  }
  return { run, busy, error, clear: () => setError(null) }
}
