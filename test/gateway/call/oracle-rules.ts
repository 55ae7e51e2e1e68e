import type {
  Capability,
  Feature,
  SpeechCall,
  TranscriptionCall,
  TranscriptionOptions,
} from '../../../src/contracts/calls.ts'
import type { Entry, Route } from '../../../src/contracts/catalog.ts'
import type { ChatCall } from '../../../src/contracts/chat.ts'
import type { EmbeddingsCall, ImageCall, VideoCall } from '../../../src/contracts/generation.ts'
import { languageCode } from '../../../src/gateway/providers/language.ts'
import type { Case } from './oracle-cases.ts'

// The rules of selection as they are told, one after the other, without any thought of speed. Nothing of the code under
// test is used here but its types.

export interface Line {
  readonly route: Route
  readonly entry: Entry
  readonly group: 'purpose' | 'purpose_route' | 'assigned_route'
  verdict: string
}

export interface Expected {
  readonly lines: readonly Line[]
  /** Groups in order; within each the entries in order, or null where chance decides the order. */
  readonly taken: readonly { readonly lines: readonly Line[]; readonly drawn: boolean }[]
  readonly lastResort: boolean
  readonly code: string | null
  readonly retryAfterSeconds: number | null
  readonly purposeSource: string
  readonly profileIgnored: boolean
}

export function expected(given: Case): Expected {
  const whole = expectedOf(given)
  const audio =
    'audio' in given.call.payload ? (given.call as { payload: TranscriptionCall }).payload.audio : null
  const isTaken = whole.code === null && !whole.lastResort
  if (isTaken || audio === null || !('options' in given.call.payload)) return whole
  const { options } = given.call.payload as TranscriptionCall
  const speakers = options.diarization || options.response_format === 'diarized_json'
  if (speakers || audio.format === 'mpeg') return whole
  const isLong = ({ entry, verdict }: Line) => verdict === 'limits' && lengthBroken(given, entry)
  if (!whole.lines.some(isLong)) return whole
  // No one that is well takes it whole: whoever takes parts of it, gets parts.
  const part = { ...audio, decodedBytes: 0, durationSeconds: null }
  const call = { ...given.call, payload: { ...given.call.payload, audio: part } } as Case['call']
  const parts = expectedOf({ ...given, call })
  const taken = parts.taken.flatMap(({ lines }) => lines.map(({ entry }) => entry))
  if (whole.lastResort && parts.lastResort) return whole
  return parts.code === null && isWorthCutting(given, taken) ? parts : whole
}

/** Whether parts that keep to the limits of all of them have eight seconds at least. */
function isWorthCutting(given: Case, entries: readonly Entry[]): boolean {
  const { audio, options } = (given.call as { payload: TranscriptionCall }).payload
  const least = (values: readonly (number | undefined)[]) =>
    Math.min(...values.map((value) => value ?? Number.POSITIVE_INFINITY))
  const seconds = least(
    entries.flatMap(({ facts: { limits } }) => [
      limits.max_audio_seconds,
      ...neededFeatures(options).map((feature) => limits.max_audio_seconds_with?.[feature]),
    ]),
  )
  const bytes = least(entries.map(({ facts }) => facts.limits.max_audio_bytes))
  const perSecond = audio.durationSeconds === null ? 0 : audio.decodedBytes / audio.durationSeconds
  const ofBytes = perSecond > 0 ? Math.floor(bytes * 0.97) / perSecond : Number.POSITIVE_INFINITY
  const longest = Math.min(600, (Math.min(seconds * 0.995, ofBytes) - 4) / 1.125)
  return longest >= 8 && Math.ceil((audio.durationSeconds ?? 0) / longest) <= 2000
}

