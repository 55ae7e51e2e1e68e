import { Type } from 'typebox'
import { CAPABILITIES } from '../../schema/calls.ts'
import { SCOPES } from '../../schema/catalog.ts'
import { JOB_STATUSES, QUEUE_MODES } from '../../schema/jobs.ts'
import { POLICY_VERSION_ID, PURPOSE, Transcript } from './answers.ts'
import { ErrorBody } from './errors.ts'
import { amount, count, lines, moment, nullable, shape, text } from './shapes.ts'

const Limits = shape('Limits', {
  max_request_body_bytes: count('raw bytes of a body'),
  max_audio_bytes: count('bytes of audio after decoding'),
  max_audio_url_bytes: count('bytes of audio fetched by URL'),
  max_audio_seconds: nullable(count('seconds'), 'longest audio; null: no limit'),
  queue_max_payload_bytes: count('raw bytes of `payload`'),
  sync_idempotency_ttl_seconds: count('how long an idempotency key is remembered'),
  stt_job_result_ttl_seconds: count('how long a job is kept after its end'),
})

export const Me = shape('Me', {
  workspace: Type.Object({
    id: Type.String(),
    name: Type.String(),
    plan: nullable(Type.String(), 'null: everything is included'),
  }),
  app: Type.Object({ id: Type.String() }),
  key: Type.Object({
    id: Type.String(),
    name: Type.String(),
    prefix: text('the first characters of the key'),
    scopes: Type.Array(Type.Enum([...SCOPES])),
  }),
  route: Type.Object({
    name: Type.String(),
    policy_version_id: POLICY_VERSION_ID,
    capabilities: Type.Array(Type.Enum([...CAPABILITIES])),
  }),
  purposes: Type.Array(
    shape('Purpose', {
      purpose: text('the label'),
      description: Type.String(),
      is_enabled: Type.Boolean({
        description: 'it works for this key: enabled, and bound to a published route that the plan allows',
      }),
    }),
  ),
  routing_contexts: Type.Array(
    shape('RoutingContext', {
      context: text('`default`, or the capability that a route of its own serves'),
      route: Type.String(),
      policy_version_id: POLICY_VERSION_ID,
      purposes: lines('labels that would replace that route'),
    }),
  ),
  limits: Limits,
  billing: Type.Object({
    credits_usd: nullable(Type.Number(), 'left; null for a workspace that was never given any'),
    budget_usd: nullable(amount('USD'), "per month, the key's or else the workspace's; null: none"),
    spent_usd: nullable(amount('USD'), 'this month'),
  }),
})

const ENDINGS = ['succeeded', 'failed', 'cancelled'] as const

const jobId = text('`tj_…`')
const status = Type.Enum([...JOB_STATUSES])

/** What of a job is told to who hands it in, and stands at the front of the job. */
const SUBMISSION = {
  job_id: jobId,
  status,
  poll_url: Type.String({ format: 'uri-reference', description: 'path of the job' }),
  created_at: moment('when it was acknowledged'),
}

export const SubmittedJob = shape('SubmittedJob', SUBMISSION)

export const TranscriptionJob = shape('TranscriptionJob', {
  ...SUBMISSION,
  started_at: nullable(moment('when'), 'when it was first taken up'),
  completed_at: nullable(moment('when'), 'when it ended'),
  expires_at: nullable(
    moment('when'),
    'from when on it is 404, with every URL of it; null until it has ended',
  ),
  cancel_requested: Type.Boolean(),
  attempts: count('how often it was taken up'),
  error: Type.Union([ErrorBody, Type.Null()], { description: 'for failed jobs' }),
  result: Type.Union([Transcript, Type.Null()], { description: 'up to 256 KiB; larger results have a URL' }),
  result_url: nullable(
    Type.String({ format: 'uri-reference' }),
    'opens the result without a key, for 15 minutes, and no longer than there is the job',
  ),
  result_url_expires_at: nullable(moment('when'), 'each look makes a new URL'),
  ...PURPOSE,
  lk_purpose_source: nullable(PURPOSE.lk_purpose_source, 'null until it has been routed'),
  policy_version_id: nullable(POLICY_VERSION_ID, 'null until it has been routed'),
})

export const QueuedJob = shape('QueuedJob', {
  queued: Type.Literal(true),
  job: Type.Object({
    id: text('`qj_…`'),
    endpoint: Type.String(),
    mode: Type.Enum([...QUEUE_MODES]),
    status: Type.Literal('queued'),
    created_at: moment('when it was acknowledged'),
  }),
  warnings: lines('what of the request and its payload was left out'),
})

export const AudioUrlDomains = shape('AudioUrlDomains', {
  domains: lines('as they are kept: lower case, IDNA-encoded, each once'),
  max_domains: Type.Literal(20),
})

export const Webhook = shape('Webhook', {
  url: Type.String({ format: 'uri', description: 'the URL that is called' }),
  created_at: moment('when it was set'),
})

export const NewWebhook = shape('NewWebhook', {
  url: Type.String({ format: 'uri', description: 'the URL that is called' }),
  signing_secret: text('shown this once'),
  created_at: moment('when it was set'),
})

export const RemovedWebhook = shape('RemovedWebhook', {
  deleted: Type.Boolean({ description: 'false if there was none' }),
})

export const JobEnded = shape(
  'JobEnded',
  {
    type: Type.Enum([...ENDINGS.map((status) => `transcription.job.${status}`), 'webhook.test'], {
      description: '`webhook.test` is sent by `larkway webhooks test`, without a job',
    }),
    job_id: nullable(jobId, 'null in a test'),
    status: nullable(Type.Enum([...ENDINGS]), 'null in a test'),
    occurred_at: moment('when the job ended'),
  },
  'never holds the transcript: fetch the job',
)
