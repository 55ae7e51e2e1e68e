import { useEffect, useRef, useState } from 'preact/hooks'
import type { SessionAnswer } from '../api/answers.ts'
import { html } from './html.ts'
import { useAction } from './load.ts'
import { Button } from './parts/button.ts'
import { TextInput } from './parts/field.ts'
import { Icon } from './parts/icon.ts'
import { Mark } from './parts/mark.ts'
import { Fault, Note } from './parts/states.ts'
import { signIn } from './session.ts'

const COMMAND = 'npx larkway key create --workspace <workspace> --app <app> --scopes admin'

export function SignIn(props: {
  /** A session ended by itself, rather than that nobody signed in. */
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
  return html`<main class="sign-in">
    <form class="sign-in-form" onSubmit=${submit} novalidate>
      <p class="brand"><${Mark} />Larkway</p>
      <h1>Sign in to the console</h1>
      <p class="quiet">
        Larkway is a self-hosted AI gateway for speech and audio. Here you manage its providers, routes and keys.
      </p>
      ${props.ended ? html`<${Note} tone="warn">Your session has expired. Sign in to continue.<//>` : null}
      <${TextInput}
        label="API key"
        type="password"
        name="key"
        mono
        value=${key}
        error=${empty ? 'Enter an API key.' : wrong ? messageFor(error.status) : null}
        hint="Needs the admin scope (one workspace) or the operator scope (all workspaces)."
        onInput=${(value: string) => {
          setKey(value)
          setEmpty(false)
          clear()
        }}
      />
      ${error && !wrong ? html`<${Fault} error=${error} />` : null}
      <${Button} type="submit" kind="primary" busy=${busy}>Sign in<//>
      <details class="sign-in-help">
        <summary>Where do I get a key?<${Icon} name="down" /></summary>
        <div class="stack stack-tight">
          <p>Running the demo? Use the key that Larkway printed when it started.</p>
          <p>Otherwise create one on the machine that runs Larkway, in its install folder:</p>
          <code class="sign-in-command">${COMMAND}</code>
          <p>Or ask an admin of your workspace, who can create keys in this console.</p>
        </div>
      </details>
    </form>
  </main>`
}

/** Lies over the page, and over a dialog that is open in it. */
export function SignInAgain({ onSession }: { readonly onSession: (session: SessionAnswer) => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  return html`<dialog
    class="sign-in-over"
    aria-label="Sign in"
    ref=${dialog}
    onCancel=${(event: Event) => event.preventDefault()}
  >
    <${SignIn} ended onSession=${onSession} />
  </dialog>`
}

function messageFor(status: number): string {
  return status === 403
    ? 'This key needs the admin or the operator scope to sign in.'
    : 'This key isn’t valid. It may be mistyped, revoked or expired.'
}
