import { createHmac } from 'node:crypto'
import type { Signable, Signatures } from '../../contracts/webhooks.ts'

const PREFIX = 'whsec_'

/**
 * Signs a delivery twice over: for `X-LK-Webhook-Signature`, HMAC-SHA256 over `<timestamp>.<body>`, keyed with the text
 * of the newest secret as it was shown; and as Standard Webhooks has it, over `<id>.<timestamp>.<body>`, keyed with the
 * bytes that the rest of the secret encodes
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 */
export function signWebhook({ id, timestamp, body, secrets }: Signable): Signatures {
  const [newest] = secrets
  if (newest === undefined) throw new Error('a delivery is signed with at least one secret')
  const signed = `${timestamp}.${body}`
  return {
    plain: createHmac('sha256', newest).update(signed).digest('hex'),
    standard: secrets.map((secret) => `v1,${standardSignature(secret, `${id}.${signed}`)}`).join(' '),
  }
}

function standardSignature(secret: string, signed: string): string {
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  return createHmac('sha256', key).update(signed).digest('base64')
}

/** A task of the worker threads, by its file and this name. */
export function signAll(signables: readonly Signable[]): Signatures[] {
  return signables.map(signWebhook)
}
