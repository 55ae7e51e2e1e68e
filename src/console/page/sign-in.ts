import { useEffect, useRef, useState } from 'preact/hooks'
import type { SessionAnswer, SignInAnswer } from '../server/answers/access.ts'
import { Button, Icon, LinkButton } from './components/button.ts'
import { TextInput } from './components/field.ts'

import { ErrorNote, Note } from './components/states.ts'
import { h } from './h.ts'
import { useAction } from './load.ts'
import { signIn, useWaysIn } from './session.ts'
import { Mark } from './shell.ts'

const COMMAND = 'npx larkway key create --workspace <workspace> --app <app> --scopes admin'

/** Why single sign-on led back here, by the word in the address. */
const FAULTS = {
  denied: 'The sign-in was cancelled, or your identity provider refused it.',
  expired: 'This sign-in has expired or was already used. Try again.',
  no_role:
    'You are signed in at your identity provider, but you have no role here. Ask an operator of Larkway.',
  off: 'Single sign-on is not set up here.',
  refused: 'The answer of the identity provider could not be accepted. The log of Larkway says why.',
  too_many: 'Too many failed sign-ins from your address. Wait a minute, then try again.',
  unavailable: 'The identity provider doesn’t answer. Try again in a moment.',
} as const
type Fault = keyof typeof FAULTS
const FAULT = 'sign_in'

export function SignIn(props: {
  /** A session has ended; false: there was none. */
  readonly ended: boolean
  readonly onSession: (session: SessionAnswer) => void
}) {
  const load = useWaysIn()
  // A server that does not say takes keys, as those before it did.
  const ways: SignInAnswer | null =
    load.state === 'loading' ? null : load.state === 'ready' ? load.value : { keys: true, oidc: null }
  const [fault] = useState(takeFault)
  useEffect(() => {
    document.title = 'Sign in · Larkway'
    document.querySelector<HTMLElement>('.sign-in input, .sign-in .button')?.focus()
  }, [ways === null])
  return h(
    'main',
    { class: 'sign-in' },
    h(
      'div',
      { class: 'sign-in-form' },
      h('p', { class: 'brand' }, h(Mark, null), 'Larkway'),
      h('h1', null, 'Sign in to the console'),
      h(
        'p',
        { class: 'quiet' },
        'Larkway is a self-hosted AI gateway for speech and audio. Here you manage its providers, routes and keys.',
      ),
      props.ended ? h(Note, { tone: 'warn' }, 'Your session has expired. Sign in to continue.') : null,
      fault === null ? null : h('div', { role: 'alert' }, h(Note, { tone: 'bad' }, FAULTS[fault])),
      ways?.oidc
        ? h(
            LinkButton,
            { kind: 'primary', href: startUrl(ways.oidc.url, fault) },
            `Sign in with ${ways.oidc.name}`,
          )
        : null,
      ways?.oidc && ways.keys ? h('p', { class: 'sign-in-or quiet small' }, 'or') : null,
      ways?.keys ? h(KeyForm, { isOnlyWay: ways.oidc === null, onSession: props.onSession }) : null,
    ),
  )
}

function KeyForm(props: {
  readonly isOnlyWay: boolean
  readonly onSession: (session: SessionAnswer) => void
}) {
  const [key, setKey] = useState('')
  const { run, busy, error, clear } = useAction(async () => props.onSession(await signIn(key.trim())))
  const [empty, setEmpty] = useState(false)
  const wrong = error?.status === 401 || error?.status === 403
  const submit = (event: Event) => {
    event.preventDefault()
    if (key.trim() === '') setEmpty(true)
    else void run()
  }
  return [
    h(
      'form',
      { class: 'sign-in-form', onSubmit: submit, novalidate: true },
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
      h(
        Button,
        { type: 'submit', kind: props.isOnlyWay ? 'primary' : 'plain', busy },
        props.isOnlyWay ? 'Sign in' : 'Sign in with the key',
      ),
    ),
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
  ]
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

/** The fault that the address names, which is taken out of it; null: it names none. */
function takeFault(): Fault | null {
  const query = new URLSearchParams(location.search)
  const word = query.get(FAULT)
  if (word === null) return null
  query.delete(FAULT)
  const rest = query.toString()
  history.replaceState(history.state, '', location.pathname + (rest === '' ? '' : `?${rest}`))
  return Object.hasOwn(FAULTS, word) ? (word as Fault) : null
}

/** Leads back to this page afterwards. After a refusal the issuer is told to ask for the account again. */
function startUrl(url: string, fault: Fault | null): string {
  const again = fault === 'no_role' ? { again: 'true' } : {}
  return `${url}?${new URLSearchParams({ return_to: location.pathname + location.search, ...again })}`
}

function messageFor(status: number): string {
  return status === 403
    ? 'This key needs the admin or the operator scope to sign in.'
    : 'This key isn’t valid. It may be mistyped, revoked or expired.'
}
