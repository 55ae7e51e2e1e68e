import { performance } from 'node:perf_hooks'
import type { ConfiguredProvider, Entry, Route, Snapshot } from '../../../contracts/catalog.ts'
import { routesOf } from '../../../contracts/catalog.ts'
import type { JobFigures } from '../../../contracts/jobs.ts'
import type { BooksGap } from '../../../contracts/ledger.ts'
import { callLimit, type Permits } from '../../../contracts/permits.ts'
import type { LimiterFigures, RateLimiter } from '../../../contracts/rate-limit.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { UsageFigures } from '../../../contracts/usage-segment.ts'
import { gauge, type Reading } from './family.ts'

/** How an entry fares, as its metric writes it: the larger, the less it is asked. */
const HEALTH = { closed: 0, half_open: 1, open: 2, cooling: 3 } as const

/** Readings of a provider's server. */
interface Replica {
  readonly underWay: number
  readonly ejections: number
  isUp(nowMs: number): boolean
}

/** The parts of a node that are read at a scrape. */
export interface NodeDependencies {
  readonly version: string
  /** Absent for a worker, which serves no requests. */
  readonly server?: { readonly uws: string; readonly inFlight: number; readonly connections: number }
  /** Live sessions; absent for a worker. */
  readonly live?: { readonly count: number; readonly heldBytes: number; readonly heldBytesMax: number }
  /** Absent: it serves no TLS. */
  readonly certificate?: () => { readonly notAfterMs: number }
  /** Absent: jobs are left to others. */
  readonly jobs?: { readonly running: number }
  readonly budget: { readonly used: number; readonly limit: number; readonly waiting: number }
  readonly settlements: { readonly pending: number }
  readonly keys: { readonly ageMs: number }
  /** Absent: no records of usage are written. */
  readonly usage?: () => UsageFigures
  /** Absent: no records of usage are written; null: the books were not compared yet. */
  readonly books?: () => readonly BooksGap[] | null
  readonly rateLimiter: Pick<RateLimiter, 'figures'>
  /** Null: the state is a file. */
  readonly memory?: { readonly isLost: boolean } | null
  readonly permits: Pick<Permits, 'held' | 'waiting'>
  /** The servers of a provider; null: it has one. */
  readonly replicas: { of(provider: ConfiguredProvider): { readonly replicas: readonly Replica[] } | null }
  readonly clock: Clock
  readonly snapshot: () => Snapshot
  readonly healthOf: (entry: Entry) => keyof typeof HEALTH
  readonly bodies: () => BodyCounts
}

/** Bodies that are arriving, the ones among them that go into the store, and what became of the others. */
type BodyCounts = Readonly<
  Record<'arriving' | 'uploading' | 'held' | 'stored' | 'demoted' | 'refused' | 'failed', number>
>

/** Shown from the start, so that the first job of a kind counts as one more. */
const QUEUES = [
  ['transcription', 'priority'],
  ['queue', 'priority'],
  ['queue', 'standard'],
  ['queue', 'bulk'],
] as const
const ENDS = (['transcription', 'queue'] as const).flatMap((kind) =>
  (['succeeded', 'failed', 'cancelled'] as const).map((status) => [kind, status] as const),
)

