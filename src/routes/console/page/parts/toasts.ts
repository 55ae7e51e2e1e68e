import { useEffect, useState } from 'preact/hooks'
import { toApiError } from '../api-error.ts'
import { html } from '../html.ts'
import { Button } from './button.ts'
import { Icon } from './icon.ts'

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

function show(toasts: readonly ToastShown[]): void {
  shown = toasts
  whenChanged()
}

/** Says for some seconds that something was done: "Route acme.voice published". */
export function toast(text: string, kind: 'ok' | 'failed' = 'ok'): void {
  const one = { id: next++, text, kind }
  show([...shown, one].slice(-SHOWN_MAX))
  // What failed stays until somebody closes it.
  if (kind === 'ok') setTimeout(() => close(one.id), SHOWN_MS)
}

/** Says what failed where there is no better place for it: "Publishing: the state does not answer". */
export function toastFault(what: string, thrown: unknown): void {
  toast(`${what}: ${toApiError(thrown).message}`, 'failed')
}

function close(id: number): void {
  show(shown.filter((one) => one.id !== id))
}

/** Drawn once, by the shell. It is a popover, so that it lies above open dialogs. */
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
    // Shown anew, it lies above a dialog that was opened after it.
    if (element.matches(':popover-open')) element.hidePopover()
    element.showPopover()
  }
  return html`<div class="toasts" popover="manual" ref=${raise} role="status" aria-live="polite">
    ${shown.map(
      ({ id, text, kind }) => html`<div class=${`toast toast-${kind}`} key=${id}>
        <${Icon} name=${kind === 'ok' ? 'check' : 'alert'} />
        <span class="toast-text">${text}</span>
        <${Button} kind="quiet" small icon="close" label="Close" onClick=${() => close(id)} />
      </div>`,
    )}
  </div>`
}
