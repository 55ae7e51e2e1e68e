import { indexOf, lastIndexOf, latin1, u16be, u32be } from './bytes.ts'
import type { Measure } from './measure.ts'
import { OPUS_RATE, opusSamples } from './opus.ts'
import { type AudioWindow, RANGE_BYTES } from './window.ts'

// Identifiers of elements, marker bits included. RFC 9559, and https://www.webmproject.org/docs/container
export const EBML = 0x1a45dfa3
export const SEGMENT = 0x18538067
export const INFO = 0x1549a966
export const TIMESTAMP_SCALE = 0x2ad7b1
const DURATION = 0x4489
export const TRACKS = 0x1654ae6b
export const TRACK_ENTRY = 0xae
export const TRACK_NUMBER = 0xd7
export const TRACK_TYPE = 0x83
export const CODEC_ID = 0x86
const DEFAULT_DURATION = 0x23e383
const AUDIO = 0xe1
const CHANNELS = 0x9f
export const CLUSTER = 0x1f43b675
export const CLUSTER_TIMESTAMP = 0xe7
export const SIMPLE_BLOCK = 0xa3
export const BLOCK_GROUP = 0xa0
export const BLOCK = 0xa1
const BLOCK_DURATION = 0x9b

/**
 * Elements whose children are read; all others are skipped by their size. Identifiers tell them apart at every level,
 * so nothing must be known of where one ends: live recordings have segments and clusters of unknown size.
 */
const MASTERS: ReadonlySet<number> = new Set([
  SEGMENT,
  INFO,
  TRACKS,
  TRACK_ENTRY,
  AUDIO,
  CLUSTER,
  BLOCK_GROUP,
])
const CLUSTER_ID = '\x1f\x43\xb6\x75'
export const SOUND = 2
const NANOSECONDS = 1e9
/** Bytes needed to read an element's header and the beginning of a block, or a name. */
const STEP_BYTES = 48
/** Bytes scanned in one turn of the event loop. */
const SLICE_BYTES = 64 * 1024
/** More are not kept. Files with sound have one or two. */
const TRACKS_MAX = 16
/** Longest unplayed end of the last block; the Duration element does not count it. */
const PADDING_MAX_SECONDS = 0.25
/** Finds of the four bytes of a cluster in the last range that are looked at. */
const TRIES_MAX = 32

interface Track {
  number: number
  type: number
  codec: string
  /** Nanoseconds of a frame; 0 when not said. */
  frameNs: number
  channels: number
}

interface Timeline {
  scaleNs: number
  /** In units of the scale; 0 when the recorder did not come back to fill it in. */
  duration: number
  readonly tracks: Track[]
  clusterTime: number
  /** Start of the sound track, in nanoseconds; null before its first block. */
  firstNs: number | null
  lastNs: number | null
  /** Whether the block that was read last is one of sound. */
  inSound: boolean
  /** From the block before to the last one: how long that one lasts when nothing else tells. */
  stepNs: number
  endNs: number
}

/**
 * The end of the last block of sound: in the last cluster when it lies in the last 256 KiB, else found by
 * going through all blocks. A Duration element counts when it is longer, so a caller cannot make a file short
 * by writing one. Two ranges in usual cases.
 */
export async function probeWebm(window: AudioWindow): Promise<Measure> {
  const timeline: Timeline = {
    ...{ scaleNs: 1_000_000, duration: 0, tracks: [], clusterTime: 0 },
    ...{ firstNs: null, lastNs: null, inSound: false, stepNs: 0, endNs: 0 },
  }
  const looksAtEnd = window.seekable && window.size > RANGE_BYTES
  const reached = await read(window, 0, timeline, () => looksAtEnd && timeline.firstNs !== null)
  if (looksAtEnd && !(await readLastCluster(window, timeline))) {
    await read(window, reached, timeline, () => false)
  }
  const { scaleNs, duration, firstNs, endNs } = timeline
  const declared = (duration * scaleNs) / NANOSECONDS
  const lastSeconds = firstNs === null ? 0 : (endNs - firstNs) / NANOSECONDS
  const isWhole = Number.isFinite(declared) && declared > lastSeconds - PADDING_MAX_SECONDS
  const seconds = isWhole ? declared : lastSeconds
  const channels = soundTrack(timeline)?.channels ?? null
  return { channels, durationSeconds: channels !== null && seconds > 0 ? seconds : null }
}

