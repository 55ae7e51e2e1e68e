import { type Static, Type } from 'typebox'
import { limitsOf, type Principal } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import { idTimeMs, newJobId, partitionOf } from '../../../contracts/ids.ts'
import type { JobSpec, JobSubmission, QueueMode, Submitted } from '../../../contracts/jobs.ts'
import { QUEUE_MODES } from '../../../contracts/jobs.ts'
import { shapeCheck } from '../../../contracts/shape.ts'
import { slotIdOf } from '../../call/context/idempotency.ts'
import type { Exchange, Reply } from '../../edge/exchange.ts'
import { readQueueBody } from '../../edge/queue-body.ts'
import { KEY_MS, submitterFields, submitUntilTaken } from '../../jobs/submit.ts'
import type { Admitted } from '../endpoint.ts'
import { checkIdempotencyKey, endpoint, IDEMPOTENCY_KEY, idempotencyKeyOf } from '../endpoint.ts'
import { unknownFields } from '../fields.ts'
import { faultOf } from '../json-fault.ts'
import { timestamp } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { QueuedJob } from '../openapi/answers.ts'
import { JOB_ERRORS, json } from '../openapi/operation.ts'
import { type QueuedCall, readPayload } from './queue-payload.ts'

const ENDPOINTS = [
  ...['chat', 'complete', 'vision', 'embed', 'embeddings', 'image', 'speech', 'transcription', 'translation'],
  ...['audio', 'video'],
] as const

/** The body but for its payload, which is what `endpoint` takes. */
const QueueEnvelope = Type.Object({
  endpoint: Type.Enum([...ENDPOINTS], { description: 'what is called; embed is embeddings' }),
  mode: optional(Type.Enum([...QUEUE_MODES]), 'how soon; default: priority'),
  idempotency_key: optional(
    Type.String({ pattern: IDEMPOTENCY_KEY.source, description: '1 to 256 visible ASCII characters' }),
    'wins over the header Idempotency-Key',
  ),
})
const isEnvelope = shapeCheck(QueueEnvelope)

/** Fields of a queue request beside its payload. */
interface Order {
  readonly endpoint: Static<typeof QueueEnvelope>['endpoint']
  readonly mode: QueueMode
  readonly key: string | null
}

const PayloadField = Type.Object(
  {},
  { additionalProperties: true, description: 'request body for `endpoint`' },
)
const QueueRequest = Type.Object({ ...QueueEnvelope.properties, payload: PayloadField })

/**
 * Accepts a call of another endpoint as a durable job. Before the answer its record is in the state, and its input in
 * that or in the object store; what could not be served is refused instead. No one reads its output.
 */
export const queue = endpoint({
  method: 'POST',
  path: '/v1/queue',
  kind: 'call',
  id: 'queue',
  tag: 'Queue',
  summary: 'Enqueue a request',
  description:
    '`payload` is the JSON body of `endpoint`, without `stream` and `mode: async`, validated like a request ' +
    'to it. The output is discarded after metering.',
  scope: 'queue',
  idempotent: true,
  body: { contents: [json(QueueRequest)], parameters: ['Purpose', 'Require'], receive: receiveOrder },
  answers: [
    { status: 202, description: 'the job is stored durably', contents: [json(QueuedJob)] },
    {
      status: 200,
      description: 'the idempotency key was used for the same request before: the first job',
      contents: [json(QueuedJob)],
      headers: ['X-LK-Idempotent-Replay'],
    },
  ],
  errors: JOB_ERRORS,
  async handle(request) {
    const { context, deps, body } = request
    const { order, unknown } = body
    const { principal } = context
    const endpoint = operationName(order.endpoint)
    const call = await readPayload(endpoint, body.payload, request)
    try {
      const slot = order.key === null ? null : await slotOf(order.key, endpoint, call, principal)
      const id = newJobId('qj', principal.workspace.id)
      const submitted = await enqueue({ id, order, call, slot }, request)
      context.jobId = submitted.id
      context.answer.replayed = submitted.id !== id
      if (!context.answer.replayed) deps.jobs.signals.queued(partitionOf(principal.workspace.id))
      return accepted(submitted, { order, warnings: [...unknown, ...call.warnings] }, context.answer.replayed)
    } finally {
      call.release()
    }
  },
})

/** The body, whose payload is left as it is: its endpoint is known only now. */
async function receiveOrder({ exchange, context, deps: { services } }: Admitted) {
  const body = await readQueueBody(exchange, {
    budget: services.budget,
    limits: limitsOf(context.principal, services.snapshot()),
    workspace: context.principal.workspace.id,
  })
  exchange.onFinished(body.release)
  const order = readOrder(body.fields, exchange)
  const known = Object.keys(QueueRequest.properties)
  const others = Object.keys(body.fields).filter((name) => !known.includes(name))
  return { order, payload: body.payload, unknown: unknownFields(others, known) }
}

/** @throws GatewayError INVALID_REQUEST naming the field at fault */
function readOrder(fields: Readonly<Record<string, unknown>>, exchange: Exchange): Order {
  if (!isEnvelope(fields)) throw faultOf(QueueEnvelope, fields)
  const { endpoint, mode, idempotency_key: given } = fields
  const key = given ?? idempotencyKeyOf(exchange) ?? null
  if (key !== null) checkIdempotencyKey(key)
  return { endpoint, mode: mode ?? 'priority', key }
}

function operationName(endpoint: Order['endpoint']): Exclude<Order['endpoint'], 'embed'> {
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
  { exchange, context, deps }: Admitted,
): Promise<Accepted> {
  const { objects } = deps.jobs
  const { work, input } = await call.keep({ id, workspace: context.principal.workspace.id })
  const given = 'audio' in work ? work.audio : work.payload
  const drop = () => ('url' in given || input !== undefined ? undefined : void objects.drop(given))
  if (exchange.signal.aborted) {
    drop()
    throw exchange.signal.reason
  }
  const spec: JobSpec = {
    id,
    kind: 'queue',
    mode: order.mode,
    endpoint: order.endpoint,
    ...submitterFields(context),
    selectors: call.selectors,
    warnings: call.warnings,
    work,
    eventId: null,
  }
  const { state, clock } = deps.services
  const submitted = await submitUntilTaken({ spec, slot, input }, state.jobs, clock)
  if (submitted.state === 'reused') {
    drop()
    throw new GatewayError('IDEMPOTENCY_KEY_REUSED')
  }
  if (submitted.id !== id) drop()
  return submitted
}

interface SubmissionEcho {
  readonly order: Order
  /** Lines about fields of this very request that had no effect. */
  readonly warnings: readonly string[]
}

/** A replay repeats the first answer but for the warnings: the same work may have been requested in another way. */
function accepted({ id, job }: Accepted, { order, warnings }: SubmissionEcho, replayed: boolean): Reply {
  const { endpoint, mode } = job ?? order
  const createdAtMs = job?.createdAtMs ?? idTimeMs(id)
  const view = { id, endpoint, mode, status: 'queued', created_at: timestamp(createdAtMs) }
  return {
    status: replayed ? 200 : 202,
    headers: {
      'content-type': 'application/json',
      ...(replayed ? { 'x-lk-idempotent-replay': 'true' } : {}),
    },
    body: JSON.stringify({ queued: true, job: view, warnings }),
  }
}
