import { html } from '../../html.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { RouteList } from './route-list.ts'
import { RoutePage } from './route-page.ts'

/** The routes of a workspace, or one of them. */
export function RoutesView({ workspace, path }: WorkspaceViewProps) {
  const [name] = path
  if (name === undefined) return html`<${RouteList} workspace=${workspace} />`
  return html`<${RoutePage} key=${name} workspace=${workspace} name=${name} />`
}
