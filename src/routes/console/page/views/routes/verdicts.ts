import type { ExplainRow } from '../../../../../gateway/explain.ts'
import type { ExplainAnswer } from '../../../api/answers.ts'

/** What would become of an entry with the sample request, in short. */
export interface Verdict {
  readonly tone: 'first' | 'next' | 'out'
  /** Place among those that would be tried, from 1; null when left out. */
  readonly rank: number | null
  /** `serves`, `then, 2nd`, or why not. */
  readonly words: string
}

/** An explanation seen from the route that is edited. */
export interface Verdicts {
  /** By place of the entry in the route; none: nothing is known yet. */
  readonly entries: ReadonlyMap<number, Verdict>
  /** All that would be tried, of whichever route, in order. */
  readonly order: readonly ExplainRow[]
}

/** What of an entry tells it from others. */
interface Named {
  readonly provider: string
  readonly model: string
  readonly purposes?: readonly string[]
}

/**
 * Puts every row of an explanation to the entry that it is about. A row names provider and model only; several entries
 * alike are told apart by their labels and their order, which the rows of one group keep. An entry that is looked at
 * twice (for the purpose, and as the route that serves without one) counts where it was first.
 *
 * @param entries of the route, in its order
 * @param purpose of the sample; empty: none
 */
export function verdictsOf(
  answer: Pick<ExplainAnswer, 'entries'>,
  route: string,
  entries: readonly Named[],
  purpose: string,
): Verdicts {
  const verdicts = new Map<number, Verdict>()
  for (const assigned of [false, true]) {
    const taken = new Set<number>()
    for (const row of answer.entries) {
      if (row.route !== route || (row.group === 'assigned_route') !== assigned) continue
      const at = placeOf(row, entries, taken, purpose)
      if (at < 0) continue
      taken.add(at)
      if (!verdicts.has(at)) verdicts.set(at, verdictOf(row))
    }
  }
  const isElsewhere = answer.entries.length > 0 && answer.entries.every((row) => row.route !== route)
  if (isElsewhere) for (const index of entries.keys()) verdicts.set(index, ELSEWHERE)
  const order = answer.entries.filter(({ rank }) => rank !== null)
  return { entries: verdicts, order: order.toSorted((a, b) => (a.rank ?? 0) - (b.rank ?? 0)) }
}

/** An app, or a purpose, leads such a request to another route. */
const ELSEWHERE: Verdict = { tone: 'out', rank: null, words: 'such a request leads to another route' }

function placeOf(
  row: ExplainRow,
  entries: readonly Named[],
  taken: ReadonlySet<number>,
  purpose: string,
): number {
  const alike = entries.flatMap((entry, index) =>
    entry.provider === row.provider && entry.model === row.model && !taken.has(index) ? [index] : [],
  )
  const isLabelled = (index: number) => entries[index]?.purposes?.includes(purpose) === true
  const fitting =
    row.group === 'assigned_route'
      ? alike
      : alike.filter((index) => isLabelled(index) === (row.group === 'purpose'))
  return fitting[0] ?? alike[0] ?? -1
}

function verdictOf({ rank, left, detail }: ExplainRow): Verdict {
  if (rank === null) return { tone: 'out', rank, words: detail ?? left ?? 'left out' }
  const words = rank === 1 ? 'would serve' : `${ordinal(rank)} in line`
  return { tone: rank === 1 ? 'first' : 'next', rank, words: detail === null ? words : `${words}: ${detail}` }
}

/** 1st, 2nd, 3rd, 4th, 11th, 21st … */
export function ordinal(number: number): string {
  const teen = number % 100 >= 11 && number % 100 <= 13
  const ending = teen ? 'th' : (['th', 'st', 'nd', 'rd'][number % 10] ?? 'th')
  return `${number}${ending}`
}
