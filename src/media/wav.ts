import type { LiveAudio, LiveEncoding } from '../contracts/calls.ts'
import { latin1, u16le, u32le, u64le } from './bytes.ts'
import { type Measure, UNKNOWN } from './measure.ts'

import type { AudioWindow } from './window.ts'

/** Chunks in front of the audio; real files have a handful. */
const CHUNKS_MAX = 1000
/** Size left by a writer that did not know the length: in RF64 the real one is in the chunk `ds64`. */
const SIZE_UNKNOWN = 0xffffffff

const PCM = 1
const MS_ADPCM = 2
const FLOAT = 3
const A_LAW = 6
const MU_LAW = 7
const IMA_ADPCM = 0x11
const EXTENSIBLE = 0xfffe

interface WaveFormat {
  readonly codec: number
  readonly channels: number
  readonly sampleRate: number
  readonly bytesPerSecond: number
  readonly blockBytes: number
  readonly bitsPerSample: number
  readonly samplesPerBlock: number
}

/**
 * Length of the data chunk, cut to what there is, by the size of a sample. The declared bytes per second are
 * only asked for codecs whose blocks have no fixed number of samples. One range; two when chunks of 256 KiB
 * stand in front. http://soundfile.sapp.org/doc/WaveFormat, EBU Tech 3306 (RF64)
 */
export async function probeWav(window: AudioWindow): Promise<Measure> {
  let format: WaveFormat | null = null
  let factSamples = 0
  let longSize = SIZE_UNKNOWN
  let at = 12
  for (let count = 0; count < CHUNKS_MAX; count++) {
    const chunk = await window.from(at, 8 + 40)
    if (chunk.length < 8) break
    const id = latin1(chunk, 0, 4)
    const size = u32le(chunk, 4)
    if (id === 'ds64') longSize = u64le(chunk, 16)
    if (id === 'fmt ') format = readFormat(chunk)
    if (id === 'fact') factSamples = u32le(chunk, 8)
    if (id === 'data') {
      const available = window.size - at - 8
      const declared = size === SIZE_UNKNOWN ? longSize : size
      return measure(format, declared === 0 ? available : Math.min(declared, available), factSamples)
    }
    // Chunks begin at even offsets.
    at += 8 + size + (size % 2)
  }
  return { ...UNKNOWN, channels: format?.channels ?? null }
}

/** The encodings of live audio, by codec and bits of a sample. */
const LIVE: Readonly<Record<string, LiveEncoding>> = {
  [`${PCM}/16`]: 'pcm_s16le',
  [`${MU_LAW}/8`]: 'mulaw',
  [`${A_LAW}/8`]: 'alaw',
}

/**
 * Reads what stands in front of the samples of a WAV file that is still coming.
 *
 * @returns null when it is not whole yet, is no WAV file, or has samples that live audio does not have
 */
export function readWavHead(
  bytes: Uint8Array,
): { readonly audio: LiveAudio; readonly offset: number } | null {
  if (bytes.length < 12 || latin1(bytes, 0, 4) !== 'RIFF' || latin1(bytes, 8, 4) !== 'WAVE') return null
  let format: WaveFormat | null = null
  for (let at = 12; at + 8 <= bytes.length; ) {
    const id = latin1(bytes, at, 4)
    const size = u32le(bytes, at + 4)
    if (id === 'data') {
      const encoding = format === null ? undefined : LIVE[`${format.codec}/${format.bitsPerSample}`]
      if (format === null || encoding === undefined) return null
      const { sampleRate, channels } = format
      return { audio: { encoding, sampleRate, channels }, offset: at + 8 }
    }
    if (id === 'fmt ' && at + 8 + size <= bytes.length && size >= 16) format = readFormat(padded(bytes, at))
    at += 8 + size + (size % 2)
  }
  return null
}

/** A chunk of at least the length that an extensible format has. */
function padded(bytes: Uint8Array, at: number): Uint8Array {
  const chunk = new Uint8Array(48)
  chunk.set(bytes.subarray(at, at + 48))
  return chunk
}

function readFormat(chunk: Uint8Array): WaveFormat {
  const tag = u16le(chunk, 8)
  return {
    // The first two bytes of the GUID of an extensible format are the tag that it stands for.
    codec: tag === EXTENSIBLE ? u16le(chunk, 32) : tag,
    channels: u16le(chunk, 10),
    sampleRate: u32le(chunk, 12),
    bytesPerSecond: u32le(chunk, 16),
    blockBytes: u16le(chunk, 20),
    bitsPerSample: u16le(chunk, 22),
    samplesPerBlock: u16le(chunk, 26),
  }
}

function measure(format: WaveFormat | null, dataBytes: number, factSamples: number): Measure {
  if (!format) return UNKNOWN
  const { channels } = format
  return { channels, durationSeconds: seconds(format, dataBytes, factSamples) }
}

function seconds(format: WaveFormat, dataBytes: number, factSamples: number): number {
  const { codec, channels, sampleRate, bytesPerSecond, blockBytes, bitsPerSample, samplesPerBlock } = format
  switch (codec) {
    case PCM:
    case FLOAT:
    case A_LAW:
    case MU_LAW:
      return dataBytes / (channels * Math.ceil(bitsPerSample / 8)) / sampleRate
    case MS_ADPCM:
    case IMA_ADPCM:
      return ((dataBytes / blockBytes) * samplesPerBlock) / sampleRate
    default:
      return factSamples > 0 ? factSamples / sampleRate : dataBytes / bytesPerSecond
  }
}
