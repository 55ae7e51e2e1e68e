import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { ApiError } from '../api-error.ts'
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
      giveBack(before)
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
            onSubmit=${(event: SubmitEvent) => {
              event.preventDefault()
              onSubmit()
              lookAtFault(event.currentTarget as HTMLElement)
            }}
          >${inside}</form>`
        : html`<div class="dialog-inside">${inside}</div>`
    }
  </dialog>`
}

/** The focus goes where it was. What had it may be gone with what was done: then the heading of the view has it. */
function giveBack(before: Element | null): void {
  if (before instanceof HTMLElement && before.isConnected) before.focus()
  // What is drawn in this turn may take it away again.
  requestAnimationFrame(() => {
    if (document.activeElement === document.body)
      document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
  })
}

/** Once what was found fault with is marked, the first such field has the focus. */
function lookAtFault(form: HTMLElement): void {
  requestAnimationFrame(() => form.querySelector<HTMLElement>('[aria-invalid=true]')?.focus())
}

export interface FormDialogProps {
  readonly title: string
  /** What its button says: `Create key`. */
  readonly action: string
  readonly onSubmit: () => void
  readonly onClose: () => void
  /** What was asked for is under way: the dialog stays, and takes no more. */
  readonly busy?: boolean
  /** Why it failed. */
  readonly error?: ApiError | null
  /** What the error means here: `Not saved`. */
  readonly what?: string
  /** It cannot be submitted as it stands. */
  readonly disabled?: boolean
  readonly danger?: boolean
  readonly wide?: boolean
  readonly children?: ComponentChildren
}

/** A dialog that is filled in: its fields, why it failed, and at its foot the way back and what it does. */
export function FormDialog(props: FormDialogProps) {
  const { title, action, onSubmit, onClose, busy = false, error = null, what, disabled = false } = props
  const footer = html`<${Button} onClick=${onClose} disabled=${busy}>Cancel<//>
    <${Button} type="submit" kind=${props.danger ? 'danger' : 'primary'} busy=${busy} disabled=${disabled}>
      ${action}
    <//>`
  return html`<${Dialog}
    title=${title}
    wide=${props.wide}
    onClose=${onClose}
    onSubmit=${() => busy || disabled || onSubmit()}
    footer=${footer}
    locked=${busy}
  >
    ${props.children}
    <${Fault} error=${error} what=${what} />
  <//>`
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
    if (await run()) onClose()
  }
  return html`<${FormDialog}
    title=${title}
    action=${action}
    onSubmit=${submit}
    onClose=${onClose}
    busy=${busy}
    error=${error}
    disabled=${!ready}
    danger=${danger}
  >
    ${children}
    ${
      typed === undefined
        ? null
        : html`<${TextInput} label=${`Type ${typed} to confirm`} value=${text} onInput=${setText} mono autofocus />`
    }
  <//>`
}
