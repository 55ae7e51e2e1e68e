import type { UsageQuestion } from '../../usage/answer.ts'
import { usdOf } from '../call/facts/price.ts'
import { type AdminActor, type AdminContext, requireWorkspace } from './actor.ts'
import { accountTerms } from './parts.ts'
import type { UsageAdminContext } from './usage.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const FOR_GOOD = 36_500
/** Workspaces that are asked about at a time. */
const ASKED_AT_ONCE = 1_000

/** The amount that a workspace was charged. */
export interface Charged {
  readonly workspace: string
  /** Since when that is counted, epoch milliseconds; 0: nothing was charged yet. */
  readonly sinceMs: number
  /** Charged for good, micro-USD. */
  readonly bookedMicros: number
  /** Set aside for calls under way. */
  readonly reservedMicros: number
}

/** The same beside what its records cost. */
export interface Book extends Charged {
  /** Cost of the records, micro-USD. */
  readonly recordedMicros: number
}

export interface Books {
  readonly books: readonly Book[]
  readonly total: Omit<Book, 'workspace'>
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
  const charges = await chargesOf(workspaces, context, { accounts: admin.state.accounts, catalog })
  const recorded = await recordedFor(charges, context)
  const books = charges.map((charged, at): Book => ({ ...charged, recordedMicros: recorded[at]! }))
  const sum = (name: 'bookedMicros' | 'recordedMicros' | 'reservedMicros') =>
    books.reduce((micros, book) => micros + book[name], 0)
  const begun = books.map(({ sinceMs }) => sinceMs).filter((sinceMs) => sinceMs > 0)
  const total = {
    sinceMs: begun.length === 0 ? 0 : Math.min(...begun),
    bookedMicros: sum('bookedMicros'),
    recordedMicros: sum('recordedMicros'),
    reservedMicros: sum('reservedMicros'),
  }
  return { books, total, completeUntilMs }
}

/** Where it stands what workspaces were charged, and how long their records are kept. */
export interface ChargesPlace {
  readonly accounts: Pick<AdminContext['state']['accounts'], 'show'>
  readonly catalog: Parameters<typeof accountTerms>[0]
}

/** Charges of workspaces since records tell all of them. @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function chargesOf(
  workspaces: Iterable<string>,
  { nowMs }: Pick<UsageAdminContext, 'nowMs'>,
  { accounts, catalog }: ChargesPlace,
): Promise<Charged[]> {
  const { usageRetention: kept } = catalog.current()
  const charges: Charged[] = []
  for (const workspace of workspaces) {
    const { booked, reservedMicros } = await accounts.show(workspace, accountTerms(catalog, workspace))
    const keptDays = kept === undefined ? FOR_GOOD : (kept.byWorkspace.get(workspace) ?? kept.days)
    const keptSinceMs = endMs(nowMs()) - keptDays * DAY_MS
    // A month that has lost records cannot be compared.
    const months = booked.months.filter(
      ({ month }) => monthMs(month) >= keptSinceMs || booked.sinceMs >= keptSinceMs,
    )
    const [first] = months
    const sinceMs = first === undefined ? booked.sinceMs : Math.max(booked.sinceMs, monthMs(first.month))
    const isCounted = sinceMs > 0 && sinceMs < endMs(nowMs())
    const bookedMicros = isCounted ? months.reduce((sum, { micros }) => sum + micros, 0) : 0
    charges.push({ workspace, sinceMs, bookedMicros, reservedMicros })
  }
  return charges
}

/** Cost of the records of the same time, micro-USD, in the same order. @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function recordedFor(
  charges: readonly Pick<Charged, 'workspace' | 'sinceMs'>[],
  { reader, nowMs }: Pick<UsageAdminContext, 'reader' | 'nowMs'>,
): Promise<number[]> {
  const toMs = endMs(nowMs())
  const begun = charges.filter(({ sinceMs }) => sinceMs > 0 && sinceMs < toMs)
  const costs = new Map<string, number>()
  for (const [sinceMs, all] of Map.groupBy(begun, (charged) => charged.sinceMs))
    for (let at = 0; at < all.length; at += ASKED_AT_ONCE) {
      const some = all.slice(at, at + ASKED_AT_ONCE).map(({ workspace }) => workspace)
      const { rows } = await reader.ask(costOf(some, sinceMs, toMs))
      for (const { values, sums } of rows) costs.set(values[0]!, sums.cost_usd)
    }
  return charges.map(({ workspace }) => costs.get(workspace) ?? 0)
}

function costOf(workspaces: readonly string[], fromMs: number, toMs: number): UsageQuestion {
  const where = { workspace: workspaces }
  const sums = { sort: 'cost_usd', limit: workspaces.length, offset: 0, sumsOnly: true } as const
  return { fromMs, toMs, step: 'none', by: ['workspace'], where, ...sums }
}

/** The end of the hour, since usage is summed up by hours. */
function endMs(nowMs: number): number {
  return (Math.floor(nowMs / HOUR_MS) + 1) * HOUR_MS
}

function monthMs(month: string): number {
  return Date.parse(`${month}-01T00:00:00Z`)
}

/** Books as JSON, in USD. */
export function booksJson({ books, total, completeUntilMs }: Books) {
  const json = ({ sinceMs, bookedMicros, recordedMicros, reservedMicros }: Omit<Book, 'workspace'>) => ({
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
