import type { ExplainAnswer, ExplainedEntry } from '../../../server/answers/routes.ts'
import { BREAKER_WORDS } from '../../components/health.ts'
import { CAPABILITY_NAMES, FEATURE_WORDS, wordFor } from './words.ts'

/** The outcome of an entry for the sample request, in short. */
export interface Verdict {
  readonly tone: 'first' | 'next' | 'out'
  /** Place among those that would be tried, from 1; null when left out. */
  readonly rank: number | null
  /** "Selected", "Fallback 1", or "Skipped: no diarization". */
  readonly words: string
}

/** An explanation seen from the route that is edited. */
export interface Verdicts {
  /** By place of the entry in the route; none: nothing is known yet. */
  readonly entries: ReadonlyMap<number, Verdict>
  /** All that would be tried, of whichever route, in order. */
  readonly order: readonly ExplainedEntry[]
}

/** The fields that identify an entry. */
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
      const at = rankOfRow(row, entries, taken, purpose)
      if (at < 0) continue
      taken.add(at)
      if (!verdicts.has(at)) verdicts.set(at, verdictOf(row))
    }
  }
  const isOfOtherRoute = answer.entries.length > 0 && answer.entries.every((row) => row.route !== route)
  if (isOfOtherRoute) for (const index of entries.keys()) verdicts.set(index, OTHER_ROUTE)
  const order = answer.entries.filter(({ rank }) => rank !== null)
  return { entries: verdicts, order: order.toSorted((a, b) => (a.rank ?? 0) - (b.rank ?? 0)) }
}

/** An app, or a purpose, leads such a request to another route. */
const OTHER_ROUTE: Verdict = { tone: 'out', rank: null, words: 'Skipped: the request uses another route' }

function rankOfRow(
  row: ExplainedEntry,
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

function verdictOf(row: ExplainedEntry): Verdict {
  const { rank, breaker } = row
  if (rank === null) return { tone: 'out', rank, words: `Skipped: ${leftWords(row)}` }
  const words = rank === 1 ? 'Selected' : `Fallback ${rank - 1}`
  if (breaker === undefined) return { tone: rank === 1 ? 'first' : 'next', rank, words }
  return { tone: 'next', rank, words: `${words}: would be tried; ${BREAKER_WORDS[breaker]}` }
}

/** Why an entry is skipped, for `explain` and for the record of a request: "no diarization, no redaction". */
export function leftWords(row: {
  readonly left: string | null
  readonly missing?: readonly string[]
  readonly conflict?: readonly string[]
  readonly param?: string | null
  readonly retry_after_ms?: number | null
}): string {
  const { left, missing = [], conflict = [], param, retry_after_ms: waitMs = null } = row
  const names = (list: readonly string[]) => list.map((name) => wordFor(NAMES, name).toLowerCase())
  const wait = waitMs === null ? '' : ` for another ${Math.ceil(waitMs / 1000)} s`
  switch (left) {
    case 'features':
      return missing.length > 0
        ? names(missing)
            .map((name) => `no ${name}`)
            .join(', ')
        : `no ${names(conflict).join(' together with ')}`
    case 'capability':
      return `the model doesn’t support ${names(missing).join(', ')}`
    case 'plan':
      return missing.length === 0
        ? 'not part of the plan'
        : `the plan doesn’t include ${names(missing).join(', ')}`
    case 'limits':
      return param == null
        ? 'the request exceeds a limit of the model'
        : `${param} exceeds a limit of the model`
    case 'breaker':
      return waitMs === null
        ? `${BREAKER_WORDS.half_open}, a test request is running`
        : BREAKER_WORDS.open + wait
    case 'cooling':
      return BREAKER_WORDS.cooling + wait
    default:
      return wordFor(LEFT_WORDS, left ?? 'not considered')
  }
}

const NAMES: Readonly<Record<string, string>> = { ...CAPABILITY_NAMES, ...FEATURE_WORDS }

const LEFT_WORDS: Readonly<Record<string, string>> = {
  workspace: 'belongs to another workspace',
  unpublished: 'the route is not published',
  not_pinned: 'other entries are pinned',
  duplicate: 'listed before',
  operation: 'the model doesn’t support this endpoint',
  profile: 'another entry has the requested profile',
}