function expectedOf(given: Case): Expected {
  const { lines, purposeSource } = listed(given)
  for (const line of lines) if (line.verdict === '') line.verdict = verdictOf(given, line.entry)
  // What an earlier route lists and could serve is not tried again, however it fares.
  const able = lines.filter(({ verdict }) => ['taken', 'cooling', 'breaker'].includes(verdict))
  for (const line of able)
    if (able.slice(0, able.indexOf(line)).some(({ entry }) => entry === line.entry))
      line.verdict = 'duplicate'

  const tryable = lines.filter(({ verdict }) => verdict === 'taken')
  const barred = lines.filter(({ verdict }) => verdict === 'breaker')
  const lastResort = tryable.length === 0 && barred.length > 0
  const { kept, ignored } = byProfile(given, lastResort ? barred : tryable)
  for (const line of tryable) if (!kept.includes(line)) line.verdict = 'profile'

  let taken = ['purpose', 'purpose_route', 'assigned_route']
    .map((name) => kept.filter(({ group }) => group === name))
    .filter((group) => group.length > 0)
    .map((group) => ordered(given, group))
  if (lastResort) {
    const openings = kept.map(({ entry }) => given.health.get(entry)?.openedAtMs ?? 0)
    const first = kept[openings.indexOf(Math.min(...openings))] as Line
    first.verdict = 'taken'
    taken = [{ lines: [first], drawn: false }]
  }
  const verdicts = new Set(lines.map(({ verdict }) => verdict))
  return {
    lines,
    taken,
    lastResort,
    code: verdicts.has('taken') ? null : refusalCode(verdicts),
    retryAfterSeconds: soonest(given, lines),
    purposeSource,
    profileIgnored: ignored,
  }
}

/** Which entries are looked at, and what the routes themselves say against them. */
function listed(given: Case) {
  const { principal, call } = given
  const needed: readonly Capability[] = capabilitiesOf(given)
  const overriding = (['audio_output', 'audio_input', 'vision', 'function_calling', ...needed] as const).find(
    (capability) => {
      const route = needed.includes(capability) ? principal.capabilityRoutes.get(capability) : undefined
      const fits = (entry: Entry) =>
        needed.filter((name) => !entry.facts.capabilities.includes(name)).length === 0
      if (route === undefined) return false
      const pinned = route.entries.filter((entry) => entry.pinned)
      const candidates = pinned.length > 0 ? pinned : route.entries
      return capability === ENDPOINTS[given.operation] || (route.published && candidates.some(fits))
    },
  )
  const assigned = overriding === undefined ? principal.route : principal.capabilityRoutes.get(overriding)!
  const lines: Line[] = []
  const add = (route: Route, entry: Entry, group: Line['group']) => {
    let verdict = ''
    if (route.entries.some(({ pinned }) => pinned) && !entry.pinned) verdict = 'not_pinned'
    if (!route.published) verdict = 'unpublished'
    if (route.workspace !== principal.workspace.id) verdict = 'workspace'
    lines.push({ route, entry, group, verdict })
  }

  let purposeSource = 'none'
  const label = call.selectors.purpose?.label
  if (label !== undefined) {
    const purpose = principal.purposes.find((declared) => declared.purpose === label)
    if (purpose === undefined || purpose.route === null) purposeSource = 'purpose_unknown'
    else if (!purpose.enabled) purposeSource = 'purpose_unavailable'
    else {
      const { route } = purpose
      const pinned = route.entries.filter((entry) => entry.pinned)
      const eligible = pinned.length > 0 ? pinned : route.entries
      const able = route.published && eligible.some((entry) => canServe(given, entry) === null)
      purposeSource = able ? 'fallback_purpose_exhausted' : 'purpose_unavailable'
      const tags = eligible.some((entry) => entry.purposes.includes(label))
      const first = route.entries.filter((entry) => !tags || entry.purposes.includes(label))
      for (const entry of first) add(route, entry, 'purpose')
      for (const entry of route.entries) if (!first.includes(entry)) add(route, entry, 'purpose_route')
    }
  }
  for (const entry of assigned.entries) add(assigned, entry, 'assigned_route')
  return { lines, purposeSource }
}

const ENDPOINTS = {
  chat: 'text',
  complete: 'completion',
  embeddings: 'embeddings',
  image: 'image',
  vision: 'vision',
  transcription: 'audio_input',
  translation: 'audio_input',
  speech: 'audio_output',
  video: 'video_generation',
} as const

function capabilitiesOf({
  operation,
  call,
}: Case): string[] & Parameters<Case['principal']['capabilityRoutes']['has']>[0][] {
  type Name = Parameters<Case['principal']['capabilityRoutes']['has']>[0]
  const names: Name[] = [ENDPOINTS[operation]]
  if (operation === 'chat' || operation === 'vision') {
    const { tools, modalities, messages } = call.payload as ChatCall
    if (tools.length > 0) names.push('function_calling')
    if (modalities.some((modality) => modality === 'audio')) names.push('audio_output')
    if (messages.flatMap(({ parts }) => parts).some(({ type }) => type === 'image')) names.push('vision')
    if (messages.flatMap(({ parts }) => parts).some(({ type }) => type === 'audio')) names.push('audio_input')
  }
  return [...new Set(names)]
}

