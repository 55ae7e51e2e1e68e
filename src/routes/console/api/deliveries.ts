import { GatewayError } from '../../../errors.ts'
import { invalid } from '../../../inbound/refusals.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { EventView } from '../../../schema/outbox.ts'
import { noteChange } from '../../audit-note.ts'
import { jobRedelivery } from '../../job-notes.ts'
import { timestamp } from '../../timestamp.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint } from '../endpoint.ts'
import type { DeliveryAnswer } from './answers.ts'
import { jobIn } from './job-answers.ts'

const PATH = '/workspaces/:workspace/webhook/deliveries'
const REDELIVER = `${PATH}/:job/redeliver` as const
const LIST_MAX = 100

/** Announcements of jobs that wait for their next attempt or were given up, and how one is made again. */
export function deliveryEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  return [
    consoleEndpoint(desk, 'GET', PATH, {}, listDeliveries),
    consoleEndpoint(desk, 'POST', REDELIVER, {}, redeliver),
  ]
}

async function listDeliveries({ desk, params }: ConsoleCall<typeof PATH, unknown, unknown>) {
  const events = await desk.doors.services.state.outbox.list(params.workspace, LIST_MAX)
  return { deliveries: events.map(deliveryAnswer) }
}

/** @throws GatewayError JOB_NOT_FOUND, INVALID_REQUEST for a job of which nothing is announced */
async function redeliver({ desk, viewer, params }: ConsoleCall<typeof REDELIVER, unknown, unknown>) {
  const job = await jobIn(desk, params)
  const { id, kind, endedAtMs } = job
  if (kind !== 'transcription') throw invalid('a job of the queue announces nothing')
  if (endedAtMs === null) throw invalid('the job has not ended: there is nothing to announce yet')
  await noteChange(desk.records, jobRedelivery(job, viewer.actor))
  // It was purged meanwhile.
  if (!(await desk.doors.services.state.outbox.redeliver(id))) throw new GatewayError('JOB_NOT_FOUND')
  desk.doors.jobs.signals.ended()
  return { redelivered: true }
}

function deliveryAnswer(event: EventView): DeliveryAnswer {
  const { id, jobId, status, attempts, reason } = event
  return {
    id,
    job_id: jobId,
    status,
    occurred_at: timestamp(event.occurredAtMs),
    attempts,
    next_attempt_at: timestamp(event.nextAttemptAtMs),
    reason,
  }
}
