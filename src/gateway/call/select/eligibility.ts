import { AUDIO_FORMATS, type Audio, type AudioFormat } from '../../../contracts/audio.ts'
import type {
  Capability,
  Feature,
  ProtocolFeature,
  Redaction,
  SpeechCall,
  TranscriptionCall,
} from '../../../contracts/calls.ts'
import type { Entry, Principal, Route, Selectors } from '../../../contracts/catalog.ts'
import { countCharacters } from '../../../contracts/characters.ts'
import type { ChatCall, ChatPart } from '../../../contracts/chat.ts'
import type { ExtraOption, WithExtras } from '../../../contracts/extras.ts'
import type { ModelLimits } from '../../../contracts/facts.ts'
import type { Calls, OperationName, TranscriptionTask } from '../../../contracts/operations.ts'
import { CAPABILITY_OF } from '../../../contracts/operations.ts'
import type { PartLimits } from '../../../contracts/parts.ts'
import type { ModelFacts, Provider, Target, Unsupported } from '../../../contracts/provider.ts'
import { isFor, operationOf } from '../../../contracts/provider.ts'
import { allRequirements, brokenPromises, type Requirements } from '../../../contracts/requirements.ts'
import { PLAIN_FORMS } from '../../media/speech-form.ts'
import { requiredFeatures } from '../../providers/transcript-needs.ts'
import type { Call } from '../facts/call.ts'
import { factsFor, isLive } from '../facts/facts-for.ts'
import { isIn, knownLanguage, speaks, unheededHints, withoutHints } from '../facts/hints.ts'
import { chatExclusion, embeddingsExclusion, imageExclusion, videoExclusion } from './generation-limits.ts'
import type { PlacedAttempt } from './replicas.ts'
import { type Encoding, encodingAt, nativeFormat } from './speech-format.ts'
import { type Exclusion, overLimit } from './verdict.ts'

/** Requirements of a call on an entry; computed once for however many entries there are. */
export interface Demand extends TranscriptionDemand {
  readonly call: Call
  readonly capabilities: readonly Capability[]
  /** Features that the entry's protocol must have. */
  readonly protocolFeatures: readonly ProtocolFeature[]
  /** Options of OpenAI's format that an entry has to take. */
  readonly extras: readonly ExtraOption[]
  /** Capabilities among them that the plan of the workspace does not include. */
  readonly unentitled: readonly Capability[]
  readonly workspace: Principal['workspace']
  /** Demands on how its content is handled; null: none. */
  readonly require: Requirements | null
}

export function demandOf(
  call: Call,
  { workspace, purposes }: Pick<Principal, 'workspace' | 'purposes'>,
): Demand {
  const require = requirementsFor(call.selectors, { workspace, purposes })
  const capabilities = requiredCapabilities(call)
  const { includes } = workspace
  const extras = requiredExtras(call)
  const unentitled = includes === null ? NONE : capabilities.filter((capability) => !includes.has(capability))
  const heard = call.operation === 'transcription' || call.operation === 'translation' ? call.payload : null
  const isTimed =
    heard === null
      ? call.operation === 'speech' && call.payload.times === true
      : heard.options.character_times === true
  return {
    call,
    capabilities,
    unentitled,
    workspace,
    require,
    extras,
    protocolFeatures: isTimed ? TIMES : heard?.live?.turns === true ? TURNS : NONE,
    features: heard === null ? NONE : requiredFeatures(heard.options),
    redactions: heard === null ? NONE : heard.options.redaction,
    language: heard === null ? null : knownLanguage(heard.options),
  }
}

const NONE: readonly never[] = []
const TIMES: readonly ProtocolFeature[] = ['character_timestamps']
const TURNS: readonly ProtocolFeature[] = ['turns']

/**
 * Why an entry cannot serve a call as a whole; null when it can. Pure, and regardless of the entry's present health.
 * The check of the configuration keeps a BYOK provider from serving another workspace; this one does so again.
 */
export function exclusionOf(entry: Entry, provider: Provider | undefined, demand: Demand): Exclusion | null {
  return standingExclusion(entry, provider, demand) ?? payloadExclusion(entry, provider, demand)
}

