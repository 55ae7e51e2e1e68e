import { useEffect } from 'preact/hooks'
import type { DomainsAnswer, WebhookAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { PageHead } from '../../parts/page-head.ts'
import { Skeleton } from '../../parts/states.ts'
import { apiPath } from '../../paths.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { ContentSwitch } from './content-switch.ts'
import type { DeliveriesAnswer } from './deliveries.ts'
import { Domains } from './domains.ts'
import { Webhook } from './webhook.ts'

/** How often deliveries are looked at anew. */
const LIVE_MS = 10_000

/** What a workspace decides for itself. Its parts are drawn together, so that none moves another. */
export function SettingsView({ workspace, query }: WorkspaceViewProps) {
  const root = apiPath`/workspaces/${workspace}`
  const about = useLoad((signal) => api.get<WorkspaceAnswer>(root, { signal }), [root])
  const domains = useLoad((signal) => api.get<DomainsAnswer>(`${root}/audio-url-domains`, { signal }), [root])
  const webhook = useLoad((signal) => api.get<WebhookAnswer>(`${root}/webhook`, { signal }), [root])
  const deliveries = useLoad(
    (signal) => api.get<DeliveriesAnswer>(`${root}/webhook/deliveries`, { signal }),
    [root],
    { everyMs: LIVE_MS },
  )
  const loading = [about, domains, webhook, deliveries].some(({ state }) => state === 'loading')
  const section = query.get('section') ?? ''
  useEffect(() => {
    // Links lead to one of the sections.
    if (!loading) document.getElementById(section)?.scrollIntoView({ block: 'start' })
  }, [section, loading])
  return html`<${PageHead} title="Settings" lead=${`Settings for ${workspace}.`} />
    ${
      loading
        ? html`<${Skeleton} rows=${12} label="The settings: loading" />`
        : html`<${Webhook} workspace=${workspace} load=${webhook} deliveries=${deliveries} />
            <${Domains} path=${`${root}/audio-url-domains`} load=${domains} />
            <${ContentSwitch} workspace=${workspace} load=${about} />`
    }`
}
