import { type Static, Type } from 'typebox'
import { usdOf } from '../../../gateway/micros.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { NodeSample } from '../../../schema/console.ts'
import type { JobFigures } from '../../../schema/jobs.ts'
import type { AccountView } from '../../../schema/ledger.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import { accountOf } from './account.ts'
import type { OverviewAnswer } from './answers.ts'
import { FRESH_MS, HISTORY_MS, type NodeHistory, RECENT_MS } from './node-history.ts'
import { breakersOf, STEP_MS, stepsOf } from './overview-steps.ts'
import { Readings } from './readings.ts'
import { scopeOf, WorkspaceField } from './scope.ts'

const PATH = '/overview'
/** A step is told of when the nodes have had the time to say what they saw: then it does not change any more. */
const SETTLING_MS = 1_500

const Query = Type.Object({
  workspace: WorkspaceField,
  since: Type.Optional(Type.Integer({ minimum: 0, maximum: 8_640_000_000_000_000 })),
})

type Call = ConsoleCall<typeof PATH, unknown, Static<typeof Query>>

interface Sources {
  readonly history: NodeHistory
  readonly figures: Readings<'all', JobFigures>
  readonly accounts: Readings<string, AccountView | null>
}

/** How providers and entries fare: what failed in the last five minutes, and which breakers are not closed. */
export function healthEndpoint(desk: ConsoleDesk, history: NodeHistory): EdgeRoute {
  const query = Type.Object({ workspace: WorkspaceField })
  return consoleEndpoint(desk, 'GET', '/health', { query }, (call) => history.health(scopeOf(call)))
}

/** What goes on, in one workspace or in all: steps of the last hour, and how things stand. */
export function overviewEndpoint(desk: ConsoleDesk, history: NodeHistory): EdgeRoute {
  const sources: Sources = {
    history,
    figures: new Readings(() => desk.doors.services.state.jobs.figures(), FRESH_MS),
    accounts: new Readings((workspace) => accountOf(desk, workspace), FRESH_MS),
  }
  return consoleEndpoint(desk, 'GET', PATH, { query: Query }, (call) => overview(call, sources))
}

async function overview(call: Call, sources: Sources): Promise<OverviewAnswer> {
  const { desk, viewer, query } = call
  const scope = scopeOf(call)
  const nowMs = desk.nowMs()
  const sinceMs = Math.max(query.since ?? 0, nowMs - HISTORY_MS)
  const isOperator = viewer.role === 'operator'
  const isRecent = nowMs - sinceMs < RECENT_MS - 2 * STEP_MS
  const [samples, figures, account] = await Promise.all([
    sources.history.samples(isRecent ? RECENT_MS : HISTORY_MS),
    isOperator ? sources.figures.of('all') : null,
    scope === null ? null : sources.accounts.of(scope),
  ])
  const wanted = samples.filter(({ atMs }) => atMs > sinceMs - STEP_MS)
  const steps = stepsOf(wanted, scope, isOperator).filter(
    ({ at_ms: atMs }) => atMs > sinceMs && atMs <= nowMs - SETTLING_MS,
  )
  const latest = sources.history.latest(samples)
  return {
    now: timestamp(nowMs),
    steps,
    nodes: isOperator ? latest.map(nodeAnswer) : null,
    breakers: breakersOf(latest, scope),
    queue: figures && queueAnswer(figures),
    refused: isOperator ? desk.catalog.refused() : null,
    credits_usd: account && usdOf(account.creditsMicros),
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
