import type { Audio } from '../../../contracts/audio.ts'
import type { CutPlan, PartLimits } from '../../../contracts/parts.ts'

/** Length of a part where nothing demands shorter ones: what is long is heard side by side. */
const PART_SECONDS = 600
/** A part is cut within so many seconds around the length that is aimed at. */
const WINDOW_SECONDS_MAX = 20
const WINDOW_SHARE = 1 / 8
/** Length that two parts have in common at a cut within speech, on each side of it. */
const OVERLAP_SECONDS = 2
/** Parts shorter than this are not worth hearing, and more than these not worth keeping. */
const PART_SECONDS_MIN = 8
const PARTS_MAX = 2000
/** Room for what a provider counts otherwise, and for heads and forms around the sound. */
const SHARE_OF_SECONDS = 0.995
const SHARE_OF_BYTES = 0.97

/**
 * Plans parts of equal length that keep to the limits.
 *
 * @returns null when there are none, or the parts would be too short or too many
 */
export function planCut({ durationSeconds, decodedBytes }: Audio, limits: PartLimits): CutPlan | null {
  const maxSeconds =
    limits.maxSeconds === null ? Number.POSITIVE_INFINITY : limits.maxSeconds * SHARE_OF_SECONDS
  const maxBytes =
    limits.maxBytes === null ? Number.POSITIVE_INFINITY : Math.floor(limits.maxBytes * SHARE_OF_BYTES)
  const bytesPerSecond = durationSeconds === null ? 0 : decodedBytes / durationSeconds
  const secondsOfBytes = bytesPerSecond > 0 ? maxBytes / bytesPerSecond : Number.POSITIVE_INFINITY
  // The part is longer than it is aimed at by the window and by what it has in common with its neighbours.
  const room = (Math.min(maxSeconds, secondsOfBytes) - 2 * OVERLAP_SECONDS) / (1 + WINDOW_SHARE)
  const longest = Math.min(PART_SECONDS, room)
  if (longest < PART_SECONDS_MIN) return null
  const count = durationSeconds === null ? null : Math.max(1, Math.ceil(durationSeconds / longest))
  if (count !== null && count > PARTS_MAX) return null
  const targetSeconds = count === null ? longest : durationSeconds! / count
  return {
    targetSeconds,
    windowSeconds: Math.min(WINDOW_SECONDS_MAX, targetSeconds * WINDOW_SHARE),
    overlapSeconds: OVERLAP_SECONDS,
    maxSeconds,
    maxBytes,
    count,
    durationSeconds,
    skipsSilence: false,
    isOptional: false,
  }
}

/** Whether audio keeps to limits as it is, as far as is known. */
export function keepsTo(
  { durationSeconds, decodedBytes }: Audio,
  { maxBytes, maxSeconds }: PartLimits,
): boolean {
  return decodedBytes <= (maxBytes ?? Infinity) && (durationSeconds ?? 0) <= (maxSeconds ?? Infinity)
}

/** Plans one part, which is all of the audio. */
export function planWhole({ durationSeconds }: Audio, skipsSilence: boolean): CutPlan {
  return {
    targetSeconds: Number.POSITIVE_INFINITY,
    windowSeconds: 0,
    overlapSeconds: OVERLAP_SECONDS,
    maxSeconds: Number.POSITIVE_INFINITY,
    maxBytes: Number.POSITIVE_INFINITY,
    count: 1,
    durationSeconds,
    skipsSilence,
    isOptional: true,
  }
}
