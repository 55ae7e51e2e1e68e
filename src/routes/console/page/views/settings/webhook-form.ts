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
    title=${props.url === '' ? 'Set webhook' : 'Change the URL of the webhook'}
    action=${props.url === '' ? 'Set webhook' : 'Change URL'}
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
      hint="Absolute and https, up to 2,048 characters, at a public host, without credentials or fragment."
      value=${url}
      onInput=${setUrl}
      error=${wrong}
      autofocus
    />
    ${
      props.url === ''
        ? null
        : html`<${Note} tone="warn">
            Saving makes a new secret, which is shown once. The one before signs beside it for 24 hours.
          <//>`
    }
  <//>`
}

/** Shows a secret that is never shown again. It stays until somebody says that it is kept. */
export function SecretShown({ secret, onClose }: { readonly secret: string; readonly onClose: () => void }) {
  const [kept, setKept] = useState(false)
  return html`<${Dialog}
    title="Signing secret of the webhook"
    onClose=${onClose}
    locked=${!kept}
    footer=${html`<${Button} kind="primary" onClick=${onClose} disabled=${!kept}>Done<//>`}
  >
    <${Note} tone="warn">This is the only time that it is shown. Lost, it can only be replaced by a new one.<//>
    <${Code} title="Secret" text=${secret} wrap />
    <p class="small">
      Verify X-LK-Webhook-Signature with it, whsec_ and all: hex of HMAC-SHA256 over the timestamp, a dot and the body.
      Libraries of Standard Webhooks take it as it is.
    </p>
    <${Checkbox} label="I have stored it where the receiver reads it" checked=${kept} onChange=${setKept} />
  <//>`
}
