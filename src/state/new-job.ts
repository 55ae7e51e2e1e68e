import type { Job, JobSpec, JobSubmission, Submitted } from '../contracts/jobs.ts'

/** A job as it stands right after its submission. */
export function newJobOf(spec: JobSpec, atMs: number): Job {
  return {
    ...spec,
    ...{ status: 'queued', createdAtMs: atMs, startedAtMs: null, endedAtMs: null, expiresAtMs: null },
    ...{ cancelRequested: false, fence: 0, stalled: 0, retries: 0, returns: 0 },
    ...{ result: null, error: null, facts: null, history: [{ atMs, status: 'queued', fence: 0 }] },
  }
}

/** What a state says of a submission that has made a job: its submitter knows the rest. */
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
