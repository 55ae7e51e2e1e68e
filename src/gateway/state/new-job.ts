import type { Job, JobEnding, JobSpec, JobSubmission, Submitted } from '../../contracts/jobs.ts'

/** A job as it stands right after its submission. */
export function newJobOf(spec: JobSpec, atMs: number): Job {
  return {
    ...spec,
    ...{ status: 'queued', createdAtMs: atMs, startedAtMs: null, endedAtMs: null, expiresAtMs: null },
    ...{ cancelRequested: false, erased: false, fence: 0, stalled: 0, retries: 0, returns: 0 },
    ...{ result: null, error: null, facts: null, history: [{ atMs, status: 'queued', fence: 0 }] },
  }
}

/** A state's answer to a submission that has made a job: its submitter knows the rest. */
export interface Made {
  readonly state: 'new'
  /** When it was submitted, on the clock of the state. */
  readonly atMs: number
}

/** The answer to a submission: a job that it has made is not read back from the state. */
export function submittedOf({ spec }: JobSubmission, answer: Submitted | Made): Submitted {
  if (answer.state !== 'new') return answer
  return { state: 'accepted', replayed: false, job: newJobOf(spec, answer.atMs), id: spec.id }
}

/** A state's answer about a job whose claim was to be ended. */
export interface Ended {
  readonly job: Job | null
  /** This very request has ended it: its result, which may be long, is not sent back to the worker that has it. */
  readonly isNow: boolean
}

/** The answer to the end of a claim: the job, with the result that came with its end. */
export function endedJobOf({ job, isNow }: Ended, ending: JobEnding): Job | null {
  const isKept = isNow && job?.status === 'succeeded' && ending.state === 'succeeded'
  return isKept ? { ...job, result: ending.result } : job
}
