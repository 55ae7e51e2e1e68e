import type { Audio } from '../../contracts/audio.ts'
import type { FiledJob, JobObjects } from '../../contracts/job-objects.ts'
import type { JobInputs, JobSubmission, WaitingInput } from '../../contracts/jobs.ts'
import type { Logger } from '../../contracts/log.ts'
import { startRounds } from '../../contracts/rounds.ts'
import type { State } from '../../contracts/state.ts'
import type { Clock } from '../../contracts/time.ts'

/** The audio of a job that is about to be submitted, as `JobSubmission` has it. */
export interface KeptInput extends Pick<JobSubmission, 'input'> {
  readonly audio: Audio
}

/** Has small audio go into the record of its job, where the state takes it, and puts any other into the store. */
export async function keepInput(
  audio: Audio,
  job: FiledJob,
  signal: AbortSignal,
  { objects, state }: { readonly objects: JobObjects; readonly state: Pick<State, 'jobInputs'> },
): Promise<KeptInput> {
  const inline = state.jobInputs === null ? null : objects.inline(audio, job)
  return inline ?? { audio: await objects.keepAudio(audio, job, signal) }
}

/** Audio moved at a time. */
const BATCH = 32
/** Jobs are mostly taken up, and many have ended, by then; a second of a busy node brings some 15 MB. */
const AGE_MS = 10_000
/** Short beside the age, long enough that an idle node hardly feels it. */
const PAUSE_MS = 5_000

interface MoveDependencies {
  readonly inputs: JobInputs
  readonly objects: Pick<JobObjects, 'storeInline' | 'removeInput'>
  readonly log: Logger
  readonly clock: Clock
}

/**
 * Moves the audio of jobs that no worker takes up soon from their records to the store, so that a large backlog does
 * not blow up the state. A small one stays: a job whose audio is moved takes half as much CPU again.
 */
export function startInputMoves({ inputs, objects, log, clock }: MoveDependencies): () => Promise<void> {
  async function move({ job, input }: WaitingInput): Promise<void> {
    try {
      await objects.storeInline(job, input)
      // It may have been taken up meanwhile, with what the record had.
      if (!(await inputs.moved(job.id))) await objects.removeInput(job)
    } catch (error) {
      log.warn({ job_id: job.id, err: error }, 'the audio of a job stays in its record')
    }
  }

  async function round(): Promise<boolean> {
    if (await inputs.hasRoom()) return false
    const waiting = await inputs.take(BATCH, AGE_MS)
    await Promise.all(waiting.map(move))
    return waiting.length === BATCH
  }

  const onAway = (error: unknown) => log.warn({ err: error }, 'audio stays in the records of jobs for now')
  return startRounds(round, { pauseMs: PAUSE_MS, clock, onAway }).stop
}
