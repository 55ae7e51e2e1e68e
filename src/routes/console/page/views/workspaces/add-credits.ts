import { useState } from 'preact/hooks'
import type { WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { usd } from '../../format.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { TextInput } from '../../parts/field.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { readUsd } from '../providers/facts-form.ts'
import { newGrantId } from './workspace-form.ts'

/** Books credits. The id stays the same until it is booked, so that trying again books nothing twice. */
export function AddCredits(props: {
  readonly workspace: WorkspaceAnswer
  readonly onSaved: (saved: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { workspace, onSaved, onClose } = props
  const [amount, setAmount] = useState('')
  const [grantId, setGrantId] = useState(() => newGrantId(new Date(), Math.random))
  const [tried, setTried] = useState(false)
  const sum = readUsd(amount)
  const isSum = typeof sum === 'number' && sum > 0
  const isId = /^[\x21-\x7e]{1,64}$/.test(grantId)
  const { run, busy, error } = useAction(async () => {
    const path = apiPath`/workspaces/${workspace.id}/credits`
    onSaved(await api.post<WorkspaceAnswer>(path, { amount_usd: sum, grant_id: grantId }))
    toast(`${usd(sum ?? 0)} of credits added to ${workspace.id}`)
    onClose()
  })
  const submit = () => {
    setTried(true)
    if (isSum && isId) run()
  }
  return html`<${FormDialog}
    title=${`Add credits to ${workspace.id}`}
    action=${isSum ? `Add ${usd(sum)}` : 'Add credits'}
    onSubmit=${submit}
    onClose=${onClose}
    busy=${busy}
    error=${error}
    what="Not added, as far as we know"
  >
    <div class="stack">
      <${TextInput}
        label="Amount"
        value=${amount}
        onInput=${setAmount}
        suffix="USD"
        inputMode="decimal"
        autofocus
        required
        width="medium"
        hint=${workspace.account === null ? '' : `Current balance: ${usd(workspace.account.credits_usd)}.`}
        error=${tried && !isSum ? 'Enter an amount in USD, such as 25 or 12.50.' : null}
      />
      <${TextInput}
        label="Grant ID"
        value=${grantId}
        onInput=${setGrantId}
        mono
        maxLength=${64}
        hint="Idempotency key, e.g. an invoice number."
        error=${isId ? null : 'Use 1 to 64 printable characters without spaces.'}
      />
    </div>
  <//>`
}
