import { latin1, u32be } from '../bytes.ts'
import { codedNumber, crc8, type FlacFrame, type FlacStream, flacStream, readFrame } from '../flac.ts'
import type { ByteStream } from './byte-stream.ts'
import { BY_LOUDNESS, levelOfSize, type Packet, type Sound, type SoundWriter, Uncuttable } from './sound.ts'

/** Length of STREAMINFO, and the place of its count of samples. */
const INFO_BYTES = 34
const SAMPLES_AT = 13
const MD5_AT = 18
const ID3V1_BYTES = 128
/** Largest frame: 65,535 samples of 8 channels, of 32 bits. */
const FRAME_MAX_BYTES = 2_200_000
const BLOCKS_MAX = 1000
/** Bits of a sample in decibels. */
const BIT_DB = 6.02

/** FLAC: frames are found by the next one's header, which has to say that it follows. */
export async function openFlac(stream: ByteStream): Promise<Sound> {
  const info = await readInfo(stream)
  const facts = flacStream(info)
  if (facts === null) throw new Uncuttable('no sample rate')
  return {
    rate: facts.sampleRate,
    startSeconds: 0,
    ...BY_LOUDNESS,
    level: ({ bytes, ticks }) => flacLevel(bytes.length, ticks, facts),
    packets: () => frames(stream, facts),
    begin: () => new FlacWriter(info, facts),
  }
}

/** A frame of silence has some bytes for each channel; every bit that a sample needs is louder. */
export function flacLevel(bytes: number, ticks: number, { channels }: FlacStream): number {
  return ticks === 0 ? levelOfSize(bytes, 1) : ((bytes * 8) / (ticks * channels)) * BIT_DB
}

/** Passes over all metadata. @returns STREAMINFO */
async function readInfo(stream: ByteStream): Promise<Uint8Array> {
  if (latin1(await stream.fill(4), 0, 4) !== 'fLaC') throw new Uncuttable('no FLAC')
  stream.skip(4)
  let info: Uint8Array | null = null
  for (let count = 0; count < BLOCKS_MAX; count += 1) {
    const head = u32be(await stream.fill(4), 0)
    stream.skip(4)
    const length = head & 0xffffff
    if (info === null) info = (await stream.fill(length)).slice(0, INFO_BYTES)
    await stream.seek(length)
    if (head >>> 31 === 1) break
  }
  if (info === null || info.length < INFO_BYTES) throw new Uncuttable('no facts of the stream')
  return info
}

async function* frames(stream: ByteStream, facts: FlacStream): AsyncGenerator<Packet> {
  let frame = readFrame(await stream.fill(64), 0, facts)
  if (frame === null) throw new Uncuttable('no frame')
  while (frame !== null) {
    const found = await frameEnd(stream, frame, facts)
    yield { bytes: stream.view.subarray(0, found.bytes), ticks: frame.samples }
    stream.skip(found.bytes)
    frame = found.next
  }
}

/** @returns length of the frame that begins here, and the next one; null: it is the last */
async function frameEnd(stream: ByteStream, frame: FlacFrame, facts: FlacStream) {
  const expected = frame.position + frame.samples
  let view = stream.view
  for (let at = 6; ; ) {
    at = view.indexOf(0xff, at)
    // A header has at most 16 bytes.
    if (at < 0 || at + 16 > view.length) {
      if (stream.ended) break
      const from = at < 0 ? view.length : at
      if (from > FRAME_MAX_BYTES) throw new Uncuttable('no end of a frame')
      view = await stream.fill(view.length + 1)
      at = from
      continue
    }
    const next = readFrame(view, at, facts)
    if (next !== null && next.position === expected) return { bytes: at, next }
    at += 1
  }
  // The last headers are too near to the end for the margin above.
  for (let at = Math.max(6, view.length - 16); at < view.length; at += 1) {
    const next = readFrame(view, at, facts)
    if (next !== null && next.position === expected) return { bytes: at, next }
  }
  const hasTag = latin1(view, view.length - ID3V1_BYTES, 3) === 'TAG'
  return { bytes: view.length - (hasTag ? ID3V1_BYTES : 0), next: null }
}

