import { useState } from 'preact/hooks'
import type { KeysAnswer } from '../../../server/answers/keys.ts'
import type {
  AppAnswer,
  AppsAnswer,
  NamesAnswer,
  PurposeAnswer,
  WorkspaceAnswer,
} from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { FileBadge, NotInForce } from '../../components/badge.ts'
import { Button, LinkButton } from '../../components/button.ts'
import { Switch } from '../../components/choice.ts'
import { Confirm, Dialog } from '../../components/dialog.ts'
import { PageHead, Section } from '../../components/page-head.ts'
import { Pager, type Paging, SearchField, usePaging } from '../../components/paged.ts'
import { EmptyState, ErrorNote, Loaded } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { toast } from '../../components/toasts.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import { useAction, useLoad } from '../../load.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { CAPABILITY_NAMES, wordFor } from '../routes/words.ts'
import { EditApp, EditPurpose, type Known, purposeFields } from './forms.ts'

/** Routes that an app can be sent to. */
const ROUTES_MAX = 1_000

/** The open dialog; null in it: something new is created. */
export type OpenDialog =
  | { readonly what: 'app'; readonly app: AppAnswer | null }
  | { readonly what: 'purpose'; readonly purpose: PurposeAnswer | null }
  | { readonly what: 'delete-app'; readonly app: AppAnswer }
  | { readonly what: 'delete-purpose'; readonly purpose: PurposeAnswer }

/** The apps and purposes of a workspace, which lead calls to routes. */
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
  const [dialog, setDialog] = useState<OpenDialog | null>(null)
  const known = load.value
  const saved = (workspace: WorkspaceAnswer) => {
    if (known) load.set({ ...known, workspace })
    load.reload()
  }
  const common = known && { known, onSaved: saved, onClose: () => setDialog(null) }
  return [
    h(PageHead, {
      title: 'Apps and purposes',
      lead: 'Each API key belongs to an app; the app decides the route.',
    }),
    h(SearchField, { paging, label: 'Search apps', all: known?.listed.all ?? null }),
    h(Loaded<Known>, {
      load,
      what: 'The apps',
      rows: 6,
      render: (value: Known) => [
        h(AppList, { known: value, paging, onDialog: setDialog }),
        value.workspace.purposes.length === 0
          ? null
          : h(PurposeList, { known: value, onDialog: setDialog, onSaved: saved }),
      ],
    }),
    dialog?.what === 'app' && common ? h(EditApp, { ...common, before: dialog.app }) : null,
    dialog?.what === 'purpose' && common ? h(EditPurpose, { ...common, before: dialog.purpose }) : null,
    dialog?.what === 'delete-app' && common ? h(DeleteApp, { ...common, app: dialog.app }) : null,
    dialog?.what === 'delete-purpose' && common
      ? h(DeletePurpose, { ...common, purpose: dialog.purpose })
      : null,
  ]
}

function AppList({
  known,
  paging,
  onDialog,
}: {
  readonly known: Known
  readonly paging: Paging
  readonly onDialog: (dialog: OpenDialog) => void
}) {
  const { id } = known.workspace
  const { apps, total, all } = known.listed
  const isReady = known.routes.length > 0
  const make = () => onDialog({ what: 'app', app: null })
  const add = h(Button, { kind: 'primary', icon: 'plus', onClick: make }, 'Create app')
  // Purposes have a section of their own once there is one.
  const first =
    known.workspace.purposes.length > 0
      ? null
      : h(Button, { onClick: () => onDialog({ what: 'purpose', purpose: null }) }, 'Create purpose')
  if (all === 0)
    return isReady
      ? h(
          EmptyState,
          { title: 'No apps yet', action: add },
          'Create an app, choose its route, then create a key.',
        )
      : h(
          EmptyState,
          {
            title: 'Publish a route to create your first app',
            action: h(LinkButton, { href: pathOf(id, 'routes'), kind: 'primary' }, 'Go to routes'),
          },
          'An app sends its traffic to a published route.',
        )
  return h(
    Section,
    { title: 'Apps', actions: [first, add] },
    apps.length === 0
      ? h(EmptyState, { title: 'No matching apps' })
      : h(Table<AppAnswer>, {
          caption: 'Apps',
          columns: appColumns(id, onDialog),
          rows: apps,
          rowKey: (app: AppAnswer) => app.id,
        }),
    h(Pager, { paging, total, shown: apps.length }),
  )
}