/** The same for all calls with these capabilities, whatever they hold: the workspace, its plan and the model decide. */
export function standingExclusion(
  entry: Entry,
  provider: Provider | undefined,
  demand: Demand,
): Exclusion | null {
  const { workspace } = demand
  if (entry.provider.access === 'byok' && entry.provider.workspace !== workspace.id)
    return { why: 'workspace' }
  const unable = capabilityExclusion(entry, provider, demand)
  if (unable !== null) return unable
  if (demand.unentitled.length > 0) return { why: 'plan', missing: demand.unentitled }
  if (!isForPlan(entry, workspace.plan)) return { why: 'plan', missing: NONE }
  return demand.require === null ? null : residencyExclusion(entry, demand.require)
}

/** Excludes an entry that does not promise what is demanded: none is tried for want of another. */
function residencyExclusion({ facts }: Entry, require: Requirements): Exclusion | null {
  const broken = brokenPromises(facts, require)
  if (broken.length === 0) return null
  return {
    why: 'residency',
    missing: broken.map(({ promise }) => promise),
    message: broken.map(({ words }) => words).join('; '),
  }
}

/** All that a call demands of the handling of its content, by itself, for its purpose and for its workspace. */
export function requirementsFor(
  { purpose, require }: Selectors,
  { workspace, purposes }: Pick<Principal, 'workspace' | 'purposes'>,
): Requirements | null {
  if (purpose === null && require === undefined) return workspace.require ?? null
  const declared = purposes.find((one) => one.purpose === purpose?.label)
  return allRequirements([workspace.require, declared?.require, require])
}

/** Why an entry cannot serve a call for its content: its options, limits and wire format; null when it can. */
export function payloadExclusion(
  entry: Entry,
  provider: Provider | undefined,
  demand: Demand,
): Exclusion | null {
  return (
    liveExclusion(entry, provider, demand) ??
    tellingExclusion(entry, provider, demand) ??
    extrasExclusion(entry, provider, demand) ??
    contentExclusion(entry, demand) ??
    protocolExclusion(entry, provider, demand)
  )
}

/** Excludes live audio from a model, or a protocol, that has no live transcription. */
function liveExclusion({ facts }: Entry, provider: Provider | undefined, { call }: Demand): Exclusion | null {
  if (!isLive(call) || (facts.live !== undefined && provider?.live !== undefined)) return null
  return featuresMissing({ missing: ['realtime'] })
}

/** Excludes what requires the times of characters, or turns, from a protocol that tells none. */
function tellingExclusion(
  { model }: Entry,
  provider: Provider | undefined,
  { call, protocolFeatures }: Demand,
): Exclusion | null {
  if (protocolFeatures.length === 0) return null
  const tells = (feature: ProtocolFeature) =>
    feature === 'turns'
      ? isLive(call) && provider?.live?.tellsTurns?.(model) === true
      : !isLive(call) && operationOf(provider, call.operation)?.tellsTimes === true
  const missing = protocolFeatures.filter((feature) => !tells(feature))
  return missing.length === 0 ? null : featuresMissing({ missing })
}

/** Excludes an entry whose protocol does not take an option of OpenAI's format that the call requires. */
function extrasExclusion(
  entry: Entry,
  provider: Provider | undefined,
  { call, extras }: Demand,
): Exclusion | null {
  if (extras.length === 0) return null
  const operation = operationOf(provider, call.operation)
  const missing = extras.filter((extra) => !takes(operation, extra, entry)).map(({ name }) => name)
  return missing.length === 0 ? null : featuresMissing({ missing })
}

/** Operation of an entry, as far as options of OpenAI's format are concerned. */
type ExtraTaker = { takesExtra?(extra: ExtraOption, target: Target): boolean } | undefined

function takes(operation: ExtraTaker, extra: ExtraOption, entry: Entry): boolean {
  return operation?.takesExtra?.(extra, targetOf(entry)) === true
}

function requiredExtras(call: Call): readonly ExtraOption[] {
  const { extras } = holderOf(call)
  return extras === undefined ? NONE : extras.filter(({ required }) => required)
}

function holderOf({ payload }: Call): WithExtras {
  return ('options' in payload ? payload.options : payload) as WithExtras
}

/** The name by which the caller knows an option of OpenAI's format. */
export function calledName({ name, param = name }: ExtraOption): string {
  return param
}

/** Whether an entry may serve workspaces of a plan; one that names no plans serves all. */
function isForPlan({ plans }: Entry, plan: string | null): boolean {
  return plans.length === 0 || (plan !== null && plans.includes(plan))
}

