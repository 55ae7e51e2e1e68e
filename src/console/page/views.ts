import type { ComponentType } from 'preact'
import { type LazyComponent, lazy } from './lazy.ts'
import type { Place } from './paths.ts'
import type { ViewProps, WorkspaceViewProps } from './view.ts'

/** One view of the console, with its name in addresses and in the navigation. */
export interface ViewEntry {
  readonly id: string
  readonly title: string
  /** Not in the navigation: other views lead to it. */
  readonly unlisted?: true
  readonly view: LazyComponent<ViewProps>
}

const overview = view('overview', 'Overview', {
  style: ['overview', 'chart'],
  load: async () => (await import('./views/overview/view.ts')).OverviewView,
})

const providers = view('providers', 'Providers', {
  load: async () => (await import('./views/providers/view.ts')).ProvidersView,
})

const usage = view('usage', 'Usage', {
  style: ['overview', 'chart', 'usage'],
  load: async () => (await import('./views/usage/view.ts')).UsageView,
})

const audit = view('audit', 'Audit', { load: async () => (await import('./views/audit.ts')).AuditView })

const live = view('live', 'Live', { load: async () => (await import('./views/live.ts')).LiveView })

const sessions = view('sessions', 'Sessions', {
  load: async () => (await import('./views/sessions.ts')).SessionsView,
})

const setup: ViewEntry = {
  ...view('setup', 'Setup', {
    style: 'setup',
    load: async () => (await import('./views/setup/view.ts')).SetupView,
  }),
  unlisted: true,
}

/** In the order of the navigation. */
export const WORKSPACE_VIEWS: readonly ViewEntry[] = [
  overview,
  view('routes', 'Routes', {
    style: 'routes',
    load: async () => ofWorkspace((await import('./views/routes/view.ts')).RoutesView),
  }),
  providers,
  view('apps', 'Apps', { load: async () => ofWorkspace((await import('./views/apps/view.ts')).AppsView) }),
  view('keys', 'Keys', {
    style: 'keys',
    load: async () => ofWorkspace((await import('./views/keys/view.ts')).KeysView),
  }),
  view('playground', 'Playground', {
    style: 'playground',
    load: async () => ofWorkspace((await import('./views/playground/view.ts')).PlaygroundView),
  }),
  usage,
  view('requests', 'Requests', {
    style: 'requests',
    load: async () => ofWorkspace((await import('./views/requests/view.ts')).RequestsView),
  }),
  live,
  view('jobs', 'Jobs', {
    style: 'requests',
    load: async () => ofWorkspace((await import('./views/jobs/view.ts')).JobsView),
  }),
  view('settings', 'Settings', {
    style: 'settings',
    load: async () => ofWorkspace((await import('./views/settings/view.ts')).SettingsView),
  }),
  audit,
  { ...sessions, unlisted: true },
  setup,
]

/** For operators: things that no single workspace owns. */
export const PLATFORM_VIEWS: readonly ViewEntry[] = [
  overview,
  view('workspaces', 'Workspaces', {
    load: async () => (await import('./views/workspaces/view.ts')).WorkspacesView,
  }),
  providers,
  usage,
  view('requests', 'Requests', {
    style: 'requests',
    load: async () => (await import('./views/requests/platform.ts')).PlatformRequestsView,
  }),
  live,
  audit,
  sessions,
  setup,
]

/** The view of a place; undefined: there is none. */
export function viewAt({ workspace, view }: Place): ViewEntry | undefined {
  return (workspace === null ? PLATFORM_VIEWS : WORKSPACE_VIEWS).find(({ id }) => id === view)
}

function view(
  id: string,
  title: string,
  part: {
    readonly load: () => Promise<ComponentType<ViewProps>>
    readonly style?: string | readonly string[]
  },
): ViewEntry {
  return { id, title, view: lazy({ title: `The page "${title}"`, ...part }) }
}

/** A view that the table offers only under a workspace. */
function ofWorkspace(view: ComponentType<WorkspaceViewProps>): ComponentType<ViewProps> {
  return view as ComponentType<ViewProps>
}
