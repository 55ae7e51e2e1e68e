import { useState } from 'preact/hooks'
import type { ModelsAnswer, RouteAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { LinkButton } from '../../parts/button.ts'
import { Select } from '../../parts/field.ts'
import { PageHead } from '../../parts/page-head.ts'
import { EmptyState, Loaded, Note } from '../../parts/states.ts'
import { Tabs } from '../../parts/tabs.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { useQuery } from '../../router.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { abilitiesOf } from './abilities.ts'
import { appRoutes, voicesOf } from './app-routes.ts'
import { Hearing } from './hearing.ts'
import { Speech } from './speech.ts'
import { appKeys } from './v1.ts'

const TABS = [
  { id: 'transcription', label: 'Transcription' },
  { id: 'speech', label: 'Speech' },
] as const

/** Calls of `/v1` from the page, with a key of an hour that is kept in memory only. */
export function PlaygroundView(props: WorkspaceViewProps) {
  const { workspace } = props
  const load = useLoad(
    (signal) => api.get<WorkspaceAnswer>(apiPath`/workspaces/${workspace}`, { signal }),
    [workspace],
  )
  return html`<${PageHead}
      title="Playground"
      lead="Playground requests use the app’s route, are billed, and appear in Requests."
    />
    <${Loaded}
      load=${load}
      what="The apps"
      rows=${6}
      render=${(about: WorkspaceAnswer) =>
        about.apps.length === 0
          ? html`<${EmptyState}
              title="Create an app first"
              action=${html`<${LinkButton} kind="primary" href=${pathOf(workspace, 'apps')}>Create an app<//>`}
            >
              Playground requests belong to an app, whose route picks the provider.
            <//>`
          : html`<${Playground} ...${props} about=${about} />`}
    />`
}

function Playground({ workspace, session, about }: WorkspaceViewProps & { readonly about: WorkspaceAnswer }) {
  const [query, setQuery] = useQuery()
  /** What was spoken and is to be heard. */
  const [handed, setHanded] = useState<File | null>(null)
  const ids = about.apps.map(({ id }) => id)
  const app = ids.find((id) => id === query.get('app')) ?? ids[0] ?? ''
  const tab = query.get('tab') === 'speech' ? 'speech' : 'transcription'
  const fields = about.apps.find(({ id }) => id === app)?.fields
  const { hearing, speaking } = appRoutes(fields)
  const routes = useRoutes(workspace, hearing, speaking)
  const keys = appKeys(workspace, session)
  const purposes = about.purposes.filter(({ enabled }) => enabled).map(({ purpose }) => purpose)
  const unfit = routes === null ? null : tab === 'speech' ? !routes.speaks : !routes.hears
  return html`<div class="stack">
    <div class="filters">
      <${Select} label="App" value=${app} options=${ids} onChange=${(id: string) => setQuery({ app: id })} />
    </div>
    <${Tabs}
      label="Endpoint"
      tabs=${TABS}
      chosen=${tab}
      onChoose=${(id: string) => setQuery({ tab: id === 'speech' ? id : null })}
    >
      ${
        unfit
          ? html`<${Unfit} workspace=${workspace} app=${app} route=${tab === 'speech' ? speaking : hearing} />`
          : null
      }
      <div hidden=${tab === 'speech'}>
        <${Hearing}
          workspace=${workspace}
          app=${app}
          keys=${keys}
          handed=${handed}
          purposes=${purposes}
          abilities=${routes?.abilities ?? null}
        />
      </div>
      <div hidden=${tab !== 'speech'}>
        <${Speech}
          workspace=${workspace}
          app=${app}
          keys=${keys}
          purposes=${purposes}
          voices=${routes?.voices ?? []}
          onHandOver=${(audio: File) => {
            setHanded(audio)
            setQuery({ tab: null })
          }}
        />
      </div>
    <//>
  </div>`
}

function Unfit(props: { readonly workspace: string; readonly app: string; readonly route: string }) {
  const { workspace, app, route } = props
  return html`<div class="play-unfit">
    <${Note} tone="warn">
      The route <a class="mono" href=${pathOf(workspace, 'routes', route)}>${route}</a> of the app ${app} has no model
      that supports this. Add one and publish the route, or choose another app.
    <//>
  </div>`
}

/** What the app's routes can do; null until it is known, and when it cannot be told. */
function useRoutes(workspace: string, hearing: string, speaking: string) {
  const load = useLoad(
    async (signal) => {
      if (hearing === '') return null
      const route = (name: string) =>
        api.get<RouteAnswer>(apiPath`/workspaces/${workspace}/routes/${name}`, { signal })
      const models = api.get<ModelsAnswer>(apiPath`/workspaces/${workspace}/models`, { signal })
      const [hears, speaks] = await Promise.all([route(hearing), route(speaking)])
      const abilities = abilitiesOf(hears, await models)
      return {
        abilities,
        hears: abilities?.hears ?? false,
        speaks: abilitiesOf(speaks, await models)?.speaks ?? false,
        voices: voicesOf(speaks),
      }
    },
    [workspace, hearing, speaking],
  )
  return load.value
}
