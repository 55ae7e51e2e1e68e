/** Largest amount that is taken, USD: its micro-USD are far from what a double counts exactly. */
const MOST_USD = 1_000_000_000
const AMOUNT = /^(-?)(\d{1,10})(?:\.(\d{1,6}))?$/

/**
 * Micro-USD of an amount as it is written, e.g. `-12.5`: digit by digit, since a product of doubles may be off.
 *
 * @returns null for what is no decimal number, has more than 6 decimals, or is beyond a thousand million USD
 */
export function parseUsd(text: string): number | null {
  const [, sign = '', whole = '', decimals = ''] = AMOUNT.exec(text) ?? []
  if (whole === '') return null
  const micros = Number(whole + decimals.padEnd(6, '0'))
  if (micros > MOST_USD * 1_000_000) return null
  return sign === '-' && micros > 0 ? -micros : micros
}

/** Micro-USD as an amount of USD with at least cents: 1500000 is `1.50`, 1 is `0.000001`. @param micros whole */
export function formatUsd(micros: number): string {
  const digits = String(Math.abs(micros)).padStart(7, '0')
  const decimals = digits.slice(-6).replace(/0{1,4}$/, '')
  return `${micros < 0 ? '-' : ''}${digits.slice(0, -6)}.${decimals}`
}
