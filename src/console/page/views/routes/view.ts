import { h } from '../../h.ts'
import { lazy } from '../../lazy.ts'
import type { WorkspaceViewProps } from '../../view.ts'

const RouteList = lazy({
  title: 'The routes',
  load: async () => (await import('./list.ts')).RouteList,
})

const RoutePage = lazy({
  title: 'The route',
  load: async () => (await import('./builder.ts')).RoutePage,
})

/** The routes of a workspace, or one of them. */
export function RoutesView({ workspace, path }: WorkspaceViewProps) {
  const [name] = path
  if (name === undefined) return h(RouteList, { workspace })
  return h(RoutePage, { key: name, workspace, name })
}
