import type { Signable, Signatures } from '../schema/webhooks.ts'
import { signWebhook } from './webhook-signature.ts'

/** A task of the worker threads, by its file and this name. */
export function signAll(signables: readonly Signable[]): Signatures[] {
  return signables.map(signWebhook)
}
