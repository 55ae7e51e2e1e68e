import { useState } from 'preact/hooks'
import type { NewKeyAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Checkbox } from '../../parts/choice.ts'
import { Code } from '../../parts/code.ts'
import { Dialog } from '../../parts/dialog.ts'
import { Note } from '../../parts/states.ts'

/** Shows a new key, once. It stays until it was copied, or somebody says that it is stored. */
export function KeyShown({ made, onClose }: { readonly made: NewKeyAnswer; readonly onClose: () => void }) {
  const [kept, setKept] = useState(false)
  const curl = [
    `export LARKWAY_API_KEY=${made.key}`,
    `curl -sS ${location.origin}/v1/me -H "Authorization: Bearer $LARKWAY_API_KEY"`,
  ].join('\n')
  return html`<${Dialog}
    title=${`Key ${made.name} for the app ${made.app}`}
    wide
    onClose=${onClose}
    locked=${!kept}
    footer=${html`<${Button} kind="primary" onClick=${onClose} disabled=${!kept}>Done<//>`}
  >
    <${Note} tone="warn">Copy this key now. You won’t see it again.<//>
    <${Code} title="API key" text=${made.key} wrap onCopied=${() => setKept(true)} />
    <${Code} title="Test it" text=${curl} wrap onCopied=${() => setKept(true)} />
    <p class="small quiet">Active on all nodes within 5 seconds.</p>
    <${Checkbox} label="I have stored the key" checked=${kept} onChange=${setKept} />
  <//>`
}
