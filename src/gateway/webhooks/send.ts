import { newId } from '../../contracts/ids.ts'
import type { WebhookEvent } from '../../contracts/outbox.ts'
import type { Clock } from '../../contracts/time.ts'
import type {
  Posted,
  PostWebhook,
  Signatures,
  WebhookMessage,
  WebhookSigner,
} from '../../contracts/webhooks.ts'
import { deliveryReason } from './delivery-outcome.ts'
import type { WebhookTarget } from './target.ts'

/** Identity of a delivery; `timestamp` is the time of the attempt in Unix seconds. */
interface Stamp {
  readonly id: string
  readonly timestamp: number
}

/** Builds the body of an event: the same bytes at every attempt. */
export function eventBody({ jobId, status, occurredAtMs, body }: WebhookEvent): string {
  return body ?? postedBody(`transcription.job.${status}`, jobId, status, occurredAtMs)
}

/** Builds the body of a test delivery, which belongs to no job. */
function testBody(occurredAtMs: number): string {
  return postedBody('webhook.test', null, null, occurredAtMs)
}

function postedBody(type: string, jobId: string | null, status: string | null, occurredAtMs: number): string {
  const occurredAt = new Date(occurredAtMs).toISOString()
  return JSON.stringify({ type, job_id: jobId, status, occurred_at: occurredAt })
}

/** Builds a delivery, signed in our own headers and in those of Standard Webhooks, which libraries verify. */
function webhookMessage({ id, timestamp }: Stamp, body: string, signed: Signatures): WebhookMessage {
  return {
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Larkway',
      'x-lk-webhook-id': id,
      'x-lk-webhook-ts': String(timestamp),
      'x-lk-webhook-signature': signed.plain,
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': signed.standard,
    },
    body,
  }
}

/** A message for the webhook of a workspace. */
export interface Announcement {
  readonly id: string
  readonly body: string
  /** Further headers, as other protocols have them: out of the time of the attempt and the signature `plain`. */
  readonly headers?: (timestamp: number, signature: string) => Readonly<Record<string, string>>
}

export interface Sending {
  readonly signer: WebhookSigner
  readonly post: PostWebhook
  readonly clock: Clock
}

/** Signs a delivery with the present time and posts it. Rejects only when signing fails. */
export async function attemptWebhook(
  { url, secrets }: WebhookTarget,
  { id, body, headers }: Announcement,
  { signer, post, clock }: Sending,
): Promise<Posted> {
  if (secrets.length === 0)
    return { kind: 'failed', reason: 'its secret was sealed with a key that LARKWAY_SECRET_KEYS lacks' }
  const timestamp = Math.floor(clock.wallNow() / 1000)
  const signed = await signer.sign({ id, timestamp, body, secrets })
  const message = webhookMessage({ id, timestamp }, body, signed)
  if (headers === undefined) return post(url, message)
  return post(url, { ...message, headers: { ...message.headers, ...headers(timestamp, signed.plain) } })
}

/** Result of a test delivery. */
export interface WebhookTrial {
  /** `evt_…`, as sent to the target. */
  readonly id: string
  /** True when it was answered with 2xx. */
  readonly ok: boolean
  /** HTTP status; null: there was no answer. */
  readonly status: number | null
  readonly milliseconds: number
  /** `status 204`, or why there was no answer, in our words. */
  readonly reason: string
}

/** Delivers one event of the type `webhook.test`, through the same address guard and with the same headers as any. */
export async function tryWebhook(target: WebhookTarget, sending: Sending): Promise<WebhookTrial> {
  const id = newId('evt')
  const { clock } = sending
  const beganMs = clock.now()
  const posted = await attemptWebhook(target, { id, body: testBody(clock.wallNow()) }, sending)
  const milliseconds = Math.round(clock.now() - beganMs)
  const status = postedStatus(posted)
  const ok = status !== null && status >= 200 && status <= 299
  return { id, ok, status, milliseconds, reason: deliveryReason(posted) }
}

function postedStatus(posted: Posted): number | null {
  return posted.kind === 'answered' ? posted.status : null
}
