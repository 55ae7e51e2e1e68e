import { useState } from 'preact/hooks'
import type { BooksAnswer } from '../../../server/answers/books.ts'
import type { UsageAnswer, UsageSums } from '../../../server/answers/usage.ts'
import type { WorkspaceAnswer, WorkspaceSummary } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { FileBadge } from '../../components/badge.ts'
import { Button, LinkButton } from '../../components/button.ts'
import { Confirm, FormDialog } from '../../components/dialog.ts'
import { Select, TextInput } from '../../components/field.ts'
import { type FactItems, Facts, ManagedByFile, PageHead, Section } from '../../components/page-head.ts'
import { PAGE_ROWS, Pager, SearchField, usePaging } from '../../components/paged.ts'
import { Bar } from '../../components/progress.ts'
import { EmptyState, ErrorNote, Loaded, Note } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { toast } from '../../components/toasts.ts'
import { readUsd } from '../../fields.ts'
import { useForm } from '../../form.ts'
import { number, percent, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { isSameName } from '../../names.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import { navigate, useQuery } from '../../router.ts'
import { forgetWorkspace, useWorkspaces, workspacesChanged } from '../../session.ts'
import type { ViewProps } from '../../view.ts'
import { EditWorkspace } from './edit-workspace.ts'
import { newGrantId } from './workspace-form.ts'

/** All workspaces, or one of them with its settings. */
export function WorkspacesView({ path }: ViewProps) {
  const [id] = path
  return id === undefined ? h(WorkspaceList, null) : h(WorkspacePage, { key: id, id })
}

/** Orders of the workspaces. */
const RANKS = {
  cost: { label: 'Cost, 30 days', of: (row: Ranked) => row.used?.cost_usd ?? 0 },
  calls: { label: 'Calls, 30 days', of: (row: Ranked) => row.used?.calls ?? 0 },
  errors: { label: 'Errors, 30 days', of: (row: Ranked) => row.used?.errors ?? 0 },
  name: { label: 'Name', of: () => 0 },
} as const
type Rank = keyof typeof RANKS

/** A workspace, and what it has used of late; null: it is not known. */
interface Ranked extends WorkspaceSummary {
  readonly used: Pick<UsageSums, 'calls' | 'errors' | 'cost_usd'> | null
}

const UNUSED = { calls: 0, errors: 0, cost_usd: 0 }
const USED = queryOf({ by: 'workspace', limit: 10_000 })

/** The workspaces with what each has used, the most first; by name as long as that is not known. */
export function ranked(
  workspaces: readonly WorkspaceSummary[],
  usage: Pick<UsageAnswer, 'data'> | null,
  rank: Rank,
): readonly Ranked[] {
  const known = new Map((usage?.data ?? []).map((row) => [row.workspace, row]))
  return workspaces
    .map((one) => ({ ...one, used: usage === null ? null : (known.get(one.id) ?? UNUSED) }))
    .sort((one, other) => RANKS[rank].of(other) - RANKS[rank].of(one) || (one.name < other.name ? -1 : 1))
}

/** A node that keeps no records may tell of some by others. */
function isKnown(usage: UsageAnswer | null): boolean {
  return usage !== null && (usage.is_recorded || usage.data.length > 0)
}

function WorkspaceList() {
  const load = useWorkspaces()
  const usage = useLoad((signal) => api.get<UsageAnswer>(`/usage${USED}`, { signal }), [])
  const [query, setQuery] = useQuery()
  const paging = usePaging()
  const rank = RANK_NAMES.find((name) => name === query.get('sort')) ?? 'cost'
  const add = h(LinkButton, { kind: 'primary', icon: 'plus', href: pathOf(null, 'setup') }, 'New workspace')
  return [
    h(PageHead, {
      title: 'Workspaces',
      lead: 'Tenants, each with its own apps, keys, routes, provider credentials and credits.',
      actions: add,
    }),
    h(SearchField, { paging, label: 'Search workspaces', all: load.value?.length ?? null }),
    h(Loaded<readonly WorkspaceSummary[]>, {
      load,
      what: 'The workspaces',
      render: (workspaces: readonly WorkspaceSummary[]) => {
        const found = ranked(workspaces, isKnown(usage.value) ? usage.value : null, rank).filter(
          ({ id, name }) =>
            [id, name].some((text) => text.toLowerCase().includes(paging.search.toLowerCase())),
        )
        const rows = found.slice((paging.page - 1) * PAGE_ROWS, paging.page * PAGE_ROWS)
        return workspaces.length === 0
          ? h(
              EmptyState,
              { title: 'No workspaces yet', action: add },
              'Create one to connect a provider, publish a route and create API keys.',
            )
          : [
              h(
                'div',
                { class: 'filters' },
                h(Select<Rank>, {
                  label: 'Sort by',
                  value: rank,
                  options: RANK_NAMES.map((value) => ({ value, label: RANKS[value].label })),
                  onChange: (sort: Rank) => setQuery({ sort: sort === 'cost' ? null : sort, page: null }),
                }),
              ),
              found.length === 0
                ? h(EmptyState, { title: 'No matching workspaces' })
                : h(
                    'div',
                    { class: 'stack' },
                    h(Table<Ranked>, {
                      caption: 'Workspaces',
                      columns: COLUMNS,
                      rows,
                      rowKey: ({ id }: Ranked) => id,
                      href: ({ id }: Ranked) => pathOf(null, 'workspaces', id),
                    }),
                    h(Pager, { paging, total: found.length, shown: rows.length }),
                  ),
              usage.state === 'ready' && !isKnown(usage.value)
                ? h('p', { class: 'small quiet table-more' }, 'Usage isn’t recorded here.')
                : null,
              h(ErrorNote, { error: usage.error, what: 'Usage unavailable' }),
            ]
      },
    }),
  ]
}

const RANK_NAMES = Object.keys(RANKS) as readonly Rank[]

const unknown = () => h('span', { class: 'quiet' }, '–')

const COLUMNS: readonly Column<Ranked>[] = [
  {
    head: 'Workspace',
    primary: true,
    cell: ({ id, name, managed_by }) =>
      h(
        'span',
        { class: 'row' },
        h('span', null, name),
        isSameName(name, id) ? null : h('span', { class: 'mono small quiet' }, id),
        h(FileBadge, { managedBy: managed_by }),
      ),
  },
  { head: 'Plan', cell: ({ plan }) => plan ?? h('span', { class: 'quiet' }, 'none') },
  { head: 'Calls', align: 'end', cell: ({ used }) => (used === null ? unknown() : number(used.calls)) },
  {
    head: 'Errors',
    align: 'end',
    cell: ({ used }) =>
      used === null
        ? unknown()
        : `${number(used.errors)}${used.errors === 0 ? '' : ` (${percent(used.errors / used.calls)})`}`,
  },
  { head: 'Cost', align: 'end', cell: ({ used }) => (used === null ? unknown() : usd(used.cost_usd)) },
  { head: 'Apps', align: 'end', minor: true, cell: ({ apps }) => apps },
  { head: 'Routes', align: 'end', minor: true, cell: ({ routes }) => routes },
]

/** One workspace as operators see it: its plan, budget and spending. */
function WorkspacePage({ id }: { readonly id: string }) {
  const load = useLoad((signal) => api.get<WorkspaceAnswer>(apiPath`/workspaces/${id}`, { signal }), [id])
  const [dialog, setDialog] = useState<'edit' | 'credits' | 'delete' | null>(null)
  const close = () => setDialog(null)
  const workspace = load.value
  const readOnly = workspace?.managed_by === 'file'
  const isAway = workspace === null
  const actions = [
    h(LinkButton, { kind: 'primary', href: pathOf(id, 'overview') }, 'Open'),
    h(LinkButton, { href: pathOf(id, 'setup') }, 'Setup'),
    h(Button, { onClick: () => setDialog('credits'), disabled: isAway }, 'Add credits'),
    readOnly
      ? null
      : [
          h(Button, { onClick: () => setDialog('edit'), disabled: isAway }, 'Edit'),
          h(Button, {
            kind: 'danger',
            icon: 'trash',
            label: 'Delete workspace',
            onClick: () => setDialog('delete'),
            disabled: isAway,
          }),
        ],
  ]
  return [
    h(PageHead, {
      title: workspace?.name ?? id,
      parent: { href: pathOf(null, 'workspaces'), label: 'Workspaces' },
      badges: [
        isSameName(workspace?.name ?? id, id) ? null : h('span', { class: 'mono small quiet' }, id),
        h(FileBadge, { managedBy: workspace?.managed_by ?? 'console' }),
      ],
      actions,
    }),
    h(Loaded<WorkspaceAnswer>, {
      load,
      what: `The workspace ${id}`,
      render: (value: WorkspaceAnswer) => h(Account, { workspace: value }),
    }),
    workspace !== null && dialog === 'edit'
      ? h(EditWorkspace, { before: workspace, onSaved: load.set, onClose: close })
      : null,
    workspace !== null && dialog === 'credits'
      ? h(AddCredits, { workspace, onSaved: load.set, onClose: close })
      : null,
    workspace !== null && dialog === 'delete' ? h(DeleteWorkspace, { workspace, onClose: close }) : null,
  ]
}

function Account({ workspace }: { readonly workspace: WorkspaceAnswer }) {
  const { account, plan, budget_usd_per_month: budget, apps, purposes } = workspace
  const items: FactItems = [
    ['Plan', plan ?? 'None (everything is included)'],
    ['Apps', apps.length === 0 ? 'None' : apps.map(({ id }) => id).join(', ')],
    ['Purposes', purposes.length === 0 ? 'None' : purposes.map(({ purpose }) => purpose).join(', ')],
    ['Audio and transcripts in the console', workspace.content_shown ? 'Shown' : 'Hidden'],
  ]
  return h(
    'div',
    { class: 'stack stack-loose' },
    workspace.managed_by === 'file' ? h(ManagedByFile, { what: `the workspace ${workspace.id}` }) : null,
    h(Facts, { items }),
    h(
      Section,
      { title: 'Spending', lead: 'Shared providers draw from credits; your own don’t.' },
      account === null
        ? h(Note, { tone: 'warn' }, 'Spending is unavailable right now: the state store doesn’t answer.')
        : [
            h(Facts, {
              items: [
                ['Credits', usd(account.credits_usd)],
                ['Reserved', usd(account.reserved_usd)],
                [`Spent in ${account.month}`, usd(account.spent_usd)],
              ],
            }),
            budget === null
              ? h('p', { class: 'quiet' }, 'No monthly budget.')
              : [
                  h(Bar, {
                    label: `Budget of ${account.month}`,
                    value: account.spent_usd,
                    max: budget,
                    text: `${usd(account.spent_usd)} of ${usd(budget)}`,
                  }),
                  h(Forecast, { month: account.month, spent: account.spent_usd, budget }),
                ],
            h(Trial, { workspace }),
            h(Books, { id: workspace.id }),
          ],
    ),
  )
}

/** The spending of the month at the rate of its first days; left out on its first day, and without spending. */
function Forecast(props: { readonly month: string; readonly spent: number; readonly budget: number }) {
  const { month, spent, budget } = props
  const whole = forecastOf(month, spent, Date.now())
  if (whole === null) return null
  const share = budget > 0 ? `, ${percent(whole / budget)} of the budget` : ''
  return h('p', { class: 'small quiet' }, `At this rate the month comes to ${usd(whole)}${share}.`)
}

/**
 * Spending of a whole month at the rate of what has passed of it, in USD. Null: less than a day has, or all of it, or
 * nothing was spent.
 *
 * @param month `2026-11`, in UTC
 */
export function forecastOf(month: string, spentUsd: number, nowMs: number): number | null {
  const first = new Date(`${month}-01`)
  const fromMs = first.getTime()
  const monthMs = Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1) - fromMs
  const passedMs = nowMs - fromMs
  if (spentUsd <= 0 || passedMs < 86_400_000 || passedMs >= monthMs) return null
  return Math.round(((spentUsd * monthMs) / passedMs) * 100) / 100
}

