import { type Static, Type } from 'typebox'
import { GatewayError } from '../../../errors.ts'
import { invalid } from '../../../inbound/refusals.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { JOB_STATUSES } from '../../../schema/jobs.ts'
import { noteChange } from '../../audit-note.ts'
import { cancelJob } from '../../cancel-job.ts'
import { jobCancellation, jobRetry } from '../../job-notes.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import { jobAnswer, jobDetail, jobIn } from './job-answers.ts'

const PATH = '/workspaces/:workspace/jobs'
const ONE = `${PATH}/:job` as const
const LIMIT_DEFAULT = 50
const LIMIT_MAX = 200

const ListQuery = Type.Object({
  kind: Type.Optional(Type.Enum(['transcription', 'queue'])),
  status: Type.Optional(Type.Enum([...JOB_STATUSES])),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT_MAX })),
})

type OneCall = ConsoleCall<typeof ONE, unknown, unknown>

/** The jobs of a workspace, of both kinds and of all of its apps. */
export function jobEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'GET', PATH, { query: ListQuery }, listJobs),
    consoleEndpoint(desk, 'GET', ONE, {}, async (call) => jobDetail(desk, await jobIn(desk, call.params))),
    consoleEndpoint(desk, 'POST', `${ONE}/cancel`, {}, cancel),
    consoleEndpoint(desk, 'POST', `${ONE}/retry`, {}, retry),
  ]
}

async function listJobs(call: ConsoleCall<typeof PATH, unknown, Static<typeof ListQuery>>) {
  const { desk, params, query } = call
  const { kind = null, status = null, limit = LIMIT_DEFAULT } = query
  const found = await desk.doors.services.state.jobs.list({
    workspace: params.workspace,
    kind,
    status,
    limit,
  })
  return { jobs: found.map(jobAnswer) }
}

/** As if its app had cancelled it; a job that has ended stays as it is. */
async function cancel({ desk, viewer, params }: OneCall) {
  const job = await jobIn(desk, params)
  if (job.endedAtMs !== null) return jobDetail(desk, job)
  const { id, workspace, app } = job
  await noteChange(desk.records, jobCancellation(job, viewer.actor))
  const cancelled = await cancelJob(id, { workspace, app }, desk.doors)
  if (cancelled === null) throw new GatewayError('JOB_NOT_FOUND')
  return jobDetail(desk, cancelled)
}

/** Queues a failed job of the queue again. */
async function retry({ desk, viewer, params }: OneCall) {
  const job = await jobIn(desk, params)
  const { id, kind, status } = job
  if (kind !== 'queue')
    throw invalid(
      'a transcription job is not tried again: its caller was told of its end, and sends a new one',
    )
  if (status !== 'failed') throw invalid(`the job is ${status}: only one that failed is queued again`)
  await noteChange(desk.records, jobRetry(job, viewer.actor))
  const { jobs } = desk.doors.services.state
  // Somebody else was quicker, or it was purged: how it stands tells.
  if (await jobs.retry(id)) desk.doors.jobs.signals.queued()
  return jobDetail(desk, await jobIn(desk, params))
}
