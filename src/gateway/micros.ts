/** USD with at most 6 decimals, as costs are told, in whole micro-USD. */
export function microsOf(usd: number): number {
  return Math.round(usd * 1_000_000)
}

export function usdOf(micros: number): number {
  return micros / 1_000_000
}
