import { useEffect, useState } from 'preact/hooks'
import type { SessionAnswer } from '../api/answers.ts'
import { html } from './html.ts'
import { useAction } from './load.ts'
import { Button } from './parts/button.ts'
import { TextInput } from './parts/field.ts'
import { Icon } from './parts/icon.ts'
import { Mark } from './parts/mark.ts'
import { Fault, Note } from './parts/states.ts'
import { signIn } from './session.ts'

const COMMAND = 'larkway key create --workspace <workspace> --app <app> --scopes admin'

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
      ${props.ended ? html`<${Note} tone="warn">Your session is over. Sign in to go on where you were.<//>` : null}
      <${TextInput}
        label="API key"
        type="password"
        name="key"
        mono
        value=${key}
        error=${empty ? 'Enter a key.' : wrong ? messageFor(error.status) : null}
        hint="Of scope admin, for its workspace, or operator, for all."
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
          <p>Started without a configuration file? Then the key that Larkway printed when it started works here.</p>
          <p>Otherwise make one where Larkway runs:</p>
          <code class="sign-in-command">${COMMAND}</code>
          <p>Or ask an admin of your workspace: they make keys in this console.</p>
        </div>
      </details>
    </form>
  </main>`
}

function messageFor(status: number): string {
  return status === 403
    ? 'This key has neither the scope admin nor operator.'
    : 'No such key: it is mistyped, revoked or expired.'
}