function appColumns(workspace: string, onDialog: (dialog: OpenDialog) => void): readonly Column<AppAnswer>[] {
  const link = (route: string) => h('a', { class: 'mono', href: pathOf(workspace, 'routes', route) }, route)
  const pairs = (routes: readonly (readonly [what: string, route: string])[]) =>
    routes.length === 0
      ? h('span', { class: 'quiet' }, '–')
      : h(
          'span',
          { class: 'stack stack-tight' },
          routes.map(([what, route]) => h('span', { key: what }, what, ' → ', link(route))),
        )
  return [
    {
      head: 'App',
      primary: true,
      cell: ({ id, managed_by, issues }) => [
        h('span', { class: 'mono' }, id),
        h(FileBadge, { managedBy: managed_by }),
        h(NotInForce, { issues }),
      ],
    },
    { head: 'Route', cell: ({ fields }) => link(fields.route) },
    {
      head: 'Route overrides by capability',
      cell: ({ fields }) =>
        pairs(
          Object.entries(fields.capability_routes ?? {}).map(([name, route]) => [
            wordFor(CAPABILITY_NAMES, name),
            String(route),
          ]),
        ),
    },
    { head: 'Purposes', cell: ({ fields }) => pairs(Object.entries(fields.purposes ?? {})) },
    actionsColumn(
      'app',
      ({ id }) => id,
      (app, what) => onDialog({ what, app }),
    ),
  ]
}

/** Labels with which callers name the purpose of a call. */
function PurposeList(props: {
  readonly known: Known
  readonly onDialog: (dialog: OpenDialog) => void
  readonly onSaved: (workspace: WorkspaceAnswer) => void
}) {
  const { known, onDialog, onSaved } = props
  const { id, purposes } = known.workspace
  const turn = useAction(async (before: PurposeAnswer, enabled: boolean) => {
    const { purpose, description } = before
    const path = apiPath`/workspaces/${id}/purposes/${purpose}`
    onSaved(await api.put<WorkspaceAnswer>(path, purposeFields({ description, enabled }, before)))
    toast(`Purpose ${purpose} ${enabled ? 'enabled' : 'disabled'}`)
  })
  const add = h(
    Button,
    { icon: 'plus', onClick: () => onDialog({ what: 'purpose', purpose: null }) },
    'Create purpose',
  )
  return h(
    Section,
    {
      title: 'Purposes',
      lead: 'Labels a request can send to pick a different route or entry.',
      actions: add,
      id: 'purposes',
    },
    h(Table<PurposeAnswer>, {
      caption: 'Purposes',
      columns: purposeColumns(known, onDialog, turn.run, turn.busy),
      rows: purposes,
      rowKey: ({ purpose }: PurposeAnswer) => purpose,
    }),
    h(ErrorNote, { error: turn.error, what: 'Not changed' }),
  )
}

function purposeColumns(
  known: Known,
  onDialog: (dialog: OpenDialog) => void,
  turn: (purpose: PurposeAnswer, enabled: boolean) => void,
  busy: boolean,
): readonly Column<PurposeAnswer>[] {
  return [
    {
      head: 'Purpose',
      primary: true,
      cell: ({ purpose, managed_by }) => [
        h('span', { class: 'mono' }, purpose),
        h(FileBadge, { managedBy: managed_by }),
      ],
    },
    { head: 'Description', cell: ({ description }) => description || h('span', { class: 'quiet' }, '–') },
    {
      head: 'Used by',
      cell: ({ purpose }) => {
        const apps = bindersOf(known, purpose)
        return apps.length === 0 ? h('span', { class: 'quiet' }, 'No app') : apps.join(', ')
      },
    },
    {
      head: 'Enabled',
      cell: (purpose) =>
        h(Switch, {
          label: [
            h('span', { class: 'hidden' }, purpose.purpose, ' is '),
            purpose.enabled ? 'enabled' : 'disabled',
          ],
          checked: purpose.enabled,
          onChange: (enabled: boolean) => turn(purpose, enabled),
          disabled: purpose.managed_by === 'file' || busy,
        }),
    },
    actionsColumn(
      'purpose',
      ({ purpose }) => purpose,
      (purpose, what) => onDialog({ what, purpose }),
    ),
  ]
}

interface DeleteAppProps {
  readonly known: Known
  readonly app: AppAnswer
  readonly onSaved: (workspace: WorkspaceAnswer) => void
  readonly onClose: () => void
}

