import { indexOf, latin1, u16be } from '../bytes.ts'
import { OPUS_RATE, opusSamples } from '../opus.ts'
import {
  BLOCK,
  BLOCK_GROUP,
  CLUSTER,
  CLUSTER_TIMESTAMP,
  CODEC_ID,
  EBML,
  type Element,
  INFO,
  readElement,
  SEGMENT,
  SIMPLE_BLOCK,
  SOUND,
  TIMESTAMP_SCALE,
  TRACK_ENTRY,
  TRACK_NUMBER,
  TRACK_TYPE,
  TRACKS,
  trackNumber,
  unsigned,
} from '../webm.ts'
import type { ByteStream } from './byte-stream.ts'
import { mp3Level } from './mp3-sound.ts'
import type { Packet, Sound, SoundWriter } from './sound.ts'
import { BY_GAIN, BY_SIZE, levelOfSize, Uncuttable } from './sound.ts'

/** How a cluster begins. */
const CLUSTER_BYTES = '\x1fC\xb6u'
/** Ticks per second of what is written and told: milliseconds, as recorders write them. */
const RATE = 1000
const MASTERS: ReadonlySet<number> = new Set([SEGMENT, INFO, TRACKS, CLUSTER, BLOCK_GROUP])
/** Largest description of a track, and largest block of sound. */
const ENTRY_MAX_BYTES = 1024 * 1024
const BLOCK_MAX_BYTES = 4 * 1024 * 1024
const LACING = 0x06
const KEYFRAME = 0x80
/** Longest cluster that is written. Times in it are signed 16-bit numbers. */
const CLUSTER_MS = 5000
const CLUSTER_PACKETS = 4096
const HEAD_BYTES_MAX = 512

interface Track {
  readonly entry: Uint8Array
  readonly number: number
  readonly codec: string
}

/** WebM and Matroska: blocks of the first track of sound, in clusters of their own. */
export async function openWebm(stream: ByteStream): Promise<Sound> {
  const head = await readWebmHead(stream)
  const { track } = head
  return {
    rate: RATE,
    startSeconds: 0,
    ...levelsOf(track.codec),
    packets: () => blocks(stream, head),
    begin: () => new WebmWriter(head.ebml, track),
  }
}

function levelsOf(codec: string): Pick<Sound, 'level' | 'silenceDrop' | 'skipDrop'> {
  const bySize = ({ bytes, ticks }: Packet) => levelOfSize(bytes.length, ticks / RATE)
  if (!codec.startsWith('A_MPEG')) return { ...BY_SIZE, level: bySize }
  return { ...BY_GAIN, level: (packet) => mp3Level(packet.bytes) ?? bySize(packet) }
}

interface Head {
  readonly ebml: Uint8Array
  readonly track: Track
  readonly scaleMs: number
}

/** Reads up to the first cluster, whose header is passed over. */
async function readWebmHead(stream: ByteStream): Promise<Head> {
  let ebml: Uint8Array | null = null
  let track: Track | null = null
  let scaleMs = 1
  for (;;) {
    const element = await nextElement(stream)
    if (element === null) throw new Uncuttable('no sound')
    if (element.id === EBML) ebml = await take(stream, element, HEAD_BYTES_MAX)
    else if (element.id === TRACK_ENTRY) {
      const entry = await take(stream, element, ENTRY_MAX_BYTES)
      track ??= readTrack(entry, element.headerBytes)
    } else if (element.id === TIMESTAMP_SCALE) {
      const view = await stream.fill(element.headerBytes + 8)
      scaleMs = unsigned(view, element.headerBytes, element.size) / 1e6
      await pass(stream, element)
    } else if (element.id === CLUSTER) {
      if (ebml === null || track === null) throw new Uncuttable('no sound')
      return { ebml, track, scaleMs }
    } else await pass(stream, element)
  }
}

/** @param isForgiving a damaged place is passed over, up to the next cluster, as players do */
async function nextElement(stream: ByteStream, isForgiving = false): Promise<Element | null> {
  for (;;) {
    const view = stream.view.length < 16 ? await stream.fill(16) : stream.view
    if (view.length < 2) return null
    const element = readElement(view, 0)
    if (element !== null) return element
    if (!isForgiving) throw new Uncuttable('no element where there should be one')
    const next = indexOf(view, CLUSTER_BYTES, 1)
    stream.skip(next > 0 ? next : Math.max(1, view.length - 3))
  }
}

/** Passes over an element, or over its header where its children are read. */
function pass(stream: ByteStream, { id, headerBytes, size }: Element): Promise<void> {
  if (!MASTERS.has(id) && !Number.isFinite(size)) throw new Uncuttable('an element without an end')
  return stream.seek(headerBytes + (MASTERS.has(id) ? 0 : size))
}

/** A copy of an element with its header, which is passed over. */
async function take(stream: ByteStream, element: Element, most: number): Promise<Uint8Array> {
  const length = element.headerBytes + element.size
  if (!(length <= most)) throw new Uncuttable('an element that is too large')
  const bytes = (await stream.fill(length)).slice(0, length)
  stream.skip(bytes.length)
  return bytes
}

/** Null: it is not sound. */
function readTrack(entry: Uint8Array, from: number): Track | null {
  let [number, type, codec] = [0, 0, '']
  for (let at = from; at < entry.length; ) {
    const element = readElement(entry, at)
    if (element === null || !Number.isFinite(element.size)) return null
    const { id, headerBytes, size } = element
    const content = at + headerBytes
    if (id === TRACK_NUMBER) number = unsigned(entry, content, size)
    if (id === TRACK_TYPE) type = unsigned(entry, content, size)
    if (id === CODEC_ID) codec = latin1(entry, content, Math.min(size, 32))
    at = content + size
  }
  return type === SOUND && number > 0 ? { entry, number, codec } : null
}

