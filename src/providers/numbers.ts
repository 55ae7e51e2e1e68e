/** So much of something, seconds for instance, as a provider says; null when it is no such number. */
export function quantityOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null
}

/** A part of one, a confidence for instance, to four decimals; null when it is none. */
export function fractionOf(value: unknown): number | null {
  if (typeof value !== 'number' || !(value >= 0 && value <= 1)) return null
  return Math.round(value * 10_000) / 10_000
}

/** When something was said; null when either end is missing. */
export function spanOf(
  start: unknown,
  end: unknown,
): { readonly start: number; readonly end: number } | null {
  const [from, to] = [quantityOf(start), quantityOf(end)]
  return from === null || to === null ? null : { start: from, end: Math.max(from, to) }
}
