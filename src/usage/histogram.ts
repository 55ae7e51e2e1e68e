/**
 * Buckets of a latency. Milliseconds up to 15 have a bucket each, and every octave above has eight: a bucket is at most
 * an eighth of its lower bound wide, and merging adds counts, so that percentiles of a sum are those of the whole to
 * 6.25 %, whatever was merged in whatever order. A number of a bucket fits a byte.
 */
export const BUCKETS = 240

const EXACT = 16
const PER_OCTAVE_BITS = 3
/** About 49 days; what takes longer counts as that. */
const MS_MAX = 2 ** 32 - 1

/** @param ms whole milliseconds; less than none counts as none */
export function bucketOf(ms: number): number {
  if (!(ms >= EXACT)) return ms > 0 ? Math.floor(ms) : 0
  const whole = ms >= MS_MAX ? MS_MAX : Math.floor(ms)
  const shift = 28 - Math.clz32(whole)
  return (shift << PER_OCTAVE_BITS) + (whole >>> shift)
}

/** Milliseconds in the middle of a bucket. */
export function middleOf(bucket: number): number {
  if (bucket < EXACT) return bucket
  const shift = (bucket >> PER_OCTAVE_BITS) - 1
  const least = ((bucket & 7) + 8) * 2 ** shift
  return Math.round(least + (2 ** shift - 1) / 2)
}

/**
 * Nearest-rank percentile of counts by bucket.
 *
 * @param share above 0, at most 1
 * @returns milliseconds; null without a count
 */
export function percentile(counts: ArrayLike<number>, from: number, share: number): number | null {
  let total = 0
  for (let bucket = 0; bucket < BUCKETS; bucket += 1) total += counts[from + bucket]!
  if (total === 0) return null
  let rest = Math.max(1, Math.ceil(total * share))
  for (let bucket = 0; bucket < BUCKETS; bucket += 1) {
    rest -= counts[from + bucket]!
    if (rest <= 0) return middleOf(bucket)
  }
  return null
}
