import { isDeepStrictEqual } from 'node:util'
import type { Audio } from '../../../contracts/audio.ts'
import type { Capability } from '../../../contracts/calls.ts'
import type { Entry, Principal, Profile, Purpose, Route, Selectors } from '../../../contracts/catalog.ts'
import { ERRORS, GatewayError } from '../../../contracts/errors.ts'
import type { OperationName, TranscriptionTask } from '../../../contracts/operations.ts'
import type { AudioTranscoder, CutPlan, PartLimits, Transcoding } from '../../../contracts/parts.ts'
import { TRANSCODED_FORMATS } from '../../../contracts/parts.ts'
import type { Provider } from '../../../contracts/provider.ts'
import { planCut, planWhole } from '../../media/cut/plan.ts'
import { wantsSpeakers } from '../../providers/transcript-needs.ts'
import { againOf, type Call } from '../facts/call.ts'
import { isLive } from '../facts/facts-for.ts'
import { expectedCost } from '../facts/meter.ts'
import {
  assignedRoute,
  calledName,
  candidatesOf,
  capabilityExclusion,
  type Demand,
  demandOf,
  entitledEntries,
  exclusionOf,
  partLimits,
  payloadExclusion,
  requirementsFor,
  standingExclusion,
} from './eligibility.ts'
import type { CircuitBreakers, LatencyTracker } from './health.ts'
import { type Exclusion, explainRows, type Group, type Verdict } from './verdict.ts'

/** An entry to try. */
export interface Candidate {
  readonly route: Route
  readonly entry: Entry
  /** It stands for the requested purpose. */
  readonly forPurpose: boolean
  /** The breaker of every entry is open and this one opened first: it is tried once all the same, admitted or not. */
  readonly lastResort?: true
}

/** Facts of a selection, whatever its result. */
interface SelectionFacts {
  readonly purpose: PurposeResolution
  /** The route that serves without the purpose, and that a refusal names. */
  readonly assigned: Route
  /** One verdict on every entry of every route that the call leads to, the candidates among them. */
  readonly considered: readonly Verdict[]
}

export interface Selection extends SelectionFacts {
  /** In the order in which they are tried; never empty. */
  readonly candidates: readonly Candidate[]
  readonly warnings: readonly string[]
  /** No entry takes the whole audio: each gets parts of it that are cut so. Absent: they take it as it is. */
  readonly cut?: CutPlan
}

export interface SelectionInput {
  readonly principal: Principal
  readonly call: Call
  /** The call by which prices are compared; absent: it is the same. */
  readonly priced?: Call
  readonly providers: ReadonlyMap<string, Provider>
  readonly random: () => number
  readonly latency: Pick<LatencyTracker, 'medianMs'>
  readonly health: Pick<CircuitBreakers, 'view'>
  /** On the node's clock. */
  readonly nowMs: number
  /** Epoch milliseconds, for prices that change; default: now. */
  readonly wallMs?: number
  /** Asked only where audio would have to be transcoded; absent: it cannot be. */
  readonly transcoder?: Pick<AudioTranscoder, 'isAvailable'> | undefined
}

type SelectionResult = SelectionFacts &
  (
    | { readonly selection: Selection; readonly refusal: null }
    | { readonly selection: null; readonly refusal: GatewayError }
  )

/**
 * Selects the entries that may serve a call, in the order in which they are tried. Pure: chance, time, health and past
 * latencies are arguments.
 *
 * @returns the selection, or the refusal: PROVIDERS_COOLING_DOWN with Retry-After when every entry that could serve is
 *          rate limited, NO_HEALTHY_PROVIDER, PLAN_NOT_ENTITLED, REQUIRED_FEATURE_UNAVAILABLE, or INVALID_REQUEST
 *          naming the field that no capable entry takes; `details.entries` explains every entry
 */
