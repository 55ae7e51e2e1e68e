import type { Feature, TranscriptionCall } from '../../../contracts/calls.ts'
import type { Entry } from '../../../contracts/catalog.ts'
import { countCharacters } from '../../../contracts/characters.ts'
import type { ChatCall } from '../../../contracts/chat.ts'
import { choicesAsked, extraValue, type WithExtras } from '../../../contracts/extras.ts'
import type { Price } from '../../../contracts/facts.ts'
import type { EmbeddingInput } from '../../../contracts/generation.ts'
import type { Calls, OperationName, Results } from '../../../contracts/operations.ts'
import { systemClock } from '../../../contracts/time.ts'
import type { TokenUsage } from '../../../contracts/usage.ts'
import { requiredFeatures } from '../../providers/transcript-needs.ts'
import type { Call } from './call.ts'
import { priceFor } from './facts-for.ts'
import {
  costOf,
  type Exact,
  exact,
  exactCostOf,
  microsOf,
  type PriceOfDay,
  plus,
  priceForSize,
  priceForTier,
  priceOn,
  rounded,
  roundedUp,
  type Term,
  times,
  usdOf,
} from './price.ts'

/** Metered quantities of an answer, in wire names. */
export type Usage = Readonly<Record<string, number | null>>

export interface Metered {
  readonly usage: Usage
  /** At most 6 decimals; null when the price or the quantity is unknown. */
  readonly costUsd: number | null
  readonly warnings: readonly string[]
}

/** Quantities that a provider reports of its answer; null where it does not. */
export interface ReportedUsage {
  readonly seconds: number | null
  /** Channels of audio whose file does not tell them. */
  readonly channels: number | null
  readonly usage: TokenUsage | null
  readonly images: number | null
  readonly credits: number | null
}

/** Stands for an answer that is missing, or not there yet. */
export const NOTHING_REPORTED: ReportedUsage = Object.freeze({
  seconds: null,
  channels: null,
  usage: null,
  images: null,
  credits: null,
})

export function reportedBy(result: Results[OperationName]): ReportedUsage {
  if ('durationSeconds' in result) {
    const { durationSeconds, tokens = null } = result
    return { ...NOTHING_REPORTED, seconds: validFigure(durationSeconds), usage: validTokens(tokens) }
  }
  if ('videos' in result) {
    return { ...NOTHING_REPORTED, seconds: validFigure(result.seconds), credits: validFigure(result.credits) }
  }
  const usage = 'usage' in result ? validTokens(result.usage ?? null) : null
  return { ...NOTHING_REPORTED, usage, images: 'images' in result ? result.images.length : null }
}

/** The very figures as long as they are valid, as they are with every provider that works. */
function validTokens(usage: TokenUsage | null): TokenUsage | null {
  if (usage === null) return null
  const input_tokens = validFigure(usage.input_tokens)
  const output_tokens = validFigure(usage.output_tokens)
  const isValid = input_tokens === usage.input_tokens && output_tokens === usage.output_tokens
  return isValid ? usage : { input_tokens, output_tokens }
}

/**
 * More seconds, tokens, credits than any answer comes to. Beyond it no sum of them would be exact, and a figure that a
 * provider made up would be charged.
 */
const FIGURE_MAX = 1e9

/** Drops a figure of a provider that cannot be one. */
function validFigure(figure: number | null): number | null {
  return figure !== null && figure >= 0 && figure <= FIGURE_MAX ? figure : null
}

/**
 * Meters a call and prices it.
 *
 * @param atMs epoch milliseconds of the call, for prices that change
 */
export function meter<K extends OperationName>(
  call: Call<K>,
  reported: ReportedUsage,
  price: Price | null,
  atMs = systemClock.wallNow(),
): Metered {
  return meterAt(call, reported, priceOf(price, reported, atMs))
}

/** The usage of a call before it is answered: its input. */
export function meteredUsage<K extends OperationName>({ operation, payload }: Call<K>): Usage {
  return METERS[operation](payload as Calls[K], NOTHING_REPORTED, {}).usage
}

