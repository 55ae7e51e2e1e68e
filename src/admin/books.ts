import { usdOf } from '../gateway/price.ts'
import type { UsageQuestion } from '../usage/answer.ts'
import { type AdminActor, type AdminContext, requireWorkspace } from './actor.ts'
import { accountTerms } from './parts.ts'
import type { UsageAdminContext } from './usage.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const FOR_GOOD = 36_500
/** Workspaces that are asked about over one listing of the store. */
const ASKED_AT_ONCE = 100

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
  const recorded: number[] = []
  for (let at = 0; at < charges.length; at += ASKED_AT_ONCE) {
    const some = charges.slice(at, at + ASKED_AT_ONCE)
    const begun = some.filter(({ sinceMs }) => sinceMs > 0 && sinceMs < toMs)
    const answers = begun.length === 0 ? [] : await reader.askAll(begun.map((one) => costOf(one, toMs)))
    const costs = new Map(begun.map((one, place) => [one, answers[place]!.total.sums.cost_usd]))
    recorded.push(...some.map((one) => costs.get(one) ?? 0))
  }
  return recorded
}

function costOf({ workspace, sinceMs }: Pick<Charged, 'workspace' | 'sinceMs'>, toMs: number): UsageQuestion {
  const where = { workspace: [workspace] }
  return { fromMs: sinceMs, toMs, step: 'none', by: [], where, sort: 'cost_usd', limit: 1, offset: 0 }
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
