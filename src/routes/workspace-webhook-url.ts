import { isIP } from 'node:net'
import { invalid } from '../inbound/refusals.ts'
import { isHostName } from '../outbound/host-name.ts'
import { isPublicAddress } from '../outbound/public-address.ts'

const MAX_CHARACTERS = 2_048
/** What the URL parser would strip or turn into something else, instead of refusing it. */
const NOT_IN_URL = /[\s\\]|\p{Cc}/u
/** The parser would also take `https:example.com`, and more slashes than two. */
const ABSOLUTE = /^https?:\/\/[^/?#]/i
const DEVELOPMENT_HOSTS: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost'])

/**
 * The address that webhooks of a workspace go to, as it will be called: absolute, https, at a host that can be public.
 *
 * What can be told from the text is refused here, for the sake of whoever sets it. It protects nothing: a public name
 * may resolve to any address, today or later, so every delivery has its address checked again, after the look-up.
 *
 * @param insecure also takes http at 127.0.0.1 and localhost
 * @throws GatewayError INVALID_REQUEST naming `url`
 */
export function readWebhookUrl(text: string, insecure: boolean): string {
  const url = NOT_IN_URL.test(text) || !ABSOLUTE.test(text) ? null : URL.parse(text)
  if (url === null) throw refused('must be an absolute https URL')
  if (url.username !== '' || url.password !== '') throw refused('must not have credentials')
  if (text.includes('#')) throw refused('must not have a fragment')
  const developing = insecure && url.protocol === 'http:' && DEVELOPMENT_HOSTS.has(url.hostname)
  if (url.protocol !== 'https:' && !developing) throw refused('must begin with https://')
  if (!isPublicHost(url.hostname) && !developing) throw refused('must have a public host')
  // Non-ASCII characters grow on their way into the URL.
  if (Math.max(text.length, url.href.length) > MAX_CHARACTERS)
    throw refused(`is over ${MAX_CHARACTERS} characters`)
  return url.href
}

function refused(what: string) {
  return invalid(`url: ${what}`, 'url')
}

/** @param host as the URL parser writes it: lower case, IDNA-encoded, IPv4 in its dotted form, IPv6 in brackets */
function isPublicHost(host: string): boolean {
  const address = host.startsWith('[') ? host.slice(1, -1) : host
  if (isIP(address) !== 0) return isPublicAddress(address)
  return isHostName(host) && !host.endsWith('.localhost')
}
