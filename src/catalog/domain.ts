import { domainToASCII } from 'node:url'

const HOST = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
/** What the URL parser behind `domainToASCII` would cut off, decode or skip, instead of refusing it. */
const NO_HOST = /[/\\?#:@%[\]\s]/
const NUMBER = /^(\d+|0x[0-9a-f]*)$/

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

/**
 * Whether a lower-case, IDNA-encoded text is the name of a host: at least two labels of letters, digits and hyphens,
 * and no IP address in any of its forms.
 */
export function isHostName(text: string): boolean {
  return HOST.test(text) && !NUMBER.test(text.slice(text.lastIndexOf('.') + 1))
}
