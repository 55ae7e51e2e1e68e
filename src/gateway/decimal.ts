/** An exact number, `digits / divisor`: prices are decimals, which sums and products of doubles drift away from. */
export interface Exact {
  readonly digits: bigint
  /** Above 0. */
  readonly divisor: bigint
}

/** Prices, which come again with every call. */
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

export function per(a: Exact, unit: number): Exact {
  return { digits: a.digits, divisor: a.divisor * BigInt(unit) }
}

/** The smallest multiple of a step that is not below the number. @param step above 0 */
export function roundedUp({ digits, divisor }: Exact, step: Exact): Exact {
  const [value, unit] = [digits * step.divisor, step.digits * divisor]
  return times({ digits: (value + unit - 1n) / unit, divisor: 1n }, step)
}

/** The nearest number with that many decimals, half of the last one upwards. */
export function rounded({ digits, divisor }: Exact, decimals: number): number {
  const scale = 10n ** BigInt(decimals)
  return Number((2n * digits * scale + divisor) / (2n * divisor)) / Number(scale)
}
