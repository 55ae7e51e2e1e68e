import { GatewayError } from '../errors.ts'
import type { SpeechCall, TranscriptionCall } from '../schema/calls.ts'
import type { Entry, Principal, Purpose, Route } from '../schema/catalog.ts'
import type { Provider } from '../schema/provider.ts'
import { countCharacters, type Refusal, refusalOf } from './eligibility.ts'
import { CAPABILITY_OF, type Call, type Calls, type OperationName, type Selectors } from './gateway.ts'
import type { LatencyBook } from './latency.ts'
import { meterSpeech, meterTranscription } from './meter.ts'

/** An entry to try, and whether it stands for the purpose that was asked for. */
export interface Candidate {
  readonly route: Route
  readonly entry: Entry
  readonly forPurpose: boolean
}

export interface Selection {
  /** In the order in which they are tried; never empty. */
  readonly candidates: readonly Candidate[]
  readonly purpose: PurposeResolution
  readonly warnings: readonly string[]
}

export interface PurposeResolution {
  readonly requested: string | null
  /** What `lk_purpose_source` says when an entry outside the purpose answers. */
  readonly otherwise: 'none' | 'purpose_unknown' | 'purpose_unavailable' | 'fallback_purpose_exhausted'
  /** What it says when an entry of the purpose answers. */
  readonly source: 'body' | 'header' | null
}

export interface SelectionInput<K extends OperationName> {
  readonly operation: K
  readonly principal: Principal
  readonly call: Call<K>
  readonly providers: ReadonlyMap<string, Provider>
  readonly random: () => number
  readonly latency: Pick<LatencyBook, 'medianMs'>
}

/**
 * Which entries may serve a call, in order. Pure: chance and past latencies are arguments.
 *
 * @throws GatewayError NO_HEALTHY_PROVIDER, PLAN_NOT_ENTITLED, REQUIRED_FEATURE_UNAVAILABLE, or INVALID_REQUEST naming
 *         the field that no capable entry takes
 */
export function select<K extends OperationName>(input: SelectionInput<K>): Selection {
  const { principal, operation, call } = input
  const assigned = principal.capabilityRoutes.get(CAPABILITY_OF[operation]) ?? principal.route
  const { resolution, route: purposeRoute } = resolvePurpose(input)

  const considered = [...ofPurpose(purposeRoute, call.selectors, input), ...ofRoute(assigned, false, input)]
  const unique = considered.filter(
    (one, index) => considered.findIndex((other) => other.entry === one.entry) === index,
  )
  const judged = unique.map((candidate) => ({ candidate, refusal: judge(candidate.entry, input) }))

  const eligible = judged.filter(({ refusal }) => refusal === null).map(({ candidate }) => candidate)
  if (eligible.length === 0) throw refuse(judged, assigned)
  return { ...narrowToProfile(eligible, call.selectors), purpose: resolution }
}

function judge<K extends OperationName>(entry: Entry, input: SelectionInput<K>): Refusal | null {
  const provider = input.providers.get(entry.provider.kind)
  return refusalOf(entry, provider, input.operation, input.call.payload, input.principal.workspace.plan)
}

/** The purpose's route when it can be used at all, and what is said of it. */
function resolvePurpose<K extends OperationName>(
  input: SelectionInput<K>,
): { resolution: PurposeResolution; route: Route | null } {
  const asked = input.call.selectors.purpose
  if (asked === null) return { resolution: { requested: null, otherwise: 'none', source: null }, route: null }
  const declared = input.principal.purposes.find(({ purpose }) => purpose === asked.label)
  const route = declared === undefined ? null : usableRoute(declared, input)
  const otherwise =
    declared === undefined
      ? 'purpose_unknown'
      : route === null
        ? 'purpose_unavailable'
        : 'fallback_purpose_exhausted'
  return { resolution: { requested: asked.label, otherwise, source: asked.source }, route }
}

function usableRoute<K extends OperationName>(
  purpose: Purpose,
  { operation }: SelectionInput<K>,
): Route | null {
  const { route, enabled } = purpose
  if (!enabled || route === null || !route.published) return null
  const capability = CAPABILITY_OF[operation]
  return route.entries.some((entry) => entry.facts.capabilities.includes(capability)) ? route : null
}