/** Tokens that a call and its answer are expected to have; null for calls that are not counted so. */
export function tokensAhead<K extends OperationName>({ operation, payload }: Call<K>): number | null {
  const { usage } = ESTIMATES[operation](payload as Calls[K], {})
  return usage === null ? null : (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0)
}

/** Meters a call at the price of its day and size. */
function meterAt<K extends OperationName>(
  call: Call<K>,
  reported: ReportedUsage,
  price: PriceOfDay,
): Metered {
  const { usage, terms, warnings } = METERS[call.operation](call.payload, reported, price)
  const cost = costOf(terms)
  if ('usd' in cost) return { usage, costUsd: cost.usd, warnings }
  const missing =
    cost.unknown === 'price'
      ? 'cost_usd: the price of this model is not known'
      : 'cost_usd: the quantity that the provider charges for is not known'
  return { usage, costUsd: null, warnings: [...warnings, missing] }
}

/** Cost of a call, not rounded; Infinity when it is not known. */
function exactCost<K extends OperationName>(
  call: Call<K>,
  reported: ReportedUsage,
  price: Price | null,
  atMs = systemClock.wallNow(),
): number {
  const effective = priceOf(price, reported, atMs)
  const cost = exactCostOf(METERS[call.operation](call.payload, reported, effective).terms)
  return 'usd' in cost ? cost.usd : Number.POSITIVE_INFINITY
}

/** The price of what was reported on a day: by the tier of service that answered, and by size. */
function priceOf(price: Price | null, { usage }: ReportedUsage, atMs: number): PriceOfDay {
  const ofTier = priceForTier(priceOn(price ?? {}, atMs), usage?.service_tier)
  return priceForSize(ofTier, usage?.input_tokens ?? null)
}

interface Metering {
  readonly usage: Usage
  readonly terms: readonly Term[]
  readonly warnings: readonly string[]
}

const METERS: {
  readonly [K in OperationName]: (payload: Calls[K], reported: ReportedUsage, price: PriceOfDay) => Metering
} = {
  transcription: meterAudio,
  translation: meterAudio,
  speech({ input }, { usage: reported }, price) {
    const quantity = countCharacters(input)
    const usage = { audio_output_characters: quantity, total_tokens: 0 }
    const byCharacter = { usd: price.per_1k_characters_usd, unit: 1000, quantity }
    if (byCharacter.usd !== undefined || !isByTokens(price))
      return { usage, terms: [byCharacter], warnings: NONE }
    const supposed = reported === null ? spokenTokens(quantity, price) : null
    return {
      usage,
      terms: tokenTerms(reported ?? supposed, price),
      warnings: supposed === null ? NONE : [TOKENS_SUPPOSED],
    }
  },
  chat: meterTokens,
  vision: meterTokens,
  complete: meterTokens,
  embeddings({ input: given }, { usage }, price) {
    // Input that came as tokens is counted already.
    const input_tokens = usage?.input_tokens ?? tokensIn(given)
    const counted = input_tokens === null ? null : { input_tokens, output_tokens: null }
    return {
      usage: { input_tokens, total_tokens: input_tokens },
      terms: inputTerms(counted, price),
      warnings: input_tokens === null ? [TOKENS_UNKNOWN] : [],
    }
  },
  image(_payload, { usage, images }, price) {
    // Images are metered; some providers report tokens beside them.
    const tokens = usage === null ? { total_tokens: 0 } : countsOf(usage)
    const perImage = { usd: price.per_image_usd, unit: 1, quantity: images }
    return { usage: { images, ...tokens }, terms: [perImage, ...tokenTerms(usage, price)], warnings: [] }
  },
  video(_payload, { seconds, credits }, price) {
    const perSecond = { usd: price.per_video_second_usd, unit: 1, quantity: exactSeconds(seconds) }
    const perCredit = { usd: price.per_credit_usd, unit: 1, quantity: credits }
    // Credits that the provider reports are the whole charge.
    const charged = credits !== null && perCredit.usd !== undefined ? [perCredit] : []
    return {
      usage: {
        video_seconds: roundedSeconds(exactSeconds(seconds)),
        ...(credits === null ? {} : { credits }),
        total_tokens: 0,
      },
      terms: charged.length > 0 ? charged : perSecond.usd === undefined ? [perCredit] : [perSecond],
      warnings:
        seconds === null ? ['usage.video_seconds: the provider does not say how long the video is'] : [],
    }
  },
}

