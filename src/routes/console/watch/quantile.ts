/** By nearest rank; of nothing it is 0. @param sorted ascending */
export function quantile(sorted: Float64Array, share: number): number {
  const at = Math.max(0, Math.ceil(sorted.length * share) - 1)
  return sorted[at] ?? 0
}
