import { median } from '../harness/result.ts'

/** A figure of one server of ours, measured in the same rounds as those that it is compared with; less is better. */
export interface Figure {
  readonly name: string
  readonly unit: string
  /** By round. Empty: not measured. */
  readonly own: readonly number[]
  readonly base: readonly number[]
  readonly peer: readonly number[]
}

/** The median of the ratios of the rounds; null where the other one was not measured in each of them. */
export function ratio(own: readonly number[], other: readonly number[]): number | null {
  if (own.length === 0 || other.length !== own.length) return null
  const value = median(own.map((figure, index) => figure / (other[index] ?? Number.NaN)))
  return Number.isFinite(value) ? value : null
}

/** Three digits say all that a noisy machine knows. */
export function round(value: number): number {
  return Number(value.toPrecision(3))
}
