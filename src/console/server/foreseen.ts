import type { Exchange } from '../../inbound/exchange.ts'
import type { Clock } from '../../time.ts'
import type { UsageQuestion } from '../../usage/answer.ts'
import {
  OVERVIEW_SPANS,
  OVERVIEW_STEPS,
  PROVIDER_SPAN,
  type Range,
  spanOf,
} from '../page/components/range.ts'
import { type Place, placeOf, queryOf } from '../page/paths.ts'
import { logFields, readLogFilter } from '../page/views/requests/log-filter.ts'
import { pageQuestions, stateOf } from '../page/views/usage/question.ts'
import { LogAhead } from './api/log.ts'
import { UsageAhead } from './api/usage.ts'
import type { ConsoleContext } from './context.ts'
import { sessionToken } from './security.ts'
import { sessionId, type Viewer, viewerWith } from './session.ts'

/*
 * While a browser loads the modules of a view, this node has nothing to do, and the first answers out of the ledger
 * take a second of CPU. So what the view is going to ask about is read as soon as its page is asked for.
 */

/** Answers that views are given which were begun before they asked. */
export interface Ahead {
  readonly log: LogAhead
  readonly usage: UsageAhead
}

export function newAhead(clock: Clock): Ahead {
  return { log: new LogAhead(clock), usage: new UsageAhead(clock) }
}

/** A view's question to the ledger. */
export interface ForeseenQuestion {
  /** Null: of all. */
  readonly workspace: string | null
  readonly question: UsageQuestion
}

/**
 * Reads ahead what the view of an address will ask about, if the viewer may see it. No request waits for it, and it
 * fails silently: the view asks again.
 */
export function readAhead(
  exchange: Pick<Exchange, 'path' | 'query' | 'headers'>,
  context: ConsoleContext,
  ahead: Ahead,
): void {
  const nowMs = context.clock.wallNow()
  const foreseen =
    foreseenLog(exchange, nowMs) ?? foreseenUsage(exchange, nowMs) ?? foreseenQuestion(exchange, nowMs)
  const token = foreseen === null ? null : sessionToken(exchange)
  if (foreseen === null || token === null) return
  const { workspace } = foreseen
  const read = async () => {
    const viewer = await viewerOf(token, workspace, context)
    if (viewer === null) return
    if ('question' in foreseen) await context.usage.reader.ask(foreseen.question)
    else if ('queries' in foreseen) ahead.usage.begin(context, viewer.actor, workspace, foreseen.queries)
    else ahead.log.begin(context, workspace, foreseen.query, foreseen.record)
  }
  void read().catch(() => {})
}

/** The viewer of a session; null: it has ended, or they may not see the workspace. */
async function viewerOf(
  token: string,
  workspace: string | null,
  context: ConsoleContext,
): Promise<Viewer | null> {
  const session = await context.state.sessions.find(sessionId(token))
  const viewer = session && (await viewerWith(session, context))
  if (viewer === null) return null
  const maySee = viewer.role === 'operator' || (workspace !== null && viewer.workspaces.includes(workspace))
  return maySee ? viewer : null
}

/** A view's question to the records. */
export interface ForeseenLog {
  /** Null: of all. */
  readonly workspace: string | null
  /** Null: the list. */
  readonly record: string | null
  /** As the page sends it. */
  readonly query: string
}

/** The question that the view of an address will put to the request log; null: none. */
export function foreseenLog(
  { path, query }: Pick<Exchange, 'path' | 'query'>,
  nowMs: number,
): ForeseenLog | null {
  const { workspace = null, view, rest = [] } = placeOf(path) ?? {}
  const [log, record = null] = rest
  const address = new URLSearchParams(query)
  // For all workspaces together there is no other list.
  const isList = log === undefined && (workspace === null || address.get('tab') === 'log')
  if (view !== 'requests' || !(isList || (log === 'log' && record !== null))) return null
  const sent = new URLSearchParams(queryOf(logFields(workspace, readLogFilter(address, workspace), nowMs)))
  return { workspace: sent.get('workspace'), record, query: sent.toString() }
}

/** The usage page's questions. */
export interface ForeseenUsage {
  /** Null: of all. */
  readonly workspace: string | null
  /** As the page sends them. */
  readonly queries: readonly string[]
}

/** The questions of the usage page at an address; null: it is another view. */
export function foreseenUsage(
  { path, query }: Pick<Exchange, 'path' | 'query'>,
  nowMs: number,
): ForeseenUsage | null {
  const place = placeOf(path)
  if (place?.view !== 'usage') return null
  const { workspace } = place
  const state = stateOf(new URLSearchParams(query), workspace, nowMs)
  const queries = pageQuestions(state, workspace).map((asked) => asked.slice(asked.indexOf('?') + 1))
  const [sent] = queries.map((one) => new URLSearchParams(one))
  return { workspace: sent?.get('workspace') ?? null, queries }
}

/**
 * The question that the view of an address will put to the tables, as near as makes no difference to them; null: none,
 * or not at once.
 */
export function foreseenQuestion(
  { path, query }: Pick<Exchange, 'path' | 'query'>,
  nowMs: number,
): ForeseenQuestion | null {
  const place = placeOf(path)
  const asked = place && askedBy(place, new URLSearchParams(query), nowMs)
  if (place === null || asked === null) return null
  const { workspace } = place
  const { range, step, by } = asked
  const where = workspace === null ? asked.where : { ...asked.where, workspace: [workspace] }
  const { fromMs, toMs } = range
  return { workspace, question: { fromMs, toMs, step, by, where, sort: 'calls', offset: 0, limit: 1 } }
}

type Asked = Pick<UsageQuestion, 'step' | 'by' | 'where'> & { readonly range: Range }

function askedBy({ view, rest }: Place, query: URLSearchParams, nowMs: number): Asked | null {
  const span = OVERVIEW_SPANS.find((name) => name === query.get('range'))
  if (view === 'overview' && span !== undefined)
    return {
      range: spanOf(span, nowMs),
      step: OVERVIEW_STEPS[span],
      by: ['outcome'],
      where: { kind: ['call'] },
    }
  const [provider] = rest
  if (view === 'providers' && provider !== undefined)
    return { range: spanOf(PROVIDER_SPAN, nowMs), step: 'day', by: [], where: { provider: [provider] } }
  return null
}
