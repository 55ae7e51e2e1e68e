import { type ComponentType, createElement } from 'preact'
import { useLayoutEffect, useState } from 'preact/hooks'
import { type ApiError, toApiError, unreachable } from './api.ts'
import { ErrorState, Skeleton } from './components/states.ts'
import { h } from './h.ts'

interface LazyPart<Props> {
  /** Names the part in messages about loading it. */
  readonly title: string
  readonly load: () => Promise<ComponentType<Props>>
  /** Its style sheets in style/, if it has some. */
  readonly style?: string | readonly string[]
}

const RENEWED = 'lk-renewed'
/** So that nodes of two versions do not send a page to and fro. */
const RENEWED_PAUSE_MS = 60_000

/**
 * Reloads the page when one of its modules does not fit the others: they are of two versions, since the server was
 * upgraded while the page was open.
 *
 * @returns whether it does
 */
function renewed(thrown: unknown): boolean {
  if (!(thrown instanceof SyntaxError)) return false
  try {
    if (Date.now() - Number(sessionStorage.getItem(RENEWED) ?? 0) < RENEWED_PAUSE_MS) return false
    sessionStorage.setItem(RENEWED, String(Date.now()))
  } catch {
    return false
  }
  location.reload()
  return true
}

/** A component whose module is loaded when it is wanted, and which is there at once from then on. */
export type LazyComponent<Props> = ComponentType<Props> & {
  /** Begins to load it, before it is shown; whether it can be loaded is told then. */
  prepare(): void
}

/** A component whose module is loaded when it is first shown. */
export function lazy<Props extends object>(part: LazyPart<Props>): LazyComponent<Props> {
  const { title, style = [] } = part
  const styles = typeof style === 'string' ? [style] : style
  let known: ComponentType<Props> | null = null
  const load = async () => {
    const sheets = styles.map((name) => styleSheet(`style/${name}.css`))
    const [it] = await Promise.all([part.load(), ...sheets])
    known = it
  }
  const Lazy = (props: Props) => {
    const [ready, setReady] = useState(known !== null)
    const [error, setError] = useState<ApiError | null>(null)
    // Before the next frame, as what it will ask for waits for it.
    useLayoutEffect(() => {
      if (ready) return
      let gone = false
      load().then(
        () => {
          if (!gone) setReady(true)
        },
        (thrown: unknown) => {
          if (gone || renewed(thrown)) return
          // Browsers say in different words that a module could not be fetched, but all with this class.
          setError(thrown instanceof TypeError ? unreachable() : toApiError(thrown))
        },
      )
      return () => {
        gone = true
      }
    }, [])
    // A module that failed to load stays failed for as long as the page lives.
    if (error) return h(ErrorState, { error, what: title, retry: () => location.reload() })
    if (known === null || !ready) return h(Skeleton, { rows: 6, label: `${title}: loading` })
    return createElement(known, props)
  }
  return Object.assign(Lazy, { prepare: () => void load().catch(() => {}) })
}

const loading = new Map<string, Promise<void>>()

/** Loads a style sheet of style/ once. One that cannot be had is no reason not to show the view. */
export function styleSheet(name: string): Promise<void> {
  const known = loading.get(name)
  if (known) return known
  const link = document.createElement('link')
  const loaded = new Promise<void>((resolve) => {
    link.onload = () => resolve()
    link.onerror = () => resolve()
  })
  link.rel = 'stylesheet'
  link.href = new URL(name, import.meta.url).href
  document.head.append(link)
  loading.set(name, loaded)
  return loaded
}
