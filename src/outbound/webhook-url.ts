import { isIP } from 'node:net'
import { isPublicName } from './host-name.ts'
import { isPublicAddress } from './public-address.ts'

const MAX_CHARACTERS = 2_048
/** What the URL parser would strip or turn into something else, instead of refusing it. */
const NOT_IN_URL = /[\s\\]|\p{Cc}/u
/** The parser would also take `https:example.com`, and more slashes than two. */
const ABSOLUTE = /^https?:\/\/[^/?#]/i
const DEVELOPMENT_HOSTS: ReadonlySet<string> = new Set(['127.0.0.1', 'localhost'])

/** A URL that webhooks may go to, as far as its text tells. */
export interface WebhookUrl {
  readonly url: URL
  /** A name or an address, the latter without brackets. */
  readonly host: string
  readonly port: number
  /** Whether it is http at this machine, for development. */
  readonly local: boolean
}

/**
 * Judges the text of a URL for webhooks: absolute, https, at a host that can be public. Where its name leads to is not
 * asked; that is done at each delivery, since it may lead elsewhere the next time.
 *
 * @param insecure also takes http at 127.0.0.1 and localhost
 * @returns or what is wrong with it, after "the URL"
 */
export function judgeWebhookUrl(text: string, insecure: boolean): WebhookUrl | { readonly fault: string } {
  const url = NOT_IN_URL.test(text) || !ABSOLUTE.test(text) ? null : URL.parse(text)
  if (url === null) return { fault: 'must be an absolute https URL' }
  if (url.username !== '' || url.password !== '') return { fault: 'must not have credentials' }
  if (text.includes('#')) return { fault: 'must not have a fragment' }
  const local = insecure && url.protocol === 'http:' && DEVELOPMENT_HOSTS.has(url.hostname)
  if (url.protocol !== 'https:' && !local) return { fault: 'must begin with https://' }
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
  if (!isPublicHost(host) && !local) return { fault: 'must have a public host' }
  // Non-ASCII characters grow on their way into the URL.
  if (Math.max(text.length, url.href.length) > MAX_CHARACTERS)
    return { fault: `is over ${MAX_CHARACTERS} characters` }
  return { url, host, port: url.port === '' ? (local ? 80 : 443) : Number(url.port), local }
}

/** @param host as the URL parser writes it: lower case, IDNA-encoded, IPv4 in its dotted form */
function isPublicHost(host: string): boolean {
  return isIP(host) === 0 ? isPublicName(host) : isPublicAddress(host)
}