/**
 * Meters audio by the seconds of its file, whatever the provider reports. The provider's figure is used only where the
 * file does not tell them, with a warning.
 */
function meterAudio(call: TranscriptionCall, reported: ReportedUsage, price: PriceOfDay): Metering {
  const { durationSeconds } = call.audio
  const channels = call.audio.channels ?? reported.channels
  const seconds = validFigure(durationSeconds ?? reported.seconds)
  const billed = chargedAudio(call, seconds, channels, price)
  const features = requiredFeatures(call.options)
  const charged = billed === null ? null : times(billed, factorOf(features, price))
  const warnings: string[] = []
  if (durationSeconds === null) {
    warnings.push(
      seconds === null
        ? 'usage.audio_seconds: the file does not tell its duration, nor does the provider'
        : 'usage.audio_seconds: the file does not tell its duration; this is what the provider reports',
    )
  }
  if (seconds !== null && charged === null && channels === null) {
    warnings.push('usage.billable_audio_seconds: the file does not tell its channels, and each is charged')
  }
  return {
    usage: {
      audio_seconds: roundedSeconds(exactSeconds(seconds)),
      billable_audio_seconds: roundedSeconds(charged),
      total_tokens: 0,
    },
    terms: [
      { usd: price.per_hour_usd, unit: 3600, quantity: charged },
      ...[...features].map((name) => ({
        usd: price.add_ons_per_hour_usd?.[name],
        unit: 3600,
        quantity: billed,
      })),
      // An entry of several operations has prices of each: by tokens of its chats, say.
      ...(price.per_hour_usd === undefined && isByTokens(price) ? tokenTerms(reported.usage, price) : NONE),
    ],
    warnings,
  }
}

/** Seconds that the provider charges: at least its minimum, in its increments, for each channel. */
function chargedAudio(
  { options }: TranscriptionCall,
  seconds: number | null,
  channels: number | null,
  price: PriceOfDay,
): Exact | null {
  const { minimum_seconds: minimum = 0, keyterms_minimum: many, per_channel } = price
  const charged = per_channel === true && options.multichannel ? channels : 1
  if (seconds === null || charged === null) return null
  const manyTerms = many !== undefined && options.keyterms.length > many.over
  const least = Math.max(minimum, manyTerms ? many.seconds : 0)
  const minimal = exact(Math.max(seconds, least))
  const { billing_increment_seconds: step } = price
  return times(step === undefined ? minimal : roundedUp(minimal, exact(step)), exact(charged))
}

/** Factor by which the features of a call multiply the charged seconds. */
function factorOf(features: Iterable<Feature>, { surcharges = {} }: PriceOfDay): Exact {
  let factor = exact(1)
  for (const feature of features) factor = plus(factor, exact(surcharges[feature] ?? 0))
  return factor
}

const UNCOUNTED = Object.freeze({ input_tokens: null, output_tokens: null, total_tokens: null })
const TOKENS_UNKNOWN = 'usage.total_tokens: the provider does not say how many tokens it counted'

function meterTokens(_payload: unknown, { usage }: ReportedUsage, price: PriceOfDay): Metering {
  const counts = usage === null ? UNCOUNTED : countsOf(usage)
  const warnings = counts.total_tokens === null ? [TOKENS_UNKNOWN] : NONE
  return { usage: counts, terms: tokenTerms(usage, price), warnings }
}

const NONE: readonly never[] = []

