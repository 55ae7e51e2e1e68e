import { GatewayError } from '../../../errors.ts'
import type { Job } from '../../../schema/jobs.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import type { JobAnswer, JobDetailAnswer } from './answers.ts'
import { storedKeys } from './kept-keys.ts'
import { fileKeys } from './key-answers.ts'
import { requestAnswer } from './requests.ts'

/** Runs of one job that are shown: it is put back for somewhat over an hour at most. */
const RUNS_MAX = 100

/**
 * The job of a path, when it is one of the workspace.
 *
 * @throws GatewayError JOB_NOT_FOUND, the same for one of another workspace and for what is no id of a job
 */
export async function jobIn(
  { doors }: ConsoleDesk,
  { workspace, job: id }: { readonly workspace: string; readonly job: string },
): Promise<Job> {
  const job = await doors.services.state.jobs.get(id)
  if (job !== null && job.workspace === workspace) return job
  throw new GatewayError('JOB_NOT_FOUND')
}

export function jobAnswer(job: Job): JobAnswer {
  const { id, kind, endpoint, mode, app, status, error, facts } = job
  return {
    id,
    kind,
    endpoint,
    mode,
    app,
    key_id: job.keyId,
    status,
    cancel_requested: job.cancelRequested,
    created_at: timestamp(job.createdAtMs),
    started_at: timestamp(job.startedAtMs),
    completed_at: timestamp(job.endedAtMs),
    expires_at: timestamp(job.expiresAtMs),
    attempts: job.fence,
    error: error && { code: error.code, message: error.message },
    policy_version_id: facts?.policy_version_id ?? null,
    can_retry: kind === 'queue' && status === 'failed',
    has_result: job.result !== null,
  }
}

/** @throws GatewayError DEPENDENCY_UNAVAILABLE */
export async function jobDetail(desk: ConsoleDesk, job: Job): Promise<JobDetailAnswer> {
  const { state } = desk
  const runs = await state.requests.list({
    workspace: job.workspace,
    jobId: job.id,
    // Without the requests that were about it.
    path: 'job',
    outcome: null,
    app: null,
    keyId: null,
    requestId: null,
    beforeMs: null,
    afterMs: null,
    limit: RUNS_MAX,
  })
  return {
    ...jobAnswer(job),
    request_id: job.requestId,
    key_name: await keyName(desk, job),
    history: job.history.map(({ atMs, status, fence }) => ({ at: timestamp(atMs), status, claim: fence })),
    runs: runs.map((run) => requestAnswer(run)),
  }
}

async function keyName(desk: ConsoleDesk, { workspace, keyId }: Job): Promise<string | null> {
  const keys = [
    ...fileKeys(desk.doors.services.snapshot(), workspace),
    ...(await storedKeys(desk, workspace)),
  ]
  return keys.find(({ id }) => id === keyId)?.name ?? null
}