interface Held {
  readonly bytes: Uint8Array
  readonly flags: number
  readonly atMs: number
}

/** A block lasts until the next one begins; the last one as long as its codec says, or as the one before. */
async function* blocks(stream: ByteStream, { track, scaleMs }: Head): AsyncGenerator<Packet> {
  let clusterMs = 0
  let held: Held | null = null
  let stepMs = 0
  for (;;) {
    const element = await nextElement(stream, true)
    if (element === null) break
    const { id, headerBytes, size } = element
    if (id === CLUSTER_TIMESTAMP) {
      const view = await stream.fill(headerBytes + 8)
      clusterMs = unsigned(view, headerBytes, size) * scaleMs
    }
    if (id !== SIMPLE_BLOCK && id !== BLOCK) {
      await pass(stream, element)
      continue
    }
    // One of pictures may be larger.
    const number = trackNumber(await stream.fill(headerBytes + 4), headerBytes)
    if (number?.value !== track.number) {
      await pass(stream, element)
      continue
    }
    const content = (await take(stream, element, BLOCK_MAX_BYTES)).subarray(headerBytes + number.bytes)
    const atMs = clusterMs + ((u16be(content, 0) << 16) >> 16) * scaleMs
    if (held !== null) {
      stepMs = Math.max(0, atMs - held.atMs)
      yield { bytes: held.bytes, flags: held.flags, ticks: stepMs }
    }
    held = { bytes: content.subarray(3), flags: content[2] ?? 0, atMs }
  }
  if (held === null) return
  const codecMs = track.codec === 'A_OPUS' ? (opusSamples(held.bytes, 0) / OPUS_RATE) * 1000 : 0
  yield { bytes: held.bytes, flags: held.flags, ticks: codecMs || stepMs }
}

class WebmWriter implements SoundWriter {
  readonly #ebml: Uint8Array
  readonly #track: Track
  #cluster: Uint8Array[] = []
  #clusterBytes = 0
  #clusterMs = 0
  #atMs = 0
  #written = 0

  constructor(ebml: Uint8Array, track: Track) {
    this.#ebml = ebml
    this.#track = track
  }

  get bytes(): number {
    return this.#ebml.length + this.#track.entry.length + HEAD_BYTES_MAX + this.#written + this.#clusterBytes
  }

  add({ bytes, flags = 0, ticks }: Packet): readonly Uint8Array[] {
    const isFull = this.#atMs - this.#clusterMs >= CLUSTER_MS || this.#cluster.length >= CLUSTER_PACKETS
    const due = isFull ? this.#flush() : []
    if (this.#cluster.length === 0) this.#clusterMs = Math.round(this.#atMs)
    const time = timeAndFlags(this.#atMs - this.#clusterMs, flags)
    const block = element(SIMPLE_BLOCK, [this.#number, time, bytes])
    this.#cluster.push(block)
    this.#clusterBytes += block.length
    this.#atMs += ticks
    return due
  }

  end() {
    const tail = this.#flush()
    const info = element(INFO, [
      element(TIMESTAMP_SCALE, [Buffer.from([0x0f, 0x42, 0x40])]),
      element(DURATION, [float(this.#atMs)]),
      element(MUXING_APP, [Buffer.from('Larkway')]),
      element(WRITING_APP, [Buffer.from('Larkway')]),
    ])
    const tracks = element(TRACKS, [this.#track.entry])
    const head = Buffer.concat([this.#ebml, idBytes(SEGMENT), UNKNOWN_SIZE, info, tracks])
    return { head, tail }
  }

  /** Number of the track as blocks have it, in four bytes. */
  get #number(): Uint8Array {
    const bytes = Buffer.alloc(4)
    writeSize(bytes, 0, this.#track.number)
    return bytes
  }

  #flush(): readonly Uint8Array[] {
    if (this.#cluster.length === 0) return []
    const time = Buffer.alloc(8)
    time.writeBigUInt64BE(BigInt(this.#clusterMs))
    const made = element(CLUSTER, [element(CLUSTER_TIMESTAMP, [time]), ...this.#cluster])
    this.#written += made.length
    this.#cluster = []
    this.#clusterBytes = 0
    return [made]
  }
}

const DURATION = 0x4489
const MUXING_APP = 0x4d80
const WRITING_APP = 0x5741
const UNKNOWN_SIZE = Buffer.from([0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])

function timeAndFlags(ms: number, flags: number): Buffer {
  const bytes = Buffer.alloc(3)
  bytes.writeInt16BE(Math.max(-32_768, Math.min(32_767, Math.round(ms))))
  bytes[2] = KEYFRAME | (flags & LACING)
  return bytes
}

function float(value: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(value)
  return bytes
}

function idBytes(id: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(id)
  return bytes.subarray(bytes.findIndex((byte) => byte !== 0))
}

/** A size in four bytes, as all that are written here are (RFC 8794 section 4). */
function writeSize(bytes: Buffer, at: number, size: number): void {
  bytes.writeUInt32BE(0x1000_0000 + size, at)
}

function element(id: number, content: readonly Uint8Array[]): Buffer {
  const size = Buffer.alloc(4)
  writeSize(
    size,
    0,
    content.reduce((sum, { length }) => sum + length, 0),
  )
  return Buffer.concat([idBytes(id), size, ...content])
}