function canServe(given: Case, { facts, provider }: Entry): 'capability' | 'operation' | null {
  for (const name of capabilitiesOf(given)) if (!facts.capabilities.includes(name)) return 'capability'
  if (!['able', 'telling'].includes(provider.kind)) return 'operation'
  if (facts.operations && !facts.operations.includes(given.operation)) return 'operation'
  if (given.operation === 'translation' && !facts.translates) return 'operation'
  return null
}

function verdictOf(given: Case, entry: Entry): string {
  const { workspace } = given.principal
  const { provider, plans } = entry
  if (provider.access === 'byok' && provider.workspace !== workspace.id) return 'workspace'
  const unable = canServe(given, entry)
  if (unable !== null) return unable
  for (const name of capabilitiesOf(given)) if (workspace.includes?.has(name) === false) return 'plan'
  if (plans.length > 0 && !plans.some((plan) => plan === workspace.plan)) return 'plan'
  if (hears(given) && !keepsFeatures(given, entry)) return 'features'
  if (given.operation === 'speech' && 'times' in given.call.payload && provider.kind !== 'telling')
    return 'features'
  if (limitBroken(given, entry)) return 'limits'
  const { state = 'closed', untilMs = null } = given.health.get(entry) ?? {}
  if (state === 'cooling') return 'cooling'
  if (state === 'open') return 'breaker'
  return state === 'half_open' && (untilMs ?? 0) > given.nowMs ? 'breaker' : 'taken'
}

const hears = ({ operation }: Case) => operation === 'transcription' || operation === 'translation'

const NEEDS: Record<Feature, (asked: TranscriptionOptions) => boolean> = {
  word_timestamps: ({ timestamps }) => timestamps === 'word' || timestamps === 'both',
  segment_timestamps: ({ timestamps, response_format }) =>
    timestamps === 'segment' ||
    timestamps === 'both' ||
    ['srt', 'vtt', 'verbose_json'].includes(response_format),
  diarization: ({ diarization, response_format }) => diarization || response_format === 'diarized_json',
  redaction: ({ redaction }) => redaction.length > 0,
  keyterms: ({ keyterms }) => keyterms.length > 0,
  multichannel: ({ multichannel }) => multichannel,
  realtime: ({ mode }) => mode === 'realtime',
}

export function neededFeatures(asked: TranscriptionOptions): Feature[] {
  return (Object.keys(NEEDS) as Feature[]).filter((feature) => NEEDS[feature](asked))
}

function keepsFeatures({ operation, call }: Case, { facts }: Entry): boolean {
  const { options } = call.payload as TranscriptionCall
  const needed = neededFeatures(options)
  const kept = (operation === 'translation' && facts.translation_features) || facts.features
  if (needed.some((feature) => !kept.includes(feature))) return false
  const { redactions } = facts.limits
  if (redactions && options.redaction.some((kind) => !redactions.includes(kind))) return false
  const language = options.language === null ? null : languageCode(options.language)
  for (const feature of needed) {
    const spoken = facts.languages?.[feature]
    if (language !== null && spoken && !spoken.includes(language)) return false
  }
  const together: readonly string[] = needed
  return !(facts.conflicts ?? []).some((set) => set.every((member) => together.includes(member)))
}

function lengthBroken(given: Case, { facts: { limits } }: Entry): boolean {
  const { audio, options } = (given.call as { payload: TranscriptionCall }).payload
  const withFeatures = neededFeatures(options).map((feature) => limits.max_audio_seconds_with?.[feature])
  const above = (value: number | null, most: number | undefined) =>
    value !== null && most !== undefined && value > most
  return (
    above(audio.decodedBytes, limits.max_audio_bytes) ||
    [limits.max_audio_seconds, ...withFeatures].some((most) => above(audio.durationSeconds, most))
  )
}

