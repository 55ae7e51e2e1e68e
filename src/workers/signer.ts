import type { Signable, Signatures, WebhookSigner } from '../schema/webhooks.ts'
import { signWebhook } from './webhook-signature.ts'

/**
 * Deliveries from which a worker signs. Inline each takes 3 µs, 5 with two secrets. A task costs the loop 17 µs and
 * 1 µs for each delivery, so that they are even at 8; here it is 80 to 100 µs against 190 to 300, for 1.3 to 1.5 times
 * the CPU in all (`bench/micro/sign.ts`, medians on two cores of an AMD EPYC). Not less, because what the TLS
 * handshakes of these deliveries take is several hundred times as much, and a thread costs memory.
 */
export const SIGN_OFFLOAD_COUNT = 64

interface Waiting {
  readonly signable: Signable
  readonly resolve: (signatures: Signatures) => void
  readonly reject: (cause: unknown) => void
}

/**
 * Signs what is asked for in one turn of the event loop together: a few at once, more of them in a worker.
 *
 * @param signAll signs in a worker, in the order given
 */
export function createSigner(
  signAll: (signables: readonly Signable[]) => Promise<readonly Signatures[]>,
): WebhookSigner {
  let waiting: Waiting[] = []
  const flush = async (): Promise<void> => {
    const batch = waiting
    waiting = []
    try {
      const signables = batch.map(({ signable }) => signable)
      const signed = batch.length < SIGN_OFFLOAD_COUNT ? signables.map(signWebhook) : await signAll(signables)
      for (const [index, { resolve, reject }] of batch.entries()) {
        const signatures = signed[index]
        if (signatures === undefined) reject(new Error('a worker signed less than it was given'))
        else resolve(signatures)
      }
    } catch (cause) {
      for (const { reject } of batch) reject(cause)
    }
  }
  return {
    sign(signable) {
      const { promise, resolve, reject } = Promise.withResolvers<Signatures>()
      if (waiting.length === 0) setImmediate(flush)
      waiting.push({ signable, resolve, reject })
      return promise
    },
  }
}