/** All that this process knows by itself. */
export function nodeReadings(deps: NodeDependencies): Reading[] {
  const { version, server, live, certificate, jobs, budget, settlements, rateLimiter, bodies } = deps
  return [
    info(version, server?.uws ?? ''),
    ...(server === undefined
      ? []
      : [
          gauge('larkway_requests_in_flight', 'Requests that are not answered yet.', server.inFlight),
          gauge('larkway_connections', 'Open connections of clients.', server.connections),
        ]),
    ...(live === undefined
      ? []
      : [
          gauge('larkway_live_sessions', 'Live sessions that are open.', live.count),
          gauge('larkway_live_held_bytes', 'Bytes of audio kept for them to be replayed.', live.heldBytes),
          gauge('larkway_live_held_limit_bytes', 'Bytes of audio that may be kept.', live.heldBytesMax),
        ]),
    ...(certificate === undefined ? [] : [expiry(certificate().notAfterMs - deps.clock.wallNow())]),
    ...(jobs === undefined
      ? []
      : [gauge('larkway_jobs_running', 'Jobs that this process runs.', jobs.running)]),
    gauge('larkway_memory_used_bytes', 'Bytes held for bodies and answers.', budget.used),
    gauge('larkway_memory_limit_bytes', 'Bytes that may be held for them.', budget.limit),
    gauge('larkway_memory_waiting', 'Bodies that wait for memory.', budget.waiting),
    gauge(
      'larkway_keys_age_seconds',
      'Since the list of API keys was known to be the newest.',
      deps.keys.ageMs / 1_000,
    ),
    gauge('larkway_calls_pending', 'Calls whose end the state has not taken yet.', settlements.pending),
    ...(deps.usage === undefined ? [] : usageReadings(deps.usage())),
    ...booksReadings(deps.books?.() ?? null, deps.snapshot()),
    ...bodyReadings(bodies()),
    ...limiterReadings(rateLimiter.figures()),
    lossReading(deps.memory ?? null),
    permitReading(deps),
    ...replicaReadings(deps),
    breakers(deps),
    eventLoop(),
  ]
}

function usageReadings({ written, lost, rolled, backlogBytes, oldestMs }: UsageFigures): Reading[] {
  return [
    {
      name: 'larkway_usage_records_total',
      help: 'Records of usage, by what became of them.',
      type: 'counter',
      labels: ['outcome'],
      values: [
        [['written'], written],
        [['lost'], lost],
      ],
    },
    {
      name: 'larkway_usage_segments_total',
      help: 'Segments of records that were handed on.',
      type: 'counter',
      labels: [],
      values: [[[], rolled]],
    },
    gauge('larkway_usage_backlog_bytes', 'Records that are not handed on yet.', backlogBytes),
    gauge('larkway_usage_backlog_oldest_seconds', 'Age of the oldest segment of these.', oldestMs / 1_000),
  ]
}

const OTHER = 'other'

/** In sum, and by workspace where the metrics of tenants are told apart by that. */
function booksReadings(gaps: readonly BooksGap[] | null, { tenantLabels: terms }: Snapshot): Reading[] {
  if (gaps === null) return []
  const help =
    'USD that accounts were charged and no record tells (`unrecorded`), or the reverse (`uncharged`)'
  const all = differenceReading('larkway_books_difference_usd', `${help}, of all nodes.`, [], gaps)
  if (terms?.labels.includes('workspace') !== true) return [all]
  const apart = differing(gaps, terms.most)
  const name = 'larkway_tenant_books_difference_usd'
  return [all, differenceReading(name, `${help}, by workspace.`, ['workspace'], apart)]
}

/** Those with the largest differences, and all others as one. */
function differing(gaps: readonly BooksGap[], most: number): readonly BooksGap[] {
  if (gaps.length <= most) return gaps
  const size = (gap: BooksGap) => gap.unrecordedMicros + gap.unchargedMicros
  const sorted = [...gaps].sort((one, other) => size(other) - size(one))
  return [...sorted.slice(0, most), { workspace: OTHER, ...sumOf(sorted.slice(most)) }]
}

function sumOf(gaps: readonly BooksGap[]): Omit<BooksGap, 'workspace'> {
  const sum = (name: 'unrecordedMicros' | 'unchargedMicros') =>
    gaps.reduce((micros, gap) => micros + gap[name], 0)
  return { unrecordedMicros: sum('unrecordedMicros'), unchargedMicros: sum('unchargedMicros') }
}

function differenceReading(
  name: string,
  help: string,
  labels: readonly 'workspace'[],
  gaps: readonly BooksGap[],
): Reading {
  const rows = labels.length === 0 ? [{ workspace: '', ...sumOf(gaps) }] : gaps
  return {
    name,
    help,
    type: 'gauge',
    labels: [...labels, 'side'],
    values: rows.flatMap((gap) => {
      const of = labels.map((label) => gap[label])
      return [
        [[...of, 'unrecorded'], gap.unrecordedMicros / 1_000_000] as const,
        [[...of, 'uncharged'], gap.unchargedMicros / 1_000_000] as const,
      ]
    }),
  }
}