/** Candidates of a published route that the plan of a workspace allows. */
export function entitledEntries(
  route: Route,
  { plan, includes }: Pick<Principal['workspace'], 'plan' | 'includes'>,
): readonly Entry[] {
  if (!route.published) return []
  return candidatesOf(route).filter(
    (entry) =>
      isForPlan(entry, plan) &&
      (includes === null || entry.facts.capabilities.some((capability) => includes.has(capability))),
  )
}

/** Why an entry cannot serve calls of this kind, whatever their plan, options and limits; null when it can. */
export function capabilityExclusion(
  entry: Entry,
  provider: Provider | undefined,
  { call, capabilities }: Pick<Demand, 'call' | 'capabilities'>,
): Exclusion | null {
  const facts = factsFor(entry, call)
  for (const one of capabilities) {
    if (facts.capabilities.includes(one)) continue
    const missing = capabilities.filter((capability) => !facts.capabilities.includes(capability))
    return { why: 'capability', missing }
  }
  // A protocol that has live transcription need not have any for files; whether it has one is asked for the feature.
  if (isLive(call) || isFor(facts, provider, call.operation)) return null
  return { why: 'operation' }
}

/** Excludes a call that the adapter cannot send to the entry, whatever the facts promise. */
function protocolExclusion(entry: Entry, provider: Provider | undefined, { call }: Demand): Exclusion | null {
  const whole = operationOf(provider, call.operation)
  const operation = isLive(call) ? provider?.live : whole
  if (operation?.unsupported === undefined) return null
  const { payload } = adapt(call, entry, whole)
  const unsupported = operation.unsupported(payload as never, targetOf(entry))
  return unsupported === null ? null : unsupportedExclusion(unsupported)
}

function contentExclusion(entry: Entry, demand: Demand): Exclusion | null {
  const { call, features } = demand
  const facts = factsFor(entry, call)
  switch (call.operation) {
    case 'transcription':
    case 'translation':
      return (
        featureExclusion(facts, call.operation, demand) ??
        audioExclusion(facts.limits, call.payload, features)
      )
    case 'chat':
    case 'vision':
      return chatExclusion(facts.limits, call.payload)
    case 'speech':
      return speechExclusion(entry, call.payload)
    case 'embeddings':
      return embeddingsExclusion(facts.limits, call.payload)
    case 'image':
      return imageExclusion(facts.limits, call.payload)
    case 'video':
      return videoExclusion(facts.limits, call.payload)
    default:
      return null
  }
}

/**
 * Lists the capabilities that a call needs, from the general to the specific: that of its endpoint, then, for a chat,
 * those of its content: tools, pictures, recordings, a spoken answer. A chat with pictures and a call of the vision
 * endpoint come out in the same order. Calls with the same needs get the same list.
 */
function requiredCapabilities(call: Call): readonly Capability[] {
  const own = CAPABILITY_OF[call.operation]
  if (call.operation !== 'chat' && call.operation !== 'vision')
    return capabilityList(own, false, false, false, false)
  const { messages, tools, modalities } = call.payload
  const images = own === 'vision' || holds(messages, 'image')
  return capabilityList(own, tools.length > 0, images, holds(messages, 'audio'), modalities.includes('audio'))
}

function holds(messages: ChatCall['messages'], kind: ChatPart['type']): boolean {
  for (const { parts } of messages) for (const { type } of parts) if (type === kind) return true
  return false
}

/** Lists of capabilities that were needed before, by the endpoint's own and the bits of the others. */
const lists = new Map<Capability, (readonly Capability[])[]>()

function capabilityList(
  own: Capability,
  tools: boolean,
  images: boolean,
  audio: boolean,
  spoken: boolean,
): readonly Capability[] {
  const bits = Number(tools) + 2 * Number(images) + 4 * Number(audio) + 8 * Number(spoken)
  const known = lists.get(own) ?? []
  const list = known[bits]
  if (list !== undefined) return list
  const needed: Capability[] = own === 'vision' ? [] : [own]
  if (tools) needed.push('function_calling')
  if (images) needed.push('vision')
  if (audio) needed.push('audio_input')
  if (spoken) needed.push('audio_output')
  known[bits] = needed
  lists.set(own, known)
  return needed
}

/**
 * Finds the route that serves without a purpose: the app's own, or its override for a capability of the call. Of
 * several overrides the most specific one counts, the last in the order of `requiredCapabilities`: an app that routes
 * `vision` elsewhere means chats with pictures as well, though it may route `text` too. An override for a capability
 * that only the content needs counts where its route can serve the whole call: a chat with a spoken answer does not go
 * to a route for speech.
 */
