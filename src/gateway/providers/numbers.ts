import { toMilliseconds } from '../../contracts/seconds.ts'

/**
 * Amount of something, credits for instance, as a provider reports it; null when it is no such number. Beyond the safe
 * integers nothing is measured, and 1e308 seconds are infinitely many milliseconds.
 */
export function quantityOf(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER ? value : null
}

/** Seconds as a provider reports them, to the millisecond; null when they are none. */
export function secondsOf(value: unknown): number | null {
  const seconds = quantityOf(value)
  return seconds === null ? null : toMilliseconds(seconds)
}

/** Fraction between 0 and 1, a confidence for instance, to four decimals; null when it is none. */
export function fractionOf(value: unknown): number | null {
  if (typeof value !== 'number' || !(value >= 0 && value <= 1)) return null
  return Math.round(value * 10_000) / 10_000
}

/** Span of time in which something was said; null when either end is missing. */
export function spanOf(
  start: unknown,
  end: unknown,
): { readonly start: number; readonly end: number } | null {
  const [from, to] = [secondsOf(start), secondsOf(end)]
  return from === null || to === null ? null : { start: from, end: Math.max(from, to) }
}