function expiry(leftMs: number): Reading {
  const help = 'Until the TLS certificate in force expires; below 0: since it has.'
  return gauge('larkway_tls_certificate_expiry_seconds', help, Math.floor(leftMs / 1_000))
}

/** Reads the figures that all nodes share. @param figures null when the state does not answer */
export function stateReadings(figures: JobFigures | null): Reading[] {
  const up = gauge('larkway_state_up', 'Whether the state answers: 1 or 0.', figures === null ? 0 : 1)
  if (figures === null) return [up]
  const { waiting, ended } = figures
  const queues = QUEUES.map(([kind, mode]) => {
    const found = waiting.find((one) => one.kind === kind && one.mode === mode)
    return { kind, mode, ready: 0, delayed: 0, oldestMs: 0, ...found }
  })
  return [
    up,
    {
      name: 'larkway_queue_jobs',
      help: 'Jobs that wait, of all nodes: ready to be taken up, or delayed.',
      type: 'gauge',
      labels: ['kind', 'mode', 'state'],
      values: queues.flatMap(({ kind, mode, ready, delayed }) => [
        [[kind, mode, 'ready'], ready] as const,
        [[kind, mode, 'delayed'], delayed] as const,
      ]),
    },
    {
      name: 'larkway_queue_oldest_seconds',
      help: 'For how long the first of the ready jobs of all nodes has been ready; 0: there is none.',
      type: 'gauge',
      labels: ['kind', 'mode'],
      values: queues.map(({ kind, mode, oldestMs }) => [[kind, mode], oldestMs / 1000] as const),
    },
    {
      name: 'larkway_jobs_ended_total',
      help: 'Jobs that have reached their last status, of all nodes.',
      type: 'counter',
      labels: ['kind', 'status'],
      values: ENDS.map(([kind, status]) => {
        const found = ended.find((one) => one.kind === kind && one.status === status)
        return [[kind, status], found?.jobs ?? 0] as const
      }),
    },
  ]
}

function bodyReadings({ arriving, uploading, ...became }: BodyCounts): Reading[] {
  return [
    gauge('larkway_bodies_arriving', 'Bodies of requests that are arriving.', arriving),
    gauge('larkway_bodies_uploading', 'Those of them that go into the store meanwhile.', uploading),
    countReading('larkway_bodies_total', 'Bodies of requests, by what became of them.', 'event', became),
  ]
}

function limiterReadings({ mode, decisions }: LimiterFigures): Reading[] {
  return [
    {
      name: 'larkway_limiter_mode',
      help: 'Who keeps the rate limits now: 1 for one of them; local: Redis is away and this node keeps them alone.',
      type: 'gauge',
      labels: ['mode'],
      values: (['process', 'redis', 'leases', 'local'] as const).map(
        (one) => [[one], one === mode ? 1 : 0] as const,
      ),
    },
    countReading(
      'larkway_limiter_decisions_total',
      'Decisions on rate limits, by who made them.',
      'by',
      decisions,
    ),
  ]
}

function lossReading(memory: { readonly isLost: boolean } | null): Reading {
  const help = 'Whether Redis has lost what it held, and no operator has accepted that: 1 or 0.'
  return gauge('larkway_state_lost', help, memory?.isLost === true ? 1 : 0)
}

/** Each provider that an app leads to, by its name. */
function providersOf(snapshot: Snapshot): Map<string, ConfiguredProvider> {
  const providers = new Map<string, ConfiguredProvider>()
  for (const { entries } of servedRoutes(snapshot))
    for (const { provider } of entries) providers.set(provider.name, provider)
  return providers
}

