import { type Exact, exact, per, plus, rounded, times } from './decimal.ts'

/** One thing that is charged. */
export interface Term {
  /** For `unit` of it; undefined: this price does not charge it. */
  readonly usd: number | undefined
  readonly unit: number
  /** How many of it there were; null: not known. */
  readonly quantity: Exact | number | null
}

/** What the terms come to, USD with at most 6 decimals; or what is missing for it. */
export type Cost = { readonly usd: number } | { readonly unknown: 'price' | 'measure' }

/**
 * The sum of what is charged, exact until the one rounding at its end. What a price does not charge costs nothing, but
 * one of the terms it has to charge; what is charged nothing for need not be known.
 */
export function costOf(terms: readonly Term[]): Cost {
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
  return priced ? { usd: rounded(sum, 6) } : { unknown: 'price' }
}
