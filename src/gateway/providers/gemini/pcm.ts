import { wavHeadOf } from '../../../contracts/live-audio.ts'

/** Samples of 16 bits, little-endian, mono. */
export interface Pcm {
  readonly sampleRate: number
  readonly bytes: Uint8Array
}

const SAMPLE_BYTES = 2
/** No speech has a higher rate; a head that names one is damaged. */
const SAMPLE_RATE_MAX = 384_000

/** The format code of uncompressed samples. */
const WAVE_FORMAT_PCM = 1

/** A WAV file of samples. */
export function wavOf({ sampleRate, bytes }: Pcm): Uint8Array[] {
  return [wavHeadOf({ sampleRate, channels: 1 }, bytes.length), bytes]
}

/** The samples of a WAV file; null when it holds anything but 16 bits of mono, or is none. */
export function pcmOf(wav: Uint8Array): Pcm | null {
  const file = Buffer.from(wav.buffer, wav.byteOffset, wav.byteLength)
  if (file.toString('latin1', 0, 4) !== 'RIFF' || file.toString('latin1', 8, 12) !== 'WAVE') return null
  let sampleRate: number | null = null
  for (let at = 12; at + 8 <= file.length; ) {
    const name = file.toString('latin1', at, at + 4)
    const size = file.readUInt32LE(at + 4)
    const body = at + 8
    if (name === 'fmt ') {
      if (size < 16 || body + 16 > file.length) return null
      const mono = file.readUInt16LE(body) === WAVE_FORMAT_PCM && file.readUInt16LE(body + 2) === 1
      if (!mono || file.readUInt16LE(body + 14) !== SAMPLE_BYTES * 8) return null
      sampleRate = file.readUInt32LE(body + 4)
      if (sampleRate === 0 || sampleRate > SAMPLE_RATE_MAX) return null
    }
    // A file that was written as it was made may give no true size here: its samples go to the end.
    if (name === 'data')
      return sampleRate === null ? null : { sampleRate, bytes: file.subarray(body, body + size) }
    at = body + size + (size % 2)
  }
  return null
}

/** The rate of `audio/L16;codec=pcm;rate=24000`; null for anything but one channel of these. */
export function l16Rate(mediaType: string): number | null {
  const [type = '', ...parameters] = mediaType.toLowerCase().split(';')
  if (type.trim() !== 'audio/l16' && type.trim() !== 'audio/pcm') return null
  const given = new Map(parameters.map((text) => text.trim().split('=', 2) as [string, string | undefined]))
  if ((given.get('channels') ?? '1') !== '1') return null
  const rate = given.get('rate') ?? '24000'
  return /^[1-9]\d{3,5}$/.test(rate) && Number(rate) <= SAMPLE_RATE_MAX ? Number(rate) : null
}
