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
    summary: 'Take a transcription on as a job',
    description:
      'Takes what `POST /v1/transcription` takes, and answers when the job and its audio are stored for ' +
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
        description: 'the idempotency key was used before: the first job, as it stands',
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
    summary: 'How a job stands, and its result',
    parameters: [
      'JobId',
      {
        name: 'wait',
        in: 'query',
        description: 'holds the answer until the status changes or the seconds are over',
        schema: { type: 'integer', minimum: 1, maximum: 30 },
      },
    ],
    answers: [
      {
        status: 200,
        description: 'the job; `Retry-After` while there is something to come',
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
      'A queued job ends at once. One that runs is told, and ends as soon as its worker sees it, perhaps ' +
      'done already. One that has ended stays as it is.',
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
    summary: 'Have a call made in the background',
    description:
      '`payload` is the JSON body of that endpoint, without `stream` and `mode: async`; it is checked as ' +
      'that endpoint would. The output is thrown away after metering.',
    scope: 'queue',
    limited: true,
    routed: true,
    parameters: ['Purpose', 'IdempotencyKey'],
    body: [
      json(
        Type.Object({
          ...QueueEnvelope.properties,
          payload: Type.Object({}, { additionalProperties: true, description: 'what `endpoint` takes' }),
        }),
      ),
    ],
    answers: [
      { status: 202, description: 'the job is stored for good', contents: [json(QueuedJob)] },
      {
        status: 200,
        description: 'the idempotency key was used for the same work before: the first job',
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
        summary: 'A transcription job has ended',
        description:
          'Sent to the webhook of the workspace, once or more: go by `job_id`. Verify the signature, and ' +
          'refuse a timestamp that is not of the last minutes.',
        security: [],
        parameters: [
          header('X-LK-Webhook-Id', '`evt_…`, the same with every delivery'),
          header('X-LK-Webhook-Ts', 'Unix seconds of this delivery'),
          header(
            'X-LK-Webhook-Signature',
            'hex of HMAC-SHA256 over `<X-LK-Webhook-Ts>.<body>`, keyed with the secret as it was shown',
          ),
          header('webhook-id', 'as Standard Webhooks has it'),
          header('webhook-timestamp', 'as Standard Webhooks has it'),
          header('webhook-signature', 'as Standard Webhooks has it; two for a day after a rotation'),
        ],
        requestBody: { required: true, content: { 'application/json': { schema: schemas.of(JobEnded) } } },
        responses: {
          '2XX': { description: 'received' },
          '410': { description: 'ends the deliveries of this event' },
          default: { description: 'anything else is tried again, up to 8 times in all over some nine hours' },
        },
      },
    },
  }
}