export function select(input: SelectionInput): SelectionResult {
  const { principal, call, providers } = input
  const demand = demandOf(call, principal)
  const standing = standingSelection(input, demand)
  if (standing !== null) return standing
  const { purpose, assigned, drafts } = listRoutes(principal, call.selectors.purpose, demand, providers)
  const able: VerdictDraft[] = []
  for (const draft of drafts) {
    const { entry } = draft
    draft.exclusion ??=
      exclusionOf(entry, providers.get(entry.provider.kind), demand) ?? repeatExclusion(draft, able)
    if (draft.exclusion !== null) continue
    able.push(draft)
    draft.exclusion = healthExclusion(entry, input)
  }
  const { chosen, lastResort } = pickTryable(able)
  const facts = { purpose, assigned, considered: drafts }
  if (chosen.length === 0 || lastResort) {
    const made = selectForParts(input, drafts) ?? selectTranscoded(input, drafts)
    // Entries that are well take the audio in another form before one is tried that is not.
    if (made !== null && (chosen.length === 0 || made.selection?.candidates[0]?.lastResort !== true))
      return made
    if (chosen.length === 0) return { ...facts, selection: null, refusal: refuse(drafts, assigned, demand) }
  }

  const { kept, warnings } = narrowToProfile(chosen, call.selectors.responseProfile)
  const ordered = lastResort ? [earliestOpened(kept)] : orderGroups(kept, rankingInputs(input))
  const candidates = ordered.map((draft, index): Candidate => {
    draft.rank = index + 1
    draft.exclusion = null
    draft.lastResort = lastResort
    const candidate = toCandidate(draft)
    return lastResort ? { ...candidate, lastResort } : candidate
  })
  const result = { ...facts, selection: { ...facts, candidates, warnings }, refusal: null }
  if (!lastResort) keepStanding(result, input, demand)
  return result
}

/**
 * Selects entries for parts of audio that is too long or too large for every one of them; null: there are none, or it
 * cannot be cut. Who speaks cannot be told over several parts, so a call that requires it is for whole audio alone.
 */
function selectForParts(input: SelectionInput, whole: readonly Verdict[]): SelectionResult | null {
  const call = fileCall(input.call)
  if (call === null) return null
  const isTooLong = ({ exclusion }: Verdict) => exclusion?.why === 'limits' && exclusion.isOfLength === true
  const { audio, options } = call.payload
  // A part, of which no bytes are counted, is not cut again.
  if (!whole.some(isTooLong) || audio.decodedBytes === 0) return null
  if (audio.format === 'mpeg' || wantsSpeakers(options)) return null
  const part = { ...audio, decodedBytes: 0, durationSeconds: null }
  const { selection } = selectAs(input, call, part)
  const cut = selection === null ? null : planCut(audio, limitsOfAll(selection, call))
  if (cut === null) return null
  // Once their length is known, the price of a part orders the entries.
  const seconds = cut.count === null ? null : cut.targetSeconds + 2 * cut.overlapSeconds
  const result = selectAs(input, call, part, seconds)
  return result.selection === null ? null : { ...result, selection: { ...result.selection, cut } }
}

/** Selects entries of routes that transcode for audio in a format that none of them takes; null: there are none. */
function selectTranscoded(input: SelectionInput, whole: readonly Verdict[]): SelectionResult | null {
  const call = fileCall(input.call)
  const isOfFormat = ({ route, exclusion }: Verdict) =>
    route.transcodes === true && exclusion?.why === 'limits' && exclusion.isOfFormat === true
  if (call === null || !whole.some(isOfFormat) || input.transcoder?.isAvailable !== true) return null
  const results = TRANSCODED_FORMATS.flatMap((format) => selectTranscodedTo(format, input, call) ?? [])
  // The format that most of them take.
  const [first, ...others] = results
  const countOf = ({ selection }: { readonly selection: Selection }) => selection.candidates.length
  return others.reduce((most, one) => (countOf(one) > countOf(most!) ? one : most), first) ?? null
}

/** Opus at 32 kbit/s, and 16-bit samples at 16 kHz; of a channel. */
const TRANSCODED_BYTES_PER_SECOND: Readonly<Record<Transcoding['format'], number>> = {
  ogg: 4_000,
  wav: 32_000,
}
const TRANSCODED_CHANNELS_MAX = 8

