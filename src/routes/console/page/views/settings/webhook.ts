import { useState } from 'preact/hooks'
import type { WebhookAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import type { Load } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { Copy } from '../../parts/copy.ts'
import { Confirm } from '../../parts/dialog.ts'
import { Section } from '../../parts/page-head.ts'
import { EmptyState, Loaded } from '../../parts/states.ts'
import { Time } from '../../parts/time.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { Deliveries, type DeliveriesAnswer } from './deliveries.ts'
import { SecretShown, WebhookForm } from './webhook-form.ts'
import { WebhookTest } from './webhook-test.ts'

/** Where the ends of transcription jobs are announced, and what did not arrive there. */
export function Webhook(props: {
  readonly workspace: string
  readonly load: Load<WebhookAnswer>
  readonly deliveries: Load<DeliveriesAnswer>
}) {
  const { workspace, load, deliveries } = props
  const path = apiPath`/workspaces/${workspace}/webhook`
  const [open, setOpen] = useState<'set' | 'rotate' | 'remove' | null>(null)
  /** Until it is put away it is all that is shown: nothing shows it again. */
  const [secret, setSecret] = useState<string | null>(null)
  const set = async (url: string) => {
    const answer = await api.put<WebhookAnswer>(path, { url })
    load.set({ webhook: answer.webhook })
    setOpen(null)
    setSecret(answer.signing_secret ?? null)
  }
  const url = load.value?.webhook?.url ?? ''
  const close = () => setOpen(null)
  const remove = async () => {
    await api.delete(path)
    load.set({ webhook: null })
    toast('Webhook removed')
  }
  return html`<${Section}
      id="webhook"
      title="Webhook"
      lead="Called when a transcription job ends, with its ID and status; never with the transcript."
    >
      <${Loaded}
        load=${load}
        what="The webhook"
        rows=${2}
        render=${({ webhook }: WebhookAnswer) =>
          webhook === null
            ? html`<${EmptyState}
                title="No webhook"
                action=${html`<${Button} kind="primary" onClick=${() => setOpen('set')}>Create webhook<//>`}
              >
                Without one, apps must poll their jobs. Create one with an https URL, and store the signing secret shown
                once.
              <//>`
            : html`<div class="stack">
                <p class="row">
                  <span class="mono">${webhook.url}</span><${Copy} text=${webhook.url} label="Copy URL" />
                  <span class="quiet">created <${Time} at=${webhook.created_at} /></span>
                </p>
                <${WebhookTest} key=${webhook.url + webhook.created_at} path=${path}>
                  <${WebhookActions} onOpen=${setOpen} />
                <//>
                <${RecentDeliveries} workspace=${workspace} load=${deliveries} />
              </div>`}
      />
    <//>
    ${open === 'set' ? html`<${WebhookForm} url=${url} onSave=${set} onClose=${close} />` : null}
    ${open === 'rotate' ? html`<${Rotate} url=${url} onConfirm=${() => set(url)} onClose=${close} />` : null}
    ${open === 'remove' ? html`<${Remove} url=${url} onConfirm=${remove} onClose=${close} />` : null}
    ${secret === null ? null : html`<${SecretShown} secret=${secret} onClose=${() => setSecret(null)} />`}`
}

function WebhookActions({ onOpen }: { readonly onOpen: (what: 'set' | 'rotate' | 'remove') => void }) {
  return html`<${Button} onClick=${() => onOpen('set')}>Change URL<//>
    <${Button} icon="refresh" onClick=${() => onOpen('rotate')}>Rotate secret<//>
    <${Button} kind="danger" icon="trash" onClick=${() => onOpen('remove')}>Remove<//>`
}

interface AskProps {
  readonly url: string
  readonly onConfirm: () => Promise<unknown>
  readonly onClose: () => void
}

function Remove({ url, onConfirm, onClose }: AskProps) {
  return html`<${Confirm}
    title=${`Remove the webhook ${url}?`}
    action="Remove webhook"
    onConfirm=${onConfirm}
    onClose=${onClose}
  >
    <p>
      Its secret is destroyed and pending deliveries are dropped. Apps must poll their jobs.
    </p>
  <//>`
}

function Rotate({ url, onConfirm, onClose }: AskProps) {
  return html`<${Confirm}
    title=${`Rotate the secret of ${url}?`}
    action="Rotate secret"
    onConfirm=${onConfirm}
    onClose=${onClose}
  >
    <p>
      A new secret is created and shown once. X-LK-Webhook-Signature uses it immediately; webhook-signature carries
      signatures of both for 24 hours, then the old secret is destroyed.
    </p>
  <//>`
}

function RecentDeliveries(props: { readonly workspace: string; readonly load: Load<DeliveriesAnswer> }) {
  const { workspace, load } = props
  return html`<div class="stack stack-tight">
    <h3>Pending and failed deliveries</h3>
    <${Loaded}
      load=${load}
      what="The deliveries"
      rows=${2}
      render=${({ deliveries }: DeliveriesAnswer) =>
        deliveries.length === 0
          ? html`<p class="quiet">No pending deliveries.</p>`
          : html`<${Deliveries} workspace=${workspace} deliveries=${deliveries} onChanged=${load.reload} />`}
    />
  </div>`
}
