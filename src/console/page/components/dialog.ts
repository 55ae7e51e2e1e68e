import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { ApiError } from '../api.ts'
import { h } from '../h.ts'
import { useAction } from '../load.ts'
import { Button } from './button.ts'
import { TextInput } from './field.ts'
import { ErrorNote } from './states.ts'

export interface DialogProps {
  readonly title: string
  /** Escape, the cross and the space around it call it; a dialog is open as long as it is drawn. */
  readonly onClose: () => void
  /** Makes the body a form; the footer's submit button, or Enter, calls it. */
  readonly onSubmit?: () => void
  readonly footer?: ComponentChildren
  readonly wide?: boolean
  /** Keeps it open while something runs, or until a secret shown once is copied. */
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
  // Chromium lets a page refuse only a few closings: a dialog that is still drawn is shown again.
  const stay = () => {
    if (drawn.current && !dialog.current?.open) dialog.current?.showModal()
  }
  const inside = [
    h(
      'header',
      { class: 'dialog-head' },
      h('h2', { id: heading }, title),
      h(Button, { kind: 'quiet', icon: 'close', label: 'Close', onClick: onClose, disabled: locked }),
    ),
    h('div', { class: 'dialog-body' }, children),
    footer ? h('footer', { class: 'dialog-foot' }, footer) : null,
  ]
  return h(
    'dialog',
    {
      ref: dialog,
      class: wide ? 'dialog dialog-wide' : 'dialog',
      'aria-labelledby': heading,
      onKeyDown: (event: KeyboardEvent) => event.key === 'Escape' && leave(event),
      onCancel: leave,
      onClose: stay,
      onPointerDown: (event: PointerEvent) => event.target === dialog.current && leave(event),
    },
    onSubmit
      ? h(
          'form',
          {
            class: 'dialog-inside',
            novalidate: true,
            onSubmit: (event: SubmitEvent) => {
              event.preventDefault()
              onSubmit()
              focusFirstIssue(event.currentTarget as HTMLElement)
            },
          },
          inside,
        )
      : h('div', { class: 'dialog-inside' }, inside),
  )
}

/** Returns the focus to where it was; to the heading of the view if that element is gone. */
function giveBack(before: Element | null): void {
  if (before instanceof HTMLElement && before.isConnected) before.focus()
  // A later render of this turn may take the focus away again.
  requestAnimationFrame(() => {
    if (document.activeElement === document.body)
      document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true })
  })
}

/** Focuses the first field with an error, once the errors are marked. */
function focusFirstIssue(form: HTMLElement): void {
  requestAnimationFrame(() => form.querySelector<HTMLElement>('[aria-invalid=true]')?.focus())
}

export interface FormDialogProps {
  readonly title: string
  /** Text of the submit button: `Create key`. */
  readonly action: string
  readonly onSubmit: () => void
  readonly onClose: () => void
  /** The action is running: the dialog stays open and takes no other. */
  readonly busy?: boolean
  /** Why it failed. */
  readonly error?: ApiError | null
  /** Heading of the error: `Not saved`. */
  readonly what?: string
  /** The form cannot be submitted yet. */
  readonly disabled?: boolean
  readonly danger?: boolean
  readonly wide?: boolean
  readonly children?: ComponentChildren
}

/** A dialog with a form: its fields, the error, and buttons to cancel and submit. */
export function FormDialog(props: FormDialogProps) {
  const { title, action, onSubmit, onClose, busy = false, error = null, what, disabled = false } = props
  const footer = [
    h(Button, { onClick: onClose, disabled: busy }, 'Cancel'),
    h(Button, { type: 'submit', kind: props.danger ? 'danger' : 'primary', busy, disabled }, action),
  ]
  return h(
    Dialog,
    {
      title,
      wide: props.wide,
      onClose,
      onSubmit: () => busy || disabled || onSubmit(),
      footer,
      locked: busy,
    },
    props.children,
    h(ErrorNote, { error, what }),
  )
}

export interface ConfirmProps {
  /** A question that names the thing to be destroyed: `Delete the route acme.voice?` */
  readonly title: string
  /** Text of the button: `Delete route`. */
  readonly action: string
  /** Closes the dialog when it succeeded. */
  readonly onConfirm: () => Promise<unknown>
  readonly onClose: () => void
  /** Text that must be typed first, for the gravest actions. */
  readonly typed?: string
  /** False: it destroys nothing, so the button is not red. */
  readonly danger?: boolean
  /** The consequences. */
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
  return h(
    FormDialog,
    { title, action, onSubmit: submit, onClose, busy, error, disabled: !ready, danger },
    children,
    typed === undefined
      ? null
      : h(TextInput, {
          label: `Type ${typed} to confirm`,
          value: text,
          onInput: setText,
          mono: true,
          autofocus: true,
        }),
  )
}
