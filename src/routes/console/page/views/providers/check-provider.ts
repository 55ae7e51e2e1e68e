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
  return html`<${Dialog} title=${`Check ${provider.name}`} onClose=${onClose} footer=${footer}>
    <div class="stack" aria-live="polite">
      ${busy ? html`<${Spinner} label=${`Connecting to ${provider.name}`} />` : null}
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
      <p>Couldn’t connect to ${provider.base_url ?? provider.kind}: ${trouble ?? 'no reason given'}.</p>
      <p>
        ${
          provider.managed_by === 'file'
            ? 'Check its API key and base URL in the configuration file.'
            : 'Check the API key and the base URL.'
        }
      </p>
    <//>`
  return html`<${Note} tone="ok">Connected. ${plural(models.length, 'model')} available.<//>
    ${
      models.length === 0
        ? null
        : html`<ul class="stack stack-tight">
            ${models.map((model) => html`<li class="mono small" key=${model}>${model}</li>`)}
          </ul>`
    }`
}
