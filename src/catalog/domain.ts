import { domainToASCII } from 'node:url'
import { isHostName } from '../outbound/host-name.ts'

/** What the URL parser behind `domainToASCII` would cut off, decode or skip, instead of refusing it. */
const NO_HOST = /[/\\?#:@%[\]\s]/

/**
 * A host that audio may be fetched from, as lists keep it: lower case, IDNA-encoded, perhaps with `*.` before it for
 * its subdomains.
 *
 * @returns null for anything else: a scheme, port, path, IP address, or a name without a dot
 */
export function audioDomain(text: string): string | null {
  if (NO_HOST.test(text)) return null
  const wildcard = text.startsWith('*.') ? '*.' : ''
  const host = domainToASCII(text.slice(wildcard.length))
  return isHostName(host) ? wildcard + host : null
}
