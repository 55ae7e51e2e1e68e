import type { ModelsAnswer, RouteAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { PageHead } from '../../parts/page-head.ts'
import { Loaded, Skeleton } from '../../parts/states.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { RouteBuilder } from './route-builder.ts'

/** What a route is edited with. */
export interface Surroundings {
  readonly models: ModelsAnswer
  readonly workspace: WorkspaceAnswer
}

/** One route: loads it, and all that is needed to edit it. */
export function RoutePage({ workspace, name }: { readonly workspace: string; readonly name: string }) {
  const load = useLoad(
    async (signal) => {
      const place = apiPath`/workspaces/${workspace}`
      const [route, models, own] = await Promise.all([
        api.get<RouteAnswer>(place + apiPath`/routes/${name}`, { signal }),
        api.get<ModelsAnswer>(`${place}/models`, { signal }),
        api.get<WorkspaceAnswer>(place, { signal }),
      ])
      return { route, surroundings: { models, workspace: own } }
    },
    [workspace, name],
  )
  const head = html`<${PageHead}
    title=${name}
    parent=${{ href: pathOf(workspace, 'routes'), label: 'Routes' }}
  />`
  if (load.state !== 'ready')
    return html`${head}<${Loaded}
      load=${load}
      what=${`The route ${name}`}
      skeleton=${html`<${Skeleton} rows=${8} label="The route: loading" />`}
      render=${() => null}
    />`
  const { route, surroundings } = load.value
  return html`<${RouteBuilder} initial=${route} surroundings=${surroundings} />`
}
