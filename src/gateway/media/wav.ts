import { latin1, u32le, u64le } from './bytes.ts'
import { type Measure, UNKNOWN } from './measure.ts'
import { frameBytes, readWavFormat, WAV_CODEC, type WavFormat } from './wav-format.ts'
import type { AudioWindow } from './window.ts'

/** Chunks in front of the audio; real files have a handful. */
const CHUNKS_MAX = 1000
/** Size left by a writer that did not know the length: in RF64 the real one is in the chunk `ds64`. */
const SIZE_UNKNOWN = 0xffffffff

/**
 * Length of the data chunk, cut to what there is, by the size of a sample. The declared bytes per second are only asked
 * for codecs whose blocks have no fixed number of samples. One range; two when chunks of 256 KiB come first.
 * http://soundfile.sapp.org/doc/WaveFormat, EBU Tech 3306 (RF64)
 */
export async function probeWav(window: AudioWindow): Promise<Measure> {
  let format: WavFormat | null = null
  let factSamples = 0
  let longSize = SIZE_UNKNOWN
  let at = 12
  for (let count = 0; count < CHUNKS_MAX; count++) {
    const chunk = await window.from(at, 8 + 40)
    if (chunk.length < 8) break
    const id = latin1(chunk, 0, 4)
    const size = u32le(chunk, 4)
    if (id === 'ds64') longSize = u64le(chunk, 16)
    if (id === 'fmt ') format = readWavFormat(chunk.subarray(8))
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

function measure(format: WavFormat | null, dataBytes: number, factSamples: number): Measure {
  if (!format) return UNKNOWN
  const { channels } = format
  return { channels, durationSeconds: seconds(format, dataBytes, factSamples) }
}

function seconds(format: WavFormat, dataBytes: number, factSamples: number): number {
  const { codec, sampleRate, bytesPerSecond, blockBytes, samplesPerBlock } = format
  const ofFrame = frameBytes(format)
  if (ofFrame !== null) return dataBytes / ofFrame / sampleRate
  switch (codec) {
    case WAV_CODEC.msAdpcm:
    case WAV_CODEC.imaAdpcm:
      return ((dataBytes / blockBytes) * samplesPerBlock) / sampleRate
    default: {
      // Neither is sure, and a count of next to nothing is a lie.
      const byRate = dataBytes / bytesPerSecond
      return bytesPerSecond === 0 || factSamples / sampleRate > byRate / 2 ? factSamples / sampleRate : byRate
    }
  }
}
