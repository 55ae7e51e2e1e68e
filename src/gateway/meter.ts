import { requiredFeatures } from '../providers/transcript-needs.ts'
import type { Feature, TranscriptionCall } from '../schema/calls.ts'
import type { Price } from '../schema/facts.ts'
import type { Calls, OperationName, Results } from '../schema/operations.ts'
import type { TokenUsage } from '../schema/usage.ts'
import { countCharacters } from './characters.ts'
import { type Exact, exact, plus, rounded, roundedUp, times } from './decimal.ts'
import { costOf, exactCostOf, type PriceOfDay, priceForSize, priceOn, type Term } from './price.ts'

/** Metering values of an answer, in wire names. */
export type Usage = Readonly<Record<string, number | null>>

export interface Metered {
  readonly usage: Usage
  /** At most 6 decimals; null when the price or the measure is unknown. */
  readonly costUsd: number | null
  readonly warnings: readonly string[]
}

/** What the provider says of an answer that is metered; null: it does not. */
export interface Told {
  readonly seconds: number | null
  /** Of audio whose file does not tell them. */
  readonly channels: number | null
  readonly usage: TokenUsage | null
  readonly images: number | null
  readonly credits: number | null
}

/** Of an answer that nobody has, or not yet. */
export const NOTHING_TOLD: Told = Object.freeze({
  seconds: null,
  channels: null,
  usage: null,
  images: null,
  credits: null,
})

export function toldBy(result: Results[OperationName]): Told {
  if ('durationSeconds' in result) return { ...NOTHING_TOLD, seconds: measure(result.durationSeconds) }
  if ('videos' in result) {
    return { ...NOTHING_TOLD, seconds: measure(result.seconds), credits: measure(result.credits) }
  }
  if (!('usage' in result) || result.usage === null) return { ...NOTHING_TOLD, images: imagesOf(result) }
  const { input_tokens: input, output_tokens: output } = result.usage
  const usage = { input_tokens: measure(input), output_tokens: measure(output) }
  return { ...NOTHING_TOLD, usage, images: imagesOf(result) }
}

function imagesOf(result: Results[OperationName]): number | null {
  return 'images' in result ? result.images.length : null
}

/** A provider's figure, unless it cannot be one. */
function measure(figure: number | null): number | null {
  return figure !== null && Number.isFinite(figure) && figure >= 0 ? figure : null
}

/**
 * Meters a call and prices it.
 *
 * @param atMs epoch milliseconds of the call, for prices that change
 */
export function meter<K extends OperationName>(
  operation: K,
  payload: Calls[K],
  told: Told,
  price: Price | null,
  atMs = Date.now(),
): Metered {
  return meterAt(operation, payload, told, priceForSize(priceOn(price ?? {}, atMs), inputTokensOf(told)))
}

/** Meters a call at a price that is settled. */
export function meterAt<K extends OperationName>(
  operation: K,
  payload: Calls[K],
  told: Told,
  price: PriceOfDay,
): Metered {
  const { usage, terms, warnings } = METERS[operation](payload, told, price)
  const cost = costOf(terms)
  if ('usd' in cost) return { usage, costUsd: cost.usd, warnings }
  const missing =
    cost.unknown === 'price'
      ? 'cost_usd: the price of this model is not known'
      : 'cost_usd: how much there was of what the provider charges for is not known'
  return { usage, costUsd: null, warnings: [...warnings, missing] }
}

/** Cost of a call, not rounded; Infinity when it is not known. */
export function exactCost<K extends OperationName>(
  operation: K,
  payload: Calls[K],
  told: Told,
  price: Price | null,
  atMs = Date.now(),
): number {
  const settled = priceForSize(priceOn(price ?? {}, atMs), inputTokensOf(told))
  const cost = exactCostOf(METERS[operation](payload, told, settled).terms)
  return 'usd' in cost ? cost.usd : Number.POSITIVE_INFINITY
}

function inputTokensOf({ usage }: Told): number | null {
  return usage?.input_tokens ?? null
}

interface Measured {
  readonly usage: Usage
  readonly terms: readonly Term[]
  readonly warnings: readonly string[]
}

