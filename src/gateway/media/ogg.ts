import { indexOf, lastIndexOf, latin1, u16le, u32le, u64le } from './bytes.ts'
import { flacStream, readFrame } from './flac.ts'
import type { Measure } from './measure.ts'
import { OPUS_RATE, opusSamples } from './opus.ts'
import type { AudioWindow } from './window.ts'
import { RANGE_BYTES } from './window.ts'

/** A page is at most a header of 27 bytes, 255 lengths, and 255 segments of 255 bytes (RFC 3533 section 6). */
const PAGE_MAX_BYTES = 27 + 255 + 255 * 255
const HEADER_MAX_BYTES = 27 + 255
/** Header, lengths, and enough of the first packet to know its codec: STREAMINFO in Ogg FLAC reaches farthest. */
const STEP_BYTES = HEADER_MAX_BYTES + 64
const CONTINUED = 0x01
const FIRST_PAGE = 0x02
/** Places at which packets are counted. */
const PLACES = 2
/** How many times the length by positions the packets may have. */
const UNLIKELY = 2
/** Frames of a packet that decoders take. */
const SPEEX_FRAMES_MAX = 64
/** More streams in a row are not counted. */
const STREAMS_MAX = 1000

export interface Page {
  readonly serial: number
  readonly sequence: number
  readonly isFirst: boolean
  /** It begins within a packet. */
  readonly isContinued: boolean
  /** Samples up to the end of the last packet that ends here; null when none does. */
  readonly position: number | null
  /** Packets that end here. */
  readonly packets: number
  /** First byte of content, counted from the page's. */
  readonly contentAt: number
  readonly bytes: number
}

/** One logical stream of sound. */
interface Stream {
  readonly serial: number
  readonly sampleRate: number
  readonly channels: number
  /** Samples at the beginning that are decoded and not played. */
  readonly preSkip: number
  /** Samples of a packet, or the least that it can have. */
  readonly packetSamples: (bytes: Uint8Array, at: number) => number
  /** Samples that a packet has at most; absent: as many as it says itself. */
  readonly mostSamples?: number
  /** Position of the first sample, which is not 0 in a recording that began in a running stream. */
  start: number | null
  end: number
  /** Samples by what the packets say themselves. */
  counted: number
  /** Samples of the packet before. */
  perPacket: number
}

/**
 * Position of the last page less that of the first sample and the pre-skip (RFC 7845 section 4). The last
 * page is in the last 256 KiB, so it takes two ranges. Where it belongs to another stream, or there are fewer
 * pages than such a length needs, streams follow on one another, and all pages are gone through.
 */
export async function probeOgg(window: AudioWindow): Promise<Measure> {
  const streams: Stream[] = []
  const looksAtEnd = window.seekable && window.size > RANGE_BYTES
  const reached = await readPages(window, 0, streams, looksAtEnd)
  const [stream] = streams
  const isTold =
    stream !== undefined &&
    looksAtEnd &&
    (await readLastPage(window, stream)) &&
    (await isLikely(window, stream))
  if (looksAtEnd && !isTold) await readPages(window, reached, streams, false)
  const [first] = streams
  const seconds = streams.reduce((sum, one) => sum + streamSeconds(one), 0)
  return { channels: first?.channels ?? null, durationSeconds: seconds > 0 ? seconds : null }
}

/** Positions alone would let a caller name the price: where the packets have far more, they count. */
function streamSeconds({ start, end, preSkip, sampleRate, counted }: Stream): number {
  if (start === null) return 0
  const positioned = end - start
  return Math.max(0, (counted > UNLIKELY * positioned ? counted : positioned) - preSkip) / sampleRate
}

/** Whether the length may be that of all the bytes, by the packets at some places that no caller can prepare. */
async function isLikely(window: AudioWindow, stream: Stream): Promise<boolean> {
  let bytes = 0
  let samples = 0
  for (let count = 0; count < PLACES; count += 1) {
    const place = Math.floor(Math.random() * Math.max(0, window.size - 2 * PAGE_MAX_BYTES))
    const view = await window.from(place, 2 * PAGE_MAX_BYTES)
    for (let at = indexOf(view, 'OggS', 0); at >= 0; ) {
      const page = readPage(view, at)
      const isWhole = page !== null && at + page.bytes <= view.length
      if (isWhole && page.serial === stream.serial) samples += samplesOn(page, view, at, stream)
      if (isWhole) bytes += page.bytes
      at = indexOf(view, 'OggS', at + (isWhole ? page.bytes : 1))
    }
  }
  const seconds = bytes === 0 ? 0 : ((samples / bytes) * window.size) / stream.sampleRate
  return seconds <= UNLIKELY * streamSeconds(stream)
}

function samplesOn(page: Page, bytes: Uint8Array, at: number, stream: Stream): number {
  if (!page.isContinued) stream.perPacket = stream.packetSamples(bytes, at + page.contentAt)
  return page.packets * stream.perPacket
}

