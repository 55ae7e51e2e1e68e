import { useState } from 'preact/hooks'
import type { ModelsAnswer, RouteAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { type Load, useAction } from '../../load.ts'
import { nameFault, wholeName } from '../../names.ts'
import { LinkButton } from '../../parts/button.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { TextInput } from '../../parts/field.ts'
import { EmptyState, Loaded } from '../../parts/states.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { EntryPicker, type Picked } from './entry-picker.ts'

/** Makes a route as a draft with its first entry, and goes there. */
export function CreateRoute(props: {
  readonly workspace: string
  readonly models: Load<ModelsAnswer>
  /** Whole names of the routes that there are. */
  readonly taken: readonly string[]
  readonly onClose: () => void
}) {
  const { workspace, models, taken, onClose } = props
  const [name, setName] = useState('')
  const [picked, setPicked] = useState<Picked | null>(null)
  const [tried, setTried] = useState(false)
  const whole = wholeName(workspace, name)
  const nameWrong = nameFault(name, { workspace, taken })
  const { run, busy, error } = useAction(async () => {
    const fields = { workspace, entries: picked === null ? [] : [picked] }
    const path = apiPath`/workspaces/${workspace}/routes/${whole}/draft`
    await api.put<RouteAnswer>(path, { fields, revision: null })
    toast(`Draft of ${whole} created`)
    navigate(pathOf(workspace, 'routes', whole))
  })
  const submit = () => {
    setTried(true)
    if (nameWrong === null && picked !== null) run()
  }
  const hasProvider = models.state !== 'ready' || models.value.providers.length > 0
  return html`<${FormDialog}
    wide
    title="Create route"
    action="Create draft"
    onSubmit=${submit}
    onClose=${onClose}
    busy=${busy}
    error=${error}
    disabled=${!hasProvider}
  >
    <div class="stack">
      <${TextInput}
        label="Name"
        value=${name}
        onInput=${setName}
        mono
        autofocus
        required
        maxLength=${64}
        placeholder="voice"
        hint=${`Full name: ${wholeName(workspace, name || 'voice')}. Can’t be changed later.`}
        error=${tried || name !== '' ? nameWrong : null}
      />
      <${FirstEntry}
        workspace=${workspace}
        models=${models}
        picked=${picked}
        onPick=${setPicked}
        isMissed=${tried && picked === null && hasProvider}
      />
    </div>
  <//>`
}

function FirstEntry(props: {
  readonly workspace: string
  readonly models: Load<ModelsAnswer>
  readonly picked: Picked | null
  readonly onPick: (picked: Picked | null) => void
  /** It was tried without one. */
  readonly isMissed: boolean
}) {
  const { workspace, models, picked, onPick, isMissed } = props
  return html`<h3>First model</h3>
    <${Loaded}
      load=${models}
      what="The models"
      rows=${6}
      render=${(value: ModelsAnswer) =>
        value.providers.length === 0
          ? html`<${EmptyState}
              title="Add a provider first"
              action=${html`<${LinkButton} href=${pathOf(workspace, 'providers')}>Add a provider<//>`}
            >
              A route is built from the models of your providers.
            <//>`
          : html`<${EntryPicker} models=${value} picked=${picked} onPick=${onPick} />`}
    />
    ${
      isMissed
        ? html`<p class="field-error" role="alert">Choose a model. You can add fallbacks later.</p>`
        : null
    }`
}
