import { useMemo, useState } from 'preact/hooks'
import type { HealthAnswer, ModelHealth } from '../../../server/answers/health.ts'
import type { ProviderDetailAnswer, ProviderUse } from '../../../server/answers/providers.ts'
import type { UsageAnswer, UsageSums } from '../../../server/answers/usage.ts'
import { api } from '../../api.ts'
import { Badge } from '../../components/badge.ts'
import { Bars } from '../../components/bars.ts'
import { Breakers } from '../../components/breakers.ts'
import { Button, LinkButton } from '../../components/button.ts'
import { Chart, useCharts } from '../../components/chart.ts'
import {
  type Fitness,
  fitnessOfModel,
  fitnessOfProvider,
  LastError,
  StandingBadge,
  standingOf,
  useHealth,
} from '../../components/health.ts'
import { type FactItems, Facts, PageHead, Section } from '../../components/page-head.ts'
import { PROVIDER_SPAN, spanOf, stepsIn, timeText } from '../../components/range.ts'
import { EmptyState, Loaded, Note } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { milliseconds, number, orNone, percent, plural, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { lazy } from '../../lazy.ts'
import { LOADING, useLoad } from '../../load.ts'
import { apiPath, pathOf, providerPath, queryOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { evened, plotOf, rate, type Seen, sinceOf, upstreamReads, useLive } from '../overview/history.ts'

const CheckProvider = lazy({
  title: 'The check',
  load: async () => (await import('./check-provider.ts')).CheckProvider,
})

interface Place {
  readonly workspace: string | null
  readonly name: string
}

/** One provider: how it fares now, since when, whom it serves, and what it costs. */
export function ProviderPage(props: Place & { readonly isOperator: boolean }) {
  const { workspace, name } = props
  useCharts()
  const load = useLoad(
    (signal) => api.get<ProviderDetailAnswer>(providerPath(workspace, name), { signal }),
    [workspace, name],
  )
  const health = useHealth(workspace)
  const live = useLive(workspace)
  const fitness = health ? fitnessOfProvider(health, name) : null
  const [checking, setChecking] = useState(false)
  const detail = load.value
  const check = detail && checkPlace(detail, props)
  return [
    h(PageHead, {
      title: name,
      parent: {
        href: pathOf(workspace, 'providers'),
        label: workspace === null ? 'Platform providers' : 'Providers',
      },
      actions: [
        h(
          LinkButton,
          {
            href:
              pathOf(workspace, 'requests') +
              queryOf({ tab: 'log', range: '24h', outcome: 'error', provider: name }),
          },
          'Failed requests',
        ),
        h(
          LinkButton,
          { href: pathOf(workspace, 'usage') + queryOf({ range: '30d', by: 'model', provider: name }) },
          'Usage',
        ),
      ],
    }),
    h(Loaded<ProviderDetailAnswer>, {
      // Its health is shown above the rest, and so is waited for.
      load: health === undefined || live.state === 'loading' ? LOADING : load,
      what: 'The provider',
      rows: 8,
      render: (answer: ProviderDetailAnswer) =>
        h(
          'div',
          { class: 'stack stack-loose' },
          h(Now, { name, health: health ?? null, fitness, live: live.value }),
          h(FactList, { detail: answer, onCheck: check === null ? null : () => setChecking(true) }),
          h(Models, { health: health ?? null, name }),
          h(Breakers, { breakers: fitness?.breakers ?? [], workspace }),
          h(LastHour, { name, live: live.value }),
          h(Daily, { workspace, name }),
          // Last, as there may be many of them.
          h(Uses, { detail: answer, workspace }),
        ),
    }),
    checking && detail !== null && check !== null
      ? h(CheckProvider, { place: check, provider: detail, onClose: () => setChecking(false) })
      : null,
  ]
}

/** Where a check is asked for, whose owner alone may; null: the viewer may not. */
function checkPlace(
  { workspace: owner }: ProviderDetailAnswer,
  { isOperator }: { isOperator: boolean },
): string | null {
  if (owner !== null) return apiPath`/workspaces/${owner}`
  return isOperator ? '' : null
}

/** The present trouble, its begin, and the provider's last words about it. */
function Now(props: {
  readonly name: string
  readonly health: HealthAnswer | null
  readonly fitness: Fitness | null
  readonly live: Seen | null
}) {
  const { name, health, fitness, live } = props
  if (health === null || fitness === null) return null
  const { calls, failed, lastError, breakers } = fitness
  const [word, tone] = standingOf(fitness)
  if (word === 'No calls') return h(Note, null, 'No calls in the last 5 minutes, so its state isn’t known.')
  const p95 = health.providers.find(({ provider }) => provider === name)?.p95_ms ?? null
  const sentence =
    calls === 0
      ? 'No calls in the last 5 minutes.'
      : `${percent(failed / calls)} of ${plural(calls, 'call')} failed in the last 5 minutes` +
        (p95 === null ? '.' : `; answers take up to ${milliseconds(p95)} (p95).`)
  if (word === 'Up') return h(Note, { tone: 'ok' }, h('p', null, h('strong', null, 'Up.'), ' ', sentence))
  const since = sinceOf(live?.steps ?? [], name, breakers)
  return h(
    Note,
    { tone: tone === 'bad' ? 'bad' : 'warn' },
    h(
      'p',
      null,
      h('strong', null, word, since === null ? '' : ' since '),
      since === null ? null : h('strong', null, h(Time, { at: since, exact: true })),
      since === null ? '' : [' (', h(Time, { at: since }), ')'],
      '. ',
      sentence,
    ),
    lastError === null ? null : h('p', null, 'Last error: ', h(LastError, { error: lastError })),
  )
}

const ACCESS = { byok: 'Own account', platform: 'Shared by all workspaces' } as const
const CREDENTIALS = {
  stored: 'Saved, encrypted',
  reference: 'From environment or file',
  none: 'None',
} as const

function FactList(props: {
  readonly detail: ProviderDetailAnswer
  /** Null: the viewer may not check it. */
  readonly onCheck: (() => void) | null
}) {
  const { detail, onCheck } = props
  const { kind, access, workspace, credential, issues } = detail
  const items: FactItems = [
    ['Type', kind],
    ['Account', workspace === null ? ACCESS.platform : `${ACCESS[access]} of ${workspace}`],
    ...(credential === null ? [] : [['Credential', CREDENTIALS[credential]] as const]),
    ...(onCheck === null
      ? []
      : [['Connection', h(Button, { small: true, onClick: onCheck }, 'Check credential')] as const]),
  ]
  return [
    issues === undefined
      ? null
      : h(
          Note,
          { tone: 'bad' },
          h('p', null, 'It isn’t active:'),
          h(
            'ul',
            { class: 'issues' },
            issues.map((issue) => h('li', { key: issue }, issue)),
          ),
        ),
    h(Facts, { items }),
  ]
}

const modelColumns = (health: HealthAnswer, name: string): readonly Column<ModelHealth>[] => [
  { head: 'Model', primary: true, cell: ({ model }) => h('span', { class: 'mono' }, model) },
  {
    head: 'State',
    narrow: true,
    cell: ({ model }) => h(StandingBadge, { of: fitnessOfModel(health, `${name}/${model}`) }),
  },
  { head: 'Calls', align: 'end', cell: ({ calls }) => number(calls) },
  {
    head: 'Error rate',
    align: 'end',
    cell: ({ calls, failed }) => percent(calls === 0 ? 0 : failed / calls),
  },
  { head: 'p95', align: 'end', cell: ({ p95_ms }) => orNone(p95_ms, milliseconds) },
  { head: 'Last error', cell: ({ last_error }) => h('span', null, h(LastError, { error: last_error })) },
]

function Models({ health, name }: { readonly health: HealthAnswer | null; readonly name: string }) {
  const columns = useMemo(() => (health === null ? [] : modelColumns(health, name)), [health, name])
  const models = health?.providers.find(({ provider }) => provider === name)?.models ?? []
  if (models.length === 0) return null
  return h(
    Section,
    { title: 'Models, last 5 minutes' },
    h(Table<ModelHealth>, {
      caption: 'Models, last 5 minutes',
      columns,
      rows: models.toSorted((one, other) => other.failed - one.failed || other.calls - one.calls),
      rowKey: ({ model }: ModelHealth) => model,
    }),
  )
}

const USE_COLUMNS: readonly Column<ProviderUse>[] = [
  { head: 'Route', primary: true, cell: ({ route }) => h('span', { class: 'mono' }, route) },
  {
    head: 'Apps',
    cell: ({ apps }) => (apps.length === 0 ? h('span', { class: 'quiet' }, 'none') : apps.join(', ')),
  },
  { head: 'Models', cell: ({ models }) => h('span', { class: 'mono small' }, models.join(', ')) },
  {
    head: 'Fallbacks',
    cell: ({ others }) =>
      others === 0 ? h(Badge, { tone: 'warn' }, 'none') : plural(others, 'other entry', 'other entries'),
  },
]
/** Routes that are shown until all of them are asked for. */
const USES_SHOWN = 10
const USE_WORKSPACE: Column<ProviderUse> = { head: 'Workspace', cell: ({ workspace }) => workspace }

/** Routes and apps that a failure of the provider hits. */
function Uses({
  detail,
  workspace,
}: {
  readonly detail: ProviderDetailAnswer
  readonly workspace: string | null
}) {
  const { used_by: uses, used_by_total: total } = detail
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? uses : uses.slice(0, USES_SHOWN)
  return h(
    Section,
    {
      title: 'Used by',
      lead: 'Published routes with an entry of this provider, and the apps they serve.',
    },
    uses.length === 0
      ? h(EmptyState, { title: 'No published route uses this provider' })
      : h(Table<ProviderUse>, {
          caption: 'Used by',
          columns: workspace === null ? USE_COLUMNS.toSpliced(1, 0, USE_WORKSPACE) : USE_COLUMNS,
          rows: shown,
          rowKey: ({ workspace: owner, route }: ProviderUse) => `${owner} ${route}`,
          href: ({ workspace: owner, route }: ProviderUse) => pathOf(owner, 'routes', route),
        }),
    uses.length > shown.length
      ? h(
          'div',
          { class: 'actions' },
          h(Button, { small: true, onClick: () => setWhole(true) }, `Show ${number(uses.length)} routes`),
        )
      : null,
    total > uses.length && isWhole
      ? h('p', { class: 'quiet small' }, `and ${number(total - uses.length)} more routes`)
      : null,
  )
}

/** Calls and latency of the last hour, as the overview has them of all providers. */
function LastHour({ name, live }: { readonly name: string; readonly live: Seen | null }) {
  const steps = live?.steps ?? []
  const plots = useMemo(() => {
    const even = evened(steps)
    const read = (of: Parameters<typeof upstreamReads>[1], label: string) => {
      const { [name]: one } = upstreamReads([name], of)
      return { [label]: one ?? (() => null) }
    }
    const perSecond = (count: number, stepMs: number) => (count * 1000) / stepMs
    return {
      calls: plotOf(even, {
        ...read(({ calls }, { step_ms: ms }) => perSecond(calls, ms), 'calls'),
        ...read(({ failed }, { step_ms: ms }) => perSecond(failed, ms), 'failed'),
      }),
      latency: plotOf(even, {
        ...read(({ p50_ms }) => p50_ms, 'p50'),
        ...read(({ p95_ms }) => p95_ms, 'p95'),
      }),
    }
  }, [live, name])
  if (steps.every(({ upstream }) => upstream.every(({ provider }) => provider !== name))) return null
  return h(
    Section,
    { title: 'Last hour' },
    h(
      'div',
      { class: 'overview-charts' },
      h(Chart, { title: 'Calls', unit: 'per second', data: plots.calls, tones: [1, 'bad'], format: rate }),
      plots.latency.lines.every(({ values }) => values.every((ms) => ms === null))
        ? null
        : h(Chart, {
            title: 'Latency',
            unit: 'of answered calls',
            data: plots.latency,
            format: milliseconds,
          }),
    ),
  )
}

/** Cost and calls by day, from the ledger. */
function Daily({ workspace, name }: Place) {
  const range = spanOf(PROVIDER_SPAN, Date.now())
  const query = queryOf({
    from: timeText(range.fromMs),
    to: timeText(range.toMs),
    step: 'day',
    provider: name,
    workspace,
    figures: 'calls,errors,cost_usd',
  })
  const load = useLoad((signal) => api.get<UsageAnswer>(`/usage${query}`, { signal }), [query])
  return h(
    Section,
    {
      title: 'Last 30 days',
      lead: 'Calls that this provider served or was tried last for. Days are in UTC.',
    },
    h(Loaded<UsageAnswer>, {
      load,
      what: 'The usage',
      rows: 4,
      render: (answer: UsageAnswer) => h(DailyCharts, { answer, workspace, name }),
    }),
  )
}

function DailyCharts({ answer, workspace, name }: Place & { readonly answer: UsageAnswer }) {
  if (answer.total.calls === 0)
    return answer.is_recorded
      ? h('p', { class: 'quiet' }, 'No calls in the last 30 days.')
      : h('p', { class: 'quiet' }, 'Usage isn’t recorded: set LARKWAY_USAGE=true on every node to record it.')
  const times = stepsIn({ fromMs: Date.parse(answer.from), toMs: Date.parse(answer.to), step: 'day' })
  const byTime = new Map(answer.data.map((row) => [Date.parse(row.time ?? ''), row]))
  const values = (read: (sums: UsageSums) => number) =>
    times.map((time) => {
      const row = byTime.get(time)
      return row === undefined ? 0 : read(row)
    })
  const href = (atMs: number) =>
    pathOf(workspace, 'usage') +
    queryOf({ from: timeText(atMs), to: timeText(atMs + 86_400_000), by: 'model', provider: name })
  const common = { step: 'day' as const, times, href, onOpen: navigate }
  const good = values(({ calls, errors }) => calls - errors)
  return h(
    'div',
    { class: 'overview-charts' },
    h(Bars, {
      ...common,
      title: 'Cost',
      unit: 'per day',
      series: [{ label: 'Cost', tone: 1, values: values(({ cost_usd }) => cost_usd) }],
      format: usd,
    }),
    h(Bars, {
      ...common,
      title: 'Calls',
      unit: 'per day',
      series: [
        { label: 'Succeeded', tone: 3, values: good },
        { label: 'Failed', tone: 'bad', values: values(({ errors }) => errors) },
      ],
      format: (value: number) => number(value),
    }),
  )
}
