import { AUDIO_FORMATS, type Audio } from '../../contracts/audio.ts'
import type { TranscriptionOptions } from '../../contracts/calls.ts'
import type { Selectors } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { TranscriptionTask } from '../../contracts/operations.ts'
import type { AdmittedContext } from '../call/context/call-context.ts'
import type { Services } from '../call/context/services.ts'
import type { Call } from '../call/facts/call.ts'
import { run } from '../call/pipeline.ts'

/** Stands for audio that is not fetched yet: neither its length nor its channels refuse anything. */
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

/** A transcription as it was asked for, without its audio. */
export interface TranscriptionInput {
  readonly options: TranscriptionOptions
  readonly selectors: Selectors
  readonly warnings: readonly string[]
}

/**
 * Refuses a transcription that no entry could serve under the present configuration. Audio that is still to be fetched,
 * null here, may turn out to be of any format that an entry takes.
 *
 * @throws GatewayError as `run` refuses a preview
 */
export async function preflightTranscription(
  services: Services,
  context: AdmittedContext,
  task: TranscriptionTask,
  { audio: given, options, selectors, warnings }: TranscriptionInput & { readonly audio: Audio | null },
): Promise<void> {
  const preview = (audio: Audio) => {
    const payload = { audio, options }
    const call: Call<TranscriptionTask> = { operation: task, payload, selectors, warnings }
    return run(services, context, { mode: 'preview', asJob: true, call })
  }
  if (given !== null) return preview(given)
  let refusal: unknown
  for (const format of AUDIO_FORMATS) {
    try {
      return await preview({ ...UNSEEN, format })
    } catch (thrown) {
      // A refusal of the format alone is the least telling one.
      if (refusal === undefined || !isAboutAudio(thrown)) refusal = thrown
    }
  }
  throw refusal
}

function isAboutAudio(thrown: unknown): boolean {
  return thrown instanceof GatewayError && thrown.extra.param === 'audio'
}
