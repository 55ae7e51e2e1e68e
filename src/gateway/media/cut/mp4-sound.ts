import type { AudioReader, AudioRef } from '../../../contracts/audio.ts'
import { latin1, u32be, u64be } from '../bytes.ts'
import { type Box, descriptionOf, readBox } from '../mp4.ts'
import type { ByteStream } from './byte-stream.ts'
import { type Mp4Track, Mp4Writer } from './mp4-writer.ts'
import { BY_SIZE, levelOfSize, type Packet, type Sound, Uncuttable } from './sound.ts'

/** Boxes of a file that are looked at until its description is found. */
const BOXES_MAX = 64
/** Largest description; that of a day of sound has half of it. */
const MOOV_MAX_BYTES = 32 * 1024 * 1024
const BRAND_MAX_BYTES = 4096
const SIBLINGS_MAX = 4096
const FRAGMENT_MAX_BYTES = 4 * 1024 * 1024
const SAMPLES_MAX = 20_000_000
const SAMPLE_MAX_BYTES = 4 * 1024 * 1024
/** Samples up to this size are those of PCM: some are a packet together. */
const TINY_BYTES = 64
const TINY_PACKETS_PER_SECOND = 50
const NEGATIVE = 0x8000_0000

interface Found extends Mp4Track {
  readonly id: number
  /** Ticks at the beginning that are not played. */
  readonly primingTicks: number
  readonly tables: Uint8Array
  readonly boxes: ReadonlyMap<string, Box>
  /** Facts of samples in fragments that do not tell their own. */
  readonly defaults: { readonly ticks: number; readonly bytes: number }
  readonly isFragmented: boolean
}

/** Samples in their order, with their place in the file. */
interface Sample {
  readonly at: number
  readonly bytes: number
  readonly ticks: number
  readonly count: number
}

/**
 * ISO base media files and QuickTime: the samples of the first track of sound, in a file of their own with one track.
 *
 * @param stream of the whole file, at its beginning
 */
export async function openMp4(
  stream: ByteStream,
  reader: AudioReader,
  audio: AudioRef,
  signal: AbortSignal,
): Promise<Sound> {
  const { brand, moov } = await readFile(reader, audio, signal)
  const track = trackOf(moov, brand)
  const { timescale, primingTicks } = track
  return {
    rate: timescale,
    startSeconds: -primingTicks / timescale,
    ...BY_SIZE,
    level: ({ bytes, ticks }) => levelOfSize(bytes.length, ticks / timescale),
    packets: () => packetsOf(stream, track.isFragmented ? fragments(stream, track) : tabled(track)),
    begin: () => new Mp4Writer(track),
  }
}

async function readFile(reader: AudioReader, audio: AudioRef, signal: AbortSignal) {
  let brand: Uint8Array | null = null
  for (let at = 0, count = 0; count < BOXES_MAX; count += 1) {
    const box = readBox(await reader.range(audio, at, at + 16, signal), at, audio.decodedBytes)
    if (box === null) break
    const length = box.end - at
    if (box.type === 'ftyp' && length <= BRAND_MAX_BYTES)
      brand = await reader.range(audio, at, box.end, signal)
    if (box.type === 'moov') {
      if (length > MOOV_MAX_BYTES) break
      const moov = await reader.range(audio, at, box.end, signal)
      return { brand: brand ?? new Uint8Array(0), moov: { bytes: moov, from: box.from - at } }
    }
    at = box.end
  }
  throw new Uncuttable('no description of the sound')
}

/** The boxes that follow one another within `bytes`. */
function* boxesIn(bytes: Uint8Array, from: number, end: number): Generator<Box> {
  for (let at = from, count = 0; at + 8 <= end; count += 1) {
    if (count > SIBLINGS_MAX) throw new Uncuttable('too many boxes')
    const box = readBox(bytes.subarray(at, at + 16), at, end)
    if (box === null) return
    yield box
    at = box.end
  }
}

const CONTAINERS: ReadonlySet<string> = new Set(['edts', 'mdia', 'minf', 'stbl'])

/** The boxes of a track by their names, however deep; of several of a name the first. */
function trackBoxes(bytes: Uint8Array, parent: Box, found = new Map<string, Box>(), depth = 0) {
  for (const box of boxesIn(bytes, parent.from, parent.end)) {
    if (CONTAINERS.has(box.type) && depth < 4) trackBoxes(bytes, box, found, depth + 1)
    else if (!found.has(box.type)) found.set(box.type, box)
  }
  return found
}

