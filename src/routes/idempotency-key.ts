import { GatewayError } from '../errors.ts'
import type { Exchange } from '../inbound/exchange.ts'

/** Visible ASCII. */
export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,256}$/
const QUOTED = /^"(.*)"$/

/**
 * The caller's `Idempotency-Key`, not yet checked. A quoted one, as structured fields have it, is the same as without
 * its quotes.
 *
 * @returns undefined when none was sent
 */
export function idempotencyKeyOf({ headers }: Pick<Exchange, 'headers'>): string | undefined {
  const sent = headers['idempotency-key']
  return sent === undefined ? undefined : (QUOTED.exec(sent)?.[1] ?? sent)
}

/**
 * What is wrong with a key is told to callers who are admitted, as all that is wrong with a request.
 *
 * @throws GatewayError INVALID_REQUEST
 */
export function checkIdempotencyKey(key: string): void {
  if (IDEMPOTENCY_KEY.test(key)) return
  throw new GatewayError('INVALID_REQUEST', 'an idempotency key has 1 to 256 visible ASCII characters', {
    param: 'Idempotency-Key',
  })
}
