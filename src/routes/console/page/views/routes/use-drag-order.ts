import { useRef } from 'preact/hooks'
import { type Extent, landing, placeByDrag, shifts } from './order.ts'

/** Near an edge of the window the page scrolls, pixels and pixels per frame. */
const EDGE = 72
const SCROLL = 9

interface Drag {
  readonly items: readonly HTMLElement[]
  readonly extents: readonly Extent[]
  readonly from: number
  readonly pointer: number
  readonly startY: number
  y: number
  to: number
  frame: number
}

/**
 * Reorders the children of a list by dragging their handles, with a mouse, a pen or a finger. While it lasts, elements
 * are moved on the screen only; `onMove` is called once, when it is let go. Escape, or a second finger, gives it up.
 *
 * @returns `start` for `onPointerDown` of the handle of the element at `from`
 */
export function useDragOrder(onMove: (from: number, to: number) => void) {
  const drag = useRef<Drag | null>(null)
  const latest = useRef(onMove)
  latest.current = onMove

  const start = (event: PointerEvent, from: number) => {
    const handle = event.currentTarget as HTMLElement
    const list = handle.closest('[data-drag-list]')
    if (event.button !== 0 || drag.current !== null || list === null) return
    const items = [...list.children].filter((child) => child instanceof HTMLElement)
    const extents = items.map((item) => {
      const { top, height } = item.getBoundingClientRect()
      return { top: top + scrollY, height }
    })
    const y = event.clientY
    drag.current = {
      items,
      extents,
      from,
      pointer: event.pointerId,
      startY: y + scrollY,
      y,
      to: from,
      frame: 0,
    }
    handle.setPointerCapture(event.pointerId)
    items[from]?.classList.add('entry-dragged')
    list.classList.add('entries-dragging')
    follow(handle, drag, (result) => latest.current(result.from, result.to))
  }
  return start
}

function follow(handle: HTMLElement, drag: { current: Drag | null }, onMove: (drag: Drag) => void): void {
  const listening = new AbortController()
  const finish = (moved: boolean) => {
    const ended = drag.current
    if (ended === null) return
    listening.abort()
    cancelAnimationFrame(ended.frame)
    drag.current = null
    for (const item of ended.items) item.style.removeProperty('translate')
    ended.items[ended.from]?.classList.remove('entry-dragged')
    ended.items[0]?.parentElement?.classList.remove('entries-dragging')
    if (moved && ended.to !== ended.from) onMove(ended)
  }
  const { signal } = listening
  const isOurs = (event: PointerEvent) => event.pointerId === drag.current?.pointer
  const move = (event: PointerEvent) => {
    if (drag.current === null || !isOurs(event)) return
    drag.current.y = event.clientY
    show(drag.current)
  }
  handle.addEventListener('pointermove', move, { signal })
  handle.addEventListener('pointerup', (event) => isOurs(event) && finish(true), { signal })
  handle.addEventListener('pointercancel', (event) => isOurs(event) && finish(false), { signal })
  handle.addEventListener('lostpointercapture', (event) => isOurs(event) && finish(false), { signal })
  addEventListener('keydown', (event) => event.key === 'Escape' && finish(false), { signal })
  const scroll = () => {
    const current = drag.current
    if (current === null) return
    const speed = current.y < EDGE ? -SCROLL : current.y > innerHeight - EDGE ? SCROLL : 0
    if (speed !== 0) {
      scrollBy(0, speed)
      show(current)
    }
    current.frame = requestAnimationFrame(scroll)
  }
  scroll()
}

/** Puts every element where it would be if the drag ended now, and the dragged one under the pointer. */
function show(drag: Drag): void {
  const { items, extents, from } = drag
  const dy = drag.y + scrollY - drag.startY
  drag.to = placeByDrag(extents, from, dy)
  const room = shifts(extents, from, drag.to)
  const bounds = [landing(extents, from, 0), landing(extents, from, extents.length - 1)] as const
  const held = Math.min(Math.max(dy, bounds[0] - 12), bounds[1] + 12)
  for (const [index, item] of items.entries())
    item.style.setProperty('translate', `0 ${index === from ? held : (room[index] ?? 0)}px`)
}
