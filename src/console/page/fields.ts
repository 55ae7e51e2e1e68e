/** Bounds of the server. A test compares them. */
export const KEY_NAME_MAX = 1024
export const REQUESTS_PER_MINUTE_MAX = 100_000_000
export const UNITS_PER_MINUTE_MAX = 1_000_000_000
export const BURST_MAX = 100_000

/** Message for an amount that cannot be read. */
export const AMOUNT = 'Enter an amount in USD, such as 25 or 12.50.'

/** Reads USD as typed: a number, undefined if empty, null if it is not an amount. */
export function readUsd(text: string): number | undefined | null {
  const trimmed = text.trim().replace(/^\$/, '')
  if (trimmed === '') return undefined
  return /^\d{1,9}(\.\d{1,6})?$/.test(trimmed) ? Number(trimmed) : null
}

/** Reads a whole number as typed: undefined if empty, null if it is none from `least` to `most`. */
export function readWhole(text: string, most: number, least = 1): number | undefined | null {
  const trimmed = text.trim()
  if (trimmed === '') return undefined
  const whole = /^\d{1,12}$/.test(trimmed) ? Number(trimmed) : Number.NaN
  return whole >= least && whole <= most ? whole : null
}