function selectTranscodedTo(
  format: Transcoding['format'],
  input: SelectionInput,
  call: Call<TranscriptionTask>,
): (SelectionResult & { readonly selection: Selection }) | null {
  const { audio, options } = call.payload
  const channels = options.multichannel ? Math.min(audio.channels ?? 2, TRANSCODED_CHANNELS_MAX) : 1
  const decodedBytes = Math.ceil(
    (audio.durationSeconds ?? 0) * channels * TRANSCODED_BYTES_PER_SECOND[format],
  )
  const result = selectAs(input, call, { ...audio, format, decodedBytes })
  if (result.selection === null) return null
  const selection = without(result.selection, ({ route }) => route.transcodes !== true)
  if (selection === null) return null
  const { cut = planWhole(audio, false) } = selection
  const transcoding = { format, channels, limits: limitsOfAll(selection, call) }
  return { ...result, selection: { ...selection, cut: { ...cut, transcoding } }, refusal: null }
}

/** The call of a whole file to be transcribed; null: it is another. */
function fileCall(call: Call): Call<TranscriptionTask> | null {
  const isOfFile = (call.operation === 'transcription' || call.operation === 'translation') && !isLive(call)
  return isOfFile ? (call as Call<TranscriptionTask>) : null
}

/** The selection as if the audio of a call were this, and of so many seconds where prices are compared. */
function selectAs(
  input: SelectionInput,
  call: Call<TranscriptionTask>,
  audio: Audio,
  durationSeconds = audio.durationSeconds,
): SelectionResult {
  const callOf = (one: Audio) => ({ ...call, payload: { ...call.payload, audio: one } }) as Call
  const priced = callOf({ ...audio, durationSeconds })
  return select({ ...input, call: callOf(audio), priced, transcoder: undefined })
}

function limitsOfAll({ candidates }: Selection, call: Call<TranscriptionTask>): PartLimits {
  return partLimits(
    candidates.map(({ entry }) => entry),
    call,
  )
}

/**
 * The same selection of a call whose silence is to be left out, which takes the audio apart as well. A stream does so
 * where its caller asks for it, and not for its route: its answer would come whole.
 */
export function skippingSilence(
  selection: Selection,
  call: Call,
  principal: Principal,
  isStreamed: boolean,
): Selection {
  const { payload, selectors } = call
  if (!('audio' in payload && 'options' in payload) || isLive(call)) return selection
  const { cut, candidates, warnings } = selection
  const ofRoute = !isStreamed && candidates[0]?.route.skipsSilence === true
  if (!(payload.options.skip_silence ?? ofRoute)) return selection
  if (cut !== undefined) return { ...selection, cut: { ...cut, skipsSilence: true } }
  if (requirementsFor(selectors, principal)?.retentionDays === 0)
    return { ...selection, warnings: [...warnings, SILENCE_KEPT] }
  return { ...selection, cut: planWhole(payload.audio, true) }
}

const SILENCE_KEPT = 'skip_silence: left out, what is taken apart is stored, and retention is zero'

/**
 * A selection that all calls of a kind have in common, those that name no purpose and no profile: it is the same again
 * until the content of a call or the health of an entry excludes a candidate. Kept by the version of the route.
 */
interface StandingSelection {
  readonly operation: OperationName
  /** Entries are judged by other facts for audio that is still coming. */
  readonly live: boolean
  /** The very list of `demandOf`, as all calls with the same needs have it. */
  readonly capabilities: readonly Capability[]
  readonly workspace: Principal['workspace']
  readonly providers: ReadonlyMap<string, Provider>
  readonly result: SelectionResult & { readonly selection: Selection }
}

const standings = new WeakMap<Route, StandingSelection[]>()
/** Most that are kept of a route. A reload that changes its workspace makes others. */
const STANDING_MAX = 32

/** Finds a selection that was made before and holds for this call; null: there is none. */
function standingSelection(input: SelectionInput, demand: Demand): SelectionResult | null {
  const { principal, call, providers } = input
  if (isChosen(call.selectors)) return null
  const assigned = assignedRoute(principal, call.operation, demand.capabilities)
  const known = standings.get(assigned)
  if (known === undefined) return null
  for (const one of known) {
    if (!isFor(one, input, demand)) continue
    const again = againOf(call)
    const { candidates } = one.result.selection
    if (again?.accepted !== one) {
      for (const { entry } of candidates)
        if (payloadExclusion(entry, providers.get(entry.provider.kind), demand) !== null) return null
      if (again !== undefined) again.accepted = one
    }
    for (const { entry } of candidates) if (healthExclusion(entry, input) !== null) return null
    return one.result
  }
  return null
}