export function assignedRoute(
  { route, capabilityRoutes }: Principal,
  operation: OperationName,
  capabilities: readonly Capability[],
): Route {
  if (capabilityRoutes.size === 0) return route
  const own = CAPABILITY_OF[operation]
  for (const capability of capabilities.toReversed()) {
    const override = capabilityRoutes.get(capability)
    if (override !== undefined && (capability === own || hasAll(override, capabilities))) return override
  }
  return route
}

function hasAll(route: Route, capabilities: readonly Capability[]): boolean {
  if (!route.published) return false
  return candidatesOf(route).some(({ facts }) =>
    capabilities.every((capability) => facts.capabilities.includes(capability)),
  )
}

/** Capabilities of any candidate of a route; none while it is not published. */
export function capabilitiesOf(route: Route): ReadonlySet<Capability> {
  return new Set(route.published ? candidatesOf(route).flatMap(({ facts }) => facts.capabilities) : [])
}

/** Candidates of a route: its pinned entries where it has any, else all. */
export function candidatesOf({ entries }: Route): readonly Entry[] {
  return entries.some(({ pinned }) => pinned) ? entries.filter(({ pinned }) => pinned) : entries
}

/** Requirements of a transcription on its model. */
interface TranscriptionDemand {
  readonly features: readonly Feature[]
  readonly redactions: readonly Redaction[]
  /** ISO 639; null when the call names none. */
  readonly language: string | null
}

/**
 * Excludes a model that cannot guarantee all of the features at once. A feature that it has in other languages only is
 * missing; features that it has but cannot combine are a conflict.
 */
function featureExclusion(
  facts: ModelFacts,
  operation: 'transcription' | 'translation',
  { features, redactions: required, language }: TranscriptionDemand,
): Exclusion | null {
  if (features.length === 0) return null
  const kept = operation === 'translation' ? (facts.translation_features ?? facts.features) : facts.features
  const redactions = required.filter((kind) => facts.limits.redactions?.includes(kind) === false)
  const has = (feature: Feature) =>
    kept.includes(feature) && (feature !== 'redaction' || redactions.length === 0)
  const missing = features.filter((feature) => !has(feature) || !speaks(facts, feature, language))
  if (missing.length > 0) {
    const foreign = missing.some(has)
    const unredacted = kept.includes('redaction') ? redactions : []
    return featuresMissing({ missing, language: foreign ? language : null, redactions: unredacted })
  }
  const conflict = facts.conflicts?.find((set) => set.every((member) => isIn(member, features)))
  return conflict === undefined ? null : featuresMissing({ conflict: conflict as readonly Feature[] })
}

/** Turns an adapter's objection to a call into the exclusion of its entry. */
function unsupportedExclusion(unsupported: Unsupported): Exclusion {
  if (unsupported.why === 'operation') return { why: 'operation' }
  if (unsupported.why === 'field') return overLimit(unsupported.param, unsupported.reason)
  const { missing, conflict, redactions, language } = unsupported
  return featuresMissing({ missing, conflict, redactions, language })
}

function featuresMissing(lack: Partial<Extract<Exclusion, { readonly why: 'features' }>>): Exclusion {
  return { why: 'features', missing: [], language: null, redactions: [], conflict: [], ...lack }
}

interface Adapted<K extends OperationName> {
  readonly payload: Calls[K]
  /** One line per hint that was left out. */
  readonly warnings: readonly string[]
  /** The encoding that its speech is given; null: it stays as it is made. */
  readonly encoding: Encoding | null
}

/**
 * Adapts the payload to an entry: leaves out hints that it lacks, puts its own name for the voice, and the format
 * that its provider is to make.
 *
 * @param operation of the entry; absent: it takes no options of OpenAI's format
 */
export function adapt<K extends OperationName>(
  call: Call<K>,
  entry: Entry,
  operation?: ExtraTaker,
): Adapted<K>
export function adapt(call: Call, entry: Entry, operation?: ExtraTaker): Adapted<OperationName> {
  const { extras } = holderOf(call)
  const adapted = adaptOwn(call, entry)
  if (extras === undefined) return adapted
  const kept = extras.filter((extra) => takes(operation, extra, entry))
  const left = extras.filter((extra) => !kept.includes(extra))
  const warnings = left.map((extra) => `${calledName(extra)}: left out, ${entry.model} does not take it here`)
  const { payload } = adapted
  return {
    ...adapted,
    payload: ('options' in payload
      ? { ...payload, options: { ...payload.options, extras: kept } }
      : { ...payload, extras: kept }) as Calls[OperationName],
    warnings: [...adapted.warnings, ...warnings],
  }
}

