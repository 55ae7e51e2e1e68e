import { useState } from 'preact/hooks'
import type { KeyAnswer, KeysAnswer, NamesAnswer, NewKeyAnswer, SessionAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { PageHead } from '../../parts/page-head.ts'
import { Pager, SearchField, usePaging } from '../../parts/paged.ts'
import { EmptyState, Loaded } from '../../parts/states.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { KeyForm } from './key-form.ts'
import { KeyShown } from './key-shown.ts'
import { KeyTable } from './key-table.ts'
import { RevokeKey } from './revoke-key.ts'

/** How often spending and last uses are looked at anew. */
const LIVE_MS = 15_000

/** Apps that a new key can be for. */
const APPS_MAX = 1_000

interface Keys extends KeysAnswer {
  readonly apps: readonly string[]
}

/** The API keys of a workspace: made here, shown once, limited and revoked. */
export function KeysView({ workspace, session }: WorkspaceViewProps) {
  const path = apiPath`/workspaces/${workspace}/keys`
  const paging = usePaging()
  const load = useLoad<Keys>(
    async (signal) => {
      const names = apiPath`/workspaces/${workspace}/names` + queryOf({ of: 'apps', limit: APPS_MAX })
      const [found, apps] = await Promise.all([
        api.get<KeysAnswer>(path + paging.query, { signal }),
        api.get<NamesAnswer>(names, { signal }),
      ])
      return { ...found, apps: apps.names.map(({ id }) => id) }
    },
    [path, paging.query],
    { everyMs: LIVE_MS },
  )
  const [open, setOpen] = useState<Open>(null)
  const { value } = load
  const action = html`<${Button}
    kind="primary"
    icon="plus"
    disabled=${value === null}
    onClick=${() => setOpen({ what: 'form' })}
  >Create key<//>`
  const revoke = (key: KeyAnswer) => setOpen({ what: 'revoke', key })
  return html`<${PageHead}
      title="Keys"
      lead="API keys authenticate an app. You’ll see each key only once."
      actions=${value?.apps.length === 0 ? null : action}
    />
    <${SearchField} paging=${paging} label="Search keys" all=${value?.all ?? 0} />
    <${Loaded}
      load=${load}
      what="The keys"
      rows=${6}
      render=${({ keys, apps, all, total }: Keys) => html`
        ${apps.length === 0 ? html`<${NoApp} workspace=${workspace} />` : null}
        ${all === 0 && apps.length > 0 ? html`<${NoKey} />` : null}
        ${all > 0 && keys.length === 0 ? html`<${EmptyState} title="No matching keys" />` : null}
        ${keys.length > 0 ? html`<${KeyTable} keys=${keys} session=${session} onRevoke=${revoke} />` : null}
        <${Pager} paging=${paging} total=${total} shown=${keys.length} />`}
    />
    <${OpenDialog}
      path=${path}
      apps=${value?.apps ?? []}
      session=${session}
      open=${open}
      onOpen=${setOpen}
      onChanged=${load.reload}
    />`
}

/** The one dialog that is open. */
type Open =
  | { readonly what: 'form' }
  | { readonly what: 'made'; readonly made: NewKeyAnswer }
  | { readonly what: 'revoke'; readonly key: KeyAnswer }
  | null

function OpenDialog(props: {
  readonly path: string
  readonly apps: readonly string[]
  readonly session: SessionAnswer
  readonly open: Open
  readonly onOpen: (open: Open) => void
  readonly onChanged: () => void
}) {
  const { path, apps, session, open, onOpen, onChanged } = props
  const close = () => onOpen(null)
  if (open === null) return null
  if (open.what === 'made') return html`<${KeyShown} made=${open.made} onClose=${close} />`
  if (open.what === 'revoke') {
    return html`<${RevokeKey}
      path=${path}
      revoked=${open.key}
      own=${isOwn(open.key, session)}
      onRevoked=${onChanged}
      onClose=${close}
    />`
  }
  const created = (made: NewKeyAnswer) => {
    onOpen({ what: 'made', made })
    onChanged()
  }
  return html`<${KeyForm}
    path=${path}
    apps=${apps}
    mayOperate=${session.role === 'operator'}
    onMade=${created}
    onClose=${close}
  />`
}

/** The key that this session was signed in with: with it the session is over, too. */
function isOwn({ id }: KeyAnswer, session: SessionAnswer): boolean {
  return id === session.key.id
}

function NoApp({ workspace }: { readonly workspace: string }) {
  return html`<${EmptyState}
    title="Create an app first"
    action=${html`<${LinkButton} kind="primary" href=${pathOf(workspace, 'apps')}>Create an app<//>`}
  >
    Each key belongs to one app of the workspace.
  <//>`
}

function NoKey() {
  return html`<${EmptyState} title="No keys yet">
    Create a key for an app, and use it in the program that calls /v1.
  <//>`
}
