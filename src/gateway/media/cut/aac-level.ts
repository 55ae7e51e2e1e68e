import { bitsAt, GAIN_DB, LINE_BIT_DB, NO_SOUND } from './sound.ts'

/** Lines of the spectrum of a block. */
const LINES = 1024
const SINGLE = 0
const PAIR = 1
const SHORT_WINDOWS = 2

/**
 * Loudness of a block of AAC-LC, the core of HE-AAC too, by the gain of its first channel and its size; null: it begins
 * with something else (ISO/IEC 14496-3, 4.4.2).
 */
export function aacLevel(bytes: Uint8Array): number | null {
  const kind = bitsAt(bytes, 0, 3)
  if (kind === SINGLE) return level(bytes, 7, null, 1)
  if (kind !== PAIR) return null
  const isCommon = bitsAt(bytes, 7, 1) === 1
  if (!isCommon) return level(bytes, 8, null, 2)
  const info = windowInfo(bytes, 8)
  const mask = bitsAt(bytes, info.end, 2)
  const maskBits = mask === 1 ? info.bands * info.groups : 0
  return level(bytes, info.end + 2 + maskBits, info.bands, 2)
}

/** @param bands of both channels; null: they follow on the gain */
function level(bytes: Uint8Array, at: number, bands: number | null, channels: number): number {
  const most = bands ?? windowInfo(bytes, at + 8).bands
  if (most === 0) return NO_SOUND
  return (bitsAt(bytes, at, 8) - 200) * GAIN_DB + ((bytes.length * 8) / channels / LINES) * LINE_BIT_DB
}

function windowInfo(bytes: Uint8Array, at: number): { bands: number; groups: number; end: number } {
  if (bitsAt(bytes, at + 1, 2) !== SHORT_WINDOWS)
    return { bands: bitsAt(bytes, at + 4, 6), groups: 1, end: at + 11 }
  // A bit that is not set begins another group of the eight windows.
  const grouping = bitsAt(bytes, at + 8, 7)
  let groups = 1
  for (let bit = 0; bit < 7; bit += 1) groups += ((grouping >>> bit) & 1) === 0 ? 1 : 0
  return { bands: bitsAt(bytes, at + 4, 4), groups, end: at + 15 }
}