function trackOf({ bytes, from }: { bytes: Uint8Array; from: number }, brand: Uint8Array): Found {
  let boxes: ReadonlyMap<string, Box> | null = null
  let isFragmented = false
  const extended = new Map<number, { ticks: number; bytes: number }>()
  for (const box of boxesIn(bytes, from, bytes.length)) {
    if (box.type === 'trak' && boxes === null) {
      const own = trackBoxes(bytes, box)
      const handler = own.get('hdlr')
      if (handler !== undefined && latin1(bytes, handler.from + 8, 4) === 'soun') boxes = own
    }
    if (box.type !== 'mvex') continue
    isFragmented = true
    for (const { type, from: at } of boxesIn(bytes, box.from, box.end))
      if (type === 'trex')
        extended.set(u32be(bytes, at + 4), { ticks: u32be(bytes, at + 12), bytes: u32be(bytes, at + 16) })
  }
  const [header, media, stsd] = ['tkhd', 'mdhd', 'stsd'].map((name) => boxes?.get(name))
  if (boxes === null || header === undefined || media === undefined || stsd === undefined)
    throw new Uncuttable('no sound')
  const [isLongHead, isLongMedia] = [header, media].map(({ from: at }) => bytes[at] === 1)
  const id = u32be(bytes, header.from + (isLongHead ? 20 : 12))
  const timescale = u32be(bytes, media.from + (isLongMedia ? 20 : 12))
  if (timescale === 0) throw new Uncuttable('no scale of times')
  const sizes = boxes.get('stsz')
  return {
    id,
    brand,
    timescale,
    description: bytes.slice(stsd.at, stsd.end),
    sampleBytes: sizes === undefined || isFragmented ? 0 : u32be(bytes, sizes.from + 4),
    primingTicks: primingOf(bytes, boxes.get('elst')),
    tables: bytes,
    boxes,
    defaults: extended.get(id) ?? { ticks: 0, bytes: 0 },
    isFragmented,
  }
}

/** Where playing begins in the track: the first edit that is not empty says so. */
function primingOf(bytes: Uint8Array, edits: Box | undefined): number {
  if (edits === undefined) return 0
  const isLong = bytes[edits.from] === 1
  const count = Math.min(u32be(bytes, edits.from + 4), 16)
  for (let index = 0; index < count; index += 1) {
    const at = edits.from + 8 + index * (isLong ? 20 : 12) + (isLong ? 8 : 4)
    const start = isLong ? u64be(bytes, at) : u32be(bytes, at)
    if (start < NEGATIVE) return start
  }
  return 0
}

/** Samples of the tables of a file without fragments (ISO/IEC 14496-12, 8.6.1.2, 8.7). */
function* tabled({ tables, boxes, timescale, sampleBytes }: Found): Generator<Sample> {
  const [times, sizes, chunks, description] = ['stts', 'stsz', 'stsc', 'stsd'].map((name) => boxes.get(name))
  const offsets = boxes.get('stco') ?? boxes.get('co64')
  if (times === undefined || sizes === undefined || chunks === undefined || offsets === undefined)
    throw new Uncuttable('no tables of samples')
  const isLong = offsets.type === 'co64'
  const ticks = runs(tables, times)
  // As the length of the whole is told: a table alone would let a caller name the price of its parts.
  const facts = description && descriptionOf(tables.subarray(description.from, description.end))
  const leastTicks = (facts?.sampleSeconds ?? 0) * timescale
  const total = u32be(tables, sizes.from + 8)
  if (sampleBytes === 0 && total * 4 > sizes.end - sizes.from - 12)
    throw new Uncuttable('sizes that are missing')
  const chunkCount = entriesOf(tables, offsets, isLong ? 8 : 4)
  const rules = entriesOf(tables, chunks, 12)
  const group = sampleBytes > 0 && sampleBytes <= TINY_BYTES ? timescale / TINY_PACKETS_PER_SECOND : 1
  let rule = 0
  let index = 0
  for (let chunk = 1; chunk <= chunkCount && index < total; chunk += 1) {
    while (rule + 1 < rules && u32be(tables, chunks.from + 8 + (rule + 1) * 12) <= chunk) rule += 1
    const perChunk = Math.min(u32be(tables, chunks.from + 8 + rule * 12 + 4), total - index)
    const place = offsets.from + 8 + (chunk - 1) * (isLong ? 8 : 4)
    let at = isLong ? u64be(tables, place) : u32be(tables, place)
    for (let done = 0; done < perChunk; ) {
      const count = Math.max(1, Math.min(Math.floor(group), perChunk - done))
      const size = sampleBytes === 0 ? u32be(tables, sizes.from + 12 + index * 4) : sampleBytes * count
      yield { at, bytes: size, ticks: Math.max(ticks(count), leastTicks * count), count }
      at += size
      done += count
      index += count
    }
  }
}

