import { useState } from 'preact/hooks'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { Checkbox } from '../../parts/choice.ts'
import { Code } from '../../parts/code.ts'
import { Dialog, FormDialog } from '../../parts/dialog.ts'
import { TextInput } from '../../parts/field.ts'
import { Note } from '../../parts/states.ts'

/** Sets the webhook, which makes a new secret each time. */
export function WebhookForm(props: {
  /** Empty: there is none yet. */
  readonly url: string
  readonly onSave: (url: string) => Promise<unknown>
  readonly onClose: () => void
}) {
  const { onSave, onClose } = props
  const [url, setUrl] = useState(props.url)
  const save = useAction(() => onSave(url.trim()))
  const isUrl = URL.canParse(url.trim())
  // The message names the field, which it stands below.
  const wrong = save.error?.param === 'url' ? save.error.message.replace(/^(?:url:|`url`) /, '') : null
  return html`<${FormDialog}
    title=${props.url === '' ? 'Create webhook' : 'Change webhook URL'}
    action=${props.url === '' ? 'Create webhook' : 'Change URL'}
    onSubmit=${() => save.run()}
    onClose=${onClose}
    busy=${save.busy}
    error=${wrong === null ? save.error : null}
    disabled=${!isUrl}
  >
    <${TextInput}
      label="URL"
      type="url"
      mono
      placeholder="https://hooks.example.com/larkway"
      hint="A public https URL of up to 2,048 characters, without credentials or a fragment."
      value=${url}
      onInput=${setUrl}
      error=${wrong}
      autofocus
    />
    ${
      props.url === ''
        ? null
        : html`<${Note} tone="warn">
            Saving creates a new signing secret, shown once. The old one keeps signing for another 24 hours.
          <//>`
    }
  <//>`
}

/** Shows a secret that is never shown again. It stays until somebody says that it is kept. */
export function SecretShown({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  const [kept, setKept] = useState(false)
  return html`<${Dialog}
    title="Webhook signing secret"
    onClose=${onClose}
    locked=${!kept}
    footer=${html`<${Button} kind="primary" onClick=${onClose} disabled=${!kept}>Done<//>`}
  >
    <${Note} tone="warn">Copy this secret now. You won’t see it again.<//>
    <${Code} title="Secret" text=${secret} wrap />
    <p class="small">
      Use it, including the whsec_ prefix, to verify X-LK-Webhook-Signature: the hex HMAC-SHA256 of the timestamp, a dot
      and the body. Standard Webhooks libraries accept it unchanged.
    </p>
    <${Checkbox} label="I have stored the secret" checked=${kept} onChange=${setKept} />
  <//>`
}
