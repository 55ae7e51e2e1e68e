import { isDeepStrictEqual } from 'node:util'
import type { GatewayError } from '../errors.ts'
import type { Entry, Principal, Profile, Route } from '../schema/catalog.ts'
import type { OperationName } from '../schema/operations.ts'
import type { Provider } from '../schema/provider.ts'
import type { Consideration, Left } from './consideration.ts'
import { demandOf, leftOut } from './eligibility.ts'
import { expectedCost } from './estimate.ts'
import type { Call } from './gateway.ts'
import type { HealthBook } from './health.ts'
import type { LatencyBook } from './latency.ts'
import { inOrder, type Yardsticks } from './order.ts'
import { type Draft, listEntries, type PurposeResolution } from './purpose.ts'
import { refuse } from './refuse.ts'

/** An entry to try, and whether it stands for the purpose that was asked for. */
export interface Candidate {
  readonly route: Route
  readonly entry: Entry
  readonly forPurpose: boolean
  /** Every breaker is open and this one opened first: it is tried once all the same, admitted or not. */
  readonly lastResort?: true
}

/** What was looked at, whatever comes of it. */
interface Looked {
  readonly purpose: PurposeResolution
  /** The route that serves without the purpose, and that a refusal names. */
  readonly assigned: Route
  /** Every entry of every route that was looked at, the candidates among them. */
  readonly considered: readonly Consideration[]
}

export interface Selection extends Looked {
  /** In the order in which they are tried; never empty. */
  readonly candidates: readonly Candidate[]
  readonly warnings: readonly string[]
}

export interface SelectionInput<K extends OperationName> {
  readonly operation: K
  readonly principal: Principal
  readonly call: Call<K>
  readonly providers: ReadonlyMap<string, Provider>
  readonly random: () => number
  readonly latency: Pick<LatencyBook, 'medianMs'>
  readonly health: Pick<HealthBook, 'view'>
  /** On the clock of `performance.now()`. */
  readonly nowMs: number
}

type Considered = Looked &
  (
    | { readonly selection: Selection; readonly refusal: null }
    | { readonly selection: null; readonly refusal: GatewayError }
  )

/**
 * Which entries may serve a call, in order. Pure: chance, time, health and past latencies are arguments.
 *
 * @returns the selection, or the refusal: PROVIDERS_COOLING_DOWN (with Retry-After, when every entry that could serve
 *          was asked by its provider to be left alone), NO_HEALTHY_PROVIDER, PLAN_NOT_ENTITLED,
 *          REQUIRED_FEATURE_UNAVAILABLE, or INVALID_REQUEST naming the field that no capable entry takes;
 *          `details.entries` says of every entry why
 */
export function consider<K extends OperationName>(input: SelectionInput<K>): Considered {
  const { operation, principal, call, providers } = input
  const demand = demandOf(operation, call.payload, principal.workspace)
  const { purpose, assigned, drafts } = listEntries(principal, call.selectors.purpose, demand, providers)
  const able: Draft[] = []
  for (const draft of drafts) {
    const { entry } = draft
    draft.left ??= leftOut(entry, providers.get(entry.provider.kind), demand) ?? leftRepeated(draft, able)
    if (draft.left !== null) continue
    able.push(draft)
    draft.left = leftUnwell(entry, input)
  }
  const { chosen, lastResort } = whoCanBeTried(able)
  const looked = { purpose, assigned, considered: drafts }
  if (chosen.length === 0) return { ...looked, selection: null, refusal: refuse(drafts, assigned, demand) }

  const { kept, warnings } = narrowToProfile(chosen, call.selectors.responseProfile)
  const ordered = lastResort ? [openedFirst(kept)] : orderGroups(kept, yardsticksOf(input))
  const candidates = ordered.map((draft, index): Candidate => {
    draft.rank = index + 1
    draft.left = null
    draft.lastResort = lastResort
    const { route, entry, group } = draft
    const candidate = { route, entry, forPurpose: group === 'purpose' }
    return lastResort ? { ...candidate, lastResort } : candidate
  })
  return { ...looked, selection: { ...looked, candidates, warnings }, refusal: null }
}

