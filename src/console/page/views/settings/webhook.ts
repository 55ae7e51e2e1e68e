import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { WebhookAnswer, WebhookTestAnswer } from '../../../server/answers/settings.ts'
import { api } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Checkbox } from '../../components/choice.ts'
import { Code, Copy } from '../../components/copy.ts'

import { Deliveries, type DeliveriesAnswer } from '../../components/deliveries.ts'
import { Confirm, Dialog, FormDialog } from '../../components/dialog.ts'
import { TextInput } from '../../components/field.ts'
import { Section } from '../../components/page-head.ts'
import { EmptyState, ErrorNote, Loaded, Note } from '../../components/states.ts'
import { Time } from '../../components/time.ts'
import { toast } from '../../components/toasts.ts'
import { milliseconds } from '../../format.ts'
import { h } from '../../h.ts'
import { type Load, useAction } from '../../load.ts'
import { apiPath } from '../../paths.ts'
import { useLeaveGuard } from '../../router.ts'

/** The webhook of transcription jobs and its recent deliveries. */
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
  return [
    h(
      Section,
      {
        id: 'webhook',
        title: 'Webhook',
        lead: 'Called when a transcription job ends, with its ID and status; never with the transcript.',
      },
      h(Loaded<WebhookAnswer>, {
        load,
        what: 'The webhook',
        rows: 2,
        render: ({ webhook }: WebhookAnswer) =>
          webhook === null
            ? h(NoWebhook, { onCreate: () => setOpen('set') })
            : h(
                'div',
                { class: 'stack' },
                h(
                  'p',
                  { class: 'row' },
                  h('span', { class: 'mono' }, webhook.url),
                  h(Copy, { text: webhook.url, label: 'Copy URL' }),
                  h('span', { class: 'quiet' }, 'created ', h(Time, { at: webhook.created_at })),
                ),
                h(
                  WebhookTest,
                  { key: webhook.url + webhook.created_at, path },
                  h(WebhookActions, { onOpen: setOpen }),
                ),
                h(RecentDeliveries, { workspace, load: deliveries }),
              ),
      }),
    ),
    open === 'set' ? h(WebhookForm, { url, onSave: set, onClose: close }) : null,
    open === 'rotate' ? h(Rotate, { url, onConfirm: () => set(url), onClose: close }) : null,
    open === 'remove' ? h(Remove, { url, onConfirm: remove, onClose: close }) : null,
    secret === null ? null : h(SecretShown, { secret, onClose: () => setSecret(null) }),
  ]
}

function NoWebhook({ onCreate }: { readonly onCreate: () => void }) {
  return h(
    EmptyState,
    { title: 'No webhook', action: h(Button, { kind: 'primary', onClick: onCreate }, 'Create webhook') },
    'Without one, apps must poll their jobs. Create one with an https URL, and store the signing secret shown once.',
  )
}

function WebhookActions({ onOpen }: { readonly onOpen: (what: 'set' | 'rotate' | 'remove') => void }) {
  return [
    h(Button, { onClick: () => onOpen('set') }, 'Change URL'),
    h(Button, { icon: 'refresh', onClick: () => onOpen('rotate') }, 'Rotate secret'),
    h(Button, { kind: 'danger', icon: 'trash', onClick: () => onOpen('remove') }, 'Remove'),
  ]
}

interface AskProps {
  readonly url: string
  readonly onConfirm: () => Promise<unknown>
  readonly onClose: () => void
}

function Remove({ url, onConfirm, onClose }: AskProps) {
  return h(
    Confirm,
    { title: `Remove the webhook ${url}?`, action: 'Remove webhook', onConfirm, onClose },
    h('p', null, 'Its secret is destroyed and pending deliveries are dropped. Apps must poll their jobs.'),
  )
}

function Rotate({ url, onConfirm, onClose }: AskProps) {
  return h(
    Confirm,
    { title: `Rotate the secret of ${url}?`, action: 'Rotate secret', onConfirm, onClose },
    h(
      'p',
      null,
      'A new secret is created and shown once. X-LK-Webhook-Signature uses it immediately; ' +
        'webhook-signature carries signatures of both for 24 hours, then the old secret is destroyed.',
    ),
  )
}

function RecentDeliveries(props: { readonly workspace: string; readonly load: Load<DeliveriesAnswer> }) {
  const { workspace, load } = props
  return h(
    'div',
    { class: 'stack stack-tight' },
    h('h3', null, 'Pending and failed deliveries'),
    h(Loaded<DeliveriesAnswer>, {
      load,
      what: 'The deliveries',
      rows: 2,
      render: ({ deliveries }: DeliveriesAnswer) =>
        deliveries.length === 0
          ? h('p', { class: 'quiet' }, 'No pending deliveries.')
          : h(Deliveries, { workspace, deliveries, onChanged: load.reload }),
    }),
  )
}

