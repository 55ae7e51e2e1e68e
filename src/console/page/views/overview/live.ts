import type { ComponentChildren } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { HealthAnswer, OverviewAnswer } from '../../../server/answers/health.ts'
import type { SetupAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { Breakers } from '../../components/breakers.ts'
import { Icon, LinkButton } from '../../components/button.ts'
import { useCharts } from '../../components/chart.ts'
import { fitnessOfProvider, LastError, StandingBadge, useHealth } from '../../components/health.ts'
import { Section } from '../../components/page-head.ts'
import { Bar } from '../../components/progress.ts'
import { EmptyState, Loaded, Note, Skeleton } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { bytes, compact, duration, milliseconds, number, orNone, percent, usd } from '../../format.ts'
import { h } from '../../h.ts'
import { LOADING, useLoad } from '../../load.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { OverviewHead } from './head.ts'
import { Charts, newest, rate, recent, type Seen, useLive } from './history.ts'
import { Troubles } from './troubles.ts'

/** The figures of now and of the last hour, which tick. */
export function LiveOverview({ workspace }: { readonly workspace: string | null }) {
  useCharts()
  const load = useLive(workspace)
  const health = useHealth(workspace)
  return [
    h(OverviewHead, { workspace, chosen: 'live' }, h(Live, { late: load.error !== null })),
    h(Loaded<Seen>, {
      // Problems are shown above everything else: they are waited for, so that nothing moves.
      load: health === undefined ? LOADING : load,
      what: 'The overview',
      skeleton: h(Waiting, { nodes: workspace === null }),
      render: (seen: Seen) => h(Whole, { seen, workspace, health: health ?? null }),
    }),
  ]
}

function Whole(props: {
  readonly seen: Seen
  readonly workspace: string | null
  readonly health: HealthAnswer | null
}) {
  const { seen, workspace, health } = props
  const { answer, steps } = seen
  const idle = steps.every(({ requests, upstream }) => requests === 0 && upstream.length === 0)
  return [
    h(Refused, { issues: answer.refused ?? [] }),
    h(Incidents, { incidents: answer.incidents ?? [] }),
    h(Troubles, { health, steps, workspace }),
    h(Numbers, { seen, workspace }),
    idle
      ? h(FirstRequest, { workspace })
      : h(Charts, {
          steps,
          nodes: answer.nodes !== null && workspace === null,
          onOpen:
            workspace === null ? undefined : (seconds: number) => navigate(requestsAt(workspace, seconds)),
        }),
    h(Breakers, { breakers: answer.breakers, workspace }),
    h(Providers, { health, workspace }),
    answer.nodes === null || workspace !== null ? null : h(Nodes, { nodes: answer.nodes }),
  ]
}

const AROUND_MS = 30_000

/** The requests around a moment, epoch seconds. Charts count what the playground sends, too. */
function requestsAt(workspace: string, seconds: number): string {
  const [from, to] = [-AROUND_MS, AROUND_MS].map((ms) => new Date(seconds * 1000 + ms).toISOString())
  return pathOf(workspace, 'requests') + queryOf({ tab: 'log', from, to, playground: 'true' })
}

/** Tells operators that the latest configuration was refused, which nothing else would show. */
function Refused({ issues }: { readonly issues: readonly string[] }) {
  if (issues.length === 0) return null
  return h(
    Note,
    { tone: 'bad' },
    h(
      'p',
      null,
      'The latest configuration was rejected; the previous one is still in use. Fix it in the file or in the console:',
    ),
    h(
      'ul',
      { class: 'issues' },
      issues.map((issue) => h('li', { key: issue }, issue)),
    ),
  )
}

/** Open incidents. */
function Incidents({ incidents }: { readonly incidents: NonNullable<OverviewAnswer['incidents']> }) {
  if (incidents.length === 0) return null
  const line = ({ id, rule, subject, since, value, threshold, exhausted }: (typeof incidents)[number]) =>
    h(
      'li',
      { key: id },
      `${rule}: ${Object.values(subject).join(' / ')}, `,
      exhausted ? `exhausted (${figure(value)} spent)` : `${figure(value)} against ${figure(threshold)}`,
      ', for ',
      h(Time, { at: since, lasts: true }),
    )
  return h(
    Note,
    { tone: 'warn' },
    h('p', null, 'Open alerts:'),
    h('ul', { class: 'issues' }, incidents.slice(0, INCIDENTS_SHOWN).map(line)),
  )
}

/** Shares have decimals that tell, counts have none. */
const figure = (value: number) => number(value, Number.isInteger(value) ? 0 : 2)
/** More of them say no more. */
const INCIDENTS_SHOWN = 10

/** Says whether the figures are current. */
function Live({ late }: { readonly late: boolean }) {
  const [hidden, setHidden] = useState(document.hidden)
  useEffect(() => {
    const listener = () => setHidden(document.hidden)
    document.addEventListener('visibilitychange', listener)
    return () => document.removeEventListener('visibilitychange', listener)
  }, [])
  const word = late ? 'Waiting for the server' : hidden ? 'Paused' : 'Live, every 5 s'
  return h('span', { class: late || hidden ? 'overview-live overview-late' : 'overview-live' }, word)
}

/** As high as the content to come. */
function Waiting({ nodes }: { readonly nodes: boolean }) {
  return [
    h('div', { role: 'status' }, h('span', { class: 'hidden' }, 'The overview: loading')),
    h(
      'div',
      { class: 'overview-numbers', 'aria-hidden': 'true' },
      Array.from({ length: nodes ? 7 : 6 }, (_, index) => h('div', { class: 'overview-number', key: index })),
    ),
    h(
      'div',
      { class: 'overview-charts', 'aria-hidden': 'true' },
      Array.from({ length: 6 }, (_, index) => h('div', { class: 'overview-waiting', key: index })),
    ),
    h(Skeleton, { rows: 2, label: '' }),
  ]
}

const MINUTE_MS = 60_000
const ERRORS_MS = 5 * MINUTE_MS
const ERRORS_WARN = 0.01
const ERRORS_BAD = 0.05
/** A job that waits longer than that is worth a look. */
const WAIT_WARN_SECONDS = 300
const MEMORY_WARN = 0.8

/** The state of things in a line of numbers. */
function Numbers({ seen, workspace }: { readonly seen: Seen; readonly workspace: string | null }) {
  const { answer, steps } = seen
  const platform = workspace === null
  const calls = platform
    ? pathOf(null, 'usage') + queryOf({ range: '24h', show: 'calls' })
    : pathOf(workspace, 'requests')
  const failed = platform
    ? pathOf(null, 'usage') + queryOf({ range: '24h', by: 'error_code', show: 'errors' })
    : pathOf(workspace, 'requests') + queryOf({ outcome: 'failed', all: 'true' })
  const { perSecond } = recent(steps, MINUTE_MS)
  const { clientErrorShare, serverErrorShare } = recent(steps, ERRORS_MS)
  const p50 = newest(steps, (step) => step.added_p50_ms)
  const p95 = newest(steps, (step) => step.added_p95_ms)
  return h(
    'dl',
    { class: 'overview-numbers' },
    h(One, {
      name: 'Requests',
      value: orNone(perSecond, rate),
      beside: 'per second, last minute',
      href: calls,
    }),
    h(One, {
      name: 'Server errors',
      value: orNone(serverErrorShare, percent),
      beside: '5xx, last 5 min',
      href: failed,
      title: 'Requests that failed in the gateway or at its providers',
      tone: toneOf(serverErrorShare ?? 0, ERRORS_WARN, ERRORS_BAD),
    }),
    h(One, {
      name: 'Client errors',
      value: orNone(clientErrorShare, percent),
      beside: '4xx, last 5 min',
      href: failed,
      title: 'Requests rejected because of what the caller sent',
    }),
    h(One, {
      name: 'Gateway overhead',
      value: orNone(p50, milliseconds),
      beside: p95 === null ? 'p50' : `p50; p95 ${milliseconds(p95)}`,
    }),
    h(Queue, { queue: answer.queue }),
    platform ? h(Memory, { seen }) : null,
    answer.credits_usd === null || answer.credits_used === false
      ? null
      : h(One, {
          name: 'Credits',
          value: usd(answer.credits_usd),
          beside: 'credit balance',
          tone: answer.credits_usd < 0 ? 'bad' : null,
        }),
  )
}

/** The queue is shared by all workspaces, so only operators see it. */
function Queue({ queue }: { readonly queue: Seen['answer']['queue'] }) {
  if (!queue) return null
  const { ready, delayed, oldest_seconds: oldest } = queue
  const words = [`${number(ready)} ready`, `${number(delayed)} scheduled`]
  if (ready > 0) words.push(`oldest ${duration(oldest)}`)
  return h(One, {
    name: 'Jobs waiting',
    value: compact(ready + delayed),
    beside: words.join(', '),
    title: 'Across all workspaces',
    tone: oldest > WAIT_WARN_SECONDS ? 'warn' : null,
  })
}

/** Use of the fullest node. */
function Memory({ seen }: { readonly seen: Seen }) {
  const { nodes } = seen.answer
  if (nodes === null) return null
  const share = Math.max(
    0,
    ...nodes.map((node) => node.memory_used_bytes / Math.max(1, node.memory_limit_bytes)),
  )
  const flying = nodes.reduce((sum, node) => sum + node.in_flight, 0)
  return [
    h(One, {
      name: 'In flight',
      value: number(flying),
      beside: nodes.length === 1 ? 'on 1 node' : `on ${number(nodes.length)} nodes`,
    }),
    h(One, {
      name: 'Memory budget',
      value: nodes.length === 0 ? '–' : percent(share),
      beside: 'peak across nodes',
      tone: toneOf(share, MEMORY_WARN, 1),
    }),
  ]
}

function One(props: {
  readonly name: string
  readonly value: ComponentChildren
  readonly beside: string
  readonly tone?: 'warn' | 'bad' | null
  readonly title?: string
  /** Where its records are listed. */
  readonly href?: string
}) {
  const { name, value, beside, tone, title, href } = props
  return h(
    'div',
    { class: 'overview-number', title },
    h('dt', null, name),
    h(
      'dd',
      null,
      h(
        'div',
        { class: `overview-value ${tone ? `overview-${tone}` : ''}` },
        href === undefined
          ? value
          : h('a', { class: 'overview-href', href }, value, h('span', { class: 'hidden' }, ` ${name}`)),
      ),
      h('div', { class: 'overview-beside' }, beside),
    ),
  )
}

function toneOf(value: number, warn: number, bad: number): 'warn' | 'bad' | null {
  return value >= bad ? 'bad' : value >= warn ? 'warn' : null
}

type Node = NonNullable<OverviewAnswer['nodes']>[number]

type ProviderNow = HealthAnswer['providers'][number]

const PROVIDER_COLUMNS: readonly Column<ProviderNow>[] = [
  { head: 'Provider', primary: true, cell: ({ provider }) => h('span', { class: 'mono' }, provider) },
  { head: 'Calls', align: 'end', cell: ({ calls }) => number(calls) },
  { head: 'Failed', align: 'end', cell: ({ failed }) => number(failed) },
  {
    head: 'Error rate',
    align: 'end',
    cell: ({ calls, failed }) => percent(calls === 0 ? 0 : failed / calls),
  },
  { head: 'p95', align: 'end', cell: ({ p95_ms }) => orNone(p95_ms, milliseconds) },
  { head: 'Last error', cell: ({ last_error }) => h('span', null, h(LastError, { error: last_error })) },
]

/** Every provider that was called in the last minutes, those that fail first. */
function Providers(props: { readonly health: HealthAnswer | null; readonly workspace: string | null }) {
  const { health, workspace } = props
  const columns = useMemo(() => {
    const state: Column<ProviderNow> = {
      head: 'State',
      narrow: true,
      cell: ({ provider }) =>
        health === null ? null : h(StandingBadge, { of: fitnessOfProvider(health, provider) }),
    }
    return PROVIDER_COLUMNS.toSpliced(1, 0, state)
  }, [health])
  if (health === null || health.providers.length === 0) return null
  const rows = health.providers.toSorted((one, other) => other.failed - one.failed || other.calls - one.calls)
  return h(
    Section,
    { title: 'Providers, last 5 minutes' },
    h(Table<ProviderNow>, {
      caption: 'Providers, last 5 minutes',
      columns,
      rows,
      rowKey: ({ provider }: ProviderNow) => provider,
      href: ({ provider }: ProviderNow) => pathOf(workspace, 'providers', provider),
    }),
  )
}

const NODE_COLUMNS: readonly Column<Node>[] = [
  { head: 'Node', primary: true, cell: ({ node }) => h('span', { class: 'mono' }, node) },
  { head: 'In flight', align: 'end', cell: ({ in_flight: flying }) => number(flying) },
  {
    head: 'Memory budget',
    cell: ({ memory_used_bytes: used, memory_limit_bytes: limit }) =>
      h(
        'div',
        { class: 'grow' },
        h(Bar, {
          label: 'Memory',
          hideLabel: true,
          value: used,
          max: limit,
          text: `${bytes(used)} of ${bytes(limit)}`,
        }),
      ),
  },
  { head: 'Last heard', narrow: true, cell: ({ at }) => h(Time, { at }) },
]

function Nodes({ nodes }: { readonly nodes: readonly Node[] }) {
  return h(
    Section,
    { title: 'Nodes' },
    h(Table<Node>, {
      caption: 'Nodes',
      columns: NODE_COLUMNS,
      rows: nodes,
      rowKey: ({ node }: Node) => node,
    }),
  )
}

const EVERY_MS = 5_000

/** An hour without requests: the steps to the first one, until there was one. */
function FirstRequest({ workspace }: { readonly workspace: string | null }) {
  if (workspace === null)
    return h(
      EmptyState,
      {
        title: 'No requests in the last hour',
        action: [
          h(LinkButton, { href: pathOf(null, 'workspaces') }, 'Workspaces'),
          h(LinkButton, { kind: 'primary', href: pathOf(null, 'setup') }, 'New workspace'),
        ],
      },
      h('p', null, 'New requests appear here within seconds.'),
    )
  return h(Checklist, { workspace })
}

function Checklist({ workspace }: { readonly workspace: string }) {
  const load = useLoad(
    (signal) => api.get<SetupAnswer>(apiPath`/workspaces/${workspace}/setup`, { signal }),
    [workspace],
    { everyMs: EVERY_MS },
  )
  // Only a known answer may start it again.
  if (load.state === 'loading') return null
  if (load.state === 'failed' || isSetUp(load.value))
    return h(
      EmptyState,
      {
        title: 'No requests in the last hour',
        action: [
          h(LinkButton, { href: pathOf(workspace, 'requests') }, 'Earlier requests'),
          h(LinkButton, { href: pathOf(workspace, 'setup') }, 'Example request'),
        ],
      },
      h('p', null, 'New requests appear here within seconds.'),
    )
  const steps = setupSteps(load.value)
  const left = steps.filter(([, done]) => !done).length
  return h(
    Section,
    {
      title: 'Get started',
      lead: `${steps.length - left} of ${steps.length} steps done. New requests appear here within seconds.`,
      actions: h(LinkButton, { kind: 'primary', href: pathOf(workspace, 'setup') }, 'Continue setup'),
    },
    h(
      'ol',
      { class: 'overview-steps' },
      steps.map(([title, done]) =>
        h(
          'li',
          { key: title, class: done ? 'overview-done' : undefined },
          h(
            'span',
            { class: 'overview-mark', 'aria-hidden': 'true' },
            done ? h(Icon, { name: 'check' }) : null,
          ),
          h('span', null, title, done ? h('span', { class: 'hidden' }, ': done') : null),
        ),
      ),
    ),
  )
}

function setupSteps({
  providers,
  route,
  app,
  keys,
  called,
}: SetupAnswer): readonly (readonly [string, boolean])[] {
  return [
    ['Connect a provider', providers.length > 0],
    ['Publish a route and point an app at it', route !== null && app !== null],
    ['Create an API key', keys > 0],
    ['Send a request', called],
  ]
}

function isSetUp(setup: SetupAnswer): boolean {
  return setupSteps(setup).every(([, done]) => done)
}
