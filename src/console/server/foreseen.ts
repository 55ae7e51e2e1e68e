import type { Exchange } from '../../inbound/exchange.ts'
import { CALL_DIMENSIONS, type UsageDimension } from '../../usage/aggregate.ts'
import type { UsageQuestion } from '../../usage/answer.ts'
import { DAY_MS, HOUR_MS } from '../../usage/names.ts'
import type { ConsoleContext } from './context.ts'
import { sessionToken } from './security.ts'
import { sessionId, type Viewer, viewerWith } from './session.ts'

/*
 * While a browser loads the modules of a view, this node has nothing to do, and the first answers out of the ledger
 * take a second of CPU. So what the view is going to ask about is read as soon as its page is asked for.
 */

/** Days that a view tells of, by the `range` of its address. */
const RANGE_DAYS: ReadonlyMap<string, number> = new Map([
  ['24h', 1],
  ['7d', 7],
  ['30d', 30],
])

/** Views of the platform; any other first part of an address is a workspace. */
const PLATFORM_VIEWS: ReadonlySet<string> = new Set(['overview', 'providers', 'requests', 'usage'])

const DIMENSIONS: ReadonlySet<string> = new Set([...CALL_DIMENSIONS, 'end_user'])

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
): void {
  const foreseen = foreseenQuestion(exchange, context.nowMs())
  const token = foreseen === null ? null : sessionToken(exchange)
  if (foreseen !== null && token !== null) void read(foreseen, token, context).catch(() => {})
}

async function read(
  { workspace, question }: ForeseenQuestion,
  token: string,
  context: ConsoleContext,
): Promise<void> {
  const session = await context.state.sessions.find(sessionId(token))
  const viewer = session && (await viewerWith(session, context))
  if (viewer !== null && maySee(viewer, workspace)) await context.usage.reader.ask(question)
}

function maySee({ role, workspaces }: Viewer, workspace: string | null): boolean {
  return role === 'operator' || (workspace !== null && workspaces.includes(workspace))
}

/**
 * What the view of an address will ask of the tables, as near as makes no difference to them; null: nothing, or not at
 * once.
 */
export function foreseenQuestion(
  { path, query }: Pick<Exchange, 'path' | 'query'>,
  nowMs: number,
): ForeseenQuestion | null {
  const parts = path.split('/').filter(Boolean).slice(1).map(decoded)
  const [first = ''] = parts
  const isPlatform = PLATFORM_VIEWS.has(first)
  const [view = '', ...rest] = isPlatform ? parts : parts.slice(1)
  const asked = askedBy(view, rest, new URLSearchParams(query), isPlatform)
  if (asked === null) return null
  const { days, step, by, where } = asked
  const workspace = isPlatform ? null : first.replace(/^~/, '')
  const unitMs = step === 'hour' ? HOUR_MS : DAY_MS
  const toMs = (Math.floor(nowMs / HOUR_MS) + 1) * HOUR_MS
  const wholeToMs = Math.ceil(toMs / unitMs) * unitMs
  const question: UsageQuestion = {
    fromMs: wholeToMs - days * DAY_MS,
    toMs: by.some((name) => name === 'end_user') ? wholeToMs : toMs,
    step,
    by,
    where: workspace === null ? where : { ...where, workspace: [workspace] },
    ...{ sort: 'calls', offset: 0, limit: 1 },
  }
  return { workspace, question }
}

type Asked = Pick<UsageQuestion, 'step' | 'by' | 'where'> & { readonly days: number }

function askedBy(
  view: string,
  rest: readonly string[],
  query: URLSearchParams,
  isPlatform: boolean,
): Asked | null {
  const days = RANGE_DAYS.get(query.get('range') ?? '')
  if (view === 'usage') {
    const by = dimensionIn(query.get('by')) ?? (isPlatform ? 'workspace' : 'model')
    const step = days === 1 && by !== 'end_user' ? 'hour' : 'day'
    return { days: days ?? 30, step, by: [by], where: {} }
  }
  if (view === 'overview' && days !== undefined)
    return { days, step: days === 30 ? 'day' : 'hour', by: ['outcome'], where: { kind: ['call'] } }
  const [provider] = rest
  if (view === 'providers' && provider !== undefined)
    return { days: 30, step: 'day', by: [], where: { provider: [provider] } }
  return null
}

function dimensionIn(name: string | null): UsageDimension | null {
  return name === null || !DIMENSIONS.has(name) ? null : (name as UsageDimension)
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