/** Deletes an app that has no keys. */
function DeleteApp(props: DeleteAppProps) {
  const { known, app, onSaved, onClose } = props
  const place = apiPath`/workspaces/${known.workspace.id}`
  const keys = useLoad(
    async (signal) => {
      const query = queryOf({ app: app.id, state: 'active' })
      return await api.get<KeysAnswer>(`${place}/keys${query}`, { signal })
    },
    [place, app.id],
  )
  const remove = async () => {
    onSaved(await api.delete<WorkspaceAnswer>(place + apiPath`/apps/${app.id}`))
    toast(`App ${app.id} deleted`)
  }
  if (keys.state === 'ready' && keys.value.total === 0)
    return h(
      Confirm,
      { title: `Delete the app ${app.id}?`, action: 'Delete app', onConfirm: remove, onClose, typed: app.id },
      h('p', null, 'No key uses it. Its route ', app.fields.route, ' stays.'),
    )
  return h(
    Dialog,
    {
      title: `Delete the app ${app.id}?`,
      onClose,
      footer: [
        h(Button, { onClick: onClose }, 'Close'),
        keys.state === 'ready'
          ? h(LinkButton, { href: pathOf(known.workspace.id, 'keys'), kind: 'primary' }, 'Go to keys')
          : null,
      ],
    },
    h(Loaded<KeysAnswer>, {
      load: keys,
      what: 'The keys of the app',
      rows: 2,
      render: ({ keys: shown, total }: KeysAnswer) =>
        h(
          'div',
          { class: 'stack' },
          h(
            'p',
            null,
            `${plural(total, 'key')} ${total === 1 ? 'uses' : 'use'} this app. `,
            `Revoke ${total === 1 ? 'it' : 'them'} first:`,
          ),
          h(
            'ul',
            { class: 'stack stack-tight' },
            shown.map(({ id, name }) =>
              h('li', { key: id }, name, ' ', h('span', { class: 'mono small quiet' }, id)),
            ),
          ),
        ),
    }),
  )
}

function DeletePurpose(props: {
  readonly known: Known
  readonly purpose: PurposeAnswer
  readonly onSaved: (workspace: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { known, purpose, onSaved, onClose } = props
  const { workspace } = known
  const bound = bindersOf(known, purpose.purpose)
  const remove = async () => {
    onSaved(
      await api.delete<WorkspaceAnswer>(apiPath`/workspaces/${workspace.id}/purposes/${purpose.purpose}`),
    )
    toast(`Purpose ${purpose.purpose} deleted`)
  }
  if (bound.length > 0)
    return h(
      Dialog,
      {
        title: `The purpose ${purpose.purpose} is in use`,
        onClose,
        footer: h(Button, { kind: 'primary', onClick: onClose }, 'Close'),
      },
      h(
        'p',
        null,
        bound.join(', '),
        ' ',
        bound.length === 1 ? 'binds' : 'bind',
        ' it to a route. Remove the binding there first.',
      ),
    )
  return h(
    Confirm,
    { title: `Delete the purpose ${purpose.purpose}?`, action: 'Delete purpose', onConfirm: remove, onClose },
    h(
      'p',
      null,
      'Requests that send it are then routed as if they had no purpose. Remove it from route entries first.',
    ),
  )
}

/** Ids of the apps that bind a purpose to a route. */
function bindersOf({ workspace }: Known, purpose: string): readonly string[] {
  return workspace.apps
    .filter(({ fields }) => Object.hasOwn(fields.purposes ?? {}, purpose))
    .map(({ id }) => id)
}

/** Buttons beside what the file does not manage. */
function actionsColumn<What extends 'app' | 'purpose', Row extends AppAnswer | PurposeAnswer>(
  what: What,
  nameOf: (row: Row) => string,
  open: (row: Row, dialog: What | `delete-${What}`) => void,
): Column<Row> {
  const labelled = (action: string, row: Row) => ({
    small: true,
    label: `${action} the ${what} ${nameOf(row)}`,
  })
  return {
    head: 'Actions',
    hideHead: true,
    align: 'end',
    cell: (row) =>
      row.managed_by === 'file'
        ? null
        : [
            h(Button, { ...labelled('Edit', row), onClick: () => open(row, what) }, 'Edit'),
            h(Button, {
              ...labelled('Delete', row),
              kind: 'quiet',
              icon: 'trash',
              onClick: () => open(row, `delete-${what}`),
            }),
          ],
  }
}
