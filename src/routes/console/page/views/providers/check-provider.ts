import { useEffect, useState } from 'preact/hooks'
import type { ProviderAnswer, ProviderCheckAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { Dialog } from '../../parts/dialog.ts'
import { Spinner } from '../../parts/progress.ts'
import { Fault, Note } from '../../parts/states.ts'
import { apiPath } from '../../paths.ts'

/** Asks the provider for its models, which shows whether address and credential are right. */
export function CheckProvider(props: {
  /** Of the API: of the workspace, or empty for the platform. */
  readonly place: string
  readonly provider: ProviderAnswer
  readonly onClose: () => void
}) {
  const { place, provider, onClose } = props
  const [answer, setAnswer] = useState<ProviderCheckAnswer | null>(null)
  const { run, busy, error } = useAction(async () => {
    setAnswer(null)
    setAnswer(await api.post<ProviderCheckAnswer>(place + apiPath`/providers/${provider.name}/check`))
  })
  useEffect(() => void run(), [])
  const footer = html`<${Button} icon="refresh" onClick=${() => run()} busy=${busy}>Check again<//>
    <${Button} kind="primary" onClick=${onClose}>Close<//>`
  return html`<${Dialog} title=${`Check of ${provider.name}`} onClose=${onClose} footer=${footer}>
    <div class="stack" aria-live="polite">
      ${busy ? html`<${Spinner} label=${`Asking ${provider.name} for its models`} />` : null}
      ${answer === null ? null : html`<${Result} answer=${answer} provider=${provider} />`}
      <${Fault} error=${error} what="Not checked" />
    </div>
  <//>`
}

function Result({
  answer,
  provider,
}: {
  readonly answer: ProviderCheckAnswer
  readonly provider: ProviderAnswer
}) {
  const { ok, models, trouble } = answer
  if (!ok)
    return html`<${Note} tone="bad">
      <p>It did not answer well: ${trouble ?? 'no reason was given'}.</p>
      <p>
        ${
          provider.managed_by === 'file'
            ? 'Look at its credential and address in the configuration file.'
            : 'When it should, edit it: look at the credential, and at the address when it has one of its own.'
        }
      </p>
    <//>`
  return html`<${Note} tone="ok">It takes the credential, and lists ${plural(models.length, 'model')}.<//>
    ${
      models.length === 0
        ? null
        : html`<ul class="stack stack-tight">
            ${models.map((model) => html`<li class="mono small" key=${model}>${model}</li>`)}
          </ul>`
    }`
}
