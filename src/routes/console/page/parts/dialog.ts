import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { html } from '../html.ts'
import { useAction } from '../load.ts'
import { Button } from './button.ts'
import { TextInput } from './field.ts'
import { Fault } from './states.ts'

export interface DialogProps {
  readonly title: string
  /** Escape, the cross and the space around it call it; a dialog is open as long as it is drawn. */
  readonly onClose: () => void
  /** Makes the body a form; the footer's submit button, or Enter, calls it. */
  readonly onSubmit?: () => void
  readonly footer?: ComponentChildren
  readonly wide?: boolean
  /** Keeps it open while something runs, or while what it shows once was not yet copied. */
  readonly locked?: boolean
  readonly children: ComponentChildren
}

export function Dialog(props: DialogProps) {
  const { title, onClose, onSubmit, footer, wide = false, locked = false, children } = props
  const dialog = useRef<HTMLDialogElement>(null)
  const drawn = useRef(true)
  const heading = useId()
  useEffect(() => {
    const element = dialog.current
    if (!element) return
    const before = document.activeElement
    element.showModal()
    const first = element.querySelector<HTMLElement>(
      '[data-autofocus], .dialog-body :is(input, select, textarea)',
    )
    first?.focus()
    return () => {
      drawn.current = false
      element.close()
      if (before instanceof HTMLElement && before.isConnected) before.focus()
    }
  }, [])
  const leave = (event: Event) => {
    event.preventDefault()
    if (!locked) onClose()
  }
  // Chromium lets a page refuse only so many of them: what is still drawn is shown again.
  const stay = () => {
    if (drawn.current && !dialog.current?.open) dialog.current?.showModal()
  }
  const inside = html`<header class="dialog-head">
      <h2 id=${heading}>${title}</h2>
      <${Button} kind="quiet" icon="close" label="Close" onClick=${onClose} disabled=${locked} />
    </header>
    <div class="dialog-body">${children}</div>
    ${footer ? html`<footer class="dialog-foot">${footer}</footer>` : null}`
  return html`<dialog
    ref=${dialog}
    class=${wide ? 'dialog dialog-wide' : 'dialog'}
    aria-labelledby=${heading}
    onKeyDown=${(event: KeyboardEvent) => event.key === 'Escape' && leave(event)}
    onCancel=${leave}
    onClose=${stay}
    onPointerDown=${(event: PointerEvent) => event.target === dialog.current && leave(event)}
  >
    ${
      onSubmit
        ? html`<form
            class="dialog-inside"
            novalidate
            onSubmit=${(event: Event) => {
              event.preventDefault()
              onSubmit()
            }}
          >${inside}</form>`
        : html`<div class="dialog-inside">${inside}</div>`
    }
  </dialog>`
}

export interface ConfirmProps {
  /** A question that names what is destroyed: `Delete the route acme.voice?` */
  readonly title: string
  /** What the button says: `Delete route`. */
  readonly action: string
  /** Closes the dialog when it succeeded. */
  readonly onConfirm: () => Promise<unknown>
  readonly onClose: () => void
  /** For the gravest: what has to be typed before. */
  readonly typed?: string
  /** False: it destroys nothing, so the button is not red. */
  readonly danger?: boolean
  /** What follows from it. */
  readonly children?: ComponentChildren
}

export function Confirm(props: ConfirmProps) {
  const { title, action, onConfirm, onClose, typed, danger = true, children } = props
  const [text, setText] = useState('')
  const { run, busy, error } = useAction(onConfirm)
  const ready = typed === undefined || text === typed
  const submit = async () => {
    if (ready && (await run())) onClose()
  }
  const footer = html`<${Button} onClick=${onClose} disabled=${busy}>Cancel<//>
    <${Button} type="submit" kind=${danger ? 'danger' : 'primary'} busy=${busy} disabled=${!ready}>
      ${action}
    <//>`
  return html`<${Dialog} title=${title} onClose=${onClose} onSubmit=${submit} footer=${footer} locked=${busy}>
    ${children}
    ${
      typed === undefined
        ? null
        : html`<${TextInput} label=${`Type ${typed} to go on`} value=${text} onInput=${setText} mono autofocus />`
    }
    <${Fault} error=${error} />
  <//>`
}
