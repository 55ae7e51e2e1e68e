import { readFile } from 'node:fs/promises'
import type { SampleEncoder } from './sample-encoder.ts'

/**
 * LAME as WebAssembly. Loaded with the first file that is made: whoever makes none pays nothing.
 *
 * The package holds LAME, which is under the LGPL: it is never bundled into the program, so that another build of it
 * can be put in its place.
 */
async function load() {
  const { createEncoder } = await import('wasm-media-encoders')
  const code = await readFile(new URL(import.meta.resolve('wasm-media-encoders/wasm/mp3')))
  let compiled: Parameters<typeof createEncoder>[1] = code
  await createEncoder('audio/mpeg', code, (module) => {
    compiled = module
  })
  return () => createEncoder('audio/mpeg', compiled)
}

let loaded: ReturnType<typeof load> | null = null

/** Sample rates, Hz, and the bit rate that suits mono speech up to each, bits per second. */
const BITRATES = [
  [12_000, 32_000],
  [24_000, 64_000],
  [48_000, 128_000],
] as const

/**
 * An encoder of mono MP3 files of a constant bit rate.
 *
 * @param bitrate bits per second, one that the rate has; null: what suits speech
 */
export async function createMp3Encoder(sampleRate: number, bitrate: number | null): Promise<SampleEncoder> {
  loaded ??= load()
  const encoder = await (await loaded)()
  const suitable = BITRATES.find(([most]) => sampleRate <= most)?.[1]
  const kilobits = (bitrate ?? suitable ?? 0) / 1000
  // One of its own list, as `isMpegBitrate` makes sure.
  encoder.configure({ sampleRate, channels: 1, bitrate: kilobits as 64 })
  return {
    encode: (samples) => encoder.encode([floatsOf(samples)]).slice(),
    end: () => encoder.finalize().slice(),
    free() {},
  }
}

function floatsOf(samples: Int16Array): Float32Array {
  const floats = new Float32Array(samples.length)
  for (let at = 0; at < samples.length; at += 1) floats[at] = samples[at]! / 32_768
  return floats
}
