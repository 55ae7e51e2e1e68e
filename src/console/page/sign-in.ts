import { useEffect, useRef, useState } from 'preact/hooks'
import type { SessionAnswer } from '../server/api/answers.ts'
import { Button, Icon } from './components/button.ts'
import { TextInput } from './components/field.ts'

import { ErrorNote, Note } from './components/states.ts'
import { h } from './h.ts'
import { useAction } from './load.ts'
import { signIn } from './session.ts'
import { Mark } from './shell.ts'

const COMMAND = 'npx larkway key create --workspace <workspace> --app <app> --scopes admin'

export function SignIn(props: {
  /** A session has ended; otherwise nobody has signed in. */
  readonly ended: boolean
  readonly onSession: (session: SessionAnswer) => void
}) {
  const [key, setKey] = useState('')
  const { run, busy, error, clear } = useAction(async () => props.onSession(await signIn(key.trim())))
  useEffect(() => {
    document.title = 'Sign in · Larkway'
    document.querySelector<HTMLInputElement>('.sign-in input')?.focus()
  }, [])
  const [empty, setEmpty] = useState(false)
  const wrong = error?.status === 401 || error?.status === 403
  const submit = (event: Event) => {
    event.preventDefault()
    if (key.trim() === '') setEmpty(true)
    else void run()
  }
  return h(
    'main',
    { class: 'sign-in' },
    h(
      'form',
      { class: 'sign-in-form', onSubmit: submit, novalidate: true },
      h('p', { class: 'brand' }, h(Mark, null), 'Larkway'),
      h('h1', null, 'Sign in to the console'),
      h(
        'p',
        { class: 'quiet' },
        'Larkway is a self-hosted AI gateway for speech and audio. Here you manage its providers, routes and keys.',
      ),
      props.ended ? h(Note, { tone: 'warn' }, 'Your session has expired. Sign in to continue.') : null,
      h(TextInput, {
        label: 'API key',
        type: 'password',
        name: 'key',
        mono: true,
        value: key,
        error: empty ? 'Enter an API key.' : wrong ? messageFor(error.status) : null,
        hint: 'Needs the admin scope (one workspace) or the operator scope (all workspaces).',
        onInput: (value: string) => {
          setKey(value)
          setEmpty(false)
          clear()
        },
      }),
      error && !wrong ? h(ErrorNote, { error }) : null,
      h(Button, { type: 'submit', kind: 'primary', busy }, 'Sign in'),
      h(
        'details',
        { class: 'sign-in-help' },
        h('summary', null, 'Where do I get a key?', h(Icon, { name: 'down' })),
        h(
          'div',
          { class: 'stack stack-tight' },
          h('p', null, 'Running the demo? Use the key that Larkway printed when it started.'),
          h('p', null, 'Otherwise create one on the machine that runs Larkway, in its install folder:'),
          h('code', { class: 'sign-in-command' }, COMMAND),
          h('p', null, 'Or ask an admin of your workspace, who can create keys in this console.'),
        ),
      ),
    ),
  )
}

/** Lies over the page, and over a dialog that is open in it. */
export function SignInAgain({ onSession }: { readonly onSession: (session: SessionAnswer) => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return h(
    'dialog',
    {
      class: 'sign-in-over',
      'aria-label': 'Sign in',
      ref: dialog,
      onCancel: (event: Event) => event.preventDefault(),
    },
    h(SignIn, { ended: true, onSession }),
  )
}

function messageFor(status: number): string {
  return status === 403
    ? 'This key needs the admin or the operator scope to sign in.'
    : 'This key isn’t valid. It may be mistyped, revoked or expired.'
}
