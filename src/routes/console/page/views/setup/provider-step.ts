import { useState } from 'preact/hooks'
import type { KindAnswer, ProviderAnswer, ProviderCheckAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { Select, TextInput } from '../../parts/field.ts'
import { Fault, Note } from '../../parts/states.ts'
import { apiPath } from '../../paths.ts'
import { bodyOf, faultsOf, formOf } from '../providers/provider-form.ts'
import type { Standing } from './view.ts'

const SANDBOX = 'sandbox'

interface ProviderStepProps {
  readonly workspace: string
  readonly standing: Standing
  readonly isOperator: boolean
  readonly onDone: () => void
}

/** Either the sandbox, by one click, or an account at a provider. */
export function ProviderStep({ workspace, standing, isOperator, onDone }: ProviderStepProps) {
  const hasSandbox = standing.kinds.some(({ kind }) => kind === SANDBOX)
  const sandbox = useAction(async () => {
    await api.put(apiPath`/workspaces/${workspace}/providers/${`${workspace}.${SANDBOX}`}`, { kind: SANDBOX })
    onDone()
  })
  const others = standing.kinds.filter(
    ({ kind, base_url: address }) => kind !== SANDBOX && (isOperator || address !== null),
  )
  return html`<div class="setup-choices">
    ${
      hasSandbox
        ? html`<section class="setup-choice">
            <h3>Sandbox</h3>
            <p>
              Built into Larkway: no account and no cost. It speaks and transcribes Morse code, and answers chats, so
              you can try every endpoint.
            </p>
            <${Fault} error=${sandbox.error} what="Not added" />
            <div><${Button} kind="primary" onClick=${() => sandbox.run()} busy=${sandbox.busy}>Use the sandbox<//></div>
          </section>`
        : null
    }
    <section class="setup-choice">
      <h3>Your own account</h3>
      <${Account} workspace=${workspace} kinds=${others} isOperator=${isOperator} onDone=${onDone} />
    </section>
  </div>`
}

function Account(props: {
  readonly workspace: string
  readonly kinds: readonly KindAnswer[]
  readonly isOperator: boolean
  readonly onDone: () => void
}) {
  const { workspace, kinds, isOperator, onDone } = props
  const [form, setForm] = useState(() => {
    const first = kinds.find(({ kind }) => kind === 'openai') ?? kinds[0]
    return { ...formOf(null, first ? [first] : []), name: first?.kind ?? '' }
  })
  const [tried, setTried] = useState(false)
  const [trouble, setTrouble] = useState<string | null>(null)
  const known = { before: null, kinds, workspace, taken: [], setsAddress: isOperator }
  const faults = faultsOf(form, known)
  const needsAddress = kinds.find(({ kind }) => kind === form.kind)?.base_url === null
  const { run, busy, error } = useAction(async () => {
    setTrouble(null)
    const path = apiPath`/workspaces/${workspace}/providers/${`${workspace}.${form.name}`}`
    await api.put<ProviderAnswer>(path, bodyOf(form, { setsAddress: isOperator }))
    const check = await api.post<ProviderCheckAnswer>(`${path}/check`)
    if (check.ok) onDone()
    else setTrouble(check.trouble ?? 'no reason given')
  })
  const submit = (event: Event) => {
    event.preventDefault()
    setTried(true)
    if (Object.keys(faults).length === 0) void run()
  }
  return html`<form class="stack" onSubmit=${submit} novalidate>
    <${Select}
      label="Provider type"
      value=${form.kind}
      onChange=${(kind: string) => setForm({ ...form, kind, name: kind })}
      options=${kinds.map(({ kind }) => kind)}
    />
    <${TextInput}
      label="API key"
      type="password"
      autocomplete="new-password"
      value=${form.credential}
      onInput=${(credential: string) => setForm({ ...form, credential })}
      hint="Encrypted at rest. You won’t be able to see it again."
      error=${tried ? (faults.credential ?? null) : null}
    />
    ${
      needsAddress
        ? html`<${TextInput}
            label="Base URL"
            type="url"
            mono
            value=${form.baseUrl}
            onInput=${(baseUrl: string) => setForm({ ...form, baseUrl })}
            placeholder="https://speech.example.com/v1"
            error=${tried ? (faults.baseUrl ?? null) : null}
          />`
        : null
    }
    <${Fault} error=${error} what="Not connected" />
    ${
      trouble === null
        ? null
        : html`<${Note} tone="bad">
            <p>Saved, but couldn’t connect: ${trouble}. Check the API key, then try again.</p>
            <${Button} small onClick=${onDone}>Continue anyway<//>
          <//>`
    }
    <div><${Button} type="submit" busy=${busy}>Connect<//></div>
  </form>`
}
