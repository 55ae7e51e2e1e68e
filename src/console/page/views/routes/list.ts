import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { HealthAnswer } from '../../../server/answers/health.ts'
import type { ModelsAnswer } from '../../../server/answers/providers.ts'
import type { RouteAnswer, RouteSummary, RoutesAnswer } from '../../../server/answers/routes.ts'
import { api, isThere } from '../../api.ts'
import { Button, LinkButton } from '../../components/button.ts'
import { FormDialog } from '../../components/dialog.ts'
import { TextInput } from '../../components/field.ts'
import { fitnessOfEntries, Health, useHealth } from '../../components/health.ts'
import { PageHead } from '../../components/page-head.ts'
import { Pager, SearchField, usePaging } from '../../components/paged.ts'
import { EmptyState, Loaded } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { toast } from '../../components/toasts.ts'
import { useForm } from '../../form.ts'
import { h } from '../../h.ts'
import { LOADING, type Load, useLoad } from '../../load.ts'
import { nameIssue, wholeName } from '../../names.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { EntryPicker, type Picked } from './entry-picker.ts'
import { RouteState } from './words.ts'

/** All routes of a workspace. */
export function RouteList({ workspace }: { readonly workspace: string }) {
  const [creating, setCreating] = useState(false)
  const place = apiPath`/workspaces/${workspace}`
  const paging = usePaging()
  const routes = useLoad(
    (signal) => api.get<RoutesAnswer>(`${place}/routes${paging.query}`, { signal }),
    [workspace, paging.query],
  )
  const health = useHealth(workspace)
  const columns = useMemo(() => columnsOf(health ?? null), [health])
  const models = useLoad((signal) => api.get<ModelsAnswer>(`${place}/models`, { signal }), [workspace])
  const hasNone = routes.state === 'ready' && routes.value.all === 0
  const create = h(
    Button,
    { kind: 'primary', icon: 'plus', onClick: () => setCreating(true) },
    'Create route',
  )
  return [
    h(PageHead, {
      title: 'Routes',
      lead: 'A route decides which provider and model handle each request. Apps send their traffic to a route.',
      actions: hasNone ? null : create,
    }),
    hasNone ? null : h(SearchField, { paging, label: 'Search routes', all: routes.value?.all ?? null }),
    h(Loaded<RoutesAnswer>, {
      load: health === undefined ? LOADING : routes,
      what: 'The routes',
      render: ({ routes: shown, total, all }: RoutesAnswer) =>
        all === 0
          ? h(NoRoutes, { workspace, models: models.value, create })
          : shown.length === 0
            ? h(EmptyState, { title: 'No matching routes' })
            : h(
                'div',
                { class: 'stack' },
                h(Table<RouteSummary>, {
                  caption: 'Routes',
                  columns,
                  rows: shown,
                  rowKey: ({ name }: RouteSummary) => name,
                  href: ({ name }: RouteSummary) => pathOf(workspace, 'routes', name),
                  dim: ({ in_service, has_draft }: RouteSummary) => !in_service && !has_draft,
                }),
                h(Pager, { paging, total, shown: shown.length }),
              ),
    }),
    creating
      ? h(CreateRoute, {
          workspace,
          models,
          taken: (routes.value?.routes ?? []).map(({ name }) => name),
          onClose: () => setCreating(false),
        })
      : null,
  ]
}

/** A route needs a model, and a model needs a provider: the first step that is missing is the one to take. */
function NoRoutes(props: {
  readonly workspace: string
  readonly models: ModelsAnswer | null
  readonly create: ComponentChildren
}) {
  const { workspace, models, create } = props
  if (models !== null && models.providers.length === 0)
    return h(
      EmptyState,
      {
        title: 'Add a provider to create your first route',
        action: h(LinkButton, { href: pathOf(workspace, 'providers'), kind: 'primary' }, 'Add a provider'),
      },
      'A route sends requests to models of your providers.',
    )
  return h(
    EmptyState,
    { title: 'No routes yet', action: create },
    'Create a route, publish it, and assign it to an app.',
  )
}

const columnsOf = (health: HealthAnswer | null): readonly Column<RouteSummary>[] => [
  { head: 'Route', primary: true, cell: ({ name }) => h('span', { class: 'mono' }, name) },
  { head: 'State', cell: (route) => h(RouteState, route) },
  {
    head: 'Health',
    cell: ({ name, entries, in_service }) =>
      in_service
        ? h(Health, { of: health && fitnessOfEntries(health, name, entries) })
        : h('span', { class: 'quiet' }, '–'),
  },
  { head: 'Entries', cell: ({ entries, strategy }) => h(Chain, { entries, strategy }) },
  {
    head: 'Apps',
    cell: ({ apps }) => (apps.length === 0 ? h('span', { class: 'quiet' }, 'none') : apps.join(', ')),
  },
  {
    head: 'Version',
    minor: true,
    cell: ({ version, number }) =>
      version === null
        ? h('span', { class: 'quiet' }, '–')
        : h('span', { class: 'nowrap', title: version }, number === null ? 'from file' : `v${number}`),
  },
  {
    head: 'Published',
    minor: true,
    cell: ({ published_at, published_by }) =>
      published_at === null
        ? h('span', { class: 'quiet' }, '–')
        : h(
            'span',
            null,
            h(Time, { at: published_at }),
            published_by === null ? null : [' by ', published_by],
          ),
  },
]

