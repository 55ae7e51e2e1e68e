import type { CatalogService } from '../contracts/catalog-service.ts'
import { usdOf } from '../gateway/price.ts'
import { type AdminActor, type AdminContext, requireWorkspace } from './actor.ts'
import { accountTerms } from './parts.ts'
import type { UsageAdminContext } from './usage.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const FOR_GOOD = 36_500

/** What a workspace was charged, beside what its records cost. */
export interface Book {
  /** Null: all of them. */
  readonly workspace: string | null
  /** Since when both are counted, epoch milliseconds; 0: nothing was charged yet. */
  readonly sinceMs: number
  /** Charged for good, micro-USD. */
  readonly bookedMicros: number
  /** Cost of the records, micro-USD. */
  readonly recordedMicros: number
  /** Set aside for calls under way. */
  readonly reservedMicros: number
}

export interface Books {
  readonly books: readonly Book[]
  readonly total: Book
  /** Records of calls that ended later may be missing: what they cost is part of the difference. */
  readonly completeUntilMs: number
}

/**
 * Compares what accounts were charged with what the records cost: of a workspace, or of all that the actor may see.
 *
 * @param wanted null: all
 * @throws GatewayError NOT_FOUND for another workspace, DEPENDENCY_UNAVAILABLE
 */
export async function compareBooks(
  actor: AdminActor,
  wanted: string | null,
  context: UsageAdminContext,
  admin: Pick<AdminContext, 'catalog' | 'state'>,
): Promise<Books> {
  const catalog = await admin.catalog()
  const own = actor.role === 'operator' ? wanted : (wanted ?? actor.workspace)
  if (own !== null) requireWorkspace(actor, own, catalog)
  const workspaces = own === null ? [...catalog.current().apps.keys()] : [own]
  const completeUntilMs = await context.completeUntilMs()
  const books: Book[] = []
  for (const workspace of workspaces) books.push(await bookOf(workspace, context, admin.state, catalog))
  const sum = (name: 'bookedMicros' | 'recordedMicros' | 'reservedMicros') =>
    books.reduce((micros, book) => micros + book[name], 0)
  const begun = books.map(({ sinceMs }) => sinceMs).filter((sinceMs) => sinceMs > 0)
  const total = {
    workspace: null,
    sinceMs: begun.length === 0 ? 0 : Math.min(...begun),
    bookedMicros: sum('bookedMicros'),
    recordedMicros: sum('recordedMicros'),
    reservedMicros: sum('reservedMicros'),
  }
  return { books, total, completeUntilMs }
}

async function bookOf(
  workspace: string,
  { reader, nowMs }: UsageAdminContext,
  { accounts }: Pick<AdminContext['state'], 'accounts'>,
  catalog: CatalogService,
): Promise<Book> {
  const { booked, reservedMicros } = await accounts.show(workspace, accountTerms(catalog, workspace))
  const { usageRetention: kept } = catalog.current()
  const keptDays = kept === undefined ? FOR_GOOD : (kept.byWorkspace.get(workspace) ?? kept.days)
  const toMs = (Math.floor(nowMs() / HOUR_MS) + 1) * HOUR_MS
  const keptSinceMs = toMs - keptDays * DAY_MS
  // Of a month that has lost records, nothing can be compared.
  const months = booked.months.filter(
    ({ month }) => monthMs(month) >= keptSinceMs || booked.sinceMs >= keptSinceMs,
  )
  const [first] = months
  const sinceMs = first === undefined ? booked.sinceMs : Math.max(booked.sinceMs, monthMs(first.month))
  const none = { workspace, sinceMs, bookedMicros: 0, recordedMicros: 0, reservedMicros }
  if (sinceMs === 0 || sinceMs >= toMs) return none
  const question = {
    fromMs: sinceMs,
    toMs,
    step: 'none',
    by: [],
    sort: 'cost_usd',
    limit: 1,
    offset: 0,
  } as const
  const { total } = await reader.ask({ ...question, where: { workspace: [workspace] } })
  const bookedMicros = months.reduce((sum, { micros }) => sum + micros, 0)
  return { ...none, bookedMicros, recordedMicros: total.sums.cost_usd }
}

function monthMs(month: string): number {
  return Date.parse(`${month}-01T00:00:00Z`)
}

/** Books as JSON, in USD. */
export function booksJson({ books, total, completeUntilMs }: Books) {
  const json = ({ sinceMs, bookedMicros, recordedMicros, reservedMicros }: Book) => ({
    since: sinceMs === 0 ? null : new Date(sinceMs).toISOString(),
    booked_usd: usdOf(bookedMicros),
    recorded_usd: usdOf(recordedMicros),
    difference_usd: usdOf(bookedMicros - recordedMicros),
    reserved_usd: usdOf(reservedMicros),
  })
  return {
    complete_until: new Date(completeUntilMs).toISOString(),
    data: books.map((book) => ({ workspace: book.workspace, ...json(book) })),
    total: json(total),
  }
}
