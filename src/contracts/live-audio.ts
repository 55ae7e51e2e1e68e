import type { LiveAudio, LiveEncoding } from './calls.ts'

/** Bytes of one sample of one channel. */
export function sampleBytes(encoding: LiveEncoding): number {
  return encoding === 'pcm_s16le' ? 2 : 1
}

/** Bytes of one sample of every channel: audio is cut between two of them only. */
export function frameBytes({ encoding, channels }: LiveAudio): number {
  return sampleBytes(encoding) * channels
}

export function bytesPerSecond(audio: LiveAudio): number {
  return frameBytes(audio) * audio.sampleRate
}
