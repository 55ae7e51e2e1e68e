import type { Price } from '../../../contracts/facts.ts'

/** A price on one day, with the parts that its periods replace. */
export type PriceOfDay = Omit<Price, 'periods'>

/** The price on a day in UTC. */
export function priceOn(price: Price, atMs: number): PriceOfDay {
  if (price.periods === undefined) return price
  const { periods, ...always } = price
  const day = new Date(atMs).toISOString().slice(0, 10)
  const parts = periods
    .filter(({ from = day, until = day }) => from <= day && day <= until)
    .map(({ from: _from, until: _until, ...others }) => others)
  return Object.assign({}, always, ...parts)
}

/** The price of an answer by a tier of service; undefined: the provider names none. */
export function priceForTier(price: PriceOfDay, tier: string | undefined): PriceOfDay {
  const { by_service_tier: byTier, tiers: sizes } = price
  if (byTier === undefined || tier === undefined || !Object.hasOwn(byTier, tier)) return price
  const own = byTier[tier]!
  if (sizes === undefined || own.tiers !== undefined) return { ...price, ...own }
  return { ...price, ...own, tiers: sizes.map((size) => sizeOfTier(size, price, own)) }
}

/** A price by size as the tier has it: each part changes as the tier changes that part of the model's price. */
function sizeOfTier<Size extends object>(size: Size, price: object, own: object): Size {
  const part = (of: object, name: string) => (of as Readonly<Record<string, number | undefined>>)[name]
  const parts = Object.entries(size as Readonly<Record<string, number>>).map(([name, usd]) => {
    const [from, to] = [part(price, name), part(own, name)]
    if (!from || to === undefined) return [name, usd]
    return [name, rounded(over(times(exact(usd), exact(to)), exact(from)), PRICE_DECIMALS)]
  })
  return Object.fromEntries(parts)
}

/** How the languages of a recording are asked for; null: they are detected, or not spoken of. */
export type LanguageCase = 'one' | 'several' | null

/** Prices by the case of their languages: each entry has the same ones call after call. */
const byLanguage = new WeakMap<Price, Map<LanguageCase, Price>>()

/** The price of a call that asks for languages so, on every day. */
export function priceForLanguages(price: Price, languages: LanguageCase): Price {
  if (languages === null) return price
  const made = byLanguage.get(price) ?? new Map<LanguageCase, Price>()
  byLanguage.set(price, made)
  const known = made.get(languages)
  if (known !== undefined) return known
  const { by_language: cases, periods, ...parts } = price
  const own = cases?.[languages]
  const resolved: Price = {
    ...parts,
    ...own,
    ...(periods === undefined ? {} : { periods: periods.map((period) => ({ ...period, ...own })) }),
  }
  made.set(languages, resolved)
  return resolved
}

/** The price of a call of so many input tokens; null: unknown. */
export function priceForSize(price: PriceOfDay, inputTokens: number | null): PriceOfDay {
  const tier =
    inputTokens === null ? undefined : price.tiers?.findLast((one) => inputTokens > one.over_input_tokens)
  if (tier === undefined) return price
  const { over_input_tokens: _over, ...parts } = tier
  return { ...price, ...parts }
}

/** One item of a cost. */
export interface Term {
  /** Price of `unit`; undefined: this price does not charge the item. */
  readonly usd: number | undefined
  readonly unit: number
  /** Null: not known. */
  readonly quantity: Exact | number | null
}

/** Decimals of whole micro-USD, and of a price that follows from others. */
const DECIMALS = 6
const PRICE_DECIMALS = 12
const LEAST_USD = 0.000001

/** Sum of terms in USD, or the reason why it is not known. */
type Cost = { readonly usd: number } | { readonly unknown: 'price' | 'measure' }

/**
 * Sums terms exactly, and rounds once at the end: to the nearest micro-USD, but never down to nothing, since calls
 * below half a micro-USD, such as the embedding of a few words, would be free however many there are. An item that the
 * price does not charge costs nothing, but at least one has to be charged; an item at a price of 0 may have an unknown
 * quantity.
 */
export function costOf(terms: readonly Term[]): Cost {
  const micros = smallCostOf(terms)
  if (micros !== null) return { usd: usdOf(micros) }
  const sum = sumOf(terms)
  if (!('digits' in sum)) return sum
  return { usd: sum.digits === 0n ? 0 : Math.max(LEAST_USD, rounded(sum, DECIMALS)) }
}

/** The same without rounding, so that small costs can be compared. */
export function exactCostOf(terms: readonly Term[]): Cost {
  const sum = sumOf(terms)
  return 'digits' in sum ? { usd: Number(sum.digits) / Number(sum.divisor) } : sum
}

