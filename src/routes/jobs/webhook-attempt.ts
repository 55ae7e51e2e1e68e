import type { Posted, PostWebhook, WebhookSigner } from '../../schema/webhooks.ts'
import { webhookMessage } from './webhook-message.ts'
import type { WebhookTarget } from './webhook-target.ts'

export interface Sending {
  readonly signer: WebhookSigner
  readonly post: PostWebhook
}

/** Signs a delivery with the time that it is now, and posts it. Rejects only when signing fails. */
export async function attemptWebhook(
  { url, secrets }: WebhookTarget,
  { id, body }: { readonly id: string; readonly body: string },
  { signer, post }: Sending,
): Promise<Posted> {
  if (secrets.length === 0)
    return { kind: 'failed', reason: 'its secret was sealed with a key that LARKWAY_SECRET_KEYS lacks' }
  const timestamp = Math.floor(Date.now() / 1000)
  const signed = await signer.sign({ id, timestamp, body, secrets })
  return post(url, webhookMessage({ id, timestamp }, body, signed))
}