/** Charges of the workspace, compared with the cost of its records; left out while there is no answer. */
function Books({ id }: { readonly id: string }) {
  const path = `/books${queryOf({ workspace: id })}`
  const { value, error } = useLoad((signal) => api.get<BooksAnswer>(path, { signal }), [id])
  if (value === null) return h(ErrorNote, { error, what: 'Comparison with usage records unavailable' })
  const items = bookItems(value)
  if (items.length === 0) return null
  return [
    h(Facts, { items }),
    h(
      'p',
      { class: 'small quiet' },
      'Records are complete until ',
      h(Time, { at: value.complete_until }),
      '.',
    ),
  ]
}

/** Empty: nothing was charged yet. */
export function bookItems({ total }: BooksAnswer): FactItems {
  if (total.since === null) return []
  return [
    ['Charged', usd(total.booked_usd)],
    ['In usage records', usd(total.recorded_usd)],
    ['Charged minus recorded', usd(total.difference_usd)],
  ]
}

function Trial({ workspace }: { readonly workspace: WorkspaceAnswer }) {
  const { account, trial } = workspace
  if (!account || account.trial_allowance_usd === null) return null
  const { trial_spent_usd: spent, trial_allowance_usd: allowance } = account
  return [
    h(Bar, { label: 'Trial', value: spent, max: allowance, text: `${usd(spent)} of ${usd(allowance)}` }),
    trial ? h('p', { class: 'small quiet' }, 'Trial ends ', h(Time, { at: trial.expires_at }), '.') : null,
  ]
}

