import type { ProviderAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { Confirm } from '../../parts/dialog.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'

export function DeleteProvider(props: {
  readonly place: string
  readonly provider: ProviderAnswer
  readonly onDone: () => void
  readonly onClose: () => void
}) {
  const { place, provider, onDone, onClose } = props
  const { name, credential } = provider
  const remove = async () => {
    await api.delete(place + apiPath`/providers/${name}`)
    toast(`Provider ${name} deleted`)
    onDone()
  }
  return html`<${Confirm}
    title=${`Delete provider ${name}?`}
    action="Delete provider"
    onConfirm=${remove}
    onClose=${onClose}
    typed=${name}
  >
    <p>
      ${credential === 'stored' ? 'Its saved API key is deleted. ' : ''}
      Remove it from all routes first; a route that still uses it is listed here.
    </p>
  <//>`
}
