import type { WebhookEvent } from '../../schema/outbox.ts'
import type { Signatures, WebhookMessage } from '../../schema/webhooks.ts'

/** What identifies a delivery; its time is that of the attempt, Unix seconds. */
interface Stamp {
  readonly id: string
  readonly timestamp: number
}

/** The body of an event, the same bytes at every attempt. */
export function eventBody({ jobId, status, occurredAtMs }: WebhookEvent): string {
  return bodyOf(`transcription.job.${status}`, jobId, status, occurredAtMs)
}

/** The body of what is sent to try a webhook out: of no job. */
export function testBody(occurredAtMs: number): string {
  return bodyOf('webhook.test', null, null, occurredAtMs)
}

function bodyOf(type: string, jobId: string | null, status: string | null, occurredAtMs: number): string {
  const occurredAt = new Date(occurredAtMs).toISOString()
  return JSON.stringify({ type, job_id: jobId, status, occurred_at: occurredAt })
}

/** A delivery in full: signed in our own headers, and in those that libraries for Standard Webhooks verify. */
export function webhookMessage({ id, timestamp }: Stamp, body: string, signed: Signatures): WebhookMessage {
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