/**
 * An entry by which the same would be asked of the same model as by one of an earlier route: what failed there would
 * fail here. A route that lists a model twice means it.
 */
function leftRepeated({ route, entry }: Draft, earlier: readonly Draft[]): Left | null {
  const repeated = earlier.some(
    (other) => other.entry === entry || (other.route !== route && asksTheSame(other.entry, entry)),
  )
  return repeated ? { why: 'duplicate' } : null
}

function asksTheSame(a: Entry, b: Entry): boolean {
  if (a.provider.name !== b.provider.name || a.model !== b.model) return false
  return isDeepStrictEqual(a.options, b.options) && isDeepStrictEqual(a.voices, b.voices)
}

/** An entry that could serve the call and cannot be tried now. */
function leftUnwell(
  entry: Entry,
  { health, nowMs }: Pick<SelectionInput<OperationName>, 'health' | 'nowMs'>,
): Left | null {
  const { state, untilMs, openedAtMs } = health.view(entry, nowMs)
  if (untilMs === null || untilMs <= nowMs) return null
  const retryAfterMs = Math.ceil(untilMs - nowMs)
  if (state === 'cooling') return { why: 'cooling', retryAfterMs }
  return {
    why: 'breaker',
    retryAfterMs: state === 'open' ? retryAfterMs : null,
    openedAtMs: openedAtMs ?? nowMs,
  }
}

/** Those against whom nothing stands; when there are none, those against whom only a breaker does. */
function whoCanBeTried(able: readonly Draft[]): { chosen: Draft[]; lastResort: boolean } {
  const chosen = able.filter(({ left }) => left === null)
  if (chosen.length > 0) return { chosen, lastResort: false }
  return { chosen: able.filter(({ left }) => left?.why === 'breaker'), lastResort: true }
}

function openedFirst(drafts: readonly Draft[]): Draft {
  const openedAtMs = ({ left }: Draft) => (left?.why === 'breaker' ? left.openedAtMs : 0)
  return drafts.reduce((first, draft) => (openedAtMs(draft) < openedAtMs(first) ? draft : first))
}

/**
 * A profile picks among the first choice of the call, the purpose's entries for one: if some of them have it, only
 * entries that have it remain. It never outweighs the purpose; where it finds nothing it is ignored, with a warning.
 */
function narrowToProfile(chosen: readonly Draft[], profile: Profile | null) {
  if (profile === null) return { kept: chosen, warnings: [] }
  const first = chosen[0]?.group
  if (!chosen.some(({ entry, group }) => group === first && entry.profile === profile)) {
    return { kept: chosen, warnings: [PROFILE_IGNORED] }
  }
  for (const draft of chosen) if (draft.entry.profile !== profile) draft.left ??= { why: 'profile' }
  return { kept: chosen.filter(({ entry }) => entry.profile === profile), warnings: [] }
}

const PROFILE_IGNORED = 'response_profile: no entry of the first choice has this profile; it was ignored'

/** `drafts` come group after group; the strategy of a group's route orders within it. */
function orderGroups(drafts: readonly Draft[], yardsticks: Yardsticks): readonly Draft[] {
  const [first] = drafts
  if (first === undefined) return drafts
  const end = drafts.findIndex(({ group }) => group !== first.group)
  if (end === -1) return inOrder(first.route, drafts, yardsticks)
  const head = inOrder(first.route, drafts.slice(0, end), yardsticks)
  return [...head, ...orderGroups(drafts.slice(end), yardsticks)]
}

function yardsticksOf<K extends OperationName>(input: SelectionInput<K>): Yardsticks {
  const { random, latency, nowMs, operation, call } = input
  return {
    random,
    latency,
    nowMs,
    estimateUsd: (entry) => expectedCost(entry, operation, call.payload),
  }
}
