import { useEffect, useState } from 'preact/hooks'
import { lasting, moment, relative, zone } from '../format.ts'
import { h } from '../h.ts'

const TICK_MS = 10_000
const listeners = new Set<() => void>()
let ticking = 0

/** All times of the page tick together. */
function useNow(): number {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const listener = () => setNow(Date.now())
    listeners.add(listener)
    if (listeners.size === 1)
      ticking = window.setInterval(() => {
        if (!document.hidden) for (const one of listeners) one()
      }, TICK_MS)
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0) clearInterval(ticking)
    }
  }, [])
  return now
}

/** "4 min ago", with the moment itself as a tooltip; `exact` shows the moment itself, `lasts` "4 min" since then. */
export function Time(props: {
  /** RFC 3339, or epoch milliseconds. */
  readonly at: string | number | null
  /** Shown where there is none. */
  readonly none?: string
  readonly exact?: boolean
  readonly lasts?: boolean
}) {
  const { at, none = '–', exact = false, lasts = false } = props
  const now = useNow()
  const atMs = at === null ? Number.NaN : new Date(at).getTime()
  if (Number.isNaN(atMs)) return h('span', { class: 'quiet' }, none)
  const whole = `${moment(atMs)} ${zone(atMs)}`
  // A clock a little ahead of this one is no future.
  const shownMs = Math.abs(now - atMs) < TICK_MS ? Math.min(atMs, now) : atMs
  const shown = exact ? whole : lasts ? lasting(shownMs, now) : relative(shownMs, now)
  return h('time', { class: 'time', datetime: new Date(atMs).toISOString(), title: whole }, shown)
}
