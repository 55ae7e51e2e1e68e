import { useState } from 'preact/hooks'
import type {
  AppAnswer,
  AppsAnswer,
  NamesAnswer,
  PurposeAnswer,
  WorkspaceAnswer,
} from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { PageHead } from '../../parts/page-head.ts'
import { usePaging } from '../../parts/paged.ts'
import { Loaded } from '../../parts/states.ts'
import { apiPath, queryOf } from '../../paths.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { AppList } from './app-list.ts'
import { DeleteApp } from './delete-app.ts'
import { DeletePurpose } from './delete-purpose.ts'
import { EditApp } from './edit-app.ts'
import { EditPurpose } from './edit-purpose.ts'
import { PurposeList } from './purpose-list.ts'

/** Routes that an app can be sent to. */
const ROUTES_MAX = 1_000

/** What is edited here, and the routes that it may lead to. */
export interface Known {
  readonly workspace: WorkspaceAnswer
  /** Names of the published ones. */
  readonly routes: readonly string[]
  /** The page of apps that is shown. */
  readonly listed: AppsAnswer
}

/** What somebody wants to change; null in it: something new. */
export type Asking =
  | { readonly what: 'app'; readonly app: AppAnswer | null }
  | { readonly what: 'purpose'; readonly purpose: PurposeAnswer | null }
  | { readonly what: 'delete-app'; readonly app: AppAnswer }
  | { readonly what: 'delete-purpose'; readonly purpose: PurposeAnswer }

/** The apps of a workspace and its purposes: what leads a call to a route. */
export function AppsView({ workspace }: WorkspaceViewProps) {
  const place = apiPath`/workspaces/${workspace}`
  const paging = usePaging()
  const load = useLoad(
    async (signal): Promise<Known> => {
      const names = `${place}/names${queryOf({ of: 'routes', limit: ROUTES_MAX })}`
      const [own, routes, listed] = await Promise.all([
        api.get<WorkspaceAnswer>(place, { signal }),
        api.get<NamesAnswer>(names, { signal }),
        api.get<AppsAnswer>(`${place}/apps${paging.query}`, { signal }),
      ])
      return { workspace: own, routes: routes.names.map(({ name }) => name), listed }
    },
    [workspace, paging.query],
  )
  const [asking, setAsking] = useState<Asking | null>(null)
  const known = load.value
  const common = known && {
    known,
    onSaved: (saved: WorkspaceAnswer) => {
      load.set({ ...known, workspace: saved })
      load.reload()
    },
    onClose: () => setAsking(null),
  }
  return html`
    <${PageHead}
      title="Apps and purposes"
      lead="Each API key belongs to an app; the app decides the route."
    />
    <${Loaded}
      load=${load}
      what="The apps"
      rows=${6}
      render=${(value: Known) => html`
        <${AppList} known=${value} paging=${paging} onAsk=${setAsking} />
        <${PurposeList} known=${value} onAsk=${setAsking} onSaved=${common?.onSaved} />
      `}
    />
    ${asking?.what === 'app' && common ? html`<${EditApp} ...${common} before=${asking.app} />` : null}
    ${asking?.what === 'purpose' && common ? html`<${EditPurpose} ...${common} before=${asking.purpose} />` : null}
    ${asking?.what === 'delete-app' && common ? html`<${DeleteApp} ...${common} app=${asking.app} />` : null}
    ${
      asking?.what === 'delete-purpose' && common
        ? html`<${DeletePurpose} ...${common} purpose=${asking.purpose} />`
        : null
    }
  `
}