/** Numbers the frames from zero, as decoders expect of a file. */
class FlacWriter implements SoundWriter {
  readonly #info: Uint8Array
  readonly #numbers: FrameNumbers
  #sound = 0

  constructor(info: Uint8Array, facts: FlacStream) {
    this.#info = info
    this.#numbers = new FrameNumbers(facts)
  }

  get bytes(): number {
    return 8 + INFO_BYTES + this.#sound
  }

  add(packet: Packet): readonly Uint8Array[] {
    const chunk = this.#numbers.next(packet)
    this.#sound += chunk.length
    return [chunk]
  }

  end() {
    const head = Buffer.alloc(8 + INFO_BYTES)
    head.write('fLaC', 0, 'latin1')
    head[4] = 0x80
    head.writeUIntBE(INFO_BYTES, 5, 3)
    head.set(flacInfo(this.#info, this.#numbers.samples), 8)
    return { head, tail: [] }
  }
}

/** STREAMINFO of a part, without the digest and the sizes of frames of the whole. */
export function flacInfo(whole: Uint8Array, samples: number): Uint8Array {
  const info = Buffer.from(whole)
  info.fill(0, 4, 10)
  info[SAMPLES_AT] = (info[SAMPLES_AT]! & 0xf0) | (Math.floor(samples / 2 ** 32) & 15)
  info.writeUInt32BE(samples % 2 ** 32, SAMPLES_AT + 1)
  info.fill(0, MD5_AT)
  return info
}

/** Gives frames, in their order, the numbers that they have in a file of their own. */
export class FrameNumbers {
  readonly #facts: FlacStream
  #frames = 0
  samples = 0

  constructor(facts: FlacStream) {
    this.#facts = facts
  }

  next({ bytes, ticks }: Packet): Uint8Array {
    const isVariable = (bytes[1]! & 1) === 1
    const made = renumbered(bytes, isVariable ? this.samples : this.#frames, this.#facts)
    this.#frames += 1
    this.samples += ticks
    return made
  }
}

/** The same frame under another number (RFC 9639 section 9.1), with both of its checksums. */
function renumbered(frame: Uint8Array, number: number, facts: FlacStream): Uint8Array {
  const read = readFrame(frame, 0, facts)
  const old = codedNumber(frame, 4)
  if (read === null || old === null || frame.length < read.headerBytes + 2) return frame.slice()
  const coded = encodedNumber(number)
  const rest = frame.subarray(old.end, read.headerBytes - 1)
  const headerBytes = 4 + coded.length + rest.length + 1
  const made = new Uint8Array(headerBytes + frame.length - read.headerBytes)
  made.set(frame.subarray(0, 4))
  made.set(coded, 4)
  made.set(rest, 4 + coded.length)
  made[headerBytes - 1] = crc8(made, 0, headerBytes - 1)
  made.set(frame.subarray(read.headerBytes), headerBytes)
  const crc = crc16(made, made.length - 2)
  made[made.length - 2] = crc >>> 8
  made[made.length - 1] = crc & 0xff
  return made
}

/** A number in UTF-8's manner, extended to 36 bits. */
function encodedNumber(value: number): Uint8Array {
  if (value < 0x80) return Uint8Array.of(value)
  let length = 2
  while (length < 7 && value >= 2 ** (5 * length + 1)) length += 1
  const bytes = new Uint8Array(length)
  let rest = value
  for (let index = length - 1; index > 0; index -= 1) {
    bytes[index] = 0x80 | (rest % 64)
    rest = Math.floor(rest / 64)
  }
  bytes[0] = ((0xff00 >>> length) & 0xff) | rest
  return bytes
}

const CRC16 = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit += 1)
    crc = crc & 0x8000 ? ((crc << 1) ^ 0x8005) & 0xffff : (crc << 1) & 0xffff
  return crc
})

/** CRC-16 with polynomial x^16 + x^15 + x^2 + 1 of the first bytes. */
function crc16(bytes: Uint8Array, length: number): number {
  let crc = 0
  for (let at = 0; at < length; at += 1) crc = ((crc << 8) & 0xffff) ^ CRC16[(crc >>> 8) ^ bytes[at]!]!
  return crc
}