/** Providers that have several servers alone. */
function replicaReadings({ snapshot, replicas, clock }: NodeDependencies): Reading[] {
  const nowMs = clock.now()
  const pools = [...providersOf(snapshot()).values()].flatMap((provider) => {
    const pool = replicas.of(provider)
    return pool === null ? [] : [{ name: provider.name, replicas: pool.replicas }]
  })
  const reading = (
    about: Pick<Reading, 'name' | 'help' | 'type'>,
    read: (replica: Replica) => number,
  ): Reading => ({
    ...about,
    labels: ['provider', 'replica'],
    values: pools.flatMap((pool) =>
      pool.replicas.map((one, at) => [[pool.name, String(at)], read(one)] as const),
    ),
  })
  const up = 'Whether this node makes calls at a server of a provider, by its place in base_urls: 1 or 0.'
  const calls = 'Calls and live sessions of this node that are under way at it.'
  const ejections = 'How often this node passed it over for a while because a call at it had failed.'
  return [
    reading({ name: 'larkway_replica_up', help: up, type: 'gauge' }, (one) => (one.isUp(nowMs) ? 1 : 0)),
    reading({ name: 'larkway_replica_calls', help: calls, type: 'gauge' }, (one) => one.underWay),
    reading(
      { name: 'larkway_replica_ejections_total', help: ejections, type: 'counter' },
      (one) => one.ejections,
    ),
  ]
}

/** Accounts that have a limit alone. */
function permitReading({ snapshot, permits }: NodeDependencies): Reading {
  const limits = new Map<string, number>()
  for (const [name, { concurrency }] of providersOf(snapshot()))
    if (concurrency !== null) limits.set(name, concurrency)
  return {
    name: 'larkway_slots',
    help: 'Calls at once at accounts with a limit of them: the limit of all nodes, and of this one held and waiting.',
    type: 'gauge',
    labels: ['provider', 'state'],
    values: [...limits].flatMap(([provider, most]) => {
      const { name } = callLimit(provider, most)
      return [
        [[provider, 'limit'], most] as const,
        [[provider, 'held'], permits.held(name)] as const,
        [[provider, 'waiting'], permits.waiting(name)] as const,
      ]
    }),
  }
}

function breakers({ snapshot, healthOf }: NodeDependencies): Reading {
  return {
    name: 'larkway_breaker_state',
    help: 'How an entry of a route fares on this node: 0 closed, 1 half-open, 2 open, 3 cooling down.',
    type: 'gauge',
    labels: ['workspace', 'route', 'entry', 'provider', 'model'],
    values: statesOf(snapshot(), healthOf),
  }
}

function* statesOf(
  snapshot: Snapshot,
  healthOf: NodeDependencies['healthOf'],
): Generator<readonly [labels: string[], state: number]> {
  for (const { workspace, name, entries } of servedRoutes(snapshot))
    for (const [at, entry] of entries.entries())
      yield [[workspace, name, String(at), entry.provider.name, entry.model], HEALTH[healthOf(entry)]]
}

/** Each route that an app leads to, once. */
export function servedRoutes({ apps }: Pick<Snapshot, 'apps'>): Route[] {
  const routes = new Set<Route>()
  for (const app of [...apps.values()].flatMap((named) => [...named.values()])) {
    for (const route of routesOf(app)) routes.add(route)
  }
  return [...routes]
}

function eventLoop(): Reading {
  const { active } = performance.eventLoopUtilization()
  const name = 'larkway_event_loop_active_seconds_total'
  const help = 'Seconds in which the event loop was not idle; its rate is its utilization.'
  return { name, help, type: 'counter', labels: [], values: [[[], active / 1000]] }
}

function info(version: string, uws: string): Reading {
  const labels = [version, process.version, uws]
  return {
    name: 'larkway_build_info',
    help: 'What runs.',
    type: 'gauge',
    labels: ['version', 'node', 'uws'],
    values: [[labels, 1]],
  }
}

function countReading(
  name: string,
  help: string,
  label: string,
  counts: Readonly<Record<string, number>>,
): Reading {
  const values = Object.entries(counts).map(([key, value]) => [[key], value] as const)
  return { name, help, type: 'counter', labels: [label], values }
}
