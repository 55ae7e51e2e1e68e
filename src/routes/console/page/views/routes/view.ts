import { html } from '../../html.ts'
import { lazy } from '../../lazy.ts'
import type { WorkspaceViewProps } from '../../view.ts'

const RouteList = lazy({
  title: 'The routes',
  load: async () => (await import('./route-list.ts')).RouteList,
})

const RoutePage = lazy({
  title: 'The route',
  load: async () => (await import('./route-page.ts')).RoutePage,
})

/** The routes of a workspace, or one of them. */
export function RoutesView({ workspace, path }: WorkspaceViewProps) {
  const [name] = path
  if (name === undefined) return html`<${RouteList} workspace=${workspace} />`
  return html`<${RoutePage} key=${name} workspace=${workspace} name=${name} />`
}
