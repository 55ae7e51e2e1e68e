import { Type } from 'typebox'
import type { ErrorCode } from '../../errors.ts'
import { QueueEnvelope } from '../queue.ts'
import { JobEnded, QueuedJob, SubmittedJob, TranscriptionJob } from './account-answers.ts'
import { AUDIO_ERRORS, SUBMISSION, TAKEN_ON } from './hearing.ts'
import { BODY_ERRORS, json, KEY_ERRORS, type Operation } from './operation.ts'
import type { Json, PlainSchemas } from './plain-schema.ts'

const FORESEEN: readonly ErrorCode[] = ['PLAN_NOT_ENTITLED', 'NO_HEALTHY_PROVIDER']
const JOB_ERRORS: readonly ErrorCode[] = [...KEY_ERRORS, 'JOB_NOT_FOUND', 'OVERLOADED']

const ONE = {
  path: '/v1/transcription/jobs/:job_id',
  tag: 'Jobs',
  scope: 'jobs',
  limited: true,
  routed: true,
} as const

export const JOBS: readonly Operation[] = [
  {
    method: 'POST',
    path: '/v1/transcription/jobs',
    id: 'submitJob',
    tag: 'Jobs',
    summary: 'Submit a transcription job',
    description:
      'Accepts what `POST /v1/transcription` accepts, and answers once the job and its audio are stored ' +
      'good.',
    scope: 'jobs',
    limited: true,
    routed: true,
    parameters: ['Purpose', 'IdempotencyKey', SUBMISSION.query],
    body: SUBMISSION.body,
    answers: [
      TAKEN_ON,
      {
        status: 200,
        description: 'the idempotency key was used before: the first job in its current state',
        contents: [json(SubmittedJob)],
        headers: ['Location', 'Retry-After', 'X-LK-Idempotent-Replay'],
      },
    ],
    errors: [...KEY_ERRORS, ...BODY_ERRORS, ...AUDIO_ERRORS, ...FORESEEN, 'IDEMPOTENCY_KEY_REUSED'],
  },
  {
    ...ONE,
    method: 'GET',
    id: 'showJob',
    summary: 'Get a job and its result',
    parameters: [
      'JobId',
      {
        name: 'wait',
        in: 'query',
        description: 'seconds to wait for the status to change',
        schema: { type: 'integer', minimum: 1, maximum: 30 },
      },
    ],
    answers: [
      {
        status: 200,
        description: 'the job; with `Retry-After` until it ends',
        contents: [json(TranscriptionJob)],
        headers: ['Retry-After'],
      },
    ],
    errors: [...JOB_ERRORS, 'INVALID_REQUEST'],
  },
  {
    ...ONE,
    method: 'DELETE',
    id: 'cancelJob',
    summary: 'Cancel a job',
    parameters: ['JobId'],
    description:
      'A queued job ends immediately. A running job ends as soon as its worker sees the request, and may ' +
      'have finished by then. A job that has ended stays unchanged.',
    answers: [
      {
        status: 200,
        description: 'the job',
        contents: [json(TranscriptionJob)],
        headers: ['Retry-After', 'X-LK-Idempotency'],
      },
    ],
    errors: JOB_ERRORS,
  },
  {
    method: 'POST',
    path: '/v1/queue',
    id: 'queue',
    tag: 'Queue',
    summary: 'Enqueue a request',
    description:
      '`payload` is the JSON body of `endpoint`, without `stream` and `mode: async`, validated like a request ' +
      'to it. The output is discarded after metering.',
    scope: 'queue',
    limited: true,
    routed: true,
    parameters: ['Purpose', 'IdempotencyKey'],
    body: [
      json(
        Type.Object({
          ...QueueEnvelope.properties,
          payload: Type.Object(
            {},
            { additionalProperties: true, description: 'request body for `endpoint`' },
          ),
        }),
      ),
    ],
    answers: [
      { status: 202, description: 'the job is stored durably', contents: [json(QueuedJob)] },
      {
        status: 200,
        description: 'the idempotency key was used for the same request before: the first job',
        contents: [json(QueuedJob)],
        headers: ['X-LK-Idempotent-Replay'],
      },
    ],
    errors: [...KEY_ERRORS, ...BODY_ERRORS, ...AUDIO_ERRORS, ...FORESEEN],
  },
]

const header = (name: string, description: string): Json => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string' },
})

/** What is sent to the webhook of a workspace. */
export function webhooks(schemas: PlainSchemas): Json {
  return {
    transcriptionJobEnded: {
      post: {
        tags: ['Jobs'],
        operationId: 'transcriptionJobEnded',
        summary: 'Transcription job ended',
        description:
          'Sent to the webhook of the workspace at least once: deduplicate by `job_id`. Verify the signature, and ' +
          'reject timestamps older than a few minutes.',
        security: [],
        parameters: [
          header('X-LK-Webhook-Id', '`evt_…`, the same for every delivery'),
          header('X-LK-Webhook-Ts', 'time of this delivery, Unix seconds'),
          header(
            'X-LK-Webhook-Signature',
            'hex HMAC-SHA256 of `<X-LK-Webhook-Ts>.<body>`, keyed with the secret as shown',
          ),
          header('webhook-id', 'Standard Webhooks'),
          header('webhook-timestamp', 'Standard Webhooks'),
          header('webhook-signature', 'Standard Webhooks; two signatures for a day after a rotation'),
        ],
        requestBody: { required: true, content: { 'application/json': { schema: schemas.of(JobEnded) } } },
        responses: {
          '2XX': { description: 'received' },
          '410': { description: 'ends the deliveries of this event' },
          default: { description: 'anything else is retried, up to 8 attempts over about nine hours' },
        },
      },
    },
  }
}
