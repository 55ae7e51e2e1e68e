import type { Audio } from '../../contracts/audio.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { Limits } from '../../contracts/limits.ts'

/** Facts about the audio that a container states. */
export interface Measure {
  /** Null when it does not tell. */
  readonly durationSeconds: number | null
  readonly channels: number | null
}

export const UNKNOWN: Measure = { durationSeconds: null, channels: null }

/**
 * Audio of an unknown format is passed over: it is measured once it is transcoded.
 *
 * @throws GatewayError AUDIO_TOO_LONG, or UNSUPPORTED_AUDIO_FORMAT when a cap is set and the file does not tell
 */
export function checkDuration({ format, durationSeconds }: Audio, { max_audio_seconds: cap }: Limits): void {
  if (cap === null || format === 'other') return
  if (durationSeconds === null) {
    throw new GatewayError('UNSUPPORTED_AUDIO_FORMAT', 'the duration of the audio cannot be found', {
      details: { limit: 'max_audio_seconds', limit_seconds: cap },
    })
  }
  if (durationSeconds <= cap) return
  throw new GatewayError('AUDIO_TOO_LONG', `the audio is over max_audio_seconds (${cap} seconds)`, {
    details: { limit: 'max_audio_seconds', limit_seconds: cap, audio_seconds: durationSeconds },
  })
}
