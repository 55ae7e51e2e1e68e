import { type Static, Type } from 'typebox'
import type { Incident } from '../../../contracts/alerts.ts'
import type { NodeSample } from '../../../contracts/console.ts'
import type { JobFigures } from '../../../contracts/jobs.ts'
import type { AccountView } from '../../../contracts/ledger.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import { usdOf } from '../../../gateway/call/facts/price.ts'
import type { IncidentAnswer, OverviewAnswer } from '../answers/health.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint, scopeOf, WorkspaceField } from '../endpoint.ts'
import {
  breakersOf,
  FRESH_MS,
  HISTORY_MS,
  historySteps,
  type NodeHistory,
  RECENT_MS,
  STEP_MS,
  TtlCache,
} from './node-history.ts'
import { accountOf } from './workspaces.ts'

const PATH = '/overview'
/** How long after its end a step is shown: by then all nodes have written their samples, and it does not change. */
const SETTLING_MS = 1_500

/** Steps that ended within it are never put together: what happens now is read from them. */
const NEW_MS = 2 * 60_000
const OLD_STEP_MS_MAX = 5 * 60_000

const Query = Type.Object({
  workspace: WorkspaceField,
  since: Type.Optional(Type.Integer({ minimum: 0, maximum: 8_640_000_000_000_000 })),
  old_step_ms: Type.Optional(
    Type.Integer({
      minimum: STEP_MS,
      maximum: OLD_STEP_MS_MAX,
      multipleOf: STEP_MS,
      description: 'Length of the steps that ended more than two minutes ago; 5000 by default.',
    }),
  ),
})

type Call = ConsoleCall<typeof PATH, unknown, Static<typeof Query>>

interface Sources {
  readonly history: NodeHistory
  readonly figures: TtlCache<'all', JobFigures>
  readonly accounts: TtlCache<string, AccountView | null>
  readonly incidents: TtlCache<'all', readonly Incident[]>
}

/** Health of providers and entries: failures of the last five minutes, and breakers that are not closed. */
export function healthEndpoint(context: ConsoleContext, history: NodeHistory): ConsoleRoute {
  const query = Type.Object({ workspace: WorkspaceField })
  return consoleEndpoint(context, 'GET', '/health', { query }, (call) => history.health(scopeOf(call)))
}

/** The overview of one workspace or of all: steps of the last hour, and the present figures. */
export function overviewEndpoint(context: ConsoleContext, history: NodeHistory): ConsoleRoute {
  const { clock } = context
  const sources: Sources = {
    history,
    figures: new TtlCache(() => context.deps.services.state.jobs.figures(), FRESH_MS, clock),
    accounts: new TtlCache((workspace) => accountOf(context, workspace), FRESH_MS, clock),
    incidents: new TtlCache(() => context.deps.services.state.alerts.open(), FRESH_MS, clock),
  }
  return consoleEndpoint(context, 'GET', PATH, { query: Query }, (call) => overview(call, sources))
}

async function overview(call: Call, sources: Sources): Promise<OverviewAnswer> {
  const { context, viewer, query } = call
  const scope = scopeOf(call)
  const nowMs = context.clock.wallNow()
  const sinceMs = Math.max(query.since ?? 0, nowMs - HISTORY_MS)
  const isOperator = viewer.role === 'operator'
  const isRecent = nowMs - sinceMs < RECENT_MS - 2 * STEP_MS
  const isWatched = context.catalog.current().alerts !== undefined
  const [samples, figures, account, incidents] = await Promise.all([
    sources.history.samples(isRecent ? RECENT_MS : HISTORY_MS),
    isOperator ? sources.figures.of('all') : null,
    scope === null ? null : sources.accounts.of(scope),
    isWatched ? sources.incidents.of('all') : null,
  ])
  const wanted = samples.filter(({ atMs }) => atMs > sinceMs - STEP_MS)
  const steps = historySteps(wanted, scope, isOperator, lengthsUpTo(nowMs, query.old_step_ms)).filter(
    // A step that began before `since` would be incomplete.
    ({ at_ms: atMs, step_ms: stepMs }) => atMs - stepMs > sinceMs - STEP_MS && atMs <= nowMs - SETTLING_MS,
  )
  const latest = sources.history.latest(samples)
  return {
    now: timestamp(nowMs),
    steps,
    nodes: isOperator ? latest.map(nodeAnswer) : null,
    breakers: breakersOf(latest, scope),
    queue: figures && queueAnswer(figures),
    ...(incidents === null ? {} : { incidents: incidents.filter(isOf(scope)).map(incidentAnswer) }),
    refused: isOperator ? context.catalog.refused() : null,
    credits_usd: account && usdOf(account.creditsMicros),
    credits_used: scope === null ? null : usesCredits(context, scope),
  }
}

/** How long steps are to be, by the end of those of `STEP_MS` in them. */
function lengthsUpTo(nowMs: number, oldMs = STEP_MS): (endMs: number) => number {
  const newFromMs = Math.floor((nowMs - NEW_MS) / oldMs) * oldMs
  return (endMs) => (endMs <= newFromMs ? oldMs : STEP_MS)
}

/** True if a published route of the workspace has an entry whose calls are charged as credits. */
function usesCredits({ catalog }: ConsoleContext, workspace: string): boolean {
  const own = catalog.good().routes.filter((route) => route.workspace === workspace && route.published)
  return own.some(({ entries }) => entries.some(({ provider }) => provider.access === 'platform'))
}

/** Keeps incidents of one workspace; null: of all. */
function isOf(scope: string | null) {
  return ({ subject }: Incident) => scope === null || subject.workspace === scope
}

function incidentAnswer({
  id,
  rule,
  subject,
  openedAtMs,
  isExhausted,
  ...figures
}: Incident): IncidentAnswer {
  const { value, threshold } = figures
  return {
    id,
    rule,
    subject,
    since: timestamp(openedAtMs),
    value,
    threshold,
    exhausted: isExhausted === true,
  }
}

function nodeAnswer(sample: NodeSample) {
  return {
    node: sample.node,
    at: timestamp(sample.atMs),
    in_flight: sample.inFlight,
    memory_used_bytes: sample.memoryUsedBytes,
    memory_limit_bytes: sample.memoryLimitBytes,
  }
}

function queueAnswer({ waiting }: JobFigures) {
  return {
    ready: waiting.reduce((sum, { ready }) => sum + ready, 0),
    delayed: waiting.reduce((sum, { delayed }) => sum + delayed, 0),
    oldest_seconds: Math.max(0, ...waiting.map(({ oldestMs }) => oldestMs)) / 1000,
  }
}