/** Entries tagged with the label first (all of them when none is tagged), then the others of that route. */
function ofPurpose<K extends OperationName>(
  route: Route | null,
  { purpose }: Selectors,
  input: SelectionInput<K>,
): Candidate[] {
  if (route === null || purpose === null) return []
  const ordered = ofRoute(route, true, input)
  const tagged = ordered.filter(({ entry }) => entry.purposes.includes(purpose.label))
  if (tagged.length === 0) return ordered
  const others = ordered.filter((candidate) => !tagged.includes(candidate))
  return [...tagged, ...others.map((candidate) => ({ ...candidate, forPurpose: false }))]
}

function ofRoute<K extends OperationName>(
  route: Route,
  forPurpose: boolean,
  input: SelectionInput<K>,
): Candidate[] {
  if (!route.published) return []
  const pinned = route.entries.filter((entry) => entry.pinned)
  const entries = inOrder(route, pinned.length > 0 ? pinned : route.entries, input)
  return entries.map((entry) => ({ route, entry, forPurpose }))
}

function inOrder<K extends OperationName>(
  route: Route,
  entries: readonly Entry[],
  input: SelectionInput<K>,
): readonly Entry[] {
  if (route.strategy === 'weighted') {
    // Sorting by drawn keys picks in proportion to the weights, without replacement (Efraimidis, Spirakis 2006).
    const keyed = entries.map((entry) => ({ entry, key: -Math.log(1 - input.random()) / entry.weight }))
    return keyed.sort((a, b) => a.key - b.key).map(({ entry }) => entry)
  }
  if (route.strategy === 'lowest_cost') {
    const priced = entries.map((entry) => ({
      entry,
      usd: estimateUsd(entry, input.operation, input.call.payload),
    }))
    return priced.sort((a, b) => a.usd - b.usd).map(({ entry }) => entry)
  }
  if (route.strategy === 'lowest_latency') {
    const timed = entries.map((entry) => ({ entry, medianMs: input.latency.medianMs(entry) }))
    return timed.sort((a, b) => a.medianMs - b.medianMs).map(({ entry }) => entry)
  }
  return entries
}

/** What the call would cost at an entry; an unknown price sorts last. */
function estimateUsd<K extends OperationName>(entry: Entry, operation: K, payload: Calls[K]): number {
  const { price } = entry.facts
  const { costUsd } =
    operation === 'speech'
      ? meterSpeech(countCharacters((payload as SpeechCall).input), price)
      : meterTranscription((payload as TranscriptionCall).audio, 1, price)
  return costUsd ?? Number.POSITIVE_INFINITY
}

function narrowToProfile(eligible: readonly Candidate[], { responseProfile }: Selectors) {
  if (responseProfile === null) return { candidates: eligible, warnings: [] }
  const narrowed = eligible.filter(({ entry }) => entry.profile === responseProfile)
  if (narrowed.length > 0) return { candidates: narrowed, warnings: [] }
  return { candidates: eligible, warnings: ['response_profile: no eligible entry has this profile'] }
}

interface Judged {
  readonly candidate: Candidate
  readonly refusal: Refusal | null
}

/** The refusal of the call, by the entry that came furthest: capability, then plan, then features, then limits. */
function refuse(judged: readonly Judged[], route: Route): GatewayError {
  const refusals = judged.flatMap(({ refusal }) => (refusal === null ? [] : [refusal]))
  const details = { policy_version_id: route.version, entries: judged.map(explain) }
  const limit = refusals.find((refusal) => refusal.why === 'limits')
  if (limit !== undefined)
    return new GatewayError('INVALID_REQUEST', limit.message, { param: limit.param, details })
  if (refusals.some(({ why }) => why === 'features')) {
    return new GatewayError('REQUIRED_FEATURE_UNAVAILABLE', undefined, { details })
  }
  if (refusals.some(({ why }) => why === 'plan'))
    return new GatewayError('PLAN_NOT_ENTITLED', undefined, { details })
  return new GatewayError('NO_HEALTHY_PROVIDER', undefined, { details })
}

function explain({ candidate, refusal }: Judged) {
  const { entry } = candidate
  const lacks = refusal?.why === 'features' ? { missing: refusal.missing } : {}
  return { provider: entry.provider.name, model: entry.model, refused: refusal?.why ?? null, ...lacks }
}