/** How many entries a table has, of as many as it can have. */
function entriesOf(bytes: Uint8Array, { from, end }: Box, entryBytes: number): number {
  return Math.min(u32be(bytes, from + 4), Math.max(0, Math.floor((end - from - 8) / entryBytes)))
}

/** @returns takes the ticks of the next samples together */
function runs(bytes: Uint8Array, times: Box): (count: number) => number {
  const entries = entriesOf(bytes, times, 8)
  let entry = -1
  let left = 0
  let each = 0
  return (count) => {
    let sum = 0
    for (let missing = count; missing > 0; ) {
      if (left === 0 && entry + 1 < entries) {
        entry += 1
        left = u32be(bytes, times.from + 8 + entry * 8)
        each = u32be(bytes, times.from + 12 + entry * 8)
        continue
      }
      const taken = left === 0 ? missing : Math.min(left, missing)
      sum += taken * each
      left = Math.max(0, left - taken)
      missing -= taken
    }
    return sum
  }
}

/** Samples of the fragments, each of which is described in front of its bytes (ISO/IEC 14496-12, 8.8). */
async function* fragments(stream: ByteStream, track: Found): AsyncGenerator<Sample> {
  for (;;) {
    const at = stream.at
    const box = readBox(await stream.fill(16), at, Number.MAX_SAFE_INTEGER)
    if (box === null) return
    const length = box.end - at
    if (box.type !== 'moof') {
      await stream.seek(length)
      continue
    }
    if (length > FRAGMENT_MAX_BYTES) throw new Uncuttable('a fragment that is too large')
    const bytes = (await stream.fill(length)).slice(0, length)
    stream.skip(bytes.length)
    for (const traf of boxesIn(bytes, 8, bytes.length))
      if (traf.type === 'traf') yield* runsOf(bytes, traf, at, track)
  }
}

function* runsOf(bytes: Uint8Array, traf: Box, moofAt: number, track: Found): Generator<Sample> {
  let { ticks: defaultTicks, bytes: defaultBytes } = track.defaults
  let base = moofAt
  let next: number | null = null
  for (const box of boxesIn(bytes, traf.from, traf.end)) {
    const flags = u32be(bytes, box.from) & 0xffffff
    if (box.type === 'tfhd') {
      if (u32be(bytes, box.from + 4) !== track.id) return
      let at = box.from + 8
      const field = (flag: number, size = 4) => {
        if ((flags & flag) === 0) return null
        at += size
        return size === 8 ? u64be(bytes, at - 8) : u32be(bytes, at - 4)
      }
      base = field(0x01, 8) ?? moofAt
      field(0x02)
      defaultTicks = field(0x08) ?? defaultTicks
      defaultBytes = field(0x10) ?? defaultBytes
    }
    if (box.type !== 'trun') continue
    const count = Math.min(u32be(bytes, box.from + 4), SAMPLES_MAX)
    let at = box.from + 8
    if (flags & 0x01) {
      next = base + (u32be(bytes, at) | 0)
      at += 4
    }
    if (flags & 0x04) at += 4
    let place: number = next ?? base
    for (let index = 0; index < count; index += 1) {
      if (at > box.end) throw new Uncuttable('a fragment that is cut short')
      const own = (flag: number) => {
        if ((flags & flag) === 0) return null
        at += 4
        return u32be(bytes, at - 4)
      }
      const ticks = own(0x100) ?? defaultTicks
      const size = own(0x200) ?? defaultBytes
      own(0x400)
      own(0x800)
      yield { at: place, bytes: size, ticks, count: 1 }
      place += size
    }
    next = place
  }
}

/** Reads the samples where they are, which has to be one behind the other. */
async function* packetsOf(
  stream: ByteStream,
  samples: Iterable<Sample> | AsyncIterable<Sample>,
): AsyncGenerator<Packet> {
  for await (const { at, bytes: length, ticks, count } of samples) {
    if (at < stream.at) throw new Uncuttable('samples out of their order')
    if (length === 0 || length > SAMPLE_MAX_BYTES) throw new Uncuttable('samples of impossible sizes')
    if (at > stream.at) await stream.seek(at - stream.at)
    const view = stream.view.length < length ? await stream.fill(length) : stream.view
    // The file is cut short.
    if (view.length < length) return
    yield { bytes: view.subarray(0, length), ticks, count }
    stream.skip(length)
  }
}
