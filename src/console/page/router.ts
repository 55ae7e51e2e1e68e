import { useEffect, useState } from 'preact/hooks'

interface LeaveGuard {
  /** False stays. */
  readonly asks: () => boolean
  readonly drop: () => void
}

const listeners = new Set<() => void>()
/** Asked before the page leaves for another place. */
let guard: LeaveGuard | null = null
let here = ''
/** The page went to another place, whose heading is to have the focus. */
let arriving = false

/** Key of a history entry's kept state. */
let entry = ''
const KEPT_MAX = 50
const SCROLLED = 'lk-scrolled'
const scrolled: Map<string, number> = stored()
/** State that views keep for a history entry, such as loaded pages of a list, for as long as the page lives. */
const kept = new Map<string, Map<string, unknown>>()

function stored(): Map<string, number> {
  try {
    return new Map(JSON.parse(sessionStorage.getItem(SCROLLED) ?? '[]') as [string, number][])
  } catch {
    return new Map()
  }
}

/** Keeps the scroll position when the page is left, also for a reload of the tab. */
function leaving(): void {
  scrolled.delete(entry)
  scrolled.set(entry, scrollY)
  for (const old of [...scrolled.keys()].slice(0, -KEPT_MAX)) scrolled.delete(old)
  for (const old of [...kept.keys()].slice(0, -KEPT_MAX)) kept.delete(old)
  try {
    sessionStorage.setItem(SCROLLED, JSON.stringify([...scrolled]))
  } catch {
    // Storage may be forbidden: then nothing outlives the page.
  }
}

function entryOf(state: unknown): string {
  const name = typeof state === 'object' && state !== null && 'entry' in state ? state.entry : null
  return typeof name === 'string' ? name : ''
}

function newEntry(): { readonly entry: string } {
  entry = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`
  return { entry }
}

const RETURN_WITHIN_MS = 4_000
/** Content that loads late above the scroll position, such as filters, would move it. */
const SETTLED_AFTER_MS = 1_500

/** Restores the scroll position of the entry as soon as the content is long enough, unless the reader scrolls first. */
function returnTo(top: number): void {
  const untilMs = performance.now() + RETURN_WITHIN_MS
  const stop = () => {
    returning = 0
    for (const event of ['wheel', 'touchstart', 'keydown', 'pointerdown']) removeEventListener(event, stop)
  }
  const turn = ++turns
  returning = turn
  for (const event of ['wheel', 'touchstart', 'keydown', 'pointerdown'])
    addEventListener(event, stop, { passive: true })
  let reachedMs: number | null = null
  const step = () => {
    if (returning !== turn) return
    scrollTo(0, top)
    const nowMs = performance.now()
    if (Math.abs(scrollY - top) < 2) reachedMs ??= nowMs
    if (nowMs > Math.min(untilMs, (reachedMs ?? untilMs) + SETTLED_AFTER_MS)) stop()
    else requestAnimationFrame(step)
  }
  requestAnimationFrame(step)
}

let returning = 0
let turns = 0

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
  if (replace) history.replaceState(history.state, '', path)
  else {
    leaving()
    history.pushState(newEntry(), '', path)
  }
  tell()
  if (!replace) scrollTo(0, 0)
}

/** The reader moves elsewhere before the view has loaded: its heading would take the focus away from them. */
function goOn(event: Event): void {
  if (!(event instanceof KeyboardEvent) || event.key === 'Tab') arriving = false
}

/**
 * True if the page has just come here, so that its heading takes the focus: once for each place, and not after the
 * reader has moved the focus.
 */
export function arrived(): boolean {
  const came = arriving
  arriving = false
  return came
}

/** Follows links into the console, and back and forward, without reloading the page. Called once. */
export function startRouter(): void {
  here = current()
  history.scrollRestoration = 'manual'
  entry = entryOf(history.state)
  if (entry === '') history.replaceState(newEntry(), '')
  else returnTo(scrolled.get(entry) ?? 0)
  addEventListener('pagehide', leaving)
  addEventListener('pointerdown', goOn)
  addEventListener('keydown', goOn)
  addEventListener('popstate', ({ state }) => {
    // A link to a part of the page made this entry: the view stays what it is.
    if (entryOf(state) === '') return history.replaceState({ entry }, '')
    if (!mayLeave(current())) {
      history.pushState({ entry }, '', here)
      return
    }
    leaving()
    entry = entryOf(state)
    tell()
    returnTo(scrolled.get(entry) ?? 0)
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
  return pathIn(here) === pathIn(path) || mayEnd()
}

/** True if the page may be left, as before signing out; asks where something is not saved. */
export function mayEnd(): boolean {
  return guard === null || guard.asks()
}

/** The reader has agreed: the page goes without another question. */
export function dropLeaveGuard(): void {
  guard?.drop()
}

function pathIn(address: string): string {
  return address.split('?')[0] ?? ''
}

/** `{path, query}` of the page; renders again when they change. */
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

/** Names the entry of the history: as the key of a component, it has state of its own for each entry. */
export function entryName(): string {
  return entry
}

/** A state that is there again when one comes back to this entry of the history. */
export function useKept<Value>(name: string, initial: Value): [Value, (value: Value) => void] {
  const [mine] = useState(() => {
    const known = kept.get(entry) ?? new Map<string, unknown>()
    kept.delete(entry)
    kept.set(entry, known)
    return known
  })
  const [value, setValue] = useState<Value>(() => (mine.has(name) ? (mine.get(name) as Value) : initial))
  const set = (next: Value) => {
    mine.set(name, next)
    setValue(next)
  }
  return [value, set]
}

/** Asks before the page is left while `unsaved`: in the page, and when its tab is closed. */
export function useLeaveGuard(unsaved: boolean, question = 'You have unsaved changes. Leave anyway?'): void {
  useEffect(() => {
    if (!unsaved) return
    const before = (event: BeforeUnloadEvent) => event.preventDefault()
    const drop = () => {
      if (guard === mine) guard = null
      removeEventListener('beforeunload', before)
    }
    const mine: LeaveGuard = { asks: () => confirm(question), drop }
    guard = mine
    addEventListener('beforeunload', before)
    return drop
  }, [unsaved, question])
}
