import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, toApiError, unreachable } from './api-error.ts'
import { html } from './html.ts'
import { ErrorState, Skeleton } from './parts/states.ts'
import { styleSheet } from './style-sheet.ts'

interface LazyPart<Props> {
  /** What the page says that it loads, or could not. */
  readonly title: string
  readonly load: () => Promise<ComponentType<Props>>
  /** A style sheet of its own, in style/. */
  readonly style?: string
}

const RENEWED = 'lk-renewed'
/** So that two versions behind one balancer do not send a page to and fro. */
const RENEWED_PAUSE_MS = 60_000

/**
 * Loads the page anew where one of its modules does not fit the others: they are of two versions, since the server was
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

/** A part of the page whose module is loaded when it is first shown, and which is there at once from then on. */
export function lazy<Props extends object>(part: LazyPart<Props>): ComponentType<Props> {
  const { title, load, style } = part
  let known: ComponentType<Props> | null = null
  return function Lazy(props: Props) {
    const [ready, setReady] = useState(known !== null)
    const [error, setError] = useState<ApiError | null>(null)
    useEffect(() => {
      if (ready) return
      let gone = false
      Promise.all([load(), style === undefined ? null : styleSheet(`style/${style}.css`)]).then(
        ([it]) => {
          known = it
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
    if (error) return html`<${ErrorState} error=${error} what=${title} retry=${() => location.reload()} />`
    if (known === null || !ready) return html`<${Skeleton} rows=${6} label=${`${title}: loading`} />`
    return html`<${known} ...${props} />`
  }
}
