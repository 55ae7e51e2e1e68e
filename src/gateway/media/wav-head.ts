import type { LiveAudio, LiveEncoding } from '../../contracts/calls.ts'
import { readWavFormat, WAV_CODEC } from './wav-format.ts'

/** Chunks in front of the audio; real files have a few hundred bytes of them. */
const HEAD_MAX_BYTES = 1024 * 1024
/** Sizes from here on are what a writer leaves that does not know the length; no file has so many bytes. */
const SIZE_UNKNOWN = 0xffff_ff00

/** The beginning of a wav file whose rest is still coming. */
export interface WavHead {
  readonly audio: LiveAudio
  /** Where the samples begin, bytes. */
  readonly start: number
  /** Bytes of samples; null: up to the end. */
  readonly bytes: number | null
}

/** True while the bytes can be the beginning of a wav file. */
export function beginsAsWav(head: Buffer): boolean {
  const [riff, wave] = [head.toString('latin1', 0, 4), head.toString('latin1', 8, 12)]
  return 'RIFF'.startsWith(riff) && 'WAVE'.startsWith(wave)
}

/**
 * Reads the head of a wav file whose samples can be sent as live audio: 16-bit PCM, mu-law or A-law.
 *
 * @returns null for any other file; `incomplete` when the samples begin further on
 */
export function readWavHead(head: Buffer): WavHead | 'incomplete' | null {
  if (!beginsAsWav(head)) return null
  let audio: LiveAudio | null = null
  for (let at = 12; at < HEAD_MAX_BYTES; ) {
    if (at + 8 > head.length) return 'incomplete'
    const [name, bytes] = [head.toString('latin1', at, at + 4), head.readUInt32LE(at + 4)]
    const start = at + 8
    if (name === 'data') {
      const isKnown = bytes > 0 && bytes < SIZE_UNKNOWN
      return audio === null ? null : { audio, start, bytes: isKnown ? bytes : null }
    }
    if (name === 'fmt ') {
      if (start + bytes > head.length) return bytes > HEAD_MAX_BYTES ? null : 'incomplete'
      audio = readFormat(head.subarray(start, start + bytes))
      if (audio === null) return null
    }
    // Chunks begin at even offsets.
    at = start + bytes + (bytes % 2)
  }
  return null
}

function readFormat(chunk: Buffer): LiveAudio | null {
  if (chunk.length < 16) return null
  const { codec, bitsPerSample, channels, sampleRate } = readWavFormat(chunk)
  const encoding = encodingOf(codec, bitsPerSample)
  return encoding === null || channels === 0 || sampleRate === 0 ? null : { encoding, sampleRate, channels }
}

function encodingOf(codec: number, bits: number): LiveEncoding | null {
  if (codec === WAV_CODEC.pcm && bits === 16) return 'pcm_s16le'
  if (bits !== 8) return null
  return codec === WAV_CODEC.muLaw ? 'mulaw' : codec === WAV_CODEC.aLaw ? 'alaw' : null
}
