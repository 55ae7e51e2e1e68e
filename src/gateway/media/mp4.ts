import { indexOf, lastIndexOf, latin1, u16be, u32be, u64be } from './bytes.ts'
import { type Measure, UNKNOWN } from './measure.ts'
import { type AudioWindow, RANGE_BYTES } from './window.ts'

/** Fragments of other tracks, and chance finds, that are passed over when the last one is looked for. */
const TRIES_MAX = 32

interface Movie {
  /** Timescale of the edit lists. */
  readonly timescale: number
  readonly track: Readonly<Track> | null
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
 * Sample table of the sound track, not the headers' duration, which counts the picture too and can say anything.
 * Boxes are skipped by their size, so `moov` at the end takes two ranges. Of a fragmented file the last fragment in
 * the last 256 KiB tells the end; where none is there, all fragments are added up. ISO/IEC 14496-12
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

function measure(track: Readonly<Track>, movieTimescale: number, fragmentTicks: number): Measure {
  const { timescale, tableTicks, mediaTicks, editedTicks, channels, samples, sampleSeconds } = track
  const declared = (tableTicks + fragmentTicks || mediaTicks) / timescale
  const whole = Math.max(declared, samples * sampleSeconds)
  const edited = movieTimescale > 0 ? editedTicks / movieTimescale : 0
  // An edit list cuts what the encoder added in front; in a fragmented file it says nothing of the fragments.
  const seconds = edited > 0 && fragmentTicks === 0 ? Math.min(whole, edited) : whole
  return { channels, durationSeconds: seconds > 0 ? seconds : null }
}

async function readMovie(window: AudioWindow, moov: Box): Promise<Movie> {
  let timescale = 0
  let track: Readonly<Track> | null = null
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

/** Ticks from the beginning to the end of the last fragment in the last range; null when none is to be found there. */
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
  track: Readonly<Track>,
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

/** Largest sample description that is read; the ones of audio are some hundred bytes. */
const DESCRIPTION_MAX_BYTES = 4096

/** A track, as `moov` describes it. */
interface Track {
  id: number
  /** Ticks per second. */
  timescale: number
  /** Ticks of all samples in the sample table; 0 in a fragmented file. */
  tableTicks: number
  /** Ticks as the media header says. */
  mediaTicks: number
  /** Length that is played, in units of the movie's timescale; 0 without an edit list. */
  editedTicks: number
  channels: number | null
  /** Samples in the sample table. */
  samples: number
  /** The least that a sample of its codec lasts, whatever the table says; 0: not known. */
  sampleSeconds: number
  isSound: boolean
}

const CONTAINERS: ReadonlySet<string> = new Set(['edts', 'mdia', 'minf', 'stbl'])

/** Reads a `trak`; null when it is not sound. */
async function readTrack(window: AudioWindow, trak: Box): Promise<Readonly<Track> | null> {
  const times = { timescale: 0, tableTicks: 0, mediaTicks: 0, editedTicks: 0 }
  const track: Track = { id: 0, ...times, channels: null, samples: 0, sampleSeconds: 0, isSound: false }
  await readInside(window, trak, track, 0)
  return track.isSound && track.timescale > 0 ? track : null
}

async function readInside(window: AudioWindow, parent: Box, track: Track, depth: number): Promise<void> {
  for await (const box of boxes(window, parent.from, parent.end)) {
    if (CONTAINERS.has(box.type) && depth < 4) {
      await readInside(window, box, track, depth + 1)
    } else {
      await readLeaf(window, box, track)
    }
  }
}

async function readLeaf(window: AudioWindow, box: Box, track: Track): Promise<void> {
  const length = Math.min(box.end - box.from, DESCRIPTION_MAX_BYTES)
  switch (box.type) {
    case 'tkhd':
    case 'mdhd': {
      const bytes = await window.from(box.from, 32)
      const isLong = bytes[0] === 1
      const afterTimes = isLong ? 20 : 12
      if (box.type === 'tkhd') {
        track.id = u32be(bytes, afterTimes)
      } else {
        track.timescale = u32be(bytes, afterTimes)
        track.mediaTicks = isLong ? u64be(bytes, 24) : known(u32be(bytes, 16))
      }
      break
    }
    case 'hdlr':
      // QuickTime has a second handler further in, that of the data.
      track.isSound ||= latin1(await window.from(box.from, 12), 8, 4) === 'soun'
      break
    case 'stsd':
      Object.assign(track, descriptionOf((await window.from(box.from, length)).subarray(0, length)))
      break
    case 'stts':
      track.tableTicks = await sumTimes(window, box)
      break
    case 'stsz':
    case 'stz2':
      track.samples = u32be(await window.from(box.from, 12), 8)
      break
    case 'elst':
      track.editedTicks = await sumEdits(window, box)
      break
  }
}

/** All ones: the writer did not know. */
function known(ticks: number): number {
  return ticks === 0xffffffff ? 0 : ticks
}

/** Entries of a table that has version and flags, a count, and then entries of `entryBytes`. */
async function forEntries(
  window: AudioWindow,
  box: Box,
  entryBytes: number,
  visit: (bytes: Uint8Array, at: number) => void,
): Promise<void> {
  const count = u32be(await window.from(box.from, 8), 4)
  const first = box.from + 8
  const end = Math.min(box.end, first + count * entryBytes)
  for (let at = first; at + entryBytes <= end; ) {
    const bytes = (await window.from(at, entryBytes)).subarray(0, end - at)
    if (bytes.length < entryBytes) return
    let index = 0
    for (; index + entryBytes <= bytes.length; index += entryBytes) visit(bytes, index)
    at += index
  }
}

async function sumTimes(window: AudioWindow, box: Box): Promise<number> {
  let ticks = 0
  await forEntries(window, box, 8, (bytes, at) => {
    ticks += u32be(bytes, at) * u32be(bytes, at + 4)
  })
  return ticks
}

/** Empty edits, whose media time is -1, delay the sound and add none. */
async function sumEdits(window: AudioWindow, box: Box): Promise<number> {
  const isLong = (await window.from(box.from, 1))[0] === 1
  let ticks = 0
  await forEntries(window, box, isLong ? 20 : 12, (bytes, at) => {
    const isEmpty = u32be(bytes, at + (isLong ? 8 : 4)) === 0xffffffff
    if (!isEmpty) ticks += isLong ? u64be(bytes, at) : u32be(bytes, at)
  })
  return ticks
}

/**
 * Facts of the first sample entry of an `stsd`. The entry itself often says 2 for mono AAC, so the decoder's own
 * configuration goes first. ISO/IEC 14496-12 section 12.2.3; QuickTime File Format, Sound Sample Descriptions
 */
export function descriptionOf(bytes: Uint8Array): Description {
  if (bytes.length < 8 + 28) return UNDESCRIBED
  const entry = 8
  const isQuickTime2 = u16be(bytes, entry + 16) === 2
  const declared = isQuickTime2 ? u32be(bytes, entry + 48) : u16be(bytes, entry + 24)
  const esds = indexOf(bytes, 'esds', entry)
  if (esds < 0) return { channels: declared, sampleSeconds: leastSecondsOf(bytes, entry) }
  const { channels, sampleSeconds } = aacDescription(bytes, esds + 8)
  return { channels: channels ?? declared, sampleSeconds }
}

/** Shortest packet of Opus (RFC 6716, 2.1.4). */
const OPUS_SECONDS_MIN = 0.0025
const ALAC_FRAME_MAX = 16_384
/** Share of a frame of ALAC that is counted: the last one of a recording may be shorter. */
const ALAC_SHARE = 0.9

/** As `sampleSeconds`, of codecs without an `esds`. */
function leastSecondsOf(bytes: Uint8Array, entry: number): number {
  const codec = latin1(bytes, entry + 4, 4)
  if (codec === 'Opus') return OPUS_SECONDS_MIN
  const cookie = codec === 'alac' ? indexOf(bytes, codec, entry + 36) : -1
  if (cookie < 0 || bytes.length < cookie + 32) return 0
  const [frame, rate] = [u32be(bytes, cookie + 8), u32be(bytes, cookie + 28)]
  return rate > 0 && frame <= ALAC_FRAME_MAX ? (frame * ALAC_SHARE) / rate : 0
}

type Description = Pick<Track, 'channels' | 'sampleSeconds'>
const UNDESCRIBED: Description = { channels: null, sampleSeconds: 0 }

/** ISO/IEC 14496-3 table 1.18. */
const AAC_RATES = [
  96e3, 88_200, 64e3, 48e3, 44_100, 32e3, 24e3, 22_050, 16e3, 12e3, 11_025, 8e3, 7350,
] as const
/** AAC as such, and with its two ways to code what is above half of the rate. The rate is that of its core. */
const AAC_OBJECTS: ReadonlySet<number> = new Set([2, 5, 29])
/** A frame has 1024, or these. */
const AAC_SAMPLES_MIN = 960
const CHANNELS_BY_CONFIGURATION = [null, 1, 2, 3, 4, 5, 6, 8] as const

/**
 * Facts by the AudioSpecificConfig inside an `esds`; none when it is not AAC (ISO/IEC 14496-1 7.2.6, 14496-3 1.6.2).
 */
function aacDescription(bytes: Uint8Array, from: number): Description {
  let at = skipDescriptorHead(bytes, from, 3)
  if (at < 0) return UNDESCRIBED
  const flags = bytes[at + 2] ?? 0
  at += 3
  if (flags & 0x80) at += 2
  if (flags & 0x40) at += 1 + (bytes[at] ?? 0)
  if (flags & 0x20) at += 2
  at = skipDescriptorHead(bytes, at, 4)
  if (at < 0 || bytes[at] !== 0x40) return UNDESCRIBED
  at = skipDescriptorHead(bytes, at + 13, 5)
  if (at < 0 || at + 7 > bytes.length) return UNDESCRIBED

  // 5 bits of object type, 4 of sample rate (15: 24 bits more), 4 of channel configuration.
  const objectType = bytes[at]! >> 3
  const rateIndex = (u16be(bytes, at) >> 7) & 15
  const configuration = rateIndex === 15 ? (u16be(bytes, at + 4) >> 7) & 15 : (bytes[at + 1]! >> 3) & 15
  const channels = CHANNELS_BY_CONFIGURATION[configuration] ?? null
  const PARAMETRIC_STEREO = 29
  const rate = AAC_OBJECTS.has(objectType) ? AAC_RATES[rateIndex] : undefined
  return {
    channels: objectType === PARAMETRIC_STEREO && channels === 1 ? 2 : channels,
    sampleSeconds: rate === undefined ? 0 : AAC_SAMPLES_MIN / rate,
  }
}

/** First byte behind tag and length of the descriptor `tag` at `at`, or -1 when another one is there. */
function skipDescriptorHead(bytes: Uint8Array, at: number, tag: number): number {
  if (bytes[at] !== tag) return -1
  let next = at + 1
  while (next < at + 4 && (bytes[next]! & 0x80) !== 0) next += 1
  return next + 1
}

/** A box of an ISO base media file (ISO/IEC 14496-12 section 4.2). */
export interface Box {
  readonly type: string
  /** First byte of the header. */
  readonly at: number
  /** First byte behind the header. */
  readonly from: number
  /** First byte behind the box, cut to what contains it. */
  readonly end: number
}

/** The boxes that follow one another from `at` to `end`. Ends early at a size that cannot be. */
async function* boxes(window: AudioWindow, at: number, end: number): AsyncGenerator<Box> {
  for (let next = at; next + 8 <= end; ) {
    const box = readBox(await window.from(next, 16), next, end)
    if (!box) return
    yield box
    next = box.end
  }
}

/** The box whose header `bytes` begins with, at `at` within something that ends at `end`; null when it is none. */
export function readBox(bytes: Uint8Array, at: number, end: number): Box | null {
  if (bytes.length < 8) return null
  const short = u32be(bytes, 0)
  const headerBytes = short === 1 ? 16 : 8
  // Zero: up to the end of the file.
  const size = short === 0 ? end - at : short === 1 ? u64be(bytes, 8) : short
  if (size < headerBytes) return null
  return { type: latin1(bytes, 4, 4), at, from: at + headerBytes, end: Math.min(at + size, end) }
}