/**
 * Reads elements from `at` on until `isEnough` or the end, and returns where it stopped. Where there is no element it
 * continues with the next cluster, as players do.
 */
async function read(
  window: AudioWindow,
  at: number,
  timeline: Timeline,
  isEnough: () => boolean,
): Promise<number> {
  for (let next = at; ; ) {
    const bytes = (await window.from(next, STEP_BYTES)).subarray(0, SLICE_BYTES)
    const isLast = bytes.length < STEP_BYTES || next + bytes.length >= window.size
    let index = 0
    while (index + (isLast ? 2 : STEP_BYTES) <= bytes.length) {
      const element = readElement(bytes, index)
      if (element) {
        addElement(element, bytes, index + element.headerBytes, timeline)
        index += element.headerBytes + (MASTERS.has(element.id) ? 0 : element.size)
        if (isEnough()) return next + index
      } else {
        const cluster = indexOf(bytes, CLUSTER_ID, index + 1)
        index = cluster < 0 ? bytes.length - CLUSTER_ID.length + 1 : cluster
        if (cluster < 0) break
      }
    }
    if (isLast) return window.size
    next += index
  }
}

/** Notes what the element at hand says; its content begins at `at`. */
function addElement({ id, size }: Element, bytes: Uint8Array, at: number, timeline: Timeline): void {
  const track = timeline.tracks.at(-1)
  switch (id) {
    case TIMESTAMP_SCALE:
      timeline.scaleNs = unsigned(bytes, at, size)
      break
    case DURATION:
      timeline.duration = float(bytes, at, size)
      break
    case TRACK_ENTRY:
      // One channel unless it says otherwise, as the specification has it.
      if (timeline.tracks.length < TRACKS_MAX)
        timeline.tracks.push({ number: 0, type: 0, codec: '', frameNs: 0, channels: 1 })
      break
    case TRACK_NUMBER:
      if (track) track.number = unsigned(bytes, at, size)
      break
    case TRACK_TYPE:
      if (track) track.type = unsigned(bytes, at, size)
      break
    case CODEC_ID:
      if (track) track.codec = latin1(bytes, at, Math.min(size, 16))
      break
    case DEFAULT_DURATION:
      if (track) track.frameNs = unsigned(bytes, at, size)
      break
    case CHANNELS:
      if (track) track.channels = unsigned(bytes, at, size)
      break
    case CLUSTER_TIMESTAMP:
      timeline.clusterTime = unsigned(bytes, at, size)
      break
    case SIMPLE_BLOCK:
    case BLOCK:
      addBlock(bytes, at, timeline)
      break
    case BLOCK_DURATION:
      if (timeline.inSound) extend(timeline, unsigned(bytes, at, size) * timeline.scaleNs)
      break
  }
}

function addBlock(bytes: Uint8Array, at: number, timeline: Timeline): void {
  const sound = soundTrack(timeline)
  const number = trackNumber(bytes, at)
  timeline.inSound = sound !== undefined && number !== null && number.value === sound.number
  if (!sound || !number || !timeline.inSound) return
  const time = at + number.bytes
  const relative = (u16be(bytes, time) << 16) >> 16
  const startNs = (timeline.clusterTime + relative) * timeline.scaleNs
  timeline.firstNs ??= startNs
  if (timeline.lastNs !== null) timeline.stepNs = Math.max(0, startNs - timeline.lastNs)
  timeline.lastNs = startNs
  const isLaced = ((bytes[time + 2] ?? 0) & 0x06) !== 0
  const codecNs = sound.codec === 'A_OPUS' ? (opusSamples(bytes, time + 3) / OPUS_RATE) * NANOSECONDS : 0
  extend(timeline, isLaced ? timeline.stepNs : codecNs || sound.frameNs || timeline.stepNs)
}

