import { GatewayError } from '../../errors.ts'
import type { Exchange } from '../../inbound/exchange.ts'
import { contentTypeOf } from '../../inbound/intake.ts'

/**
 * Refuses what a page of another origin can make a browser send with the cookie of the session: a form or a script
 * without leave cannot send JSON, and what browsers say of where a request comes from has to be this very host.
 *
 * @throws GatewayError PERMISSION_DENIED
 */
export function requireSameOrigin(exchange: Exchange): void {
  const { origin, host = '', 'x-forwarded-host': forwarded, 'sec-fetch-site': site } = exchange.headers
  if (contentTypeOf(exchange)?.value !== 'application/json') throw foreign('send application/json')
  if (site !== undefined && site !== 'same-origin') throw foreign('the request comes from another site')
  if (origin === undefined) return
  // A proxy may have left the port out of `host`; no page of another origin can add a header of its own.
  const own = (forwarded ?? host).split(',').map((one) => one.trim().toLowerCase())
  const from = URL.parse(origin)?.host
  if (from === undefined || from === '' || !own.includes(from))
    throw foreign('the request comes from another origin')
}

function foreign(message: string): GatewayError {
  return new GatewayError('PERMISSION_DENIED', message)
}
