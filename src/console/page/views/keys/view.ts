import { useState } from 'preact/hooks'
import type { SessionAnswer } from '../../../server/answers/access.ts'
import type { KeyAnswer, KeysAnswer, NewKeyAnswer } from '../../../server/answers/keys.ts'
import type { NamesAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { Badge, FileBadge, StatusBadge } from '../../components/badge.ts'
import { Button, LinkButton } from '../../components/button.ts'
import { Confirm } from '../../components/dialog.ts'
import { PageHead } from '../../components/page-head.ts'
import { Pager, SearchField, usePaging } from '../../components/paged.ts'
import { Bar } from '../../components/progress.ts'
import { EmptyState, Loaded, Note } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { toast } from '../../components/toasts.ts'
import { number, orNone, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { EditKey, KeyShown, NewKey, RotateKey } from './forms.ts'

/** Interval at which spending and last uses are reloaded. */
const LIVE_MS = 15_000

/** Apps that a new key can be for. */
const APPS_MAX = 1_000

interface Keys extends KeysAnswer {
  readonly apps: readonly string[]
}

/** The API keys of a workspace: made here, shown once, changed, rotated and revoked. */
export function KeysView({ workspace, session }: WorkspaceViewProps) {
  const path = apiPath`/workspaces/${workspace}/keys`
  const paging = usePaging()
  const load = useLoad<Keys>(
    async (signal) => {
      const names = apiPath`/workspaces/${workspace}/names` + queryOf({ of: 'apps', limit: APPS_MAX })
      const [found, apps] = await Promise.all([
        api.get<KeysAnswer>(path + paging.query, { signal }),
        api.get<NamesAnswer>(names, { signal }),
      ])
      return { ...found, apps: apps.names.map(({ id }) => id) }
    },
    [path, paging.query],
    { everyMs: LIVE_MS },
  )
  const [open, setOpen] = useState<Open>(null)
  const { value } = load
  const action = h(
    Button,
    { kind: 'primary', icon: 'plus', disabled: value === null, onClick: () => setOpen({ what: 'form' }) },
    'Create key',
  )
  return [
    h(PageHead, {
      title: 'Keys',
      lead: 'API keys authenticate an app. You’ll see each key only once.',
      actions: value?.apps.length === 0 ? null : action,
    }),
    h(SearchField, { paging, label: 'Search keys', all: value?.all ?? null }),
    h(Loaded<Keys>, {
      load,
      what: 'The keys',
      rows: 6,
      render: ({ keys, apps, all, total }: Keys) => [
        apps.length === 0 ? h(NoApp, { workspace }) : null,
        all === 0 && apps.length > 0 ? h(NoKey, null) : null,
        all > 0 && keys.length === 0 ? h(EmptyState, { title: 'No matching keys' }) : null,
        keys.length > 0 ? h(KeyTable, { keys, session, onOpen: setOpen }) : null,
        h(Pager, { paging, total, shown: keys.length }),
      ],
    }),
    h(OpenDialog, { path, apps: value?.apps ?? [], session, open, onOpen: setOpen, onChanged: load.reload }),
  ]
}

/** The one dialog that is open. */
type Open =
  | { readonly what: 'form' }
  | { readonly what: 'made'; readonly made: NewKeyAnswer }
  | { readonly what: 'edit' | 'rotate' | 'revoke'; readonly key: KeyAnswer }
  | null

function OpenDialog(props: {
  readonly path: string
  readonly apps: readonly string[]
  readonly session: SessionAnswer
  readonly open: Open
  readonly onOpen: (open: Open) => void
  readonly onChanged: () => void
}) {
  const { path, apps, session, open, onOpen, onChanged } = props
  const close = () => onOpen(null)
  if (open === null) return null
  if (open.what === 'made') return h(KeyShown, { made: open.made, onClose: close })
  if (open.what === 'revoke') {
    return h(RevokeKey, {
      path,
      revoked: open.key,
      own: isOwn(open.key, session),
      onRevoked: onChanged,
      onClose: close,
    })
  }
  const made = (key: NewKeyAnswer) => {
    onOpen({ what: 'made', made: key })
    onChanged()
  }
  const form = { path, apps, mayOperate: session.role === 'operator', onClose: close }
  if (open.what === 'rotate') return h(RotateKey, { path, rotated: open.key, onMade: made, onClose: close })
  if (open.what === 'form') return h(NewKey, { ...form, onMade: made })
  const saved = () => {
    toast(`Key ${open.key.name} saved`)
    close()
    onChanged()
  }
  return h(EditKey, { ...form, edited: open.key, onSaved: saved })
}

/** The key that this session was signed in with: with it the session is over, too. */
function isOwn({ id }: KeyAnswer, session: SessionAnswer): boolean {
  return id === session.key?.id
}

function NoApp({ workspace }: { readonly workspace: string }) {
  return h(
    EmptyState,
    {
      title: 'Create an app first',
      action: h(LinkButton, { kind: 'primary', href: pathOf(workspace, 'apps') }, 'Create an app'),
    },
    'Each key belongs to one app of the workspace.',
  )
}

function NoKey() {
  return h(
    EmptyState,
    { title: 'No keys yet' },
    'Create a key for an app, and use it in the program that calls /v1.',
  )
}

function KeyTable(props: {
  readonly keys: readonly KeyAnswer[]
  readonly session: SessionAnswer
  readonly onOpen: (open: Open) => void
}) {
  const { keys, session, onOpen } = props
  const nowMs = Date.now()
  const over = (key: KeyAnswer) => ['expired', 'revoked'].includes(keyState(key, nowMs))
  const columns: readonly Column<KeyAnswer>[] = [
    { head: 'Key', primary: true, cell: (key) => keyName(key, session) },
    { head: 'State', cell: (key) => stateOf(key, nowMs) },
    { head: 'App', cell: ({ app }) => app },
    { head: 'Scopes', cell: ({ scopes }) => scopes.join(', ') },
    { head: 'Spent this month', cell: spentOf },
    { head: 'Rate limit', minor: true, cell: rateOf },
    {
      head: 'Last used',
      align: 'end',
      cell: (key) => [
        h(Time, { at: key.last_used_at, none: 'never' }),
        isIdle(key, nowMs) ? h(Badge, { tone: 'warn' }, 'unused for 30 days') : null,
      ],
    },
    {
      head: 'Actions',
      hideHead: true,
      narrow: true,
      align: 'end',
      cell: (key) => (over(key) || key.managed_by === 'file' ? null : h(KeyActions, { apiKey: key, onOpen })),
    },
  ]
  return h(Table<KeyAnswer>, {
    caption: 'Keys',
    columns,
    rows: keys,
    rowKey: ({ id }: KeyAnswer) => id,
    dim: over,
  })
}

function KeyActions({
  apiKey: key,
  onOpen,
}: {
  readonly apiKey: KeyAnswer
  readonly onOpen: (open: Open) => void
}) {
  const { name } = key
  return h(
    'span',
    { class: 'key-actions' },
    h(Button, { small: true, label: `Edit ${name}`, onClick: () => onOpen({ what: 'edit', key }) }, 'Edit'),
    h(
      Button,
      { small: true, label: `Rotate ${name}`, onClick: () => onOpen({ what: 'rotate', key }) },
      'Rotate',
    ),
    h(
      Button,
      {
        small: true,
        kind: 'danger',
        label: `Revoke ${name}`,
        onClick: () => onOpen({ what: 'revoke', key }),
      },
      'Revoke',
    ),
  )
}

function keyName({ id, name, prefix, managed_by: managedBy }: KeyAnswer, session: SessionAnswer) {
  return h(
    'span',
    { class: 'key-name' },
    h(
      'span',
      null,
      name,
      ' ',
      id === session.key?.id ? h(Badge, { tone: 'accent' }, 'you') : null,
      ' ',
      h(FileBadge, { managedBy }),
    ),
    h('span', { class: 'mono small quiet', title: id }, prefix === null ? id : `${prefix}…`),
  )
}

function stateOf(key: KeyAnswer, nowMs: number) {
  const state = keyState(key, nowMs)
  if (state === 'revoked') {
    return [
      h(StatusBadge, { status: 'revoked' }),
      h('span', { class: 'quiet' }, h(Time, { at: key.revoked_at })),
    ]
  }
  const { former } = key
  const badge =
    state === 'ends soon' ? h(Badge, { tone: 'warn' }, 'ends soon') : h(StatusBadge, { status: state })
  return [
    badge,
    key.expires_at === null ? null : h('span', { class: 'quiet' }, 'ends ', h(Time, { at: key.expires_at })),
    former === null
      ? null
      : h('span', { class: 'quiet' }, `old key ${former.prefix}… ends `, h(Time, { at: former.until })),
  ]
}

/** A bar where there is a budget; the state may not answer, and then nothing is known. */
function spentOf({ budget_usd_per_month: budget, spent_usd: spent }: KeyAnswer) {
  if (budget === null) return orNone(spent, usd)
  if (spent === null) return h('span', { class: 'quiet' }, 'of ', usd(budget), '; spending unavailable')
  return h(
    'div',
    { class: 'key-budget' },
    h(Bar, {
      label: 'Spent this month',
      hideLabel: true,
      value: spent,
      max: budget,
      text: `${usd(spent)} of ${usd(budget)}`,
    }),
  )
}

function rateOf({ rate_limit: { requests_per_minute: perMinute, burst } }: KeyAnswer) {
  return h('span', { class: 'nowrap', title: `Burst: ${number(burst)}` }, number(perMinute), ' / min')
}

type KeyState = 'active' | 'ends soon' | 'expired' | 'revoked'

/** A key ends soon within it, or within the last tenth of its life where that is shorter. */
const SOON_MS = 7 * 24 * 3_600_000

export function keyState(
  key: Pick<KeyAnswer, 'revoked_at' | 'expires_at' | 'created_at'>,
  nowMs: number,
): KeyState {
  if (key.revoked_at !== null) return 'revoked'
  if (key.expires_at === null) return 'active'
  const endsMs = Date.parse(key.expires_at)
  const lifeMs = key.created_at === null ? Infinity : endsMs - Date.parse(key.created_at)
  const leftMs = endsMs - nowMs
  return leftMs <= 0 ? 'expired' : leftMs < Math.min(SOON_MS, lifeMs / 10) ? 'ends soon' : 'active'
}

const IDLE_MS = 30 * 24 * 3_600_000

/** True if a valid key has been unused for so long that it may not be needed. */
export function isIdle(
  key: Pick<KeyAnswer, 'revoked_at' | 'expires_at' | 'created_at' | 'last_used_at'>,
  nowMs: number,
): boolean {
  const since = key.last_used_at ?? key.created_at
  // Keys of the configuration file do not say when they were made.
  if (since === null || ['expired', 'revoked'].includes(keyState(key, nowMs))) return false
  return nowMs - Date.parse(since) > IDLE_MS
}

/** Asks before a key is revoked, and says what stops working. */
function RevokeKey(props: {
  readonly path: string
  readonly revoked: KeyAnswer
  /** The session was signed in with it. */
  readonly own: boolean
  readonly onRevoked: () => void
  readonly onClose: () => void
}) {
  const { path, revoked, own, onRevoked, onClose } = props
  const { id, name, app, last_used_at: used } = revoked
  return h(
    Confirm,
    {
      title: `Revoke the key ${name}?`,
      action: 'Revoke key',
      onConfirm: async () => {
        await api.delete(`${path}/${encodeURIComponent(id)}`)
        toast(`Key ${name} revoked`)
        onRevoked()
      },
      onClose,
      typed: own ? name : undefined,
    },
    h(
      'p',
      null,
      'It authenticates the app ',
      h('strong', null, app),
      ' and ',
      used === null ? 'was never used' : ['was last used ', h('strong', null, h(Time, { at: used }))],
      '. Requests with this key will fail with 401 within 5 seconds. Jobs already submitted continue. ' +
        'This can’t be undone.',
    ),
    own ? h(Note, { tone: 'warn' }, 'You’re signed in with this key: revoking it ends your session.') : null,
  )
}
