import { GatewayError } from '../errors.ts'
import { admit } from '../gateway/admit.ts'
import { elsewhere } from '../gateway/elsewhere.ts'
import type { Services, Trail } from '../gateway/gateway.ts'
import { jobPartition, newJobId } from '../ids.ts'
import { receiveAudio } from '../inbound/body.ts'
import type { Exchange } from '../inbound/exchange.ts'
import { invalidField } from '../inbound/refusals.ts'
import type { EdgeRoute } from '../inbound/server.ts'
import type { Principal } from '../schema/catalog.ts'
import type { Job } from '../schema/jobs.ts'
import { cancelJob } from './cancel-job.ts'
import { type Doors, endpoint, type Handle } from './endpoint.ts'
import { checkIdempotencyKey, idempotencyKeyOf } from './idempotency-key.ts'
import { JOBS_PATH, jobReply } from './job-view.ts'
import { createJobWatch, type JobWatch } from './job-watch.ts'
import { submitJob } from './submit-job.ts'
import { readTranscriptionRequest } from './transcription-request.ts'

/** Longest `wait`, seconds: below what proxies and clients take for a dead connection. */
const WAIT_SECONDS_MAX = 30

/**
 * POST, GET and DELETE of durable transcription jobs. Keys need the scope `jobs`, and see the jobs of their own app, by
 * whichever of its keys they were handed in.
 */
export function transcriptionJobs(doors: Doors): EdgeRoute[] {
  const watch = createJobWatch(doors.services.state.jobs, doors.jobs.signals)
  const one = `${JOBS_PATH}/:job_id`
  return [
    endpoint(doors, 'POST', JOBS_PATH, submit, { idempotent: true }),
    endpoint(doors, 'GET', one, (exchange, trail) => show(watch, exchange, trail, doors)),
    endpoint(doors, 'DELETE', one, cancel),
  ]
}

/** Takes everything that POST /v1/transcription takes, and answers as soon as it is durable. */
const submit: Handle = async (exchange, trail, doors) => {
  const { services, spool } = doors
  const { workspace } = await admitted(exchange, trail, services)
  const key = idempotencyKeyOf(exchange)
  if (key !== undefined) checkIdempotencyKey(key)
  const { limits } = services.snapshot()
  const id = newJobId('tj', workspace.id)
  trail.trace?.begin('body')
  const body = await receiveAudio(exchange, {
    spool,
    limits,
    workspace: workspace.id,
    job: id,
  })
  trail.trace?.end()
  try {
    const offers = { stream: false, jobs: true }
    const request = readTranscriptionRequest(exchange, body.fields, 'transcription', offers)
    return submitJob({ id, body, request }, exchange, trail, doors)
  } catch (error) {
    body.release()
    throw error
  }
}

/** The job as it stands; with `?wait=` as soon as its status is another one, or the seconds have passed. */
async function show(watch: JobWatch, exchange: Exchange, trail: Trail, doors: Doors) {
  const { services } = doors
  const principal = await admitted(exchange, trail, services)
  const waitMs = waitMsOf(exchange)
  const id = idOf(exchange, trail)
  const job = visible(await services.state.jobs.get(id), principal)
  if (waitMs === null || job.endedAtMs !== null) return jobReply(job, exchange, trail, doors)
  const later = await elsewhere(trail, watch.changed(job, waitMs, exchange.signal))
  return jobReply(visible(later, principal), exchange, trail, doors)
}

/** Cancels a job that is queued, asks for it when it is processing; one that has ended stays as it is. */
const cancel: Handle = async (exchange, trail, doors) => {
  const principal = await admitted(exchange, trail, doors.services)
  const id = idOf(exchange, trail)
  const owner = { workspace: principal.workspace.id, app: principal.app.id }
  const job = visible(await cancelJob(id, owner, doors), principal)
  return jobReply(job, exchange, trail, doors)
}

function admitted(exchange: Exchange, trail: Trail, services: Services): Promise<Principal> {
  return admit(services, { authorization: exchange.headers.authorization, trail, scope: 'jobs' })
}

/** @throws GatewayError JOB_NOT_FOUND for what cannot be the id of a transcription job */
function idOf({ params: [id = ''] }: Exchange, trail: Trail): string {
  if (!id.startsWith('tj_') || jobPartition(id) === null) throw new GatewayError('JOB_NOT_FOUND')
  trail.jobId = id
  return id
}

/** @throws GatewayError JOB_NOT_FOUND for one that is gone and for one of another app: nothing tells which */
function visible(job: Job | null, { workspace, app }: Principal): Job {
  if (job !== null && job.workspace === workspace.id && job.app === app.id) return job
  throw new GatewayError('JOB_NOT_FOUND')
}

/** Null: the answer is not held. @throws GatewayError INVALID_REQUEST */
function waitMsOf({ query }: Exchange): number | null {
  const sent = new URLSearchParams(query).getAll('wait')
  if (sent.length === 0) return null
  const [text = ''] = sent
  const seconds = /^\d{1,2}$/.test(text) ? Number(text) : 0
  if (sent.length > 1 || seconds < 1 || seconds > WAIT_SECONDS_MAX)
    throw invalidField('wait', `must be a whole number of seconds from 1 to ${WAIT_SECONDS_MAX}`)
  return seconds * 1000
}