function limitBroken(given: Case, entry: Entry): boolean {
  const { limits } = entry.facts
  const { payload } = given.call
  const outside = (value: string | number | null, list?: readonly (string | number)[]) =>
    value !== null && list !== undefined && !list.includes(value)
  const above = (value: number | null, most: number | undefined) =>
    value !== null && most !== undefined && value > most
  switch (given.operation) {
    case 'transcription':
    case 'translation': {
      const { audio, options } = payload as TranscriptionCall
      return (
        lengthBroken(given, entry) ||
        outside(audio.format, limits.audio_formats) ||
        (options.multichannel && above(audio.channels, limits.max_channels)) ||
        keytermsBroken(limits.keyterms ?? {}, options.keyterms)
      )
    }
    case 'speech': {
      const call = payload as SpeechCall
      const voice = call.voice === null ? null : (entry.voices[call.voice] ?? call.voice)
      const { speed, voices, voice_pattern } = limits
      return (
        outside(call.response_format, limits.speech_formats) ||
        above(Array.from(call.input).length, limits.max_input_characters) ||
        (call.speed !== null && call.speed !== 1 && speed !== undefined && !between(call.speed, speed)) ||
        (voice !== null &&
          (voices !== undefined || voice_pattern !== undefined) &&
          !voices?.includes(voice) &&
          !(voice_pattern !== undefined && voice.startsWith('no')))
      )
    }
    case 'chat':
    case 'vision': {
      const { response_schema: schema } = payload as ChatCall
      return schema !== null && JSON.stringify(schema) !== '{"type":"object"}' && limits.json_schema === false
    }
    case 'embeddings': {
      const { input, dimensions } = payload as EmbeddingsCall
      return above(input.length, limits.max_inputs) || above(dimensions, limits.max_dimensions)
    }
    case 'image': {
      const { n, size, output_format } = payload as ImageCall
      return (
        above(n, limits.max_images) ||
        outside(size, limits.image_sizes) ||
        outside(output_format, limits.image_formats)
      )
    }
    case 'video': {
      const { size, duration_seconds } = payload as VideoCall
      return outside(size, limits.video_sizes) || outside(duration_seconds, limits.video_seconds)
    }
    default:
      return false
  }
}

function between(value: number, { min, max }: { readonly min: number; readonly max: number }): boolean {
  return value >= min && value <= max
}

function keytermsBroken(
  limits: NonNullable<Entry['facts']['limits']['keyterms']>,
  terms: readonly string[],
): boolean {
  const words = terms.map((term) => term.split(' ').length)
  return (
    terms.length > (limits.max_items ?? Number.POSITIVE_INFINITY) ||
    words.some((count) => count > (limits.max_item_words ?? Number.POSITIVE_INFINITY)) ||
    words.reduce((sum, count) => sum + count, 0) > (limits.max_words ?? Number.POSITIVE_INFINITY) ||
    terms.some((term) => term.length > (limits.max_item_characters ?? Number.POSITIVE_INFINITY)) ||
    terms.some((term) => limits.forbidden !== undefined && term.includes(limits.forbidden))
  )
}

/** The first group that can be tried is asked for the profile; the answer holds for all. */
function byProfile({ call }: Case, lines: readonly Line[]) {
  const { responseProfile } = call.selectors
  if (responseProfile === null || lines.length === 0) return { kept: lines, ignored: false }
  const matching = lines.filter(({ entry }) => entry.profile === responseProfile)
  const inFirst = matching.some(({ group }) => group === lines[0]?.group)
  return inFirst ? { kept: matching, ignored: false } : { kept: lines, ignored: true }
}

function ordered({ operation, mediansMs }: Case, group: readonly Line[]) {
  const strategy = group[0]?.route.strategy
  if (strategy === 'weighted') return { lines: group, drawn: true }
  const usd = ({ entry }: Line) =>
    (hears({ operation } as Case)
      ? entry.facts.price?.per_hour_usd
      : operation === 'image'
        ? entry.facts.price?.per_image_usd
        : undefined) ?? Number.MAX_VALUE
  const measure = {
    lowest_cost: usd,
    lowest_latency: ({ entry }: Line) => mediansMs.get(entry) ?? 0,
    priority: () => 0,
  }[strategy ?? 'priority']
  return { lines: group.toSorted((a, b) => measure(a) - measure(b)), drawn: false }
}

function refusalCode(verdicts: ReadonlySet<string>): string {
  if (verdicts.has('cooling')) return 'PROVIDERS_COOLING_DOWN'
  if (verdicts.has('limits')) return 'INVALID_REQUEST'
  if (verdicts.has('features')) return 'REQUIRED_FEATURE_UNAVAILABLE'
  return verdicts.has('plan') ? 'PLAN_NOT_ENTITLED' : 'NO_HEALTHY_PROVIDER'
}

/** When the first of the entries that are to be left alone may be tried. */
function soonest({ health, nowMs }: Case, lines: readonly Line[]): number | null {
  const waitsMs = lines
    .filter(({ verdict }) => verdict === 'cooling')
    .map(({ entry }) => (health.get(entry)?.untilMs ?? 0) - nowMs)
  return waitsMs.length === 0 ? null : Math.ceil(Math.min(...waitsMs) / 1000)
}
