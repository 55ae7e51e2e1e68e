import { GatewayError } from '../errors.ts'
import { foresee } from '../gateway/foresee.ts'
import type { Services, Trail } from '../gateway/gateway.ts'
import { AUDIO_FORMATS, type Audio } from '../schema/audio.ts'
import type { HearingTask, TranscriptionRequest } from './transcription-request.ts'

/** Audio that nothing is known of: neither length nor channels refuse anything. */
const UNSEEN: Omit<Audio, 'format'> = {
  source: { kind: 'memory', blocks: [] },
  offset: 0,
  length: 0,
  encoding: 'identity',
  decodedBytes: 0,
  canonical: true,
  mediaType: null,
  filename: null,
  durationSeconds: null,
  channels: null,
}

/**
 * Refuses what no entry could serve by what the configuration says now. Audio that is still to be fetched may turn out
 * as whatever an entry takes.
 *
 * @param audio null when it is to be fetched
 * @param trail of a caller who is admitted
 * @throws GatewayError as `foresee`
 */
export function foreseeHearing(
  services: Services,
  task: HearingTask,
  { options, selectors, warnings }: TranscriptionRequest,
  audio: Audio | null,
  trail: Trail,
): void {
  const foreseen = (payload: { readonly audio: Audio; readonly options: typeof options }) =>
    foresee(services, { operation: task, trail, call: { payload, selectors, warnings } })
  if (audio !== null) return void foreseen({ audio, options })
  let refusal: unknown
  for (const format of AUDIO_FORMATS) {
    try {
      return void foreseen({ audio: { ...UNSEEN, format }, options })
    } catch (thrown) {
      // That a format is not taken is the least that can be said against a call.
      if (refusal === undefined || !isOfAudio(thrown)) refusal = thrown
    }
  }
  throw refusal
}

function isOfAudio(thrown: unknown): boolean {
  return thrown instanceof GatewayError && thrown.extra.param === 'audio'
}
