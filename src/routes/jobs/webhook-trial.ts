import { newId } from '../../ids.ts'
import type { Posted } from '../../schema/webhooks.ts'
import { reasonOf } from './delivery-outcome.ts'
import { attemptWebhook, type Sending } from './webhook-attempt.ts'
import { testBody } from './webhook-message.ts'
import type { WebhookTarget } from './webhook-target.ts'

/** What came of a delivery that was made to see whether deliveries arrive. */
export interface WebhookTrial {
  /** `evt_…`, as the target was told. */
  readonly id: string
  /** It was answered with 2xx. */
  readonly ok: boolean
  /** HTTP status; null: there was no answer. */
  readonly status: number | null
  readonly milliseconds: number
  /** `status 204`, or why there was no answer, in our words. */
  readonly reason: string
}

/** One delivery of an event of the type `webhook.test`, past the same guard and with the same headers as any other. */
export async function tryWebhook(target: WebhookTarget, sending: Sending): Promise<WebhookTrial> {
  const id = newId('evt')
  const beganMs = performance.now()
  const posted = await attemptWebhook(target, { id, body: testBody(Date.now()) }, sending)
  const milliseconds = Math.round(performance.now() - beganMs)
  const status = statusOf(posted)
  const ok = status !== null && status >= 200 && status <= 299
  return { id, ok, status, milliseconds, reason: reasonOf(posted) }
}

function statusOf(posted: Posted): number | null {
  return posted.kind === 'answered' ? posted.status : null
}
