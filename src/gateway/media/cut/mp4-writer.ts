import type { Packet, SoundWriter } from './sound.ts'

/** Bytes of all boxes but the tables, at most. */
const BOXES_BYTES = 1024
const TRACK_ID = 1
/** Language `und`, packed. */
const UNDETERMINED = 0x55c4
const IDENTITY = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000]
const UNUSED = [0, 0, 0, 0, 0, 0]

/** Facts of the whole that a part repeats. */
export interface Mp4Track {
  /** The box `ftyp` as it was. */
  readonly brand: Uint8Array
  /** The box `stsd` as it was. */
  readonly description: Uint8Array
  readonly timescale: number
  /** Size of every sample; 0: each has its own. */
  readonly sampleBytes: number
}

/** Writes a file with one track of sound whose samples are one chunk; its description comes first. */
export class Mp4Writer implements SoundWriter {
  readonly #track: Mp4Track
  readonly #sizes: number[] = []
  /** Counts of samples, and the ticks that each of them has. */
  readonly #times: [count: number, ticks: number][] = []
  #samples = 0
  #ticks = 0
  #sound = 0

  constructor(track: Mp4Track) {
    this.#track = track
  }

  get bytes(): number {
    const tables = this.#sizes.length * 4 + this.#times.length * 8
    const { brand, description } = this.#track
    return BOXES_BYTES + brand.length + description.length + tables + this.#sound
  }

  add({ bytes, ticks, count = 1 }: Packet): readonly Uint8Array[] {
    if (this.#track.sampleBytes === 0) this.#sizes.push(bytes.length)
    const each = ticks / count
    const last = this.#times.at(-1)
    if (last !== undefined && last[1] === each) last[0] += count
    else this.#times.push([count, each])
    this.#samples += count
    this.#ticks += ticks
    this.#sound += bytes.length
    return [bytes]
  }

  end() {
    const { brand } = this.#track
    const length = this.#description(0).length
    const moov = this.#description(brand.length + length + 8)
    return { head: Buffer.concat([brand, moov, mdatHead(this.#sound)]), tail: [] }
  }

  /** @param soundAt where the samples begin in the file */
  #description(soundAt: number): Buffer {
    const { timescale, description, sampleBytes } = this.#track
    const ticks = Math.round(this.#ticks)
    const sizes = sampleBytes === 0 ? this.#sizes : []
    const stbl = box('stbl', [
      Buffer.from(description),
      full('stts', [this.#times.length, ...this.#times.flat().map(Math.round)]),
      full('stsc', [1, 1, this.#samples, 1]),
      full('stsz', [sampleBytes, this.#samples, ...sizes]),
      full('stco', [1, soundAt]),
    ])
    const minf = box('minf', [
      full('smhd', [0]),
      box('dinf', [full('dref', [1], [full('url ', [], [], 1)])]),
      stbl,
    ])
    const handler = Buffer.concat([words([0]), Buffer.from('soun'), Buffer.alloc(13)])
    const mdia = box('mdia', [
      full('mdhd', [0, 0, timescale, ticks, UNDETERMINED * 0x10000]),
      full('hdlr', [], [handler]),
      minf,
    ])
    // Enabled, in the movie. Full volume, and no picture.
    const tkhd = full('tkhd', [0, 0, TRACK_ID, 0, ticks, 0, 0, 0, 0x0100_0000, ...IDENTITY, 0, 0], [], 3)
    const mvhd = full('mvhd', [0, 0, timescale, ticks, 0x10000, 0x0100_0000, 0, 0, ...IDENTITY, ...UNUSED, 2])
    return box('moov', [mvhd, box('trak', [tkhd, mdia])])
  }
}

function mdatHead(soundBytes: number): Buffer {
  return Buffer.concat([words([soundBytes + 8]), Buffer.from('mdat')])
}

function words(values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value >>> 0, index * 4)
  return bytes
}

function box(type: string, content: readonly Buffer[]): Buffer {
  const length = content.reduce((sum, one) => sum + one.length, 8)
  return Buffer.concat([words([length]), Buffer.from(type, 'latin1'), ...content])
}

/** A box with a version of 0 and flags. */
function full(type: string, values: readonly number[], content: readonly Buffer[] = [], flags = 0): Buffer {
  return box(type, [words([flags, ...values]), ...content])
}