/** Sets the webhook, which makes a new secret each time. */
function WebhookForm(props: {
  /** Empty: there is none yet. */
  readonly url: string
  readonly onSave: (url: string) => Promise<unknown>
  readonly onClose: () => void
}) {
  const { onSave, onClose } = props
  const [url, setUrl] = useState(props.url)
  const save = useAction(() => onSave(url.trim()))
  const isUrl = URL.canParse(url.trim())
  // The message is shown below the field that it names.
  const wrong = save.error?.param === 'url' ? save.error.message.replace(/^(?:url:|`url`) /, '') : null
  return h(
    FormDialog,
    {
      title: props.url === '' ? 'Create webhook' : 'Change webhook URL',
      action: props.url === '' ? 'Create webhook' : 'Change URL',
      onSubmit: () => save.run(),
      onClose,
      busy: save.busy,
      error: wrong === null ? save.error : null,
      disabled: !isUrl,
    },
    h(TextInput, {
      label: 'URL',
      type: 'url',
      mono: true,
      placeholder: 'https://hooks.example.com/larkway',
      hint: 'A public https URL of up to 2,048 characters, without credentials or a fragment.',
      value: url,
      onInput: setUrl,
      error: wrong,
      autofocus: true,
    }),
    props.url === ''
      ? null
      : h(
          Note,
          { tone: 'warn' },
          'Saving creates a new signing secret, shown once. The old one keeps signing for another 24 hours.',
        ),
  )
}

/** Shows a secret once. The dialog stays until it is confirmed to be stored. */
function SecretShown({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  const [kept, setKept] = useState(false)
  useLeaveGuard(!kept, 'The secret is shown only once. Leave anyway?')
  return h(
    Dialog,
    {
      title: 'Webhook signing secret',
      onClose,
      locked: !kept,
      footer: h(Button, { kind: 'primary', onClick: onClose, disabled: !kept }, 'Done'),
    },
    h(Note, { tone: 'warn' }, 'Copy this secret now. You won’t see it again.'),
    h(Code, { title: 'Secret', text: secret, wrap: true }),
    h(
      'p',
      { class: 'small' },
      'Use it, including the whsec_ prefix, to verify X-LK-Webhook-Signature: the hex HMAC-SHA256 of the ' +
        'timestamp, a dot and the body. Standard Webhooks libraries accept it unchanged.',
    ),
    h(Checkbox, { label: 'I have stored the secret', checked: kept, onChange: setKept }),
  )
}

/** Sends a signed test message to the webhook, and shows the answer. */
function WebhookTest(props: {
  readonly path: string
  /** Other buttons, beside that of the test. */
  readonly children: ComponentChildren
}) {
  const { path, children } = props
  const [outcome, setOutcome] = useState<WebhookTestAnswer | null>(null)
  const test = useAction(async () => {
    setOutcome(null)
    setOutcome(await api.post<WebhookTestAnswer>(`${path}/test`))
  })
  return h(
    'div',
    { class: 'stack stack-tight' },
    h(
      'div',
      { class: 'actions' },
      h(Button, { onClick: () => test.run(), busy: test.busy }, 'Send test event'),
      children,
    ),
    test.busy ? h('p', { class: 'small quiet' }, 'Sending a signed test event (10 s timeout).') : null,
    h('div', { 'aria-live': 'polite' }, outcome === null ? null : h(TestOutcome, { outcome })),
    h(ErrorNote, { error: test.error, what: 'Not sent' }),
  )
}

function TestOutcome({ outcome }: { readonly outcome: WebhookTestAnswer }) {
  const { ok, status, milliseconds: length, reason } = outcome
  const answered = status === null ? 'No answer' : `HTTP ${status}`
  if (ok) return h(Note, { tone: 'ok' }, answered, ' after ', milliseconds(length), '. The webhook works.')
  return h(
    Note,
    { tone: 'bad' },
    h('p', null, answered, ' after ', milliseconds(length), reason === null ? '' : `: ${reason}`, '.'),
    h(
      'p',
      null,
      status === null
        ? 'Check that the host is public, has a valid certificate and answers within 10 s.'
        : 'The receiver must answer with a 2xx status. Check how it verifies the signature, then test again.',
    ),
  )
}
