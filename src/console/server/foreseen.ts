import type { Exchange } from '../../inbound/exchange.ts'
import { tableFor, type UsageQuestion } from '../../usage/answer.ts'
import { DAY_MS } from '../../usage/names.ts'
import {
  OVERVIEW_SPANS,
  OVERVIEW_STEPS,
  PROVIDER_SPAN,
  type Range,
  spanOf,
} from '../page/components/range.ts'
import { type Place, placeOf, queryOf } from '../page/paths.ts'
import { logFields, readLogFilter } from '../page/views/requests/log-filter.ts'
import { chartStep, stateOf } from '../page/views/usage/question.ts'
import type { LogAhead } from './api/log.ts'
import type { ConsoleContext } from './context.ts'
import { sessionToken } from './security.ts'
import { sessionId, viewerWith } from './session.ts'

/*
 * While a browser loads the modules of a view, this node has nothing to do, and the first answers out of the ledger
 * take a second of CPU. So what the view is going to ask about is read as soon as its page is asked for.
 */

/** What a view asks of the ledger. */
export interface ForeseenQuestion {
  /** Null: of all. */
  readonly workspace: string | null
  readonly question: UsageQuestion
}

/**
 * Reads what the view of an address will ask about, for whoever may see it. Nobody waits for it, and it fails
 * silently: the view asks again.
 */
export function readAhead(
  exchange: Pick<Exchange, 'path' | 'query' | 'headers'>,
  context: ConsoleContext,
  logAhead: LogAhead,
): void {
  const nowMs = context.nowMs()
  const ofLog = foreseenLog(exchange, nowMs)
  const foreseen = ofLog ?? foreseenQuestion(exchange, nowMs)
  const token = foreseen === null ? null : sessionToken(exchange)
  if (foreseen === null || token === null) return
  const read = async () => {
    if (!(await maySee(token, foreseen.workspace, context))) return
    if ('question' in foreseen) await context.usage.reader.ask(foreseen.question)
    else logAhead.begin(context, foreseen.workspace, foreseen.query, foreseen.record)
  }
  void read().catch(() => {})
}

async function maySee(token: string, workspace: string | null, context: ConsoleContext): Promise<boolean> {
  const session = await context.state.sessions.find(sessionId(token))
  const viewer = session && (await viewerWith(session, context))
  if (viewer === null) return false
  return viewer.role === 'operator' || (workspace !== null && viewer.workspaces.includes(workspace))
}

/** What a view asks of the records. */
export interface ForeseenLog {
  /** Null: of all. */
  readonly workspace: string | null
  /** Null: the list. */
  readonly record: string | null
  /** As the page sends it. */
  readonly query: string
}

/** What the view of an address will ask of the request log; null: nothing. */
export function foreseenLog(
  { path, query }: Pick<Exchange, 'path' | 'query'>,
  nowMs: number,
): ForeseenLog | null {
  const { workspace = null, view, rest = [] } = placeOf(path) ?? {}
  const [log, record = null] = rest
  const address = new URLSearchParams(query)
  // Of all workspaces there is no other list.
  const isList = log === undefined && (workspace === null || address.get('tab') === 'log')
  if (view !== 'requests' || !(isList || (log === 'log' && record !== null))) return null
  const sent = new URLSearchParams(queryOf(logFields(workspace, readLogFilter(address, workspace), nowMs)))
  return { workspace: sent.get('workspace'), record, query: sent.toString() }
}

/**
 * What the view of an address will ask of the tables, as near as makes no difference to them; null: nothing, or not at
 * once.
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
  // End users are counted by day.
  const unitMs = tableFor({ by, where }) === 'endUsers' ? DAY_MS : 1
  const fromMs = Math.floor(range.fromMs / unitMs) * unitMs
  const toMs = Math.ceil(range.toMs / unitMs) * unitMs
  return { workspace, question: { fromMs, toMs, step, by, where, sort: 'calls', offset: 0, limit: 1 } }
}

type Asked = Pick<UsageQuestion, 'step' | 'by' | 'where'> & { readonly range: Range }

function askedBy({ workspace, view, rest }: Place, query: URLSearchParams, nowMs: number): Asked | null {
  if (view === 'usage') {
    const state = stateOf(query, workspace, nowMs)
    const where = Object.fromEntries(state.filters.map(([name, value]) => [name, [value]]))
    return { range: state.range, step: chartStep(state), by: [state.by], where }
  }
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