/** Whether a call says more of its selection than its kind. */
function isChosen({ purpose, responseProfile, require }: Selectors): boolean {
  return purpose !== null || responseProfile !== null || require !== undefined
}

function isFor(
  { operation, live, capabilities, workspace, providers }: StandingSelection,
  input: SelectionInput,
  demand: Demand,
): boolean {
  return (
    operation === input.call.operation &&
    live === isLive(input.call) &&
    capabilities === demand.capabilities &&
    workspace === demand.workspace &&
    providers === input.providers
  )
}

/** Keeps a selection for the calls to come, unless its order or an exclusion is this call's alone. */
function keepStanding(
  result: SelectionResult & { readonly selection: Selection },
  { call, providers }: SelectionInput,
  demand: Demand,
): void {
  const { assigned, considered, selection } = result
  if (isChosen(call.selectors)) return
  if (assigned.strategy !== 'priority' && selection.candidates.length > 1) return
  const stands = ({ entry, exclusion }: Verdict) =>
    exclusion === null ||
    STANDING_EXCLUSIONS.has(exclusion.why) ||
    standingExclusion(entry, providers.get(entry.provider.kind), demand) !== null
  if (!considered.every(stands)) return
  const known = standings.get(assigned) ?? []
  const { operation } = call
  const { capabilities, workspace } = demand
  const made = { operation, live: isLive(call), capabilities, workspace, providers, result }
  standings.set(assigned, [...known.slice(1 - STANDING_MAX), made])
}

/** Exclusions that the route itself makes. A repeated entry is one as long as the entry that it repeats may serve. */
const STANDING_EXCLUSIONS: ReadonlySet<Exclusion['why']> = new Set(['unpublished', 'not_pinned', 'duplicate'])

/** Takes candidates out of a selection; null when none is left. */
export function without(selection: Selection, excluded: (candidate: Candidate) => boolean): Selection | null {
  const candidates = selection.candidates.filter((candidate) => !excluded(candidate))
  return candidates.length === 0 ? null : { ...selection, candidates }
}

/** Whether an entry is excluded for its health alone, which is that of the moment. */
export function isUnhealthy({ exclusion }: Verdict): boolean {
  return exclusion?.why === 'cooling' || exclusion?.why === 'breaker'
}

export function toCandidate({ route, entry, group }: Verdict): Candidate {
  return { route, entry, forPurpose: group === 'purpose' }
}

/**
 * Adds the entries that only their health excluded, in the last place: for a session, which may outlast that. An entry
 * without the profile that the selection was narrowed to stays out.
 */
export function withUnhealthy(selection: Selection, profile: Profile | null): Selection {
  const isKept = ({ entry }: Verdict) =>
    profile === null || entry.profile === profile || selection.warnings.includes(PROFILE_IGNORED)
  const unhealthy = selection.considered.filter((verdict) => isUnhealthy(verdict) && isKept(verdict))
  if (unhealthy.length === 0) return selection
  return { ...selection, candidates: [...selection.candidates, ...unhealthy.map(toCandidate)] }
}

/**
 * Excludes an entry that would send the same to the same model as one of an earlier route: a failure there would come
 * again. A route that lists a model twice means it.
 */
function repeatExclusion({ route, entry }: VerdictDraft, earlier: readonly VerdictDraft[]): Exclusion | null {
  const repeated = earlier.some(
    (other) => other.entry === entry || (other.route !== route && sameRequest(other.entry, entry)),
  )
  return repeated ? { why: 'duplicate' } : null
}

function sameRequest(a: Entry, b: Entry): boolean {
  if (a.provider.name !== b.provider.name || a.model !== b.model) return false
  return isDeepStrictEqual(a.options, b.options) && isDeepStrictEqual(a.voices, b.voices)
}