/**
 * The same in micro-USD, by whole numbers below 2^53, which doubles hold exactly: true of nearly every call, and
 * without a bigint for each factor. Null: not so, or not known.
 */
function smallCostOf(terms: readonly Term[]): number | null {
  let divisor = 1
  for (const { usd, unit } of terms)
    if (usd !== undefined) divisor = Math.max(divisor, decimal(usd).divisor * unit)
  let sum = 0
  let priced = false
  for (const { usd, unit, quantity } of terms) {
    if (usd === undefined) continue
    priced = true
    if (usd === 0) continue
    if (typeof quantity !== 'number' || !Number.isSafeInteger(quantity)) return null
    const { digits, divisor: own } = decimal(usd)
    const scale = divisor / (own * unit)
    if (!Number.isInteger(scale)) return null
    sum += digits * quantity * scale
  }
  const doubled = 2 * sum * 10 ** DECIMALS + divisor
  // A number of 2^53 or more may have been rounded on the way, but never to less than 2^53.
  if (!priced || sum < 0 || !Number.isSafeInteger(doubled) || !Number.isSafeInteger(divisor)) return null
  const micros = (doubled - (doubled % (2 * divisor))) / (2 * divisor)
  return sum === 0 ? 0 : Math.max(1, micros)
}

/** A price as digits over a power of ten. */
interface Decimal {
  readonly digits: number
  readonly divisor: number
}

const decimals = new Map<number, Decimal>()

function decimal(value: number): Decimal {
  const cached = decimals.get(value)
  if (cached !== undefined) return cached
  const { digits, divisor } = exact(value)
  const made = { digits: Number(digits), divisor: Number(divisor) }
  if (decimals.size < KNOWN_MAX) decimals.set(value, made)
  return made
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
    const { digits, divisor } = times(amount, exact(usd))
    sum = plus(sum, { digits, divisor: divisor * BigInt(unit) })
  }
  return priced ? sum : { unknown: 'price' }
}

/** An exact number, `digits / divisor`: sums and products of decimal prices would drift as doubles. */
export interface Exact {
  readonly digits: bigint
  /** Above 0. */
  readonly divisor: bigint
}

/** Parsed prices: each of them comes again with every call. */
const known = new Map<number, Exact>()
const KNOWN_MAX = 1_000

/** The number as it is written: 0.05 is five hundredths. @param value finite and not negative */
export function exact(value: number): Exact {
  if (Number.isSafeInteger(value) && value >= 0) return { digits: BigInt(value), divisor: 1n }
  const cached = known.get(value)
  if (cached !== undefined) return cached
  const parsed = parse(value)
  if (known.size < KNOWN_MAX) known.set(value, parsed)
  return parsed
}

function parse(value: number): Exact {
  const [, whole = '', fraction = '', exponent = '0'] =
    /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(`${value}`) ?? []
  if (whole === '') throw new RangeError(`${value} is no amount`)
  const scale = fraction.length - Number(exponent)
  const digits = BigInt(whole + fraction)
  return scale >= 0
    ? { digits, divisor: 10n ** BigInt(scale) }
    : { digits: digits * 10n ** BigInt(-scale), divisor: 1n }
}

export function plus(a: Exact, b: Exact): Exact {
  return { digits: a.digits * b.divisor + b.digits * a.divisor, divisor: a.divisor * b.divisor }
}

export function times(a: Exact, b: Exact): Exact {
  return { digits: a.digits * b.digits, divisor: a.divisor * b.divisor }
}

/** @param b above 0 */
function over(a: Exact, b: Exact): Exact {
  return { digits: a.digits * b.divisor, divisor: a.divisor * b.digits }
}

/** The smallest multiple of a step that is not below the number. @param step above 0 */
export function roundedUp(number: Exact, step: Exact): Exact {
  const { digits, divisor } = over(number, step)
  return times({ digits: (digits + divisor - 1n) / divisor, divisor: 1n }, step)
}

/** The nearest number with that many decimals, half of the last one upwards. */
export function rounded({ digits, divisor }: Exact, decimals: number): number {
  const scale = 10n ** BigInt(decimals)
  return Number((2n * digits * scale + divisor) / (2n * divisor)) / Number(scale)
}

/** Converts USD with at most 6 decimals to whole micro-USD. */
export function microsOf(usd: number): number {
  return Math.round(usd * 1_000_000)
}

export function usdOf(micros: number): number {
  return micros / 1_000_000
}
