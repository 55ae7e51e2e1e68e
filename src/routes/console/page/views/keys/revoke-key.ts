import type { KeyAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { Confirm } from '../../parts/dialog.ts'
import { Note } from '../../parts/states.ts'
import { Time } from '../../parts/time.ts'
import { toast } from '../../parts/toasts.ts'

/** Asks before a key is revoked, and says who would miss it. */
export function RevokeKey(props: {
  readonly path: string
  readonly revoked: KeyAnswer
  /** The session was signed in with it. */
  readonly own: boolean
  readonly onRevoked: () => void
  readonly onClose: () => void
}) {
  const { path, revoked, own, onRevoked, onClose } = props
  const { id, name, app, last_used_at: used } = revoked
  return html`<${Confirm}
    title=${`Revoke the key ${name}?`}
    action="Revoke key"
    onConfirm=${async () => {
      await api.delete(`${path}/${encodeURIComponent(id)}`)
      toast(`Key ${name} revoked`)
      onRevoked()
    }}
    onClose=${onClose}
    typed=${own ? name : undefined}
  >
    <p>
      It authenticates the app <strong>${app}</strong> and${' '}
      ${used === null ? 'was never used' : html`was last used <strong><${Time} at=${used} /></strong>`}. Requests with
      this key will fail with 401 within 5 seconds. Jobs already submitted continue. This can’t be undone.
    </p>
    ${own ? html`<${Note} tone="warn">You’re signed in with this key: revoking it ends your session.<//>` : null}
  <//>`
}