/** The block that was read last lasts so long. */
function extend(timeline: Timeline, blockNs: number): void {
  timeline.endNs = Math.max(timeline.endNs, (timeline.lastNs ?? 0) + blockNs)
}

function soundTrack(timeline: Timeline): Track | undefined {
  return timeline.tracks.find((track) => track.type === SOUND)
}

/**
 * Goes through the clusters that begin in the last range, the last one with sound first.
 * @returns false when none does, or what looked like one was none
 */
async function readLastCluster(window: AudioWindow, timeline: Timeline): Promise<boolean> {
  const { start, bytes } = await window.tail()
  let found = bytes.length
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    found = found > 0 ? lastIndexOf(bytes, CLUSTER_ID, found - 1) : -1
    if (found < 0) return false
    const cluster = readElement(bytes, found)
    const inside = found + (cluster?.headerBytes ?? 0)
    const isReal = bytes[inside] === CLUSTER_TIMESTAMP || bytes[inside] === 0xbf
    if (!cluster || !isReal) continue
    const trial = { ...timeline, lastNs: null, stepNs: 0, endNs: 0 }
    await read(window, start + found, trial, () => false)
    if (trial.endNs > 0) {
      timeline.endNs = Math.max(timeline.endNs, trial.endNs)
      return true
    }
  }
  return false
}

/** Identifier and length of an EBML element (RFC 8794 sections 4 to 6). */
export interface Element {
  readonly id: number
  readonly headerBytes: number
  /** Infinite when unknown. */
  readonly size: number
}

/** The element at `at`, or null. */
export function readElement(bytes: Uint8Array, at: number): Element | null {
  const first = bytes[at] ?? 0
  const idBytes = Math.clz32(first) - 23
  if (idBytes > 4) return null
  let id = 0
  for (let index = at; index < at + idBytes; index++) id = id * 256 + (bytes[index] ?? 0)

  const marked = bytes[at + idBytes] ?? 0
  const sizeBytes = Math.clz32(marked) - 23
  if (sizeBytes > 8) return null
  let size = marked - (1 << (8 - sizeBytes))
  let isUnknown = size === (1 << (8 - sizeBytes)) - 1
  for (let index = at + idBytes + 1; index < at + idBytes + sizeBytes; index++) {
    const byte = bytes[index] ?? 0
    size = size * 256 + byte
    isUnknown &&= byte === 0xff
  }
  return { id, headerBytes: idBytes + sizeBytes, size: isUnknown ? Number.POSITIVE_INFINITY : size }
}

/** A track number has the form of an element's size. */
export function trackNumber(bytes: Uint8Array, at: number): { value: number; bytes: number } | null {
  const first = bytes[at] ?? 0
  const length = Math.clz32(first) - 23
  if (length > 2) return null
  return { bytes: length, value: length === 1 ? first & 0x7f : u16be(bytes, at) & 0x3fff }
}

export function unsigned(bytes: Uint8Array, at: number, size: number): number {
  let value = 0
  for (let index = at; index < at + Math.min(size, 8); index++) value = value * 256 + (bytes[index] ?? 0)
  return value
}

function float(bytes: Uint8Array, at: number, size: number): number {
  const view = new DataView(new ArrayBuffer(8))
  view.setUint32(0, u32be(bytes, at))
  if (size === 4) return view.getFloat32(0)
  view.setUint32(4, u32be(bytes, at + 4))
  return size === 8 ? view.getFloat64(0) : 0
}
