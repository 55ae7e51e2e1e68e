import { useEffect, useState } from 'preact/hooks'

const listeners = new Set<() => void>()
/** Asked before the page leaves for another place; false stays. */
let guard: (() => boolean) | null = null
let here = ''
/** The page went to another place, and nothing there has the focus yet. */
let arriving = false

function current(): string {
  return location.pathname + location.search
}

function tell(): void {
  arriving ||= pathIn(here) !== location.pathname
  here = current()
  for (const listener of listeners) listener()
}

/** Goes to a path of the console, within the page. */
export function navigate(path: string, { replace = false } = {}): void {
  if (path === current() || !mayLeave(path)) return
  if (replace) history.replaceState(null, '', path)
  else history.pushState(null, '', path)
  tell()
  if (!replace) scrollTo(0, 0)
}

/** Whether the page just came to this place, so that its heading takes the focus; said once for each place. */
export function arrived(): boolean {
  const came = arriving
  arriving = false
  return came
}

/** Follows links into the console, and the browser's own steps, without loading the page anew. Called once. */
export function startRouter(): void {
  here = current()
  addEventListener('popstate', () => {
    if (mayLeave(current())) tell()
    else history.pushState(null, '', here)
  })
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!link || event.defaultPrevented || event.button !== 0) return
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
    if (link.target !== '' || link.hasAttribute('download') || link.origin !== location.origin) return
    if (link.hash !== '' && link.pathname === location.pathname) return
    if (!/^\/console(\/(?!api\/|assets\/)|$)/.test(link.pathname)) return
    event.preventDefault()
    navigate(link.pathname + link.search)
  })
}

/** A change of the query alone stays in the view, so it loses nothing. */
function mayLeave(path: string): boolean {
  return pathIn(here) === pathIn(path) || guard === null || guard()
}

function pathIn(address: string): string {
  return address.split('?')[0] ?? ''
}

/** `{path, query}` of the page, and anew whenever they change. */
export function useLocation(): { readonly path: string; readonly query: URLSearchParams } {
  const [at, setAt] = useState(current)
  useEffect(() => {
    const listener = () => setAt(current())
    listeners.add(listener)
    listener()
    return () => void listeners.delete(listener)
  }, [])
  const [path = '', search = ''] = at.split('?')
  return { path, query: new URLSearchParams(search) }
}

/**
 * Fields of the query, for filters that a link should keep: `const [query, setQuery] = useQuery()`. Setting replaces
 * the entry of the history; null or '' removes the field.
 */
export function useQuery(): [URLSearchParams, (fields: Readonly<Record<string, string | null>>) => void] {
  const { query } = useLocation()
  const set = (fields: Readonly<Record<string, string | null>>) => {
    const next = new URLSearchParams(location.search)
    for (const [name, value] of Object.entries(fields)) {
      if (value === null || value === '') next.delete(name)
      else next.set(name, value)
    }
    const text = next.toString()
    navigate(location.pathname + (text === '' ? '' : `?${text}`), { replace: true })
  }
  return [query, set]
}

/** Asks before the page is left while `unsaved`: in the page, and when its tab is closed. */
export function useLeaveGuard(unsaved: boolean, question = 'You have unsaved changes. Leave anyway?'): void {
  useEffect(() => {
    if (!unsaved) return
    const before = (event: BeforeUnloadEvent) => event.preventDefault()
    const asks = () => confirm(question)
    guard = asks
    addEventListener('beforeunload', before)
    return () => {
      if (guard === asks) guard = null
      removeEventListener('beforeunload', before)
    }
  }, [unsaved, question])
}
