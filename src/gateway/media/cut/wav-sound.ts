import { latin1, u32le, u64le } from '../bytes.ts'
import { frameBytes, readWavFormat, WAV_CODEC, type WavFormat } from '../wav-format.ts'
import type { ByteStream } from './byte-stream.ts'
import { BY_LOUDNESS, NO_SOUND, type Packet, type Sound, type SoundWriter, Uncuttable } from './sound.ts'

const SIZE_UNKNOWN = 0xffffffff
const CHUNKS_MAX = 1000
/** Largest chunk `fmt ` that is read. */
const FORMAT_MAX_BYTES = 4096
const PACKETS_PER_SECOND = 50
const PACKET_MAX_BYTES = 64 * 1024
/** Samples a second that the level is taken of. */
const LEVEL_RATE = 2000

interface Head {
  readonly format: WavFormat
  /** The chunk as it was, without its header. */
  readonly chunk: Uint8Array
  /** Bytes of sound; Infinity: up to the end. */
  readonly bytes: number
}

/** RIFF and RF64: blocks of samples behind a head. */
export async function openWav(stream: ByteStream): Promise<Sound> {
  const { format, chunk, bytes } = await readWavHead(stream)
  const { sampleRate, channels } = format
  const blockBytes = frameBytes(format) ?? format.blockBytes
  if (blockBytes === 0 || sampleRate === 0 || channels === 0) throw new Uncuttable('no size of samples')
  const blockTicks = ticksOfBlock(format)
  const most = Math.max(1, Math.floor(PACKET_MAX_BYTES / blockBytes))
  const blocks = Math.min(most, Math.max(1, Math.round(sampleRate / PACKETS_PER_SECOND / blockTicks)))
  return {
    rate: sampleRate,
    startSeconds: 0,
    ...BY_LOUDNESS,
    level: (packet) => levelOf(format, packet.bytes),
    packets: () => packetsOf(stream, { packetBytes: blocks * blockBytes, blockBytes, blockTicks, bytes }),
    begin: () => new WavWriter(chunk),
  }
}

async function readWavHead(stream: ByteStream): Promise<Head> {
  let chunk: Uint8Array | null = null
  let longSize = SIZE_UNKNOWN
  await stream.fill(12)
  stream.skip(12)
  for (let count = 0; count < CHUNKS_MAX; count += 1) {
    const head = await stream.fill(8)
    if (head.length < 8) break
    const [id, size] = [latin1(head, 0, 4), u32le(head, 4)]
    stream.skip(8)
    if (id === 'data') {
      if (chunk === null) break
      const declared = size === SIZE_UNKNOWN ? longSize : size
      const isKnown = declared > 0 && declared !== SIZE_UNKNOWN
      return { format: readWavFormat(chunk), chunk, bytes: isKnown ? declared : Number.POSITIVE_INFINITY }
    }
    if (id === 'ds64') longSize = u64le(await stream.fill(16), 8)
    if (id === 'fmt ') {
      if (size > FORMAT_MAX_BYTES) break
      chunk = (await stream.fill(size)).slice(0, size)
    }
    // Chunks begin at even offsets.
    await stream.seek(size + (size % 2))
  }
  throw new Uncuttable('no sound in the file')
}

function ticksOfBlock({ codec, sampleRate, blockBytes, bytesPerSecond, samplesPerBlock }: WavFormat): number {
  if (codec === WAV_CODEC.msAdpcm || codec === WAV_CODEC.imaAdpcm) return Math.max(1, samplesPerBlock)
  if (Object.values<number>(WAV_CODEC).includes(codec)) return 1
  if (bytesPerSecond === 0) throw new Uncuttable('no length of samples')
  return (blockBytes / bytesPerSecond) * sampleRate
}

interface Blocks {
  readonly packetBytes: number
  readonly blockBytes: number
  readonly blockTicks: number
  readonly bytes: number
}

