import { GatewayError } from '../errors.ts'
import type { Exchange } from '../inbound/exchange.ts'

/** Visible ASCII. */
const KEY = /^[\x21-\x7e]{1,256}$/
const QUOTED = /^"(.*)"$/

/**
 * The caller's `Idempotency-Key`. A quoted one, as structured fields have it, is the same as without its quotes.
 *
 * @returns undefined when none was sent
 * @throws GatewayError INVALID_REQUEST
 */
export function readIdempotencyKey({ headers }: Pick<Exchange, 'headers'>): string | undefined {
  const sent = headers['idempotency-key']
  if (sent === undefined) return undefined
  const key = QUOTED.exec(sent)?.[1] ?? sent
  if (KEY.test(key)) return key
  throw new GatewayError('INVALID_REQUEST', 'an idempotency key has 1 to 256 visible ASCII characters', {
    param: 'Idempotency-Key',
  })
}
