import { latin1, u32be, u32le } from './bytes.ts'
import { DETECT_BYTES, PADDING_MAX_BYTES } from './format.ts'
import { type Measure, UNKNOWN } from './measure.ts'

import type { MpegFrame } from './mpeg-frame.ts'
import { findMpegFrame, MPEG_FRAME_MAX_BYTES, mpegFrame, sameStream } from './mpeg-frame.ts'
import type { AudioWindow } from './window.ts'
import { RANGE_BYTES } from './window.ts'

/** Room for a frame and the header of the next: what the walk needs at hand to confirm one. */
const STEP_BYTES = MPEG_FRAME_MAX_BYTES + 4
/** Up to here reading every frame takes no more ranges than sampling would. */
const WALK_MAX_BYTES = 3 * RANGE_BYTES
const ID3V1_BYTES = 128
/** How far a count in a header may be from what samples make likely. */
const CONSTANT_SLACK = 1.02
const VARIABLE_SLACK = 1.25
const APE_FOOTER_BYTES = 32

/**
 * Counts frames. Up to 768 KiB, and wherever samples disagree, it walks all of them; above, the audio is sampled at
 * its beginning, middle and end: frames of one bit rate are counted by their mean size, and the count in a Xing, Info
 * or VBRI header is believed when the samples make it likely. A header alone would let a caller name the price.
 *
 * @param start first byte after the tags
 */
export async function probeMp3(window: AudioWindow, start: number): Promise<Measure> {
  const opening = await window.from(start, DETECT_BYTES)
  const index = findMpegFrame(opening, 0, PADDING_MAX_BYTES)
  if (index < 0) return UNKNOWN
  const first = mpegFrame(opening, index)!
  const header = headerFrame(opening, index, first)
  const from = start + index + (header ? first.bytes : 0)
  const isLong = window.seekable && window.size - from > WALK_MAX_BYTES
  const sampled = isLong ? await sample(window, from, first, header?.frames ?? 0) : null
  return { channels: first.channels, durationSeconds: sampled ?? (await walk(window, from)) }
}

/**
 * A first frame that holds no sound but facts of the others, or null. `frames` is 0 when it does not count
 * them. The places are those that every decoder looks at, right behind the side information of layer III.
 */
export function headerFrame(bytes: Uint8Array, at: number, frame: MpegFrame): { frames: number } | null {
  const sideBytes = frame.version === 1 ? (frame.channels === 1 ? 17 : 32) : frame.channels === 1 ? 9 : 17
  const xing = at + 4 + sideBytes
  const name = latin1(bytes, xing, 4)
  if (name === 'Xing' || name === 'Info') {
    const countsFrames = (u32be(bytes, xing + 4) & 1) === 1
    return { frames: countsFrames ? u32be(bytes, xing + 8) : 0 }
  }
  const vbri = at + 4 + 32
  return latin1(bytes, vbri, 4) === 'VBRI' ? { frames: u32be(bytes, vbri + 14) } : null
}

/** Seconds by three samples, or null when they do not settle it. */
async function sample(
  window: AudioWindow,
  from: number,
  first: MpegFrame,
  declaredFrames: number,
): Promise<number | null> {
  const opening = tally(await window.from(from, STEP_BYTES), first)
  const ends = await endOfFrames(window)
  if (ends === null) return null
  const { end, tailAt } = ends
  const closing = tally((await window.from(tailAt, STEP_BYTES)).subarray(0, end - tailAt), first)
  // One that no caller can prepare: frames elsewhere might be smaller, and more of them.
  const place = from + Math.floor(Math.random() * Math.max(0, end - from - STEP_BYTES))
  const middle = tally(await window.from(place, STEP_BYTES), first)
  const parts = [opening, middle, closing]
  if (parts.some((part) => part.frames === 0)) return null

  const bytes = parts.reduce((sum, part) => sum + part.bytes, 0)
  const frames = parts.reduce((sum, part) => sum + part.frames, 0)
  const likelyFrames = ((end - from) / bytes) * frames
  const bitrates = new Set(parts.map((part) => part.bitrate))
  const isConstant = bitrates.size === 1 && !bitrates.has(null)
  const slack = isConstant ? CONSTANT_SLACK : VARIABLE_SLACK
  const isLikely = declaredFrames > likelyFrames / slack && declaredFrames < likelyFrames * slack
  if (!isLikely && !isConstant) return null
  return ((isLikely ? declaredFrames : likelyFrames) * first.samples) / first.sampleRate
}

/** The frames of one sample. `bitrate` is null when they have several. */
function tally(
  part: Uint8Array,
  first: MpegFrame,
): { frames: number; bytes: number; bitrate: number | null } {
  const bitrates = new Set<number>()
  const start = findMpegFrame(part, 0, STEP_BYTES)
  let frames = 0
  let at = start
  for (let frame = at < 0 ? null : mpegFrame(part, at); frame !== null; frame = mpegFrame(part, at)) {
    if (!sameStream(frame, first) || at + frame.bytes > part.length) break
    bitrates.add(frame.bitrate)
    frames += 1
    at += frame.bytes
  }
  const [bitrate = null] = bitrates
  return { frames, bytes: at - start, bitrate: bitrates.size === 1 ? bitrate : null }
}

/** Where the tags at the end begin (ID3v1, and APEv2 in front of it, which may hold a picture) and where to sample. */
async function endOfFrames(window: AudioWindow): Promise<{ end: number; tailAt: number } | null> {
  const { start: tailAt, bytes: tail } = await window.tail()
  let end = window.size
  if (latin1(tail, tail.length - ID3V1_BYTES, 3) === 'TAG') end -= ID3V1_BYTES
  const footer = end - tailAt - APE_FOOTER_BYTES
  if (latin1(tail, footer, 8) === 'APETAGEX') {
    const hasHeader = u32le(tail, footer + 20) >= 0x80000000
    const begin = end - u32le(tail, footer + 12) - (hasHeader ? APE_FOOTER_BYTES : 0)
    const isSeen = begin >= tailAt
    // Decoders play the frames that a tag claims to be its own.
    if (!isSeen || findMpegFrame(tail.subarray(0, footer), begin - tailAt, RANGE_BYTES) >= 0) return null
    end = begin
  }
  const reachesFarther = end < tailAt + STEP_BYTES
  return { end, tailAt: reachesFarther ? Math.max(0, end - RANGE_BYTES) : tailAt }
}

/** Seconds of all frames from `from` to the end; null when there is none. Anything else is skipped. */
async function walk(window: AudioWindow, from: number): Promise<number | null> {
  let at = from
  let seconds = 0
  let inSync = true
  for (;;) {
    const bytes = await window.from(at, STEP_BYTES)
    const isLast = bytes.length < STEP_BYTES || at + bytes.length >= window.size
    let index = 0
    while (index + (isLast ? 4 : STEP_BYTES) <= bytes.length) {
      const frame = mpegFrame(bytes, index)
      if (!frame || !(inSync || continues(bytes, index, frame))) {
        inSync = false
        index += 1
        continue
      }
      inSync = true
      index += frame.bytes
      // The last frame may be cut short; then nothing of it can be heard.
      if (at + index <= window.size) seconds += frame.samples / frame.sampleRate
    }
    if (isLast) return seconds > 0 ? seconds : null
    at += index
  }
}

function continues(bytes: Uint8Array, at: number, frame: MpegFrame): boolean {
  const next = mpegFrame(bytes, at + frame.bytes)
  return next !== null && sameStream(frame, next)
}
