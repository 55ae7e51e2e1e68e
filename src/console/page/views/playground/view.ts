import { useState } from 'preact/hooks'
import type { ModelsAnswer } from '../../../server/answers/providers.ts'
import type { RouteAnswer } from '../../../server/answers/routes.ts'
import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { LinkButton } from '../../components/button.ts'
import { Select } from '../../components/field.ts'
import { PageHead } from '../../components/page-head.ts'
import { EmptyState, Loaded, Note } from '../../components/states.ts'
import { Tabs } from '../../components/tabs.ts'
import { h } from '../../h.ts'
import { lazy } from '../../lazy.ts'
import { useLoad } from '../../load.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { useQuery } from '../../router.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { appKeys } from './calls.ts'
import { abilitiesOf, appRoutes, voicesOf } from './options.ts'
import { Speech } from './speech.ts'
import { Transcription } from './transcription.ts'

const TABS = [
  { id: 'transcription', label: 'Transcription' },
  { id: 'live', label: 'Live' },
  { id: 'speech', label: 'Speech' },
  { id: 'chat', label: 'Chat' },
] as const

const Live = lazy({ title: 'Live', load: async () => (await import('./live.ts')).Live })
const Chat = lazy({ title: 'Chat', load: async () => (await import('./chat.ts')).Chat })

/** Calls of `/v1` from the page, with a key of an hour that is kept in memory only. */
export function PlaygroundView(props: WorkspaceViewProps) {
  const { workspace } = props
  const load = useLoad(
    (signal) => api.get<WorkspaceAnswer>(apiPath`/workspaces/${workspace}`, { signal }),
    [workspace],
  )
  return [
    h(PageHead, {
      title: 'Playground',
      lead: 'Playground requests use the app’s route, are billed, and appear in Requests if you show them.',
    }),
    h(Loaded<WorkspaceAnswer>, {
      load,
      what: 'The apps',
      rows: 6,
      render: (about: WorkspaceAnswer) =>
        about.apps.length === 0
          ? h(
              EmptyState,
              {
                title: 'Create an app first',
                action: h(LinkButton, { kind: 'primary', href: pathOf(workspace, 'apps') }, 'Create an app'),
              },
              'Playground requests belong to an app, whose route picks the provider.',
            )
          : h(Playground, { ...props, about }),
    }),
  ]
}

function Playground({ workspace, session, about }: WorkspaceViewProps & { readonly about: WorkspaceAnswer }) {
  const [query, setQuery] = useQuery()
  /** Generated speech that is to be transcribed. */
  const [handed, setHanded] = useState<File | null>(null)
  const ids = about.apps.map(({ id }) => id)
  const app = ids.find((id) => id === query.get('app')) ?? ids[0] ?? ''
  const tab = TABS.find(({ id }) => id === query.get('tab'))?.id ?? 'transcription'
  /** They stay once they were shown: a session, or an answer, continues while another tab is looked at. */
  const [shown, setShown] = useState<readonly string[]>([])
  if (!shown.includes(tab)) setShown([...shown, tab])
  const fields = about.apps.find(({ id }) => id === app)?.fields
  const { transcribing, speaking } = appRoutes(fields)
  const routes = useRoutes(workspace, transcribing, speaking)
  const keys = appKeys(workspace, session)
  const purposes = about.purposes.filter(({ enabled }) => enabled).map(({ purpose }) => purpose)
  const unfit =
    routes === null || tab === 'chat' ? null : tab === 'speech' ? !routes.speaks : !routes.transcribes
  return h(
    'div',
    { class: 'stack' },
    h(
      'div',
      { class: 'filters' },
      h(Select, { label: 'App', value: app, options: ids, onChange: (id: string) => setQuery({ app: id }) }),
    ),
    h(
      Tabs,
      {
        label: 'Endpoint',
        tabs: TABS,
        chosen: tab,
        onChoose: (id: string) => setQuery({ tab: id === 'transcription' ? null : id }),
      },
      unfit ? h(Unfit, { workspace, app, route: tab === 'speech' ? speaking : transcribing }) : null,
      h(
        'div',
        { hidden: tab !== 'transcription' },
        h(Transcription, { workspace, app, keys, handed, purposes, abilities: routes?.abilities ?? null }),
      ),
      h('div', { hidden: tab !== 'live' }, shown.includes('live') ? h(Live, { workspace, app, keys }) : null),
      h(
        'div',
        { hidden: tab !== 'speech' },
        h(Speech, {
          workspace,
          app,
          keys,
          purposes,
          voices: routes?.voices ?? [],
          onHandOver: (audio: File) => {
            setHanded(audio)
            setQuery({ tab: null })
          },
        }),
      ),
      h(
        'div',
        { hidden: tab !== 'chat' },
        shown.includes('chat') ? h(Chat, { about, app, keys, purposes }) : null,
      ),
    ),
  )
}

function Unfit(props: { readonly workspace: string; readonly app: string; readonly route: string }) {
  const { workspace, app, route } = props
  return h(
    'div',
    { class: 'play-unfit' },
    h(
      Note,
      { tone: 'warn' },
      'The route ',
      h('a', { class: 'mono', href: pathOf(workspace, 'routes', route) }, route),
      ' of the app ',
      app,
      ' has no model that supports this. Add one and publish the route, or choose another app.',
    ),
  )
}

/** Features of the app's routes; null until they are known, and when they cannot be told. */
function useRoutes(workspace: string, transcribing: string, speaking: string) {
  const load = useLoad(
    async (signal) => {
      if (transcribing === '') return null
      const route = (name: string) =>
        api.get<RouteAnswer>(apiPath`/workspaces/${workspace}/routes/${name}`, { signal })
      const [transcribes, speaks, models] = await Promise.all([
        route(transcribing),
        route(speaking),
        api.get<ModelsAnswer>(apiPath`/workspaces/${workspace}/models`, { signal }),
      ])
      const abilities = abilitiesOf(transcribes, models)
      return {
        abilities,
        transcribes: abilities?.transcribes ?? false,
        speaks: abilitiesOf(speaks, models)?.speaks ?? false,
        voices: voicesOf(speaks),
      }
    },
    [workspace, transcribing, speaking],
  )
  return load.value
}
