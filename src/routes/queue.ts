import { type Static, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { GatewayError } from '../errors.ts'
import { admit } from '../gateway/admit.ts'
import { slotIdOf } from '../gateway/fingerprint.ts'
import { idTimeMs, newJobId, partitionOf } from '../ids.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import { readQueueBody } from '../inbound/queue-body.ts'
import type { Principal } from '../schema/catalog.ts'
import {
  type JobSpec,
  type JobSubmission,
  QUEUE_MODES,
  type QueueMode,
  type Submitted,
} from '../schema/jobs.ts'
import type { Handle } from './endpoint.ts'
import { checkIdempotencyKey, IDEMPOTENCY_KEY, idempotencyKeyOf } from './idempotency-key.ts'
import { faultOf } from './json-fault.ts'
import { optional } from './json-request.ts'
import type { Asker, QueuedCall } from './queue-call.ts'
import { readPayload } from './queue-payload.ts'
import { KEY_MS, submitSurely, submitterOf } from './submission.ts'
import { timestamp } from './timestamp.ts'
import { unknownFields } from './unknown-fields.ts'

const ENDPOINTS = [
  'chat',
  'complete',
  'vision',
  'embed',
  'embeddings',
  'image',
  'speech',
  'transcription',
  'translation',
  'audio',
  'video',
] as const

/** The body but for its payload, which is what `endpoint` takes. */
export const QueueEnvelope = Type.Object({
  endpoint: Type.Enum([...ENDPOINTS], { description: 'what is called; embed is embeddings' }),
  mode: optional(Type.Enum([...QUEUE_MODES]), 'how soon; priority unless said'),
  idempotency_key: optional(
    Type.String({ pattern: IDEMPOTENCY_KEY.source, description: '1 to 256 visible ASCII characters' }),
    'wins over the header Idempotency-Key',
  ),
})
const envelopes = Compile(QueueEnvelope)

/** What a job is asked for with, beside its payload. */
interface Order {
  readonly endpoint: Static<typeof QueueEnvelope>['endpoint']
  readonly mode: QueueMode
  readonly key: string | null
}

/**
 * POST /v1/queue: accepts a call of another endpoint as a durable job. Before the answer its input is in the object
 * store and its record in the state; what could not be served is refused instead. Nobody reads its output.
 */
export const queue: Handle = async (exchange, trail, doors) => {
  const { services, jobs } = doors
  const { authorization } = exchange.headers
  const principal = await admit(services, { authorization, trail, scope: 'queue' })
  const { limits } = services.snapshot()
  trail.trace?.begin('body')
  const body = await readQueueBody(exchange, {
    budget: services.budget,
    limits,
    workspace: principal.workspace.id,
  })
  trail.trace?.end()
  exchange.onFinished(body.release)
  const order = readOrder(body.fields, exchange)
  const known = [...Object.keys(QueueEnvelope.properties), 'payload']
  const unknown = unknownFields(
    Object.keys(body.fields).filter((name) => !known.includes(name)),
    known,
  )
  const asker = { exchange, trail, principal, doors }
  const endpoint = nameOf(order.endpoint)
  const call = await readPayload(endpoint, body.payload, asker)
  try {
    const slot = order.key === null ? null : await slotOf(order.key, endpoint, call, principal)
    const id = newJobId('qj', principal.workspace.id)
    const submitted = await enqueue({ id, order, call, slot }, asker)
    trail.jobId = submitted.id
    trail.replayed = submitted.id !== id
    if (!trail.replayed) jobs.signals.queued(partitionOf(principal.workspace.id))
    return accepted(submitted, { order, warnings: [...unknown, ...call.warnings] }, trail.replayed)
  } finally {
    call.release()
  }
}

/** @throws GatewayError INVALID_REQUEST naming the field at fault */
function readOrder(fields: Readonly<Record<string, unknown>>, exchange: Exchange): Order {
  if (!envelopes.Check(fields)) throw faultOf(QueueEnvelope, fields)
  const { endpoint, mode, idempotency_key: given } = fields
  const key = given ?? idempotencyKeyOf(exchange) ?? null
  if (key !== null) checkIdempotencyKey(key)
  return { endpoint, mode: mode ?? 'priority', key }
}

function nameOf(endpoint: Order['endpoint']): Exclude<Order['endpoint'], 'embed'> {
  return endpoint === 'embed' ? 'embeddings' : endpoint
}

/** Another endpoint or another payload under the same key is another job. In which mode it is to be done is neither. */
async function slotOf(
  key: string,
  endpoint: string,
  call: QueuedCall,
  principal: Principal,
): Promise<JobSubmission['slot']> {
  const fingerprint = await call.fingerprint()
  // No key has a space in it.
  return {
    id: slotIdOf(principal, 'queue', `${key} ${endpoint} ${fingerprint}`),
    fingerprint,
    keepMs: KEY_MS,
  }
}

interface Enqueued {
  readonly id: string
  readonly order: Order
  readonly call: QueuedCall
  readonly slot: JobSubmission['slot']
}

type Accepted = Extract<Submitted, { readonly state: 'accepted' }>

/** Makes the job durable. Its input is deleted where it is certain that no job has it. */
async function enqueue(
  { id, order, call, slot }: Enqueued,
  { exchange, trail, principal, doors }: Asker,
): Promise<Accepted> {
  const { objects } = doors.jobs
  const work = await call.keep({ id, workspace: principal.workspace.id })
  const given = 'audio' in work ? work.audio : work.payload
  const drop = () => ('url' in given ? undefined : void objects.drop(given))
  if (exchange.signal.aborted) {
    drop()
    throw exchange.signal.reason
  }
  const spec: JobSpec = {
    id,
    kind: 'queue',
    mode: order.mode,
    endpoint: order.endpoint,
    ...submitterOf(exchange, trail),
    selectors: call.selectors,
    warnings: call.warnings,
    work,
    eventId: null,
  }
  const submitted = await submitSurely({ spec, slot }, doors.services.state.jobs)
  if (submitted.state === 'reused') {
    drop()
    throw new GatewayError('IDEMPOTENCY_KEY_REUSED')
  }
  if (submitted.id !== id) drop()
  return submitted
}

interface Told {
  readonly order: Order
  /** What of this very request is left out. */
  readonly warnings: readonly string[]
}

/** A replay tells what the first answer told, but for the warnings: the same work may have been asked for otherwise. */
function accepted({ id, job }: Accepted, { order, warnings }: Told, replayed: boolean): Reply {
  const { endpoint, mode } = job ?? order
  const createdAtMs = job?.createdAtMs ?? idTimeMs(id)
  const told = { id, endpoint, mode, status: 'queued', created_at: timestamp(createdAtMs) }
  return {
    status: replayed ? 200 : 202,
    headers: {
      'content-type': 'application/json',
      ...(replayed ? { 'x-lk-idempotent-replay': 'true' } : {}),
    },
    body: JSON.stringify({ queued: true, job: told, warnings }),
  }
}
