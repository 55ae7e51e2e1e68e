import type { Audio } from '../../../contracts/audio.ts'
import { toAbortSignal } from '../../../contracts/cancellation.ts'
import { limitsOf } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { TranscriptionTask } from '../../../contracts/operations.ts'
import type { AudioPart, CutPlan, PartOwner, Transcoding } from '../../../contracts/parts.ts'
import { keepsTo, planCut, planWhole } from '../../media/cut/plan.ts'
import { checkDuration } from '../../media/measure.ts'
import { wantsSpeakers } from '../../providers/transcript-needs.ts'
import { type ActiveCall, leftMsOf } from '../context/services.ts'

/**
 * Makes the files of a call in parts: cuts its audio, after it was transcoded where its plan says so.
 *
 * @throws GatewayError as `AudioTranscoder.transcode`, `checkDuration` and `AudioCutter.cut`
 */
export async function partFiles(
  active: ActiveCall<TranscriptionTask>,
  plan: CutPlan,
  owner: PartOwner,
): Promise<readonly AudioPart[]> {
  const { audio } = active.call.payload
  if (plan.transcoding === undefined) return apart(active, audio, plan, owner)
  const { cutter } = active.services
  const made = await transcoded(active, audio, plan.transcoding, owner)
  let parts: readonly AudioPart[] = []
  try {
    checkDuration(made, limitsOf(active.context.principal, active.services.snapshot()))
    const own = planOfMade(active, made, plan, plan.transcoding)
    parts = own === null ? [allOf(made)] : await apart(active, made, own, owner)
    // It is a file of this call in any case, and goes with it.
    return parts.map(({ isWhole: _, ...part }) => part)
  } finally {
    if (!parts.some(({ audio: own }) => own === made)) void cutter!.drop(made)
  }
}

/** Tells what has become of the audio. */
export function warningsOf(
  { transcoding }: CutPlan,
  { format }: Audio,
  parts: readonly AudioPart[],
): string[] {
  const from = format === 'other' ? '' : `from ${format} `
  return [
    ...(parts[0]?.isWhole === true ? [UNCUT] : []),
    ...(transcoding === undefined ? [] : [`audio: transcoded ${from}to ${transcoding.format}`]),
  ]
}

const UNCUT = 'skip_silence: left out, the audio cannot be taken apart'

async function apart(
  { services, signal }: ActiveCall,
  audio: Audio,
  plan: CutPlan,
  owner: PartOwner,
): Promise<readonly AudioPart[]> {
  try {
    return await services.cutter!.cut(audio, plan, owner, toAbortSignal(signal))
  } catch (error) {
    const isUncuttable = error instanceof GatewayError && error.code === 'INVALID_REQUEST'
    if (!plan.isOptional || !isUncuttable) throw error
    return [{ ...allOf(audio), isWhole: true }]
  }
}

function transcoded(
  active: ActiveCall<TranscriptionTask>,
  audio: Audio,
  to: Transcoding,
  owner: PartOwner,
): Promise<Audio> {
  const { deadlineMs, job, services, signal } = active
  const limitMs = job === null ? leftMsOf(active) : deadlineMs
  return services.transcoder!.transcode(audio, to, owner, limitMs, toAbortSignal(signal))
}

/** How transcoded audio is cut, whose length is known only now; null: it is heard as it is. */
function planOfMade(
  { call }: ActiveCall<TranscriptionTask>,
  audio: Audio,
  { skipsSilence }: CutPlan,
  { limits }: Transcoding,
): CutPlan | null {
  if (keepsTo(audio, limits)) return skipsSilence ? planWhole(audio, true) : null
  const plan = wantsSpeakers(call.payload.options) ? null : planCut(audio, limits)
  if (plan !== null) return { ...plan, skipsSilence }
  throw new GatewayError('INVALID_REQUEST', 'the audio is over the limits of every provider', {
    param: 'audio',
  })
}

/** All of the audio as its one part. */
function allOf(audio: Audio): AudioPart {
  const seconds = audio.durationSeconds ?? 0
  return {
    audio,
    startSeconds: 0,
    endSeconds: seconds,
    fromSeconds: 0,
    toSeconds: seconds,
    endsQuietly: false,
  }
}