/** The same of all but the options of OpenAI's format. */
function adaptOwn(call: Call, entry: Entry): Adapted<OperationName> {
  const { operation, payload } = call
  if (operation === 'speech') {
    const encoding = encodingAt(entry, payload)
    const voice = voiceAt(entry, payload.voice)
    const response_format = encoding?.source ?? nativeFormat(entry, payload)
    return { payload: { ...payload, voice, response_format }, warnings: NONE, encoding }
  }
  if (operation !== 'transcription' && operation !== 'translation')
    return { payload, warnings: NONE, encoding: null }
  const lacked = unheededHints(factsFor(entry, call), payload.options)
  if (lacked.length === 0) return { payload, warnings: NONE, encoding: null }
  const warnings = lacked.map((hint) => `${hint}: left out, ${entry.model} does not support this hint here`)
  const options = withoutHints(payload.options, lacked)
  return { payload: { ...payload, options }, warnings, encoding: null }
}

const targets = new WeakMap<Entry, Target>()

/** The same of each replica, by its base URL. */
const placedTargets = new WeakMap<Entry, Map<string, Target>>()

/**
 * Address and credential of an attempt at an entry: one object for all of them, so that adapters can build on it.
 *
 * @param placed at which replica; null: at the provider's own address
 */
export function targetOf(entry: Entry, placed: PlacedAttempt | null = null): Target {
  if (placed !== null) return placedTarget(entry, placed)
  const known = targets.get(entry)
  if (known !== undefined) return known
  const { provider, model, options, facts } = entry
  const { retention, training } = facts
  const promises =
    retention === undefined && training === undefined ? {} : { promises: { retention, training } }
  const { baseUrl, credential } = provider
  const target: Target = { model, baseUrl, credential, options, ...promises }
  targets.set(entry, target)
  return target
}

function placedTarget(entry: Entry, { replica: { baseUrl } }: PlacedAttempt): Target {
  let known = placedTargets.get(entry)
  if (known === undefined) {
    known = new Map()
    placedTargets.set(entry, known)
  }
  const target = known.get(baseUrl) ?? { ...targetOf(entry), baseUrl }
  known.set(baseUrl, target)
  return target
}

/**
 * Excludes a model whose limits this audio or these keyterms exceed. A duration or number of channels that is not known
 * excludes nothing.
 */
function audioExclusion(
  limits: ModelLimits,
  { audio, options }: TranscriptionCall,
  features: readonly Feature[],
): Exclusion | null {
  const { max_audio_bytes, audio_formats = AUDIO_FORMATS, max_channels } = limits
  if (!(audio_formats as readonly AudioFormat[]).includes(audio.format))
    return {
      ...overLimit('audio', `the provider accepts ${audio_formats.join(', ')}, not ${formatName(audio)}`),
      isOfFormat: true,
    }
  if (max_audio_bytes !== undefined && audio.decodedBytes > max_audio_bytes)
    return tooLong(`the audio is over the provider's limit of ${max_audio_bytes} bytes`)
  const maxSeconds = longestSeconds(limits, features)
  if ((audio.durationSeconds ?? 0) > maxSeconds)
    return tooLong(`the audio is over the provider's limit of ${maxSeconds} seconds`)
  if (options.multichannel && max_channels !== undefined && (audio.channels ?? 0) > max_channels)
    return overLimit('multichannel', `the audio is over the provider's limit of ${max_channels} channels`)
  return options.keyterms.length === 0 ? null : keytermExclusion(limits.keyterms, options.keyterms)
}

function formatName({ format }: Audio): string {
  return format === 'other' ? 'a format that is not known' : format
}

function tooLong(message: string): Exclusion {
  return { ...overLimit('audio', message), isOfLength: true }
}

/** Limits that parts of the audio of a call have to keep to at all of these entries. */
export function partLimits(entries: readonly Entry[], call: Call<TranscriptionTask>): PartLimits {
  const features = requiredFeatures(call.payload.options)
  const limits = entries.map((entry) => factsFor(entry, call).limits)
  const least = (values: readonly number[]) => (values.length === 0 ? null : Math.min(...values))
  return {
    maxBytes: least(limits.flatMap(({ max_audio_bytes: most }) => most ?? [])),
    maxSeconds: least(limits.map((one) => longestSeconds(one, features)).filter(Number.isFinite)),
  }
}