const METERS: {
  readonly [K in OperationName]: (payload: Calls[K], told: Told, price: PriceOfDay) => Measured
} = {
  transcription: meterAudio,
  translation: meterAudio,
  // Characters are Unicode code points of the input.
  speech({ input }, _told, { per_1k_characters_usd: usd }) {
    const quantity = countCharacters(input)
    const usage = { audio_output_characters: quantity, total_tokens: 0 }
    return { usage, terms: [{ usd, unit: 1000, quantity }], warnings: [] }
  },
  chat: meterTokens,
  vision: meterTokens,
  complete: meterTokens,
  embeddings(_payload, { usage }, price) {
    const input_tokens = usage?.input_tokens ?? null
    const [input] = tokenTerms(usage, price)
    return {
      usage: { input_tokens, total_tokens: input_tokens },
      terms: [input],
      warnings: input_tokens === null ? [TOKENS_UNKNOWN] : [],
    }
  },
  image(_payload, { usage, images }, price) {
    // Images are what is metered; tokens are told by some providers beside them.
    const tokens = usage === null ? { total_tokens: 0 } : { ...usage, total_tokens: totalOf(usage) }
    const perImage = { usd: price.per_image_usd, unit: 1, quantity: images }
    return { usage: { images, ...tokens }, terms: [perImage, ...tokenTerms(usage, price)], warnings: [] }
  },
  video(_payload, { seconds, credits }, price) {
    const perSecond = { usd: price.per_video_second_usd, unit: 1, quantity: measured(seconds) }
    const perCredit = { usd: price.per_credit_usd, unit: 1, quantity: credits }
    // What the provider says that it charged is all of it.
    const charged = credits !== null && perCredit.usd !== undefined ? [perCredit] : []
    return {
      usage: {
        video_seconds: roundedSeconds(measured(seconds)),
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
 * Seconds are read from the file, whatever the provider reports; only where the file does not tell, the provider's
 * figure stands in, with a warning.
 */
function meterAudio(call: TranscriptionCall, told: Told, price: PriceOfDay): Measured {
  const { durationSeconds } = call.audio
  const channels = call.audio.channels ?? told.channels
  const seconds = measure(durationSeconds ?? told.seconds)
  const heard = chargedAudio(call, seconds, channels, price)
  const features = requiredFeatures(call.options)
  const charged = heard === null ? null : times(heard, factorOf(features, price))
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
      audio_seconds: roundedSeconds(measured(seconds)),
      billable_audio_seconds: roundedSeconds(charged),
      total_tokens: 0,
    },
    terms: [
      { usd: price.per_hour_usd, unit: 3600, quantity: charged },
      ...[...features].map((name) => ({
        usd: price.add_ons_per_hour_usd?.[name],
        unit: 3600,
        quantity: heard,
      })),
    ],
    warnings,
  }
}

/** Seconds that the provider charges: no less than its minimum, in its steps, and of each channel. */
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
  const long = exact(Math.max(seconds, least))
  const { billing_increment_seconds: step } = price
  return times(step === undefined ? long : roundedUp(long, exact(step)), exact(charged))
}

/** Factor by which the features of a call multiply the charged seconds. */
function factorOf(features: Iterable<Feature>, { surcharges = {} }: PriceOfDay): Exact {
  let factor = exact(1)
  for (const feature of features) factor = plus(factor, exact(surcharges[feature] ?? 0))
  return factor
}

const TOKENS_UNKNOWN = 'usage.total_tokens: the provider does not say how many tokens it counted'

function meterTokens(_payload: unknown, { usage }: Told, price: PriceOfDay): Measured {
  const { input_tokens = null, output_tokens = null } = usage ?? {}
  const total_tokens = usage === null ? null : totalOf(usage)
  return {
    usage: { input_tokens, output_tokens, total_tokens },
    terms: tokenTerms(usage, price),
    warnings: total_tokens === null ? [TOKENS_UNKNOWN] : [],
  }
}

function tokenTerms(usage: TokenUsage | null, price: PriceOfDay): readonly [input: Term, output: Term] {
  const unit = 1_000_000
  const { input_tokens = null, output_tokens = null } = usage ?? {}
  return [
    { usd: price.per_1m_input_tokens_usd, unit, quantity: input_tokens },
    { usd: price.per_1m_output_tokens_usd, unit, quantity: output_tokens },
  ]
}

function totalOf({ input_tokens: input, output_tokens: output }: TokenUsage): number | null {
  return input === null || output === null ? null : input + output
}

function measured(seconds: number | null): Exact | null {
  return seconds === null ? null : exact(seconds)
}

function roundedSeconds(seconds: Exact | null): number | null {
  return seconds === null ? null : rounded(seconds, 3)
}
