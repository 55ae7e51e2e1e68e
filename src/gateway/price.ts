import type { Price } from '../schema/facts.ts'
import { type Exact, exact, per, plus, rounded, times } from './decimal.ts'

/** Parts of a price on one day: the ones that its periods set in place of its own. */
export type PriceOfDay = Omit<Price, 'periods'>

/** The price on a day. Days are those of UTC. */
export function priceOn(price: Price, atMs: number): PriceOfDay {
  const { periods, ...always } = price
  if (periods === undefined) return price
  const day = new Date(atMs).toISOString().slice(0, 10)
  const parts = periods
    .filter(({ from = day, until = day }) => from <= day && day <= until)
    .map(({ from: _from, until: _until, ...others }) => others)
  return Object.assign({}, always, ...parts)
}

/** The price of a call that so many tokens go into; null: nobody knows how many. */
export function priceForSize(price: PriceOfDay, inputTokens: number | null): PriceOfDay {
  const tier =
    inputTokens === null ? undefined : price.tiers?.findLast((one) => inputTokens > one.over_input_tokens)
  if (tier === undefined) return price
  const { over_input_tokens: _over, ...parts } = tier
  return { ...price, ...parts }
}

/** One thing that is charged. */
export interface Term {
  /** For `unit` of it; undefined: this price does not charge it. */
  readonly usd: number | undefined
  readonly unit: number
  /** How many of it there were; null: not known. */
  readonly quantity: Exact | number | null
}

/** Decimals of an amount: whole micro-USD. */
const DECIMALS = 6
const LEAST_USD = 0.000001

/** Sum of the terms in USD, or the reason why there is none. */
export type Cost = { readonly usd: number } | { readonly unknown: 'price' | 'measure' }

/**
 * The sum of what is charged, exact until the one rounding at its end: to the nearest micro-USD, and never down to
 * nothing, since calls below half a micro-USD, such as the embedding of a few words, would be free however many there
 * are. What a price does not charge costs nothing, but one of the terms it has to charge; what is charged nothing for
 * need not be known.
 */
export function costOf(terms: readonly Term[]): Cost {
  const sum = sumOf(terms)
  if (!('digits' in sum)) return sum
  return { usd: sum.digits === 0n ? 0 : Math.max(LEAST_USD, rounded(sum, DECIMALS)) }
}

/** The same without rounding to what can be booked, so that small costs can be compared. */
export function exactCostOf(terms: readonly Term[]): Cost {
  const sum = sumOf(terms)
  return 'digits' in sum ? { usd: Number(sum.digits) / Number(sum.divisor) } : sum
}

function sumOf(terms: readonly Term[]): Exact | Exclude<Cost, { readonly usd: number }> {
  let sum = exact(0)
  let priced = false
  for (const { usd, unit, quantity } of terms) {
    if (usd === undefined) continue
    priced = true
    if (usd === 0) continue
    if (quantity === null) return { unknown: 'measure' }
    const amount = typeof quantity === 'number' ? exact(quantity) : quantity
    sum = plus(sum, per(times(amount, exact(usd)), unit))
  }
  return priced ? sum : { unknown: 'price' }
}