/** Longest audio for a call: with some features a model accepts less than without them. */
function longestSeconds(
  { max_audio_seconds, max_audio_seconds_with: perFeature = {} }: ModelLimits,
  features: readonly Feature[],
): number {
  const bounds = features.map((feature) => perFeature[feature] ?? Number.POSITIVE_INFINITY)
  return Math.min(max_audio_seconds ?? Number.POSITIVE_INFINITY, ...bounds)
}

function keytermExclusion(limits: ModelLimits['keyterms'], terms: readonly string[]): Exclusion | null {
  if (limits === undefined) return null
  const { max_items, max_item_characters, max_item_words, max_words, forbidden = '' } = limits
  if (max_items !== undefined && terms.length > max_items)
    return overLimit('keyterms', `the provider accepts at most ${max_items} terms`)
  if (max_item_characters !== undefined && terms.some((term) => countCharacters(term) > max_item_characters))
    return overLimit('keyterms', `the provider accepts at most ${max_item_characters} characters per term`)
  if (max_item_words !== undefined && terms.some((term) => countWords(term) > max_item_words))
    return overLimit('keyterms', `the provider accepts at most ${max_item_words} words per term`)
  if (max_words !== undefined && terms.reduce((sum, term) => sum + countWords(term), 0) > max_words)
    return overLimit('keyterms', `the provider accepts at most ${max_words} words in all terms together`)
  if (terms.some((term) => [...forbidden].some((character) => term.includes(character))))
    return overLimit('keyterms', `the provider accepts no term with any of ${JSON.stringify(forbidden)}`)
  return null
}

function countWords(term: string): number {
  return term.trim().split(/\s+/).length
}

/** Excludes an entry that cannot speak this text in this way. */
function speechExclusion(entry: Entry, call: SpeechCall): Exclusion | null {
  const { max_input_characters, speech_formats, speed } = entry.facts.limits
  const format = call.response_format
  const isMade = format === null || nativeFormat(entry, call) !== null || encodingAt(entry, call) !== null
  if (!isMade) return formatExclusion(entry, speech_formats ?? NONE, format)
  if (max_input_characters !== undefined && isLonger(call.input, max_input_characters))
    return overLimit('input', `the input is over the provider's limit of ${max_input_characters} characters`)
  // A speed of 1 changes nothing: every provider can do it.
  const wanted = call.speed ?? 1
  if (wanted !== 1 && speed !== undefined && (wanted < speed.min || wanted > speed.max))
    return overLimit('speed', `the provider accepts a speed from ${speed.min} to ${speed.max}`)
  const voice = voiceAt(entry, call.voice)
  if (voice !== null && !isVoice(entry.facts.limits, voice))
    return overLimit('voice', `the provider has no voice ${JSON.stringify(call.voice)}`)
  return null
}

/** Excludes an entry that does not make a format, with those that it makes. */
function formatExclusion({ encode }: Entry, listed: readonly string[], format: string): Exclusion {
  const made = encode === true ? [...new Set([...listed, ...PLAIN_FORMS])] : listed
  const who = encode === true ? 'entry' : 'provider'
  return { ...overLimit('response_format', `the ${who} makes ${made.join(', ')}, not ${format}`), made }
}

/** The entry's own name of a voice; null for the provider's default. */
export function voiceAt({ voices }: Entry, voice: string | null): string | null {
  // A voice named `constructor` is not in the map.
  return voice !== null && Object.hasOwn(voices, voice) ? (voices[voice] ?? voice) : voice
}

/** Whether a voice is listed or matches the pattern; a model without either may have any voice. */
function isVoice(limits: ModelLimits, voice: string): boolean {
  const { voices, voice_pattern: pattern } = limits
  if (voices?.includes(voice) === true) return true
  return pattern === undefined ? voices === undefined : voicePattern(limits, pattern).test(voice)
}

/** Patterns, compiled once per model of a configuration. */
const patterns = new WeakMap<ModelLimits, RegExp>()

function voicePattern(limits: ModelLimits, pattern: string): RegExp {
  const compiled = patterns.get(limits) ?? new RegExp(pattern)
  patterns.set(limits, compiled)
  return compiled
}

/** Counts only where the UTF-16 length does not decide: each code point takes one unit or two. */
function isLonger(text: string, maxCharacters: number): boolean {
  return text.length > maxCharacters && countCharacters(text) > maxCharacters
}