async function* packetsOf(stream: ByteStream, blocks: Blocks): AsyncGenerator<Packet> {
  const { packetBytes, blockBytes, blockTicks } = blocks
  for (let left = blocks.bytes; left >= blockBytes; ) {
    const view = stream.view.length < packetBytes ? await stream.fill(packetBytes) : stream.view
    const whole = Math.floor(Math.min(packetBytes, left, view.length) / blockBytes)
    if (whole === 0) return
    const bytes = view.subarray(0, whole * blockBytes)
    yield { bytes, ticks: whole * blockTicks }
    stream.skip(bytes.length)
    left -= bytes.length
  }
}

/** Mean square of some of its samples, dB of full scale. */
function levelOf({ codec, bitsPerSample, channels, sampleRate }: WavFormat, bytes: Uint8Array): number {
  const sampleBytes = Math.ceil(bitsPerSample / 8)
  const read = readerOf(codec, sampleBytes)
  if (read === null) return 0
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const step = sampleBytes * channels * Math.max(1, Math.floor(sampleRate / LEVEL_RATE))
  let squares = 0
  let count = 0
  for (let at = 0; at + sampleBytes <= bytes.length; at += step) {
    const sample = read(view, at)
    squares += sample * sample
    count += 1
  }
  return squares === 0 ? NO_SOUND : Math.max(NO_SOUND, 10 * Math.log10(squares / count))
}

type ReadSample = (view: DataView, at: number) => number

/** Reads a sample as a number from -1 to 1; null: none of the codec. */
function readerOf(codec: number, bytes: number): ReadSample | null {
  if (codec === WAV_CODEC.float) {
    if (bytes === 4) return (view, at) => clamped(view.getFloat32(at, true))
    return bytes === 8 ? (view, at) => clamped(view.getFloat64(at, true)) : null
  }
  // The seven bits below the sign of a companded sample are its logarithm, inverted in one of both laws.
  if (codec === WAV_CODEC.muLaw)
    return bytes === 1 ? (view, at) => companded(~view.getUint8(at) & 0x7f) : null
  if (codec === WAV_CODEC.aLaw)
    return bytes === 1 ? (view, at) => companded((view.getUint8(at) ^ 0x55) & 0x7f) : null
  if (codec !== WAV_CODEC.pcm) return null
  if (bytes === 1) return (view, at) => (view.getUint8(at) - 128) / 128
  if (bytes === 2) return (view, at) => view.getInt16(at, true) / 0x8000
  if (bytes === 3) return (view, at) => view.getInt16(at + 1, true) / 0x8000
  return bytes === 4 ? (view, at) => view.getInt32(at, true) / 0x8000_0000 : null
}

/** One that is none, or without an end, must not make everything beside it silence. */
function clamped(sample: number): number {
  return Math.max(-1, Math.min(1, sample || 0))
}

function companded(code: number): number {
  return (((code & 15) * 2 + 33) * 2 ** (code >>> 4) - 33) / 8192
}

/** Writes a head with the chunk `fmt ` of the whole, and the samples. */
class WavWriter implements SoundWriter {
  readonly #format: Uint8Array
  #sound = 0

  constructor(format: Uint8Array) {
    this.#format = format
  }

  get bytes(): number {
    return 28 + this.#format.length + (this.#format.length % 2) + this.#sound
  }

  add({ bytes }: Packet): readonly Uint8Array[] {
    this.#sound += bytes.length
    return [bytes]
  }

  end() {
    const padded = this.#format.length + (this.#format.length % 2)
    const head = Buffer.alloc(28 + padded)
    head.write('RIFF', 0, 'latin1')
    head.writeUInt32LE(Math.min(SIZE_UNKNOWN, this.bytes - 8), 4)
    head.write('WAVEfmt ', 8, 'latin1')
    head.writeUInt32LE(this.#format.length, 16)
    head.set(this.#format, 20)
    head.write('data', 20 + padded, 'latin1')
    head.writeUInt32LE(Math.min(SIZE_UNKNOWN, this.#sound), 24 + padded)
    return { head, tail: [] }
  }
}
