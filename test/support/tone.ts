/** Sound for tests, as samples of ±1, made without the code under test. */

/** White noise of a given root mean square, the same for the same seed. */
export function noise(length: number, rms: number, seed = 1): Float32Array {
  let state = seed
  const random = () => {
    // A linear congruential generator with the constants of Numerical Recipes.
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return (state + 1) / 4_294_967_297
  }
  const gauss = () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())
  return Float32Array.from({ length }, () => rms * gauss())
}

/** A sine of 0.5. */
export function sine(hertz: number, seconds: number, sampleRate: number): Float32Array {
  const step = (2 * Math.PI * hertz) / sampleRate
  return Float32Array.from({ length: Math.round(seconds * sampleRate) }, (_, at) => 0.5 * Math.sin(at * step))
}

/** Notes of 0.2 s that die away, as of a music box; nothing in it repeats evenly. */
export function melody(seconds: number, sampleRate: number): Float32Array {
  const notes = [262, 392, 330, 523, 294, 440, 349, 494]
  return Float32Array.from({ length: Math.round(seconds * sampleRate) }, (_, at) => {
    const time = at / sampleRate
    const note = Math.floor(time / 0.2)
    const hertz = notes[((note * 5 + (note * note) / 2) % 8) | 0] ?? 262
    return 0.5 * Math.exp((-3 * (time % 0.2)) / 0.2) * Math.sin(2 * Math.PI * hertz * time)
  })
}

/** Samples at another rate, by straight lines between them. */
export function resample(samples: Float32Array, from: number, to: number): Float32Array {
  return Float32Array.from({ length: Math.floor((samples.length * to) / from) }, (_, at) => {
    const place = (at * from) / to
    const left = Math.floor(place)
    const part = place - left
    return (samples[left] ?? 0) * (1 - part) + (samples[left + 1] ?? 0) * part
  })
}

export function join(...parts: readonly Float32Array[]): Float32Array {
  const joined = new Float32Array(parts.reduce((length, part) => length + part.length, 0))
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

export type SampleKind = 'u8' | 's16' | 's24' | 's32' | 'f32' | 'f64'

const WIDTHS: Readonly<Record<SampleKind, number>> = { u8: 1, s16: 2, s24: 3, s32: 4, f32: 4, f64: 8 }

export interface WavOptions {
  readonly kind?: SampleKind
  /** WAVE_FORMAT_EXTENSIBLE with the true format in its GUID. */
  readonly extensible?: boolean
  /** Whole chunks, put before `data`. */
  readonly before?: Buffer
  /** What the `data` chunk claims to hold; default: the truth. */
  readonly claimedBytes?: number
}

/** A wav file of any kind and number of channels. */
export function wav(channels: readonly Float32Array[], sampleRate: number, options: WavOptions = {}): Buffer {
  const { kind = 's16', extensible = false, before = Buffer.alloc(0) } = options
  const width = WIDTHS[kind]
  const frames = channels[0]?.length ?? 0
  const data = Buffer.alloc(frames * channels.length * width)
  for (let frame = 0; frame < frames; frame += 1) {
    for (const [index, channel] of channels.entries()) {
      write(data, (frame * channels.length + index) * width, channel[frame] ?? 0, kind)
    }
  }
  const code = kind.startsWith('f') ? 3 : 1
  const format = Buffer.alloc(extensible ? 40 : 16)
  format.writeUInt16LE(extensible ? 0xfffe : code, 0)
  format.writeUInt16LE(channels.length, 2)
  format.writeUInt32LE(sampleRate, 4)
  format.writeUInt32LE(sampleRate * channels.length * width, 8)
  format.writeUInt16LE(channels.length * width, 12)
  format.writeUInt16LE(width * 8, 14)
  if (extensible) format.writeUInt16LE(code, 24)
  const riff = Buffer.from('RIFF\0\0\0\0WAVE', 'latin1')
  const file = [riff, chunk('fmt ', format), before, chunk('data', data, options.claimedBytes)]
  riff.writeUInt32LE(file.reduce((bytes, part) => bytes + part.length, 0) - 8, 4)
  return Buffer.concat(file)
}

/** A RIFF chunk, padded to an even length. */
export function chunk(name: string, content: Buffer, claimedBytes = content.length): Buffer {
  const head = Buffer.alloc(8)
  head.write(name, 'latin1')
  head.writeUInt32LE(claimedBytes, 4)
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)])
}

function write(data: Buffer, at: number, sample: number, kind: SampleKind): void {
  const clipped = Math.max(-1, Math.min(1, sample))
  if (kind === 'u8') data[at] = Math.round(clipped * 127) + 128
  else if (kind === 's16') data.writeInt16LE(Math.round(clipped * 32_767), at)
  else if (kind === 's24') data.writeIntLE(Math.round(clipped * 8_388_607), at, 3)
  else if (kind === 's32') data.writeInt32LE(Math.round(clipped * 2_147_483_647), at)
  else if (kind === 'f32') data.writeFloatLE(sample, at)
  else data.writeDoubleLE(sample, at)
}