/** Goes through pages from `at` on, until the sound has begun when that is enough. Returns where it stopped. */
async function readPages(
  window: AudioWindow,
  at: number,
  streams: Stream[],
  untilBegun: boolean,
): Promise<number> {
  let next = at
  for (;;) {
    const bytes = await window.from(next, STEP_BYTES)
    if (bytes.length < 27) return window.size
    const page = readPage(bytes, 0)
    if (page) {
      addPage(page, bytes, streams)
      next += page.bytes
      if (untilBegun && streams.some((stream) => stream.start !== null)) return next
    } else {
      const found = indexOf(bytes, 'OggS', 1)
      next += found > 0 ? found : bytes.length - 3
    }
  }
}

export function readPage(bytes: Uint8Array, at: number): Page | null {
  if (latin1(bytes, at, 4) !== 'OggS' || bytes[at + 4] !== 0) return null
  const segments = bytes[at + 26] ?? 0
  let content = 0
  let packets = 0
  for (let index = at + 27; index < at + 27 + segments; index++) {
    const length = bytes[index] ?? 0
    content += length
    if (length < 255) packets += 1
  }
  // All ones, so a negative number, when no packet ends here.
  const hasPosition = (bytes[at + 13] ?? 0) < 0x80
  return {
    serial: u32le(bytes, at + 14),
    sequence: u32le(bytes, at + 18),
    isFirst: ((bytes[at + 5] ?? 0) & FIRST_PAGE) !== 0,
    isContinued: ((bytes[at + 5] ?? 0) & CONTINUED) !== 0,
    position: hasPosition ? u64le(bytes, at + 6) : null,
    packets,
    contentAt: 27 + segments,
    bytes: 27 + segments + content,
  }
}

function addPage(page: Page, bytes: Uint8Array, streams: Stream[]): void {
  if (page.isFirst) {
    const stream = readStream(page, bytes)
    if (stream && streams.length < STREAMS_MAX) streams.push(stream)
    return
  }
  const stream = streams.findLast((one) => one.serial === page.serial)
  // Position 0 is that of header pages.
  if (!stream || page.position === null || page.position === 0) return
  const samples = samplesOn(page, bytes, 0, stream)
  const most = stream.mostSamples === undefined ? samples : page.packets * stream.mostSamples
  stream.start ??= Math.max(0, page.position - most)
  stream.counted += samples
  stream.end = Math.max(stream.end, page.position)
}

/** The stream that begins with this page, by its first packet; null when it is not sound. */
function readStream({ serial, contentAt: at }: Page, bytes: Uint8Array): Stream | null {
  const begin = { serial, preSkip: 0, start: null, end: 0, counted: 0, perPacket: 0 }
  if (latin1(bytes, at, 8) === 'OpusHead') {
    const channels = bytes[at + 9] ?? 0
    const preSkip = u16le(bytes, at + 10)
    return { ...begin, channels, preSkip, sampleRate: OPUS_RATE, packetSamples: opusSamples }
  }
  if (latin1(bytes, at, 7) === '\x01vorbis') {
    const channels = bytes[at + 11] ?? 0
    const sampleRate = u32le(bytes, at + 12)
    const { least, most } = vorbisSamples(bytes[at + 28] ?? 0)
    return sampleRate === 0
      ? null
      : { ...begin, channels, sampleRate, packetSamples: () => least, mostSamples: most }
  }
  if (latin1(bytes, at, 5) === '\x7fFLAC') {
    const flac = flacStream(bytes.subarray(at + 17))
    const packetSamples = (page: Uint8Array, from: number) => readFrame(page, from, flac!)?.samples ?? 0
    return flac && { ...begin, channels: flac.channels, sampleRate: flac.sampleRate, packetSamples }
  }
  if (latin1(bytes, at, 8) === 'Speex   ') {
    const sampleRate = u32le(bytes, at + 36)
    const samples = speexSamples(bytes.subarray(at))
    return sampleRate === 0
      ? null
      : { ...begin, channels: u32le(bytes, at + 48), sampleRate, packetSamples: () => samples }
  }
  return null
}

/** Samples of a packet: half of a block, which is short or long (Vorbis I, 4.2.2). */
export function vorbisSamples(blocks: number): { readonly least: number; readonly most: number } {
  return { least: 2 ** (blocks & 15) / 2, most: 2 ** (blocks >>> 4) / 2 }
}

/** Samples of a packet, by what decoders go by: the mode, not the size of a frame that the header tells as well. */
export function speexSamples(head: Uint8Array): number {
  return (160 << Math.min(u32le(head, 40), 2)) * Math.max(1, Math.min(u32le(head, 64), SPEEX_FRAMES_MAX))
}

/** Takes the end from the last page. False when it is not of this stream, or cannot be the end of all these bytes. */
async function readLastPage(window: AudioWindow, stream: Stream): Promise<boolean> {
  const { bytes } = await window.tail()
  for (let at = lastIndexOf(bytes, 'OggS', bytes.length); at >= 0; at = lastIndexOf(bytes, 'OggS', at - 1)) {
    const page = readPage(bytes, at)
    if (!page || page.position === null) continue
    const isEnough = (page.sequence + 1) * PAGE_MAX_BYTES >= window.size
    if (page.serial !== stream.serial || page.isFirst || !isEnough) return false
    stream.end = Math.max(stream.end, page.position)
    return true
  }
  return false
}
