import type { Box } from './boxes.ts'
import { boxes } from './boxes.ts'
import { indexOf, latin1, u16be, u32be, u64be } from './bytes.ts'
import type { AudioWindow } from './window.ts'

/** Largest sample description that is read; the ones of audio are some hundred bytes. */
const DESCRIPTION_MAX_BYTES = 4096

/** A track of sound, as `moov` describes it. */
export interface SoundTrack {
  readonly id: number
  /** Ticks per second. */
  readonly timescale: number
  /** Ticks of all samples in the sample table; 0 in a fragmented file. */
  readonly tableTicks: number
  /** Ticks as the media header says. */
  readonly mediaTicks: number
  /** What of it is played, in units of the movie's timescale; 0 when no edit list says. */
  readonly editedTicks: number
  readonly channels: number | null
}

interface Draft {
  id: number
  timescale: number
  tableTicks: number
  mediaTicks: number
  editedTicks: number
  channels: number | null
  isSound: boolean
}

const CONTAINERS: ReadonlySet<string> = new Set(['edts', 'mdia', 'minf', 'stbl'])

/** Reads a `trak`; null when it is not sound. */
export async function readTrack(window: AudioWindow, trak: Box): Promise<SoundTrack | null> {
  const draft = {
    id: 0,
    timescale: 0,
    tableTicks: 0,
    mediaTicks: 0,
    editedTicks: 0,
    channels: null,
    isSound: false,
  }
  await readInside(window, trak, draft, 0)
  const { isSound, ...track } = draft
  return isSound && track.timescale > 0 ? track : null
}

async function readInside(window: AudioWindow, parent: Box, draft: Draft, depth: number): Promise<void> {
  for await (const box of boxes(window, parent.from, parent.end)) {
    if (CONTAINERS.has(box.type) && depth < 4) {
      await readInside(window, box, draft, depth + 1)
    } else {
      await readLeaf(window, box, draft)
    }
  }
}

async function readLeaf(window: AudioWindow, box: Box, draft: Draft): Promise<void> {
  const length = Math.min(box.end - box.from, DESCRIPTION_MAX_BYTES)
  switch (box.type) {
    case 'tkhd':
    case 'mdhd': {
      const bytes = await window.from(box.from, 32)
      const isLong = bytes[0] === 1
      const afterTimes = isLong ? 20 : 12
      if (box.type === 'tkhd') {
        draft.id = u32be(bytes, afterTimes)
      } else {
        draft.timescale = u32be(bytes, afterTimes)
        draft.mediaTicks = isLong ? u64be(bytes, 24) : known(u32be(bytes, 16))
      }
      break
    }
    case 'hdlr':
      // QuickTime has a second handler further in, that of the data.
      draft.isSound ||= latin1(await window.from(box.from, 12), 8, 4) === 'soun'
      break
    case 'stsd':
      draft.channels = channelsOf((await window.from(box.from, length)).subarray(0, length))
      break
    case 'stts':
      draft.tableTicks = await sumTimes(window, box)
      break
    case 'elst':
      draft.editedTicks = await sumEdits(window, box)
      break
  }
}

/** All ones: the writer did not know. */
function known(ticks: number): number {
  return ticks === 0xffffffff ? 0 : ticks
}

/** Entries of a table that has version and flags, a count, and entries of `entryBytes` behind them. */
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
 * Channels of the first sample entry of an `stsd`. The entry itself often says 2 for mono AAC, so the
 * decoder's own configuration goes first. ISO/IEC 14496-12 section 12.2.3; QuickTime File Format, Sound
 * Sample Descriptions
 */
function channelsOf(bytes: Uint8Array): number | null {
  if (bytes.length < 8 + 28) return null
  const entry = 8
  const isQuickTime2 = u16be(bytes, entry + 16) === 2
  const declared = isQuickTime2 ? u32be(bytes, entry + 48) : u16be(bytes, entry + 24)
  const esds = indexOf(bytes, 'esds', entry)
  return (esds < 0 ? null : aacChannels(bytes, esds + 8)) ?? declared
}

const CHANNELS_BY_CONFIGURATION = [null, 1, 2, 3, 4, 5, 6, 8] as const

/**
 * Channels by the AudioSpecificConfig inside an `esds`; null when it is not AAC (ISO/IEC 14496-1 7.2.6,
 * 14496-3 1.6.2).
 */
function aacChannels(bytes: Uint8Array, from: number): number | null {
  let at = skipDescriptorHead(bytes, from, 3)
  if (at < 0) return null
  const flags = bytes[at + 2] ?? 0
  at += 3
  if (flags & 0x80) at += 2
  if (flags & 0x40) at += 1 + (bytes[at] ?? 0)
  if (flags & 0x20) at += 2
  at = skipDescriptorHead(bytes, at, 4)
  if (at < 0 || bytes[at] !== 0x40) return null
  at = skipDescriptorHead(bytes, at + 13, 5)
  if (at < 0 || at + 7 > bytes.length) return null

  // 5 bits of object type, 4 of sample rate (15: 24 bits more), 4 of channel configuration.
  const objectType = bytes[at]! >> 3
  const rateIndex = (u16be(bytes, at) >> 7) & 15
  const configuration = rateIndex === 15 ? (u16be(bytes, at + 4) >> 7) & 15 : (bytes[at + 1]! >> 3) & 15
  const channels = CHANNELS_BY_CONFIGURATION[configuration] ?? null
  const PARAMETRIC_STEREO = 29
  return objectType === PARAMETRIC_STEREO && channels === 1 ? 2 : channels
}

/** First byte behind tag and length of the descriptor `tag` at `at`, or -1 when another one is there. */
function skipDescriptorHead(bytes: Uint8Array, at: number, tag: number): number {
  if (bytes[at] !== tag) return -1
  let next = at + 1
  while (next < at + 4 && (bytes[next]! & 0x80) !== 0) next += 1
  return next + 1
}
