/** Samples of a wav file, channels apart, full scale at ±1. */
export interface Recording {
  readonly sampleRate: number
  readonly bitsPerSample: number
  readonly channels: readonly Float32Array[]
}

const HEADER_BYTES = 44
const FORMAT_PCM = 1
const FORMAT_FLOAT = 3
const FORMAT_EXTENSIBLE = 0xfffe
const CHANNELS_MAX = 64

/** A mono wav file of 16 bits. */
export function writeWav(samples: Int16Array, sampleRate: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.write('RIFF', 0, 'latin1')
  header.writeUInt32LE(HEADER_BYTES - 8 + samples.byteLength, 4)
  header.write('WAVEfmt ', 8, 'latin1')
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(FORMAT_PCM, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(sampleRate, 24)
  header.writeUInt32LE(sampleRate * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36, 'latin1')
  header.writeUInt32LE(samples.byteLength, 40)
  return Buffer.concat([header, Buffer.from(samples.buffer, samples.byteOffset, samples.byteLength)])
}

/**
 * Reads the samples of a wav file: PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64, in any number of
 * channels. A `data` chunk that claims more than there is (files written to a pipe) is read to the end. Null
 * when the file is none of these.
 */
export function readWav(file: Buffer): Recording | null {
  if (
    file.length < 12 ||
    file.toString('latin1', 0, 4) !== 'RIFF' ||
    file.toString('latin1', 8, 12) !== 'WAVE'
  ) {
    return null
  }
  let format: Format | null = null
  for (let at = 12; at + 8 <= file.length; ) {
    const name = file.toString('latin1', at, at + 4)
    const bytes = file.readUInt32LE(at + 4)
    const start = at + 8
    if (name === 'fmt ') format = readFormat(file.subarray(start, start + bytes))
    if (name === 'data')
      return format === null ? null : readSamples(file.subarray(start, start + bytes), format)
    at = start + bytes + (bytes % 2)
  }
  return null
}

interface Format {
  readonly channels: number
  readonly sampleRate: number
  readonly bits: number
  readonly read: (data: Buffer, at: number) => number
}

function readFormat(chunk: Buffer): Format | null {
  if (chunk.length < 16) return null
  const declared = chunk.readUInt16LE(0)
  // The format of an extensible header is the beginning of its GUID.
  const code = declared === FORMAT_EXTENSIBLE && chunk.length >= 26 ? chunk.readUInt16LE(24) : declared
  const channels = chunk.readUInt16LE(2)
  const sampleRate = chunk.readUInt32LE(4)
  const bits = chunk.readUInt16LE(14)
  const read = readerOf(code, bits)
  if (read === null || channels < 1 || channels > CHANNELS_MAX || sampleRate < 1) return null
  return { channels, sampleRate, bits, read }
}

function readerOf(code: number, bits: number): Format['read'] | null {
  if (code === FORMAT_FLOAT && bits === 32) return (data, at) => finite(data.readFloatLE(at))
  if (code === FORMAT_FLOAT && bits === 64) return (data, at) => finite(data.readDoubleLE(at))
  if (code !== FORMAT_PCM) return null
  if (bits === 8) return (data, at) => ((data[at] ?? 128) - 128) / 128
  if (bits === 16) return (data, at) => data.readInt16LE(at) / 32_768
  if (bits === 24) return (data, at) => data.readIntLE(at, 3) / 8_388_608
  if (bits === 32) return (data, at) => data.readInt32LE(at) / 2_147_483_648
  return null
}

function readSamples(data: Buffer, { channels, sampleRate, bits, read }: Format): Recording {
  const width = bits / 8
  const frames = Math.floor(data.length / (width * channels))
  const apart = Array.from({ length: channels }, () => new Float32Array(frames))
  for (const [channel, samples] of apart.entries()) {
    for (let frame = 0; frame < frames; frame += 1) {
      samples[frame] = read(data, (frame * channels + channel) * width)
    }
  }
  return { sampleRate, bitsPerSample: bits, channels: apart }
}

/** Floats may hold anything; NaN becomes silence. */
function finite(sample: number): number {
  return Number.isFinite(sample) ? sample : 0
}
