import { instantMs } from '../../../catalog/instant.ts'
import { invalid } from '../../../inbound/refusals.ts'

/**
 * A moment that a query names as RFC 3339, or in epoch milliseconds; null: it names none.
 *
 * @throws GatewayError INVALID_REQUEST
 */
export function momentOf<Name extends string>(
  query: { readonly [Key in Name]?: string },
  name: Name,
): number | null {
  const text = query[name]
  if (text === undefined) return null
  const ms = /^\d{1,15}$/.test(text) ? Number(text) : instantMs(text)
  if (ms !== null) return ms
  throw invalid(`${name}: must be a time such as 2027-01-31T00:00:00Z, or epoch milliseconds`, name)
}
