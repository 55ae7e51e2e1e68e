import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type { HealthAnswer } from '../../../server/answers/health.ts'
import type {
  FactsAnswer,
  KindAnswer,
  ModelsAnswer,
  ProviderAnswer,
  ReplicaAnswer,
} from '../../../server/answers/providers.ts'
import { api } from '../../api.ts'
import { FileBadge, NotInForce } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { Confirm } from '../../components/dialog.ts'
import { fitnessOfProvider, Health, useHealth } from '../../components/health.ts'
import { PageHead, Section } from '../../components/page-head.ts'
import { EmptyState, Loaded } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { toast } from '../../components/toasts.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import { LOADING, type Load, useLoad } from '../../load.ts'
import { apiPath, pathOf } from '../../paths.ts'
import type { ViewProps } from '../../view.ts'
import { priceInWords } from '../routes/words.ts'
import { CheckProvider } from './check-provider.ts'
import { EditProvider } from './edit-provider.ts'

interface Listing {
  readonly providers: readonly ProviderAnswer[]
  readonly kinds: readonly KindAnswer[]
  readonly facts: FactsAnswer
}

const PLATFORM_LEAD = 'Provider accounts that every workspace can use. Usage is charged as credits.'
const OWN_LEAD =
  'Provider accounts your routes can use. With your own credentials, the provider bills you directly.'

/** The accounts at providers: those of a workspace, or of the platform. */
export function AllProviders({ workspace, session }: ViewProps) {
  const place = workspace === null ? '' : apiPath`/workspaces/${workspace}`
  const load = useLoad((signal) => api.get<Listing>(`${place}/providers`, { signal }), [workspace])
  const platform = useLoad((signal) => platformProviders(workspace, signal), [workspace])
  const health = useHealth(workspace)
  // Each is above the next, which would move.
  const shown = health === undefined || platform.state === 'loading' ? LOADING : load
  const [dialog, setDialog] = useState<OpenDialog | null>(null)
  const close = () => setDialog(null)
  const add = h(
    Button,
    { kind: 'primary', icon: 'plus', onClick: () => setDialog({ what: 'edit', provider: null }) },
    'Add provider',
  )
  const setsAddress = session.role === 'operator'
  const hasNone = load.state === 'ready' && load.value.providers.length === 0
  return [
    h(PageHead, {
      title: workspace === null ? 'Platform providers' : 'Providers',
      lead: workspace === null ? PLATFORM_LEAD : OWN_LEAD,
      actions: hasNone ? null : add,
    }),
    h(
      'div',
      { class: 'stack stack-loose' },
      h(Loaded<Listing>, {
        load: shown,
        what: 'The providers',
        render: (listing: Listing) =>
          h(ProviderList, {
            providers: listing.providers,
            health: health ?? null,
            workspace,
            isOperator: setsAddress,
            add,
            onDialog: setDialog,
          }),
      }),
      workspace === null || shown.state === 'loading'
        ? null
        : h(PlatformList, { workspace, load: platform, isOperator: setsAddress, health: health ?? null }),
      shown.state === 'ready' ? h(Facts, shown.value.facts) : null,
    ),
    dialog?.what === 'edit' && load.state === 'ready'
      ? h(EditProvider, {
          before: dialog.provider,
          kinds: load.value.kinds,
          taken: load.value.providers.map(({ name }) => name),
          workspace,
          setsAddress,
          onSaved: load.reload,
          onCheck: (provider: ProviderAnswer) => setDialog({ what: 'check', provider }),
          onClose: close,
        })
      : null,
    dialog?.what === 'check' ? h(CheckProvider, { place, provider: dialog.provider, onClose: close }) : null,
    dialog?.what === 'delete'
      ? h(DeleteProvider, { place, provider: dialog.provider, onDone: load.reload, onClose: close })
      : null,
  ]
}

/** The platform's accounts that a workspace may use; the platform itself lists them as its own. */
async function platformProviders(workspace: string | null, signal: AbortSignal) {
  if (workspace === null) return []
  const { providers } = await api.get<ModelsAnswer>(apiPath`/workspaces/${workspace}/models`, { signal })
  return providers.filter(({ access }) => access === 'platform')
}