/** Excludes an entry that could serve the call but must not be tried now. */
function healthExclusion(
  entry: Entry,
  { health, nowMs }: Pick<SelectionInput, 'health' | 'nowMs'>,
): Exclusion | null {
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

/** The entries that are not excluded; when there are none, those that only a breaker excludes. */
function pickTryable(able: readonly VerdictDraft[]): { chosen: VerdictDraft[]; lastResort: boolean } {
  const chosen = able.filter(({ exclusion }) => exclusion === null)
  if (chosen.length > 0) return { chosen, lastResort: false }
  return { chosen: able.filter(({ exclusion }) => exclusion?.why === 'breaker'), lastResort: true }
}

function earliestOpened(drafts: readonly VerdictDraft[]): VerdictDraft {
  const openedAtMs = ({ exclusion }: VerdictDraft) =>
    exclusion?.why === 'breaker' ? exclusion.openedAtMs : 0
  return drafts.reduce((first, draft) => (openedAtMs(draft) < openedAtMs(first) ? draft : first))
}

/**
 * Narrows to the entries with a profile where the first group of the call, such as the entries of its purpose, has any.
 * A profile never outweighs the purpose: where that group has none it is ignored, with a warning.
 */
function narrowToProfile(chosen: readonly VerdictDraft[], profile: Profile | null) {
  if (profile === null) return { kept: chosen, warnings: [] }
  const first = chosen[0]?.group
  if (!chosen.some(({ entry, group }) => group === first && entry.profile === profile)) {
    return { kept: chosen, warnings: [PROFILE_IGNORED] }
  }
  for (const draft of chosen) if (draft.entry.profile !== profile) draft.exclusion ??= { why: 'profile' }
  return { kept: chosen.filter(({ entry }) => entry.profile === profile), warnings: [] }
}

const PROFILE_IGNORED = 'response_profile: no entry of the first choice has this profile; it was ignored'

/** Orders each group by the strategy of its route. @param drafts group after group */
function orderGroups(drafts: readonly VerdictDraft[], inputs: RankingInputs): readonly VerdictDraft[] {
  const [first] = drafts
  if (first === undefined) return drafts
  const end = drafts.findIndex(({ group }) => group !== first.group)
  if (end === -1) return orderByStrategy(first.route, drafts, inputs)
  const head = orderByStrategy(first.route, drafts.slice(0, end), inputs)
  return [...head, ...orderGroups(drafts.slice(end), inputs)]
}

function rankingInputs(input: SelectionInput): RankingInputs {
  const { random, latency, nowMs, wallMs, priced = input.call } = input
  return { random, latency, nowMs, estimateUsd: (entry) => expectedCost(entry, priced, wallMs) }
}

export interface PurposeResolution {
  readonly requested: string | null
  /** Value of `lk_purpose_source` when an entry outside the purpose answers. */
  readonly otherwise: 'none' | 'purpose_unknown' | 'purpose_unavailable' | 'fallback_purpose_exhausted'
  /** Its value when an entry of the purpose answers. */
  readonly source: 'body' | 'header' | null
  /** Why the purpose is unavailable, for the explanation; null when it is available. */
  readonly unavailable: 'disabled' | 'unpublished' | 'capability' | null
}

/** A verdict in the making. */
type VerdictDraft = { -readonly [Name in keyof Verdict]: Verdict[Name] }

interface Listing {
  readonly purpose: PurposeResolution
  /** The route that serves without the purpose. */
  readonly assigned: Route
  /** One per entry of every route, group after group, in the order of its route. */
  readonly drafts: readonly VerdictDraft[]
}

/**
 * Lists the routes that a call leads to, with the entries that the routes themselves exclude. A purpose that cannot be
 * used does not change the routing: it never substitutes for a capability.
 */
function listRoutes(
  principal: Principal,
  requested: Selectors['purpose'],
  demand: Demand,
  providers: ReadonlyMap<string, Provider>,
): Listing {
  const assigned = assignedRoute(principal, demand.call.operation, demand.capabilities)
  const drafts: VerdictDraft[] = []
  if (requested === null) {
    addRoute(drafts, assigned, principal, ASSIGNED)
    return { purpose: NO_PURPOSE, assigned, drafts }
  }
  const bound = boundPurpose(principal, requested.label)
  const unavailable = bound === null ? null : unavailability(bound, demand, providers)
  if (bound !== null && unavailable !== 'disabled') {
    const { route } = bound
    addRoute(drafts, route, principal, groupByTag(route, requested.label))
    drafts.sort((a, b) => Number(a.group !== 'purpose') - Number(b.group !== 'purpose'))
  }
  addRoute(drafts, assigned, principal, ASSIGNED)
  const usable = bound !== null && unavailable === null
  const failing = bound === null ? 'purpose_unknown' : 'purpose_unavailable'
  return {
    purpose: {
      requested: requested.label,
      otherwise: usable ? 'fallback_purpose_exhausted' : failing,
      source: requested.source,
      unavailable,
    },
    assigned,
    drafts,
  }
}

const NO_PURPOSE: PurposeResolution = { requested: null, otherwise: 'none', source: null, unavailable: null }

type BoundPurpose = Purpose & { readonly route: Route }

/** The purpose of a label; null where the workspace does not declare it or the app binds it to no route. */
function boundPurpose({ purposes }: Principal, label: string): BoundPurpose | null {
  const declared = purposes.find(({ purpose }) => purpose === label)
  return declared !== undefined && isBound(declared) ? declared : null
}

function isBound(purpose: Purpose): purpose is BoundPurpose {
  return purpose.route !== null
}

/** Whether a purpose can serve some call: it leads to a published route that the plan allows. */
export function isUsable(purpose: Purpose, workspace: Principal['workspace']): boolean {
  return purpose.enabled && isBound(purpose) && entitledEntries(purpose.route, workspace).length > 0
}

function unavailability(
  { enabled, route }: BoundPurpose,
  demand: Demand,
  providers: ReadonlyMap<string, Provider>,
): PurposeResolution['unavailable'] {
  if (!enabled) return 'disabled'
  if (!route.published) return 'unpublished'
  const able = candidatesOf(route).some(
    (entry) => capabilityExclusion(entry, providers.get(entry.provider.kind), demand) === null,
  )
  return able ? null : 'capability'
}

/** Groups the entries of a purpose's route: those tagged with its label first; all of them where none is tagged. */
function groupByTag(route: Route, label: string): (entry: Entry) => Group {
  const tagged = candidatesOf(route).some(({ purposes }) => purposes.includes(label))
  return ({ purposes }) => (!tagged || purposes.includes(label) ? 'purpose' : 'purpose_route')
}

function addRoute(
  drafts: VerdictDraft[],
  route: Route,
  { workspace }: Principal,
  groupOf: (entry: Entry) => Group,
): void {
  const unusable: Exclusion | null =
    route.workspace !== workspace.id ? { why: 'workspace' } : route.published ? null : { why: 'unpublished' }
  const candidates = candidatesOf(route)
  for (const entry of route.entries) {
    const exclusion = unusable ?? (candidates.includes(entry) ? null : { why: 'not_pinned' as const })
    drafts.push({ route, entry, group: groupOf(entry), rank: null, exclusion, lastResort: false })
  }
}

const ASSIGNED = (): Group => 'assigned_route'

/** Inputs of the strategies. */
interface RankingInputs {
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly latency: Pick<LatencyTracker, 'medianMs'>
  readonly nowMs: number
  /** USD; Infinity when the price is not known. */
  readonly estimateUsd: (entry: Entry) => number
}

/** Orders the entries of one group by their route's strategy; equal ones stay as the route lists them. */
function orderByStrategy<Item extends { readonly entry: Entry }>(
  { strategy }: Route,
  items: readonly Item[],
  inputs: RankingInputs,
): readonly Item[] {
  const sortKey = strategy === 'priority' || items.length < 2 ? null : SORT_KEYS[strategy]
  if (sortKey === null) return items
  const keyed = items.map((item) => ({ item, key: sortKey(item.entry, inputs) }))
  return keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)).map(({ item }) => item)
}