/** Counts as callers are told them: of the parts those that there are. */
function countsOf(usage: TokenUsage): Usage & { readonly total_tokens: number | null } {
  const { input_tokens, output_tokens, cached_input_tokens: cached } = usage
  const { audio_input_tokens: heard, audio_output_tokens: spoken } = usage
  const total_tokens = input_tokens === null || output_tokens === null ? null : input_tokens + output_tokens
  const counts = { input_tokens, output_tokens, total_tokens }
  if (!cached && !heard && !spoken) return counts
  return {
    ...counts,
    ...(cached ? { cached_input_tokens: cached } : {}),
    ...(heard ? { audio_input_tokens: heard } : {}),
    ...(spoken ? { audio_output_tokens: spoken } : {}),
  }
}

const TOKEN_UNIT = 1_000_000

function isByTokens(price: PriceOfDay): boolean {
  return (price.per_1m_input_tokens_usd ?? price.per_1m_output_tokens_usd) !== undefined
}

function tokenTerms(usage: TokenUsage | null, price: PriceOfDay): readonly Term[] {
  const terms = inputTerms(usage, price)
  const { per_1m_audio_output_tokens_usd: spoken } = price
  let others = usage?.output_tokens ?? null
  if (spoken !== undefined) others = setApart(terms, others, usage?.audio_output_tokens, spoken)
  terms.push({ usd: price.per_1m_output_tokens_usd, unit: TOKEN_UNIT, quantity: others })
  return terms
}

/** Tokens of the input, those with a price of their own apart. A cache that gave or took none is not told of. */
function inputTerms(usage: TokenUsage | null, price: PriceOfDay): Term[] {
  const terms: Term[] = []
  let others = usage?.input_tokens ?? null
  const { per_1m_audio_input_tokens_usd: heard } = price
  if (heard !== undefined) others = setApart(terms, others, usage?.audio_input_tokens, heard)
  const { cached_input_tokens: cached = 0, cache_write_tokens: written = 0 } = usage ?? NO_TOKENS
  if (cached > 0) others = setApart(terms, others, cached, price.per_1m_cached_input_tokens_usd)
  if (written > 0) others = setApart(terms, others, written, price.per_1m_cache_write_tokens_usd)
  terms.push({ usd: price.per_1m_input_tokens_usd, unit: TOKEN_UNIT, quantity: others })
  return terms
}

const NO_TOKENS: TokenUsage = { input_tokens: null, output_tokens: null }

/**
 * Adds the term of a part of a count, which is never more than the whole.
 *
 * @param part undefined: not told, so that neither it nor the rest is known
 * @param usd undefined: it has no price of its own
 * @returns the rest of the count
 */
function setApart(
  terms: Term[],
  whole: number | null,
  part: number | undefined,
  usd: number | undefined,
): number | null {
  if (usd === undefined) return whole
  const counted = whole === null || part === undefined ? null : Math.min(part, whole)
  terms.push({ usd, unit: TOKEN_UNIT, quantity: counted })
  return whole === null || counted === null ? null : whole - counted
}

function exactSeconds(seconds: number | null): Exact | null {
  return seconds === null ? null : exact(seconds)
}

function roundedSeconds(seconds: Exact | null): number | null {
  return seconds === null ? null : rounded(seconds, 3)
}

/** English text has about four characters to a token. */
const CHARACTERS_PER_TOKEN = 4
/** English is spoken at about 150 words a minute. */
const CHARACTERS_PER_SECOND = 15
/** Tokens of the text of a second of speech. */
const TEXT_TOKENS_PER_SECOND = CHARACTERS_PER_SECOND / CHARACTERS_PER_TOKEN

const TOKENS_SUPPOSED =
  'cost_usd: estimated from the characters, as the provider does not say how many tokens it counted'

/** Tokens of a text and of its speech; null: the price does not say how many a second has. */
function spokenTokens(characters: number, { audio_tokens_per_second: rate }: PriceOfDay): TokenUsage | null {
  if (rate === undefined) return null
  const output = Math.ceil((characters / CHARACTERS_PER_SECOND) * rate)
  return {
    input_tokens: Math.ceil(characters / CHARACTERS_PER_TOKEN),
    output_tokens: output,
    audio_output_tokens: output,
  }
}

