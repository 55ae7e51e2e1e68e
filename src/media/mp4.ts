import type { Box } from './boxes.ts'
import { boxes, readBox } from './boxes.ts'
import { lastIndexOf, latin1, u32be, u64be } from './bytes.ts'
import type { Measure } from './measure.ts'
import { UNKNOWN } from './measure.ts'
import type { SoundTrack } from './mp4-track.ts'
import { readTrack } from './mp4-track.ts'
import type { AudioWindow } from './window.ts'
import { RANGE_BYTES } from './window.ts'

/** Fragments of other tracks, and chance finds, that are passed over when the last one is looked for. */
const TRIES_MAX = 32

interface Movie {
  /** Of the edit lists. */
  readonly timescale: number
  readonly track: SoundTrack | null
  /** Ticks of a fragment's sample when the fragment does not say. */
  readonly defaultTicks: number
  /** Whether fragments may follow. */
  readonly isFragmented: boolean
}

/** Sound in one `moof`. */
interface Fragment {
  /** Ticks from the beginning of the track, or null. */
  readonly start: number | null
  readonly ticks: number
}

/**
 * Sample table of the sound track, not the headers' duration, which counts the picture too and can say
 * anything. Boxes are skipped by their size, so `moov` at the end takes two ranges. Of a fragmented file the
 * last fragment in the last 256 KiB tells the end; where none is there, all fragments are added up. ISO/IEC
 * 14496-12
 */
export async function probeMp4(window: AudioWindow): Promise<Measure> {
  let movie: Movie | null = null
  let firstStart: number | null = null
  let fragmentTicks = 0
  let fragments = 0
  for await (const box of boxes(window, 0, window.size)) {
    if (box.type === 'moov' && !movie) {
      movie = await readMovie(window, box)
      if (!movie.track) return UNKNOWN
      if (!movie.isFragmented) break
    }
    if (box.type !== 'moof' || !movie?.track) continue
    const fragment = await readFragment(window, box, movie.track, movie.defaultTicks)
    if (fragments++ === 0) firstStart = fragment.start
    const end = fragments === 1 && firstStart !== null ? await lastEnd(window, movie) : null
    if (end !== null) {
      fragmentTicks = Math.max(fragment.ticks, end - firstStart!)
      break
    }
    fragmentTicks += fragment.ticks
  }
  return movie?.track ? measure(movie.track, movie.timescale, fragmentTicks) : UNKNOWN
}

function measure(track: SoundTrack, movieTimescale: number, fragmentTicks: number): Measure {
  const { timescale, tableTicks, mediaTicks, editedTicks, channels } = track
  const whole = (tableTicks + fragmentTicks || mediaTicks) / timescale
  const edited = movieTimescale > 0 ? editedTicks / movieTimescale : 0
  // An edit list cuts what the encoder added in front; in a fragmented file it says nothing of the fragments.
  const seconds = edited > 0 && fragmentTicks === 0 ? Math.min(whole, edited) : whole
  return { channels, durationSeconds: seconds > 0 ? seconds : null }
}

async function readMovie(window: AudioWindow, moov: Box): Promise<Movie> {
  let timescale = 0
  let track: SoundTrack | null = null
  let isFragmented = false
  const defaults = new Map<number, number>()
  for await (const box of boxes(window, moov.from, moov.end)) {
    if (box.type === 'mvhd') {
      const bytes = await window.from(box.from, 24)
      timescale = u32be(bytes, bytes[0] === 1 ? 20 : 12)
    } else if (box.type === 'trak') {
      // The first one is what players and providers take.
      track ??= await readTrack(window, box)
    } else if (box.type === 'mvex') {
      isFragmented = true
      for await (const inner of boxes(window, box.from, box.end)) {
        const bytes = await window.from(inner.from, 16)
        if (inner.type === 'trex') defaults.set(u32be(bytes, 4), u32be(bytes, 12))
      }
    }
  }
  return { timescale, track, isFragmented, defaultTicks: defaults.get(track?.id ?? -1) ?? 0 }
}

/**
 * Ticks from the beginning to the end of the last fragment in the last range; null when none is to be found
 * there.
 */
async function lastEnd(window: AudioWindow, movie: Movie): Promise<number | null> {
  if (!window.seekable || window.size <= RANGE_BYTES) return null
  const { start: tailAt, bytes } = await window.tail()
  let found = bytes.length
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    found = lastIndexOf(bytes, 'moof', found - 1)
    if (found < 4) return null
    const moof = readBox(bytes.subarray(found - 4), tailAt + found - 4, window.size)
    if (!moof || latin1(bytes, found + 8, 4) !== 'mfhd') continue
    const { start, ticks } = await readFragment(window, moof, movie.track!, movie.defaultTicks)
    if (start !== null && ticks > 0) return start + ticks
  }
  return null
}

async function readFragment(
  window: AudioWindow,
  moof: Box,
  track: SoundTrack,
  defaultTicks: number,
): Promise<Fragment> {
  let start: number | null = null
  let ticks = 0
  for await (const traf of boxes(window, moof.from, moof.end)) {
    if (traf.type !== 'traf') continue
    let isOurs = false
    let sampleTicks = defaultTicks
    for await (const box of boxes(window, traf.from, traf.end)) {
      const bytes = await window.from(box.from, 32)
      if (box.type === 'tfhd') {
        isOurs = u32be(bytes, 4) === track.id
        sampleTicks = fragmentDefault(bytes) ?? defaultTicks
      } else if (box.type === 'tfdt' && isOurs) {
        start ??= bytes[0] === 1 ? u64be(bytes, 4) : u32be(bytes, 4)
      } else if (box.type === 'trun' && isOurs) {
        ticks += await runTicks(window, box, sampleTicks)
      }
    }
  }
  return { start, ticks }
}

/** `default_sample_duration` of a `tfhd`, behind two fields that may be there or not (section 8.8.7). */
function fragmentDefault(bytes: Uint8Array): number | null {
  const flags = u32be(bytes, 0)
  if ((flags & 0x08) === 0) return null
  return u32be(bytes, 8 + (flags & 0x01 ? 8 : 0) + (flags & 0x02 ? 4 : 0))
}

/** Ticks of one `trun`: per sample when it lists them, else by the default (section 8.8.8). */
async function runTicks(window: AudioWindow, trun: Box, sampleTicks: number): Promise<number> {
  const bytes = await window.from(trun.from, 8)
  const flags = u32be(bytes, 0)
  const count = u32be(bytes, 4)
  if ((flags & 0x100) === 0) return count * sampleTicks
  const entryBytes = 4 * [0x100, 0x200, 0x400, 0x800].filter((flag) => (flags & flag) !== 0).length
  let at = trun.from + 8 + (flags & 0x01 ? 4 : 0) + (flags & 0x04 ? 4 : 0)
  const end = Math.min(trun.end, at + count * entryBytes)
  let ticks = 0
  while (at + entryBytes <= end) {
    const entries = (await window.from(at, entryBytes)).subarray(0, end - at)
    if (entries.length < entryBytes) break
    let index = 0
    for (; index + entryBytes <= entries.length; index += entryBytes) ticks += u32be(entries, index)
    at += index
  }
  return ticks
}
