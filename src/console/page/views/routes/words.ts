import type { AudioFormat } from '../../../../contracts/audio.ts'
import type { Capability, Feature, Hint } from '../../../../contracts/calls.ts'
import type { Profile, Strategy } from '../../../../contracts/catalog.ts'
import type { Price } from '../../../../contracts/facts.ts'
import type { OperationName } from '../../../../contracts/operations.ts'
import type { EntryFields } from '../../../../gateway/catalog/file.ts'
import type { ModelAnswer, ModelsAnswer } from '../../../server/answers/providers.ts'
import type { RouteSummary } from '../../../server/answers/routes.ts'
import { Badge, FileBadge, NotInForce } from '../../components/badge.ts'
import { h } from '../../h.ts'

// Each list names every member of its type: one that is added there and not here does not compile.

export const STRATEGY_WORDS: Readonly<Record<Strategy, { readonly name: string; readonly means: string }>> = {
  priority: { name: 'Priority', means: 'Try in order.' },
  weighted: { name: 'Weighted', means: 'Split traffic by weight.' },
  lowest_latency: { name: 'Lowest latency', means: 'Fastest recently, first.' },
  lowest_cost: { name: 'Lowest cost', means: 'Cheapest for this request, first.' },
}

export const PROFILE_WORDS: Readonly<Record<Profile, string>> = {
  fast: 'Fast',
  balanced: 'Balanced',
  thinking: 'Thinking',
}

export const CAPABILITY_NAMES: Readonly<Record<Capability, string>> = {
  audio_input: 'Speech-to-text',
  audio_output: 'Text-to-speech',
  text: 'Chat',
  completion: 'Completion',
  embeddings: 'Embeddings',
  image: 'Images',
  vision: 'Vision',
  video_generation: 'Video',
  function_calling: 'Tools',
}

export const FEATURE_WORDS: Readonly<Record<Feature, string>> = {
  diarization: 'Diarization',
  word_timestamps: 'Word timestamps',
  segment_timestamps: 'Segment timestamps',
  redaction: 'Redaction',
  keyterms: 'Keyterms',
  multichannel: 'Multichannel',
  realtime: 'Realtime mode',
}

export const HINT_WORDS: Readonly<Record<Hint, string>> = {
  language: 'Language',
  prompt: 'Prompt',
  speaker_count_hint: 'Speaker count',
  smart_formatting: 'Smart formatting',
  profanity_filter: 'Profanity filter',
  detect_language: 'Detect language',
  audio_events: 'Sounds',
}

export const ENDPOINT_WORDS: Readonly<Record<OperationName, string>> = {
  transcription: 'Transcription',
  translation: 'Translation',
  speech: 'Speech',
  chat: 'Chat',
  complete: 'Completion',
  embeddings: 'Embeddings',
  image: 'Image',
  vision: 'Vision',
  video: 'Video',
}

export const FORMAT_WORDS: Readonly<Record<AudioFormat, string>> = {
  wav: 'wav',
  mp3: 'mp3',
  mp4: 'mp4, m4a',
  mpeg: 'mpeg',
  webm: 'webm',
  ogg: 'ogg',
  flac: 'flac',
  other: 'another',
}

/** The members of a list of words, in its order. */
export function members<Name extends string>(words: Readonly<Record<Name, unknown>>): readonly Name[] {
  return Object.keys(words) as Name[]
}

/** The word for a name; the name itself when there is none, as in a draft that has issues. */
export function wordFor(words: Readonly<Record<string, string>>, name: string): string {
  return Object.hasOwn(words, name) ? (words[name] ?? name) : name
}

/** The price of a model, in short; null: unknown. */
export function priceInWords(price: Price | null): string {
  if (price === null) return 'price not known'
  const charged = PER.flatMap(([field, unit]) => {
    const amount = price[field]
    return typeof amount === 'number' && amount > 0 ? [`${dollars(amount)} ${unit}`] : []
  })
  return charged.length === 0 ? 'free' : charged.join(' · ')
}

/** Surcharges on the price; empty: none. */
export function surchargesInWords(price: Price | null): string {
  const parts = Object.entries(price?.surcharges ?? {}).flatMap(([feature, share]) =>
    typeof share === 'number' && share > 0
      ? [`${feature.replaceAll('_', ' ')} +${Math.round(share * 100)} %`]
      : [],
  )
  for (const [feature, usd] of Object.entries(price?.add_ons_per_hour_usd ?? {}))
    if (typeof usd === 'number' && usd > 0)
      parts.push(`${feature.replaceAll('_', ' ')} +${dollars(usd)} per hour`)
  for (const { over_input_tokens: over } of price?.tiers ?? [])
    parts.push(`another price over ${over.toLocaleString('en')} tokens in`)
  for (const [which, { per_hour_usd: usd }] of Object.entries(price?.by_language ?? {}))
    if (usd !== undefined)
      parts.push(
        `${dollars(usd)} per hour ${which === 'one' ? 'of a named language' : 'of several languages'}`,
      )
  for (const tier of Object.keys(price?.by_service_tier ?? {}))
    parts.push(`another price for the tier ${tier}`)
  if (price?.per_channel === true) parts.push('each channel charged')
  if (price?.minimum_seconds) parts.push(`at least ${price.minimum_seconds} s`)
  return parts.join(', ')
}

