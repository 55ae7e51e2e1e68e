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

const PCM = 1
const WAV_HEAD_BYTES = 44

/** The head of a wav file of so many bytes of 16-bit PCM. */
export function wavHeadOf(
  { sampleRate, channels }: Pick<LiveAudio, 'sampleRate' | 'channels'>,
  bytes: number,
): Buffer {
  const audio: LiveAudio = { encoding: 'pcm_s16le', sampleRate, channels }
  const head = Buffer.alloc(WAV_HEAD_BYTES)
  head.write('RIFF', 0, 'latin1')
  head.writeUInt32LE(WAV_HEAD_BYTES - 8 + bytes, 4)
  head.write('WAVEfmt ', 8, 'latin1')
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(PCM, 20)
  head.writeUInt16LE(channels, 22)
  head.writeUInt32LE(sampleRate, 24)
  head.writeUInt32LE(bytesPerSecond(audio), 28)
  head.writeUInt16LE(frameBytes(audio), 32)
  head.writeUInt16LE(8 * sampleBytes(audio.encoding), 34)
  head.write('data', 36, 'latin1')
  head.writeUInt32LE(bytes, 40)
  return head
}