const SHOWN_MAX = 3

/** The entries as they are tried, `a → b → c`; under another strategy their order is not written in the route. */
function Chain({ entries, strategy }: { readonly entries: readonly string[]; readonly strategy: string }) {
  const ordered = strategy === 'priority'
  const rest = entries.length - SHOWN_MAX
  const words = strategy.replaceAll('_', ' ')
  if (entries.length === 0) return h('span', { class: 'quiet' }, 'none')
  return h(
    'span',
    { class: 'routes-chain' },
    entries
      .slice(0, SHOWN_MAX)
      .map((entry, index) =>
        h(
          'span',
          { key: index, class: 'routes-link' },
          index === 0 ? null : h('span', { class: 'quiet', 'aria-hidden': 'true' }, ordered ? '→' : '·'),
          h('span', { class: 'mono small' }, entry),
        ),
      ),
    rest > 0
      ? h('span', { class: 'quiet small', title: entries.slice(SHOWN_MAX).join(', ') }, 'and ', rest, ' more')
      : null,
    ordered ? null : h('span', { class: 'quiet small' }, words),
  )
}

interface NewRoute {
  readonly name: string
  readonly picked: Picked | null
}

/** Makes a route as a draft with its first entry, and goes there. */
function CreateRoute(props: {
  readonly workspace: string
  readonly models: Load<ModelsAnswer>
  /** Whole names of routes that there are: those that the list shows. */
  readonly taken: readonly string[]
  readonly onClose: () => void
}) {
  const { workspace, models, onClose } = props
  const [taken, setTaken] = useState(props.taken)
  const { fields, set, issue, tried, submit, busy, error, bind } = useForm<NewRoute>(
    () => ({ name: '', picked: null }),
    ({ name, picked }) => ({
      name: nameIssue(name, { workspace, taken }),
      picked: picked === null ? 'Choose a model. You can add fallbacks later.' : null,
    }),
    async ({ name, picked }) => {
      const whole = wholeName(workspace, name)
      const path = apiPath`/workspaces/${workspace}/routes/${whole}`
      // The list is one page, and a draft beside a published route would be taken for a change of it.
      if (await isThere(path)) return setTaken([...taken, whole])
      const entries = picked === null ? [] : [picked]
      await api.put<RouteAnswer>(`${path}/draft`, { fields: { workspace, entries }, revision: null })
      toast(`Draft of ${whole} created`)
      navigate(pathOf(workspace, 'routes', whole))
    },
  )
  const hasProvider = models.state !== 'ready' || models.value.providers.length > 0
  return h(
    FormDialog,
    {
      wide: true,
      title: 'Create route',
      action: 'Create draft',
      onSubmit: submit,
      onClose,
      busy,
      error,
      disabled: !hasProvider,
    },
    h(
      'div',
      { class: 'stack' },
      h(TextInput, {
        label: 'Name',
        ...bind('name'),
        mono: true,
        autofocus: true,
        required: true,
        maxLength: 64,
        placeholder: 'voice',
        hint: `Full name: ${wholeName(workspace, fields.name || 'voice')}. Can’t be changed later.`,
      }),
      h(FirstEntry, {
        workspace,
        models,
        picked: fields.picked,
        onPick: (picked: Picked | null) => set({ picked }),
        error: tried && hasProvider ? issue('picked') : null,
      }),
    ),
  )
}

function FirstEntry(props: {
  readonly workspace: string
  readonly models: Load<ModelsAnswer>
  readonly picked: Picked | null
  readonly onPick: (picked: Picked | null) => void
  readonly error: string | null
}) {
  const { workspace, models, picked, onPick, error } = props
  return [
    h('h3', null, 'First model'),
    h(Loaded<ModelsAnswer>, {
      load: models,
      what: 'The models',
      rows: 6,
      render: (value: ModelsAnswer) =>
        value.providers.length === 0
          ? h(
              EmptyState,
              {
                title: 'Add a provider first',
                action: h(LinkButton, { href: pathOf(workspace, 'providers') }, 'Add a provider'),
              },
              'A route is built from the models of your providers.',
            )
          : h(EntryPicker, { models: value, picked, onPick }),
    }),
    error === null ? null : h('p', { class: 'field-error', role: 'alert' }, error),
  ]
}