/** How old the knowledge about models is, and what of it asks for attention. */
function Facts({ issued_at: issuedAt, stale }: FactsAnswer) {
  return h(
    Section,
    { title: 'Models', lead: `Facts and prices of models as of ${issuedAt.slice(0, 10)}.` },
    stale.length === 0
      ? h('p', { class: 'quiet' }, 'No model that a route leads to has ended, ends soon or is deprecated.')
      : h(
          'ul',
          null,
          stale.map((line) => h('li', { key: line }, line)),
        ),
  )
}

/** The open dialog; null: for a new provider. */
type OpenDialog =
  | { readonly what: 'edit'; readonly provider: ProviderAnswer | null }
  | { readonly what: 'check' | 'delete'; readonly provider: ProviderAnswer }

/** The providers of a workspace, or (null) of the platform. */
function ProviderList(props: {
  readonly providers: readonly ProviderAnswer[]
  /** Null: not known yet. */
  readonly health: HealthAnswer | null
  readonly workspace: string | null
  readonly isOperator: boolean
  readonly add: ComponentChildren
  readonly onDialog: (dialog: OpenDialog) => void
}) {
  const { providers, health, workspace, isOperator, add, onDialog } = props
  const columns = useMemo(() => providerColumns(onDialog, isOperator, health), [onDialog, isOperator, health])
  if (providers.length > 0)
    return h(Table<ProviderAnswer>, {
      caption: 'Providers',
      columns,
      rows: providers,
      rowKey: ({ name }: ProviderAnswer) => name,
      href: ({ name }: ProviderAnswer) => pathOf(workspace, 'providers', name),
    })
  return workspace === null
    ? h(
        EmptyState,
        { title: 'No shared providers yet', action: add },
        'Add an account that every workspace can use. Set its prices, so that usage can be charged.',
      )
    : h(
        EmptyState,
        { title: 'No providers yet', action: add },
        'Add one with your API key. Then create a route from its models.',
      )
}

function providerColumns(
  onDialog: (dialog: OpenDialog) => void,
  isOperator: boolean,
  health: HealthAnswer | null,
): readonly Column<ProviderAnswer>[] {
  return [
    {
      head: 'Provider',
      primary: true,
      cell: ({ name, managed_by, issues }) => [
        h('span', { class: 'mono' }, name),
        h(FileBadge, { managedBy: managed_by }),
        h(NotInForce, { issues }),
      ],
    },
    {
      head: 'Health',
      cell: ({ name, replicas }) => [
        h(Health, { of: health && fitnessOfProvider(health, name) }),
        replicas === undefined ? null : h(Replicas, { replicas }),
      ],
    },
    { head: 'Type', cell: ({ kind }) => kind },
    { head: 'Credential', cell: ({ credential }) => CREDENTIAL_WORDS[credential] },
    { head: 'URL', minor: !isOperator, cell: (provider) => h(Address, { provider }) },
    { head: 'Pricing overrides', minor: true, cell: ({ facts }) => declaredInWords(facts) },
    {
      head: 'Actions',
      hideHead: true,
      align: 'end',
      narrow: true,
      cell: (provider) => [
        h(
          Button,
          {
            small: true,
            label: `Check ${provider.name}`,
            onClick: () => onDialog({ what: 'check', provider }),
          },
          'Check',
        ),
        provider.managed_by === 'file'
          ? null
          : [
              h(
                Button,
                {
                  small: true,
                  label: `Edit ${provider.name}`,
                  onClick: () => onDialog({ what: 'edit', provider }),
                },
                'Edit',
              ),
              h(Button, {
                small: true,
                kind: 'quiet',
                icon: 'trash',
                label: `Delete ${provider.name}`,
                onClick: () => onDialog({ what: 'delete', provider }),
              }),
            ],
      ],
    },
  ]
}

function Address({ provider: { base_url, base_urls } }: { readonly provider: ProviderAnswer }) {
  const url = base_urls?.join(' ') ?? base_url
  return url === null
    ? h('span', { class: 'quiet' }, 'default')
    : h('span', { class: 'cut cut-wide mono small', title: url }, url)
}

