import type { ComponentType } from 'preact'
import type { ViewProps, WorkspaceViewProps } from './view.ts'

/** One view of the console: what the navigation calls it, and the module that is loaded when it is first opened. */
export interface ViewEntry {
  readonly id: string
  readonly title: string
  readonly load: () => Promise<ComponentType<ViewProps>>
  /** A style sheet of its own, in style/. */
  readonly style?: string
}

const overview: ViewEntry = {
  id: 'overview',
  title: 'Overview',
  style: 'overview',
  load: async () => (await import('./views/overview/view.ts')).OverviewView,
}

const providers: ViewEntry = {
  id: 'providers',
  title: 'Providers',
  load: async () => (await import('./views/providers/view.ts')).ProvidersView,
}

const audit: ViewEntry = {
  id: 'audit',
  title: 'Audit',
  load: async () => (await import('./views/audit/view.ts')).AuditView,
}

/** In the order of the navigation. */
export const WORKSPACE_VIEWS: readonly ViewEntry[] = [
  overview,
  {
    id: 'routes',
    title: 'Routes',
    style: 'routes',
    load: async () => ofWorkspace((await import('./views/routes/view.ts')).RoutesView),
  },
  providers,
  {
    id: 'apps',
    title: 'Apps',
    load: async () => ofWorkspace((await import('./views/apps/view.ts')).AppsView),
  },
  {
    id: 'keys',
    title: 'Keys',
    style: 'keys',
    load: async () => ofWorkspace((await import('./views/keys/view.ts')).KeysView),
  },
  {
    id: 'playground',
    title: 'Playground',
    style: 'playground',
    load: async () => ofWorkspace((await import('./views/playground/view.ts')).PlaygroundView),
  },
  {
    id: 'requests',
    title: 'Requests',
    style: 'requests',
    load: async () => ofWorkspace((await import('./views/requests/view.ts')).RequestsView),
  },
  {
    id: 'jobs',
    title: 'Jobs',
    style: 'requests',
    load: async () => ofWorkspace((await import('./views/jobs/view.ts')).JobsView),
  },
  {
    id: 'settings',
    title: 'Settings',
    style: 'settings',
    load: async () => ofWorkspace((await import('./views/settings/view.ts')).SettingsView),
  },
  audit,
]

/** For operators: what no single workspace owns. */
export const PLATFORM_VIEWS: readonly ViewEntry[] = [
  overview,
  {
    id: 'workspaces',
    title: 'Workspaces',
    load: async () => (await import('./views/workspaces/view.ts')).WorkspacesView,
  },
  providers,
  audit,
]

/** The table leads to it under a workspace only. */
function ofWorkspace(view: ComponentType<WorkspaceViewProps>): ComponentType<ViewProps> {
  return view as ComponentType<ViewProps>
}