/** Length of an answer whose call sets no limit. */
const ANSWER_TOKENS = 1_000
/** Audio whose file tells neither duration nor channels. */
const UNKNOWN_AUDIO = { ...NOTHING_REPORTED, seconds: 60, channels: 2 }
const VIDEO_SECONDS = 8
/** Assumed for a message's audio, whose length is not looked up: an mp3 of 128 kbit/s. */
const AUDIO_BYTES_PER_SECOND = 16_000

/** Estimates a call at an entry. */
export function estimateOf<K extends OperationName>(entry: Entry, call: Call<K>, atMs?: number): Metered {
  const price = priceFor(entry, call)
  return meter(call, ESTIMATES[call.operation](call.payload, price ?? {}), price, atMs)
}

/** Expected cost of a call at an entry, not rounded, so that entries compare; Infinity when it is not known. */
export function expectedCost<K extends OperationName>(entry: Entry, call: Call<K>, atMs?: number): number {
  const price = priceFor(entry, call)
  return exactCost(call, ESTIMATES[call.operation](call.payload, price ?? {}), price, atMs)
}

/**
 * Highest cost of a call at an entry, at any of the prices that its size may fall under and at any tier of service that
 * may answer it; null when that is not known.
 *
 * @param parts how many equal ones its audio is heard in, each of which is charged by itself
 */
export function highestCost<K extends OperationName>(
  entry: Entry,
  call: Call<K>,
  atMs = systemClock.wallNow(),
  parts = 1,
): number | null {
  const part = parts === 1 ? call : { ...call, payload: payloadOfPart(call.payload, parts) }
  const { operation, payload } = part
  const costs = pricesOfTiers(priceOn(priceFor(entry, call) ?? {}, atMs), payload).flatMap((price) => {
    const reported = ESTIMATES[operation](payload, price)
    return pricesFor(price, reported, payload).map((one) => meterAt(part, reported, one).costUsd)
  })
  const most = costs.reduce((most, cost) => (most === null || cost === null ? null : Math.max(most, cost)))
  return most === null || parts === 1 ? most : usdOf(microsOf(most) * parts)
}

function payloadOfPart<K extends OperationName>(payload: Calls[K], parts: number): Calls[K] {
  const { audio } = payload as TranscriptionCall
  return { ...payload, audio: { ...audio, durationSeconds: (audio.durationSeconds ?? 0) / parts } }
}

/**
 * Prices of the tiers of service that may answer. Without a tier, or with `auto`, the provider takes that of the
 * account, which may be any; one that is asked for may be answered by the default one, as OpenAI answers `flex` and
 * `priority` where it lacks room. https://developers.openai.com/api/reference/resources/chat, `service_tier`
 */
function pricesOfTiers(price: PriceOfDay, payload: unknown): readonly PriceOfDay[] {
  const { by_service_tier: tiers } = price
  if (tiers === undefined) return [price]
  const asked = extraValue(payload as WithExtras, 'service_tier')
  const isAny = typeof asked !== 'string' || asked === 'auto'
  const possible = isAny ? Object.keys(tiers) : [asked]
  return [price, ...possible.map((tier) => priceForTier(price, tier))]
}

/** Prices of the estimated size, and of every larger one that the call may turn out to have. */
function pricesFor(
  price: PriceOfDay,
  reported: ReportedUsage,
  payload: unknown,
): [PriceOfDay, ...PriceOfDay[]] {
  const estimated = reported.usage?.input_tokens ?? null
  const first = priceForSize(price, estimated)
  if (price.tiers === undefined || estimated === null) return [first]
  const most = mostTokens(payload)
  const reached = price.tiers.map((tier) => tier.over_input_tokens + 1).filter((tokens) => tokens <= most)
  return [first, ...reached.map((tokens) => priceForSize(price, Math.max(tokens, estimated)))]
}

/**
 * Upper bound of the tokens of a call: one per character, since other languages take more than English. Pictures and
 * audio have no bound: each provider counts them in its own way.
 */
