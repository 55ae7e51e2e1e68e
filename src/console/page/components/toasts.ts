import { useEffect, useState } from 'preact/hooks'
import { toApiError } from '../api.ts'
import { h } from '../h.ts'
import { Button, Icon } from './button.ts'

interface ToastShown {
  readonly id: number
  readonly text: string
  readonly kind: 'ok' | 'failed'
}

const SHOWN_MS = 5_000
const SHOWN_MAX = 4

let next = 1
let shown: readonly ToastShown[] = []
let whenChanged: () => void = () => {}

function showToasts(toasts: readonly ToastShown[]): void {
  shown = toasts
  whenChanged()
}

/** Says for some seconds that something was done: "Route acme.voice published". */
export function toast(text: string, kind: 'ok' | 'failed' = 'ok'): void {
  const one = { id: next++, text, kind }
  showToasts([...shown, one].slice(-SHOWN_MAX))
  // Errors stay until they are closed.
  if (kind === 'ok') setTimeout(() => close(one.id), SHOWN_MS)
}

/** Reports a failure that has no better place: "Publishing: the state does not answer". */
export function toastError(what: string, thrown: unknown): void {
  toast(`${what}: ${toApiError(thrown).message}`, 'failed')
}

function close(id: number): void {
  showToasts(shown.filter((one) => one.id !== id))
}

/** Drawn once, by the shell. A popover lies above open dialogs. */
export function Toasts() {
  const [, redraw] = useState(0)
  useEffect(() => {
    whenChanged = () => redraw((old) => old + 1)
    return () => {
      whenChanged = () => {}
    }
  }, [])
  const raise = (element: HTMLElement | null) => {
    if (!element || shown.length === 0) return
    // Showing it again puts it above a dialog that was opened after it.
    if (element.matches(':popover-open')) element.hidePopover()
    element.showPopover()
  }
  return h(
    'div',
    { class: 'toasts', popover: 'manual', ref: raise, role: 'status', 'aria-live': 'polite' },
    shown.map(({ id, text, kind }) =>
      h(
        'div',
        { class: `toast toast-${kind}`, key: id },
        h(Icon, { name: kind === 'ok' ? 'check' : 'alert' }),
        h('span', { class: 'toast-text' }, text),
        h(Button, { kind: 'quiet', small: true, icon: 'close', label: 'Close', onClick: () => close(id) }),
      ),
    ),
  )
}
