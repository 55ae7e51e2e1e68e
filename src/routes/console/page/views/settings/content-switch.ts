import { useState } from 'preact/hooks'
import type { WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { type Load, useAction } from '../../load.ts'
import { Switch } from '../../parts/choice.ts'
import { Confirm } from '../../parts/dialog.ts'
import { Section } from '../../parts/page-head.ts'
import { Fault, Loaded } from '../../parts/states.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'

const MEANING =
  'When on, admins of this workspace and operators can read job results here. When off, nobody can; apps can still ' +
  'read their own through /v1. The playground always shows what you send yourself.'

/** Whether transcripts of the workspace may be seen in the console. */
export function ContentSwitch(props: { readonly workspace: string; readonly load: Load<WorkspaceAnswer> }) {
  const { workspace, load } = props
  const [asking, setAsking] = useState(false)
  const change = async (shown: boolean) => {
    load.set(await api.put<WorkspaceAnswer>(apiPath`/workspaces/${workspace}/content`, { shown }))
    toast(shown ? 'Audio and transcripts are now shown' : 'Audio and transcripts are now hidden')
  }
  const off = useAction(() => change(false))
  return html`<${Section} id="content" title="Content in the console">
    <${Loaded}
      load=${load}
      what="The setting"
      rows=${2}
      render=${({ content_shown: shown }: WorkspaceAnswer) => html`<${Switch}
        label="Show audio and transcripts in the console"
        hint=${MEANING}
        checked=${shown}
        disabled=${off.busy}
        onChange=${(on: boolean) => (on ? setAsking(true) : off.run())}
      />`}
    />
    <${Fault} error=${off.error} what="Not changed" />
    ${
      asking
        ? html`<${Confirm}
            title=${`Show audio and transcripts of ${workspace}?`}
            action="Show content"
            danger=${false}
            onConfirm=${() => change(true)}
            onClose=${() => setAsking(false)}
          >
            <p>
              Everyone who signs in with an admin key of this workspace, and every operator, will be able to read the
              transcripts of its jobs. The audit log records who turned this on.
            </p>
          <//>`
        : null
    }
  <//>`
}
