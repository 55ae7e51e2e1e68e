import { type Static, Type } from 'typebox'
import { GatewayError } from '../../../contracts/errors.ts'
import { JOB_STATUSES, type Job } from '../../../contracts/jobs.ts'
import { cancelForApp, jobOf, retryJob } from '../../../gateway/admin/jobs.ts'
import { timestamp } from '../../../gateway/api/json-reply.ts'
import { openResult } from '../../../gateway/jobs/results.ts'
import type { JobAnswer, JobDetailAnswer } from '../answers/jobs.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleCall, type ConsoleRoute, consoleEndpoint, WrittenReply } from '../endpoint.ts'
import { keyNames } from './keys.ts'
import { requestAnswer } from './requests.ts'

const PATH = '/workspaces/:workspace/jobs'
const ONE = `${PATH}/:job` as const
const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200
/** Runs of one job that are shown: it is put back for somewhat over an hour at most. */
const RUNS_MAX = 100

const ListQuery = Type.Object({
  kind: Type.Optional(Type.Enum(['transcription', 'queue'])),
  status: Type.Optional(Type.Enum([...JOB_STATUSES])),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
})

type ListCall = ConsoleCall<typeof PATH, unknown, Static<typeof ListQuery>>
type JobCall = ConsoleCall<typeof ONE, unknown, unknown>

/** The jobs of a workspace, of both kinds and of all its apps. */
export function jobEndpoints(context: ConsoleContext): ConsoleRoute[] {
  return [
    consoleEndpoint(context, 'GET', PATH, { query: ListQuery }, listJobs),
    consoleEndpoint(context, 'GET', ONE, {}, async (call) => jobDetail(context, await seenJob(call))),
    consoleEndpoint(context, 'POST', `${ONE}/cancel`, {}, async (call) => {
      const { after } = await cancelForApp(call.viewer.actor, jobName(call), context.admin)
      return jobDetail(context, after)
    }),
    consoleEndpoint(context, 'POST', `${ONE}/retry`, {}, async (call) =>
      jobDetail(context, await retryJob(call.viewer.actor, jobName(call), context.admin)),
    ),
    consoleEndpoint(context, 'GET', `${ONE}/result`, {}, showResult),
  ]
}

/** The job that a path names. */
export function jobName({ params }: Pick<JobCall, 'params'>) {
  return { id: params.job, workspace: params.workspace }
}

function seenJob(call: JobCall): Promise<Job> {
  return jobOf(call.viewer.actor, jobName(call), call.context.admin)
}

async function listJobs({ context, params: { workspace }, query }: ListCall) {
  const { kind = null, status = null, limit = LIMIT_DEFAULT } = query
  const { jobs } = context.deps.services.state
  const found = await jobs.list({ workspace, kind, status, limit })
  return { jobs: found.map(jobAnswer) }
}

/**
 * The transcript of a job as its caller gets it, for viewers of a workspace whose content may be shown.
 *
 * @throws GatewayError JOB_NOT_FOUND; PERMISSION_DENIED, also to operators, unless the workspace shows its content;
 *         NOT_FOUND when there is no result; of `openResult`
 */
async function showResult(call: JobCall): Promise<WrittenReply> {
  const { context, exchange } = call
  const { services, jobs } = context.deps
  const job = await seenJob(call)
  if (!(await services.state.settings.contentShown(job.workspace)))
    throw new GatewayError(
      'PERMISSION_DENIED',
      'the workspace does not show its content: one of its admins, or an operator, can switch it on',
    )
  const { result } = job
  if (result === null) throw new GatewayError('NOT_FOUND', 'the job has no result')
  const stores = { budget: services.budget, state: services.state, objects: jobs.objects }
  const body = await openResult(job, result, exchange, stores)
  return new WrittenReply({ status: 200, headers: { 'content-type': 'application/json' }, body })
}

function jobAnswer(job: Job): JobAnswer {
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
    parts: job.parts ?? null,
    error: error && { code: error.code, message: error.message },
    policy_version_id: facts?.policy_version_id ?? null,
    can_retry: kind === 'queue' && status === 'failed',
    has_result: job.result !== null,
  }
}

/** @throws GatewayError DEPENDENCY_UNAVAILABLE */
async function jobDetail(context: ConsoleContext, job: Job): Promise<JobDetailAnswer> {
  const [runs, nameOfKey] = await Promise.all([runsOf(context, job), keyNames(context)])
  return {
    ...jobAnswer(job),
    request_id: job.requestId,
    key_name: nameOfKey(job.keyId),
    history: job.history.map(({ atMs, status, fence }) => ({ at: timestamp(atMs), status, claim: fence })),
    runs: runs.map((run) => requestAnswer(run)),
  }
}

/** Without the requests that asked about the job. */
function runsOf({ state }: ConsoleContext, { id: jobId, workspace }: Job) {
  const any = { outcome: null, app: null, keyId: null, requestId: null, beforeMs: null, afterMs: null }
  return state.requests.list({ ...any, workspace, jobId, path: 'job', limit: RUNS_MAX })
}
