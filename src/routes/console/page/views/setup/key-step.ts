import { useState } from 'preact/hooks'
import type { NewKeyAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { TextInput } from '../../parts/field.ts'
import { Fault } from '../../parts/states.ts'
import { apiPath } from '../../paths.ts'
import type { Standing } from './view.ts'

/** Creates a key of the app. It is shown in the next step, and never again. */
export function KeyStep(props: {
  readonly workspace: string
  readonly standing: Standing
  readonly onMade: (key: NewKeyAnswer) => void
}) {
  const { workspace, standing, onMade } = props
  const { app } = standing.setup
  const [name, setName] = useState('first-key')
  const { run, busy, error } = useAction(async () => {
    const path = apiPath`/workspaces/${workspace}/keys`
    onMade(await api.post<NewKeyAnswer>(path, { name: name.trim() || 'first-key', app }))
  })
  const submit = (event: Event) => {
    event.preventDefault()
    void run()
  }
  return html`<form class="stack" onSubmit=${submit} novalidate>
    <${TextInput}
      label="Key name"
      value=${name}
      onInput=${setName}
      maxLength=${128}
      width="medium"
      hint=${`Authenticates the app ${app ?? ''}.`}
    />
    <${Fault} error=${error} what="Not created" />
    <div><${Button} type="submit" kind="primary" busy=${busy}>Create key<//></div>
  </form>`
}