const PER: readonly (readonly [keyof Price, string])[] = [
  ['per_hour_usd', 'per hour'],
  ['per_1k_characters_usd', 'per 1k characters'],
  ['per_1m_input_tokens_usd', 'per 1M tokens in'],
  ['per_1m_output_tokens_usd', 'per 1M tokens out'],
  ['per_1m_cached_input_tokens_usd', 'per 1M cached tokens in'],
  ['per_1m_cache_write_tokens_usd', 'per 1M tokens written to the cache'],
  ['per_1m_audio_input_tokens_usd', 'per 1M audio tokens in'],
  ['per_1m_audio_output_tokens_usd', 'per 1M audio tokens out'],
  ['per_image_usd', 'per image'],
  ['per_video_second_usd', 'per second of video'],
  ['per_credit_usd', 'per credit'],
]

/** With as many decimals as it needs, at least two: `$0.36`, `$0.0043`. */
export function dollars(amount: number): string {
  const text = new Intl.NumberFormat('en', {
    minimumFractionDigits: 2,
    maximumFractionDigits: 6,
  }).format(amount)
  return `$${text}`
}

const UNITS: Readonly<Record<string, number>> = { '': 1, s: 1, sec: 1, m: 60, min: 60, h: 3600 }

/** Seconds of `90`, `1:30`, `1:02:03`, `5 min` or `1.5 h`; null when it is nothing such, or no time at all. */
export function readDuration(text: string): number | null {
  const clock = /^(?:(\d{1,3}):)?(\d{1,3}):([0-5]\d)$/.exec(text.trim())
  if (clock) return overZero(Number(clock[1] ?? 0) * 3600 + Number(clock[2]) * 60 + Number(clock[3]))
  const measured = /^(\d{1,8}(?:\.\d{1,3})?)\s*([a-z]*)$/i.exec(text.trim())
  const unit = UNITS[measured?.[2]?.toLowerCase() ?? 'none']
  return measured === null || unit === undefined ? null : overZero(Number(measured[1]) * unit)
}

function overZero(seconds: number): number | null {
  return seconds > 0 && seconds <= 31_536_000 ? seconds : null
}

type ModelProvider = ModelsAnswer['providers'][number]

/** A model that an entry may name. */
export interface Choice {
  readonly provider: ModelProvider
  readonly model: ModelAnswer
  /** Tells it from all others. */
  readonly id: string
}

/** All models of all providers, by provider, as the answer has them. */
export function choicesOf({ providers }: ModelsAnswer): readonly Choice[] {
  return providers.flatMap((provider) =>
    provider.models.map((model) => ({ provider, model, id: `${provider.name}/${model.model}` })),
  )
}

/**
 * Models with the capability whose names contain every typed word.
 *
 * @param capability empty: any
 */
export function matching(
  choices: readonly Choice[],
  text: string,
  capability: Capability | '',
): readonly Choice[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  return choices.filter(({ id, provider, model }) => {
    const name = `${id} ${provider.kind}`.toLowerCase()
    const able = capability === '' || model.capabilities.includes(capability)
    return able && words.every((word) => name.includes(word))
  })
}

/** Facts about an entry's model, with those the entry declares first. Null: the model is in no list. */
export function factsOfEntry(models: ModelsAnswer, entry: EntryFields) {
  const provider = models.providers.find(({ name }) => name === entry.provider) ?? null
  const known = provider?.models.find(({ model }) => model === entry.model) ?? null
  return {
    provider,
    isListed: known !== null,
    capabilities: (entry.capabilities ?? known?.capabilities ?? []) as readonly Capability[],
    features: (entry.features ?? known?.features ?? []) as readonly Feature[],
    price: entry.price ?? known?.price ?? null,
    translates: entry.translates ?? known?.translates ?? false,
  }
}

/** Badges of a route: whether it serves, and its draft. */
export function RouteState(props: {
  readonly version: string | null
  readonly in_service: boolean
  readonly has_draft: boolean
  readonly managed_by: RouteSummary['managed_by']
  readonly issues?: readonly string[]
}) {
  const { version, in_service, has_draft, managed_by, issues } = props
  const service = () => {
    if (issues !== undefined) return h(NotInForce, { issues })
    if (version === null) return h(Badge, null, 'not published')
    return in_service ? h(Badge, { tone: 'ok' }, 'live') : h(Badge, { tone: 'warn' }, 'disabled')
  }
  return [
    service(),
    has_draft ? h(Badge, { tone: 'accent' }, 'draft') : null,
    h(FileBadge, { managedBy: managed_by }),
  ]
}