/** The servers of a provider that get calls, and why the others do not. */
function Replicas({ replicas }: { readonly replicas: readonly ReplicaAnswer[] }) {
  const up = replicas.filter((replica) => replica.up).length
  const calls = replicas.reduce((sum, replica) => sum + replica.calls, 0)
  return h(
    'ul',
    { class: 'small', 'aria-label': 'Replicas' },
    h(
      'li',
      { class: 'quiet' },
      `${up} of ${replicas.length} replicas up, ${plural(calls, 'call')} under way`,
    ),
    replicas.map(({ up, trouble }, at) =>
      up ? null : h('li', { key: at }, `Replica ${at} is down: ${trouble ?? 'calls at it have failed'}`),
    ),
  )
}

const CREDENTIAL_WORDS: Readonly<Record<ProviderAnswer['credential'], string>> = {
  stored: '•••• saved',
  reference: 'from environment or file',
  none: 'none',
}

function declaredInWords({ price, capabilities }: ProviderAnswer['facts']) {
  const parts = [
    ...(price === undefined ? [] : [priceInWords(price)]),
    ...(capabilities === undefined ? [] : [`${capabilities.length} capabilities`]),
  ]
  return parts.length === 0 ? h('span', { class: 'quiet' }, '–') : parts.join(' · ')
}

type PlatformProvider = ModelsAnswer['providers'][number]

/** Shared providers that a workspace may use in addition to its own; operators manage them. */
function PlatformList(props: {
  readonly workspace: string
  readonly load: Load<PlatformProvider[]>
  readonly isOperator: boolean
  /** Health as seen by the workspace's own calls; null: not known yet. */
  readonly health: HealthAnswer | null
}) {
  const { workspace, load, isOperator, health } = props
  const columns = useMemo(() => sharedColumns(health), [health])
  const manage = isOperator ? h('a', { href: pathOf(null, 'providers') }, 'Manage') : null
  return h(
    Section,
    {
      title: 'Shared providers',
      lead: 'Available to every workspace. Usage is charged as credits.',
      actions: manage,
    },
    h(Loaded<PlatformProvider[]>, {
      load,
      what: 'The shared providers',
      render: (providers: PlatformProvider[]) =>
        providers.length === 0
          ? h('p', { class: 'quiet' }, 'None yet.', isOperator ? '' : ' Operators can add them.')
          : h(Table<PlatformProvider>, {
              caption: 'Shared providers',
              columns,
              rows: providers,
              rowKey: ({ name }: PlatformProvider) => name,
              href: ({ name }: PlatformProvider) => pathOf(workspace, 'providers', name),
            }),
    }),
  )
}

const sharedColumns = (health: HealthAnswer | null): readonly Column<PlatformProvider>[] => [
  { head: 'Provider', primary: true, cell: ({ name }) => h('span', { class: 'mono' }, name) },
  {
    head: 'Health',
    cell: ({ name }) => h(Health, { of: health && fitnessOfProvider(health, name) }),
  },
  { head: 'Type', cell: ({ kind }) => kind },
  {
    head: 'Models',
    cell: ({ models, open }) => {
      const listed = models.length === 0 ? '' : plural(models.length, 'model')
      const others = open ? (listed === '' ? 'any model a route names' : ', and any other a route names') : ''
      return listed + others || h('span', { class: 'quiet' }, 'none')
    },
  },
]

function DeleteProvider(props: {
  readonly place: string
  readonly provider: ProviderAnswer
  readonly onDone: () => void
  readonly onClose: () => void
}) {
  const { place, provider, onDone, onClose } = props
  const { name, credential } = provider
  const remove = async () => {
    await api.delete(place + apiPath`/providers/${name}`)
    toast(`Provider ${name} deleted`)
    onDone()
  }
  return h(
    Confirm,
    { title: `Delete provider ${name}?`, action: 'Delete provider', onConfirm: remove, onClose, typed: name },
    h(
      'p',
      null,
      credential === 'stored' ? 'Its saved API key is deleted. ' : '',
      'Remove it from all routes first; a route that still uses it is listed here.',
    ),
  )
}