function mostTokens(payload: unknown): number {
  // Its bytes may be among it, whose JSON takes the loop for seconds.
  if ('audio' in (payload as object) && 'options' in (payload as object)) return Number.POSITIVE_INFINITY
  const { messages = [] } = payload as Partial<ChatCall>
  const isText = messages.every(({ parts }) => parts.every(({ type }) => type === 'text'))
  return isText ? JSON.stringify(payload).length : Number.POSITIVE_INFINITY
}

/** Usage that a provider is expected to report, judged by the call alone and by how its price counts. */
const ESTIMATES: {
  readonly [K in OperationName]: (payload: Calls[K], price: PriceOfDay) => ReportedUsage
} = {
  transcription: estimateAudio,
  translation: estimateAudio,
  speech: () => NOTHING_REPORTED,
  chat: estimateChat,
  vision: estimateChat,
  complete: (call) => estimateTokens(call.prompt.length, call),
  embeddings: ({ input }) => {
    const texts = input.filter((one) => typeof one === 'string')
    const tokens = tokensIn(input.filter((one) => typeof one !== 'string')) ?? 0
    return estimateTokens(sum(texts) + tokens * CHARACTERS_PER_TOKEN, { max_tokens: 0 })
  },
  image: ({ n }) => ({ ...NOTHING_REPORTED, images: n }),
  video: ({ duration_seconds }) => ({ ...NOTHING_REPORTED, seconds: duration_seconds ?? VIDEO_SECONDS }),
}

/** Tokens of audio and of its transcript, where the price says how many a second has. */
function estimateAudio({ audio }: TranscriptionCall, price: PriceOfDay): ReportedUsage {
  if (price.audio_tokens_per_second === undefined) return UNKNOWN_AUDIO
  const seconds = audio.durationSeconds ?? UNKNOWN_AUDIO.seconds
  const input_tokens = Math.ceil(seconds * price.audio_tokens_per_second)
  const output_tokens = Math.ceil(seconds * TEXT_TOKENS_PER_SECOND)
  const usage = { input_tokens, audio_input_tokens: input_tokens, output_tokens, audio_output_tokens: 0 }
  return { ...UNKNOWN_AUDIO, usage }
}

function estimateChat(call: ChatCall, price: PriceOfDay): ReportedUsage {
  const parts = call.messages.flatMap((message) => message.parts)
  const texts = parts.map((part) => (part.type === 'text' ? part.text : ''))
  const estimated = estimateTokens(sum(texts), call)
  const { audio_tokens_per_second: rate, per_1m_audio_input_tokens_usd: usd } = price
  if (rate === undefined || usd === undefined) return estimated
  const audio = parts.map((part) => (part.type === 'audio' ? part.base64 : ''))
  const heard = Math.ceil(((sum(audio) * 3) / 4 / AUDIO_BYTES_PER_SECOND) * rate)
  const { input_tokens: read, output_tokens: written } = estimated.usage
  // Such a model may speak its whole answer.
  const ofAudio = { audio_input_tokens: heard, audio_output_tokens: written }
  return { ...NOTHING_REPORTED, usage: { ...estimated.usage, input_tokens: read + heard, ...ofAudio } }
}

/** Every choice has an answer's tokens, at the tier of service that is asked for. */
function estimateTokens(characters: number, call: WithExtras & { readonly max_tokens: number | null }) {
  const input_tokens = Math.ceil(characters / CHARACTERS_PER_TOKEN)
  const output_tokens = (call.max_tokens ?? ANSWER_TOKENS) * choicesAsked(call)
  const asked = extraValue(call, 'service_tier')
  const tier = typeof asked === 'string' ? { service_tier: asked } : {}
  return { ...NOTHING_REPORTED, usage: { input_tokens, output_tokens, ...tier } }
}

/** How many tokens there are; null where there is a text among them. */
function tokensIn(input: readonly EmbeddingInput[]): number | null {
  let tokens = 0
  for (const one of input) {
    if (typeof one === 'string') return null
    tokens += one.length
  }
  return tokens
}

function sum(texts: readonly string[]): number {
  return texts.reduce((characters, text) => characters + text.length, 0)
}