/** Adds credits. The id stays the same until they are added, so that a retry adds nothing twice. */
function AddCredits(props: {
  readonly workspace: WorkspaceAnswer
  readonly onSaved: (saved: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { workspace, onSaved, onClose } = props
  const { fields, submit, busy, error, bind } = useForm(
    () => ({ amount: '', grantId: newGrantId(new Date(), Math.random) }),
    ({ amount, grantId }) => ({
      amount: readSum(amount) === null ? 'Enter an amount in USD, such as 25 or 12.50.' : null,
      grantId: /^[\x21-\x7e]{1,64}$/.test(grantId)
        ? null
        : 'Use 1 to 64 printable characters without spaces.',
    }),
    async ({ amount, grantId }) => {
      const path = apiPath`/workspaces/${workspace.id}/credits`
      const sum = readSum(amount) ?? 0
      onSaved(await api.post<WorkspaceAnswer>(path, { amount_usd: sum, grant_id: grantId }))
      toast(`${usd(sum)} of credits added to ${workspace.id}`)
      onClose()
    },
  )
  const sum = readSum(fields.amount)
  return h(
    FormDialog,
    {
      title: `Add credits to ${workspace.id}`,
      action: sum === null ? 'Add credits' : `Add ${usd(sum)}`,
      onSubmit: submit,
      onClose,
      busy,
      error,
      what: 'Not added, as far as we know',
    },
    h(
      'div',
      { class: 'stack' },
      h(TextInput, {
        label: 'Amount',
        ...bind('amount'),
        suffix: 'USD',
        inputMode: 'decimal',
        autofocus: true,
        required: true,
        width: 'medium',
        hint: workspace.account === null ? '' : `Current balance: ${usd(workspace.account.credits_usd)}.`,
      }),
      h(TextInput, {
        label: 'Grant ID',
        ...bind('grantId'),
        mono: true,
        maxLength: 64,
        hint: 'Idempotency key, e.g. an invoice number.',
      }),
    ),
  )
}

/** Null: not an amount of money that can be added. */
function readSum(amount: string): number | null {
  const sum = readUsd(amount)
  return typeof sum === 'number' && sum > 0 ? sum : null
}

function DeleteWorkspace(props: { readonly workspace: WorkspaceAnswer; readonly onClose: () => void }) {
  const { workspace, onClose } = props
  const { id } = workspace
  const remove = async () => {
    await api.delete(apiPath`/workspaces/${id}`)
    forgetWorkspace(id)
    workspacesChanged()
    toast(`Workspace ${id} deleted`)
    navigate(pathOf(null, 'workspaces'))
  }
  return h(
    Confirm,
    {
      title: `Delete the workspace ${id}?`,
      action: 'Delete workspace',
      onConfirm: remove,
      onClose,
      typed: id,
    },
    h(
      'p',
      null,
      'A workspace must be empty: delete its apps, routes, providers, purposes and keys first. Otherwise ' +
        'nothing is deleted, and what is left is listed here.',
    ),
  )
}
