import type { SpeechForm } from '../../contracts/speech-encoding.ts'
import { isMpegBitrate } from './mpeg-frame.ts'
import { SAMPLE_RATES } from './pcm.ts'

/** Names without a rate, as OpenAI has them. */
export const PLAIN_FORMS: readonly string[] = ['mp3', 'opus', 'wav', 'pcm']

/** Sample rate of `pcm`, the same at every provider, Hz. */
const PCM_RATE = 24_000
const TELEPHONE_RATE = 8_000
const OPUS_KILOBITS = { min: 6, max: 510 }

/**
 * Reads the name of a format: one of OpenAI's, or ElevenLabs' `codec_rate[_kilobits]`.
 *
 * @returns null for a format that is not made here
 */
export function speechForm(name: string): SpeechForm | null {
  const [, codec, rate, kilobits] =
    /^(mp3|opus|pcm|wav|ulaw|alaw)(?:_(\d{4,5})(?:_(\d{1,3}))?)?$/.exec(name) ?? []
  const sampleRate = rate === undefined ? null : Number(rate)
  const bitrate = kilobits === undefined ? null : Number(kilobits) * 1000
  if (codec === undefined || (sampleRate !== null && !isSampleRate(sampleRate))) return null
  const isEncoded = codec === 'mp3' || codec === 'opus'
  if (isEncoded !== (bitrate !== null) && sampleRate !== null) return null
  switch (codec) {
    case 'mp3':
      return sampleRate === null || isMpegBitrate(sampleRate, bitrate!)
        ? { codec, sampleRate, bitrate }
        : null
    case 'opus': {
      const isPossible =
        sampleRate === 48_000 &&
        Number(kilobits) >= OPUS_KILOBITS.min &&
        Number(kilobits) <= OPUS_KILOBITS.max
      return sampleRate === null || isPossible ? { codec, sampleRate: null, bitrate } : null
    }
    case 'pcm':
      return { codec, sampleRate: sampleRate ?? PCM_RATE, bitrate }
    case 'wav':
      return { codec, sampleRate, bitrate }
    default:
      return sampleRate === TELEPHONE_RATE ? { codec: codec as 'ulaw' | 'alaw', sampleRate, bitrate } : null
  }
}

export function isSampleRate(hertz: number): boolean {
  return (SAMPLE_RATES as readonly number[]).includes(hertz)
}

/**
 * Media type of a format by its name. `pcm` is little-endian, 16 bit, mono, without a header; `ulaw` is what telephones
 * speak.
 */
export function speechMediaType(format: string): string {
  const [codec, rate] = format.split('_')
  switch (codec) {
    case 'mp3':
      return 'audio/mpeg'
    case 'opus':
      return 'audio/ogg'
    case 'wav':
      return 'audio/wav'
    case 'ulaw':
      return 'audio/basic'
    case 'alaw':
      return 'audio/PCMA'
    default:
      return `audio/pcm;rate=${rate ?? PCM_RATE}`
  }
}