/** Sort key of each strategy: the smallest comes first. */
const SORT_KEYS: Readonly<
  Record<Exclude<Route['strategy'], 'priority'>, (entry: Entry, by: RankingInputs) => number>
> = {
  // Sorting by drawn keys picks in proportion to the weights, without replacement (Efraimidis, Spirakis 2006).
  weighted: ({ weight }, { random }) => -Math.log(1 - random()) / weight,
  lowest_cost: (entry, { estimateUsd }) => estimateUsd(entry),
  lowest_latency: (entry, { latency, nowMs }) => latency.medianMs(entry, nowMs),
}

/** Most entries that are explained to the caller: a refusal must not grow with the routes of an odd configuration. */
const EXPLAINED_MAX = 100

/**
 * Explains why no entry can serve the call, by the entry that came closest: one that is only rate limited, else one
 * over its limits, else one without the features, else one whose promises do not suffice, else one outside the plan.
 */
function refuse(considered: readonly Verdict[], assigned: Route, demand: Demand): GatewayError {
  const exclusions = considered.flatMap(({ exclusion }) => exclusion ?? [])
  const shown = considered.filter(({ exclusion }) => exclusion?.why !== 'workspace')
  const details = { policy_version_id: assigned.version, entries: explainRows(shown.slice(0, EXPLAINED_MAX)) }

  // An unknown format is the first fault, unless an entry could have it transcoded and is left out for another.
  const limits = exclusionsOf(exclusions, 'limits')
  const isUnheard = limits.some(({ isOfFormat }) => isOfFormat === true)
  if (isUnknownFormat(demand.call) && (isUnheard || !considered.some(({ route }) => route.transcodes)))
    return new GatewayError('UNSUPPORTED_AUDIO_FORMAT', undefined, { param: 'audio', details })
  const waitsMs = exclusionsOf(exclusions, 'cooling').map(({ retryAfterMs }) => retryAfterMs)
  if (waitsMs.length > 0) {
    const soonestMs = Math.min(...waitsMs)
    const seconds = Math.ceil(soonestMs / 1000)
    const message = `${ERRORS.PROVIDERS_COOLING_DOWN.message}; retry after ${seconds} s`
    return new GatewayError('PROVIDERS_COOLING_DOWN', message, {
      details: { ...details, retry_after_ms: soonestMs },
      retryAfterMs: soonestMs,
    })
  }
  const [limit] = limits
  if (limit !== undefined)
    return new GatewayError('INVALID_REQUEST', inMadeFormats(limits, demand), { param: limit.param, details })
  const unavailable = (features: readonly string[]) => {
    const message = `${ERRORS.REQUIRED_FEATURE_UNAVAILABLE.message}: ${[...new Set(features)].join(', ')}`
    return new GatewayError('REQUIRED_FEATURE_UNAVAILABLE', message, { details })
  }
  if (exclusionsOf(exclusions, 'features').length > 0)
    return unavailable([...demand.features, ...demand.protocolFeatures, ...demand.extras.map(calledName)])
  const unpromised = exclusionsOf(exclusions, 'residency').flatMap(({ missing }) => missing)
  if (unpromised.length > 0) return unavailable(unpromised)
  if (exclusionsOf(exclusions, 'plan').length > 0)
    return new GatewayError('PLAN_NOT_ENTITLED', undefined, { details })
  return new GatewayError('NO_HEALTHY_PROVIDER', undefined, {
    details: { ...details, required_capabilities: demand.capabilities },
  })
}

function isUnknownFormat({ payload }: Call): boolean {
  return 'audio' in payload && 'options' in payload && payload.audio.format === 'other'
}

type LimitExclusion = Extract<Exclusion, { readonly why: 'limits' }>

/** Says of a format that no entry makes which ones they make, all of them together. */
function inMadeFormats([first, ...more]: readonly LimitExclusion[], { call }: Demand): string | undefined {
  const others = more.flatMap(({ made = [] }) => made)
  if (first?.made === undefined || others.length === 0 || call.operation !== 'speech') return first?.message
  const made = new Set([...first.made, ...others])
  return `the entries of the route make ${[...made].join(', ')}, not ${call.payload.response_format}`
}

function exclusionsOf<Why extends Exclusion['why']>(exclusions: readonly Exclusion[], why: Why) {
  return exclusions.filter((one): one is Extract<Exclusion, { readonly why: Why }> => one.why === why)
}
