import { isIP } from 'node:net'
import type { UrlRejection } from '../../contracts/remote-audio.ts'
import { isPublicAddress } from './public-address.ts'

/** Longest URL, characters. */
const URL_LENGTH_MAX = 2_048
const TOO_LONG = `must have at most ${URL_LENGTH_MAX} characters`

/** Visible ASCII but for the backslash, which the URL parser takes for a slash; line breaks it drops. */
const PLAIN = /^[\x21-\x5b\x5d-\x7e]+$/

/** The authority goes up to the path, the query or the fragment. */
const HTTPS_URL = /^https:\/\/([^/?#]+)/i

const HOST_AND_PORT = /^([^:]*)(?::(\d*))?$/

/** A URL that may be fetched from, as far as its text tells. */
export interface AllowedUrl {
  /** Has the scheme https, the default port and no user info, and is at most 2,048 characters long. */
  readonly url: URL
  /** To be resolved and to be the name in the certificate: lower case, no address, no dot at its end. */
  readonly host: string
}

/**
 * Judges the text of a URL; where its host leads to is not asked. The URL parser reads the text once, and
 * only what it read may be used from there on: a second reader could find another host in the same text.
 *
 * The reasons:
 * - `scheme`: the text does not begin with `https://`
 * - `credentials_in_url`: there is an `@` before the host, even with nothing before it
 * - `port_not_allowed`: a port that is not 443
 * - `host_not_allowed`: the host is not on the list. An IP address in whatever spelling, a name without a dot
 *   or with one at its end and a private name such as `metadata.google.internal` can be on none. So it is
 *   with a text that readers might find different hosts in: longer than 2,048 characters as written or as
 *   parsed, with white space, control characters, backslashes or anything but ASCII, or with a host that is
 *   not written as it is parsed (percent-encoded, `127.1`). Names in other scripts have to come in their IDNA
 *   form (`xn--`): digits and dots of other scripts become ASCII ones in the parser, and an address of what
 *   looked like none.
 *
 * @param domains host names, and `*.` and a host name for its subdomains at any depth but not for the name
 *                itself; lower case, IDNA-encoded
 */
export function judgeUrl(
  text: string,
  domains: readonly string[],
): AllowedUrl | { readonly rejected: UrlRejection } {
  if (!/^https:\/\//i.test(text)) return { rejected: 'scheme' }
  const authority = HTTPS_URL.exec(text)?.[1]
  if (authority === undefined || !isPlain(text)) return { rejected: 'host_not_allowed' }
  if (authority.includes('@')) return { rejected: 'credentials_in_url' }
  const [, written, port] = HOST_AND_PORT.exec(authority) ?? []
  if (written === undefined) return { rejected: 'host_not_allowed' }
  if (port && Number(port) !== 443) return { rejected: 'port_not_allowed' }

  const url = URL.parse(text)
  if (url === null || url.hostname !== written.toLowerCase() || !isPlain(url.href))
    return { rejected: 'host_not_allowed' }
  const host = url.hostname
  // Addresses are asked for on their own, though no list that was checked has one: an address names no host.
  if (!isPublicName(host) || !isListed(host, domains)) return { rejected: 'host_not_allowed' }
  return { url, host }
}

/**
 * Judges where a host redirects to: by the rules for a caller's own URL, once it is resolved against the URL that was
 * asked. Whatever is wrong with it is `redirect_rejected`, because the URL that the caller sent was in order.
 *
 * @param location the header as received; refused with white space, control characters, backslashes or
 *                 anything but ASCII in it, when empty, and when longer than 2,048 characters
 * @param from the URL that answered with it, as judged
 */
export function judgeRedirect(
  location: string,
  from: URL,
  domains: readonly string[],
): AllowedUrl | { readonly rejected: UrlRejection } {
  const target = isPlain(location) ? URL.parse(location, from.href) : null
  const judged = target === null ? null : judgeUrl(target.href, domains)
  return judged === null || 'rejected' in judged ? { rejected: 'redirect_rejected' } : judged
}

function isPlain(text: string): boolean {
  return text.length <= URL_LENGTH_MAX && PLAIN.test(text)
}

function isListed(host: string, domains: readonly string[]): boolean {
  return domains.some((domain) =>
    domain.startsWith('*.') ? host.endsWith(domain.slice(1)) : host === domain,
  )
}

/** Characters that the URL parser would strip or change instead of refusing. */
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
  /** It is http at this machine, for development. */
  readonly local: boolean
}

/**
 * Judges the text of a URL for webhooks: absolute, https, at a host that can be public. Where its name leads to is not
 * asked; that is done at each delivery, since it may lead elsewhere the next time.
 *
 * @param insecure also takes http at 127.0.0.1 and localhost
 * @returns or what is wrong with it, after "the URL"
 */
export function judgeWebhookUrl(text: string, insecure: boolean): WebhookUrl | { readonly issue: string } {
  const url = NOT_IN_URL.test(text) || !ABSOLUTE.test(text) ? null : URL.parse(text)
  if (url === null) return { issue: 'must be an absolute https URL' }
  if (url.username !== '' || url.password !== '') return { issue: 'must not have credentials' }
  if (text.includes('#')) return { issue: 'must not have a fragment' }
  const local = insecure && url.protocol === 'http:' && DEVELOPMENT_HOSTS.has(url.hostname)
  if (url.protocol !== 'https:' && !local) return { issue: 'must begin with https://' }
  const host = url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
  if (!isPublicHost(host) && !local) return { issue: 'must have a public host' }
  // Non-ASCII characters grow on their way into the URL.
  if (Math.max(text.length, url.href.length) > URL_LENGTH_MAX) return { issue: TOO_LONG }
  return { url, host, port: url.port === '' ? (local ? 80 : 443) : Number(url.port), local }
}

/** The address of a callback, and what its URL said of who sends it. */
export interface CallbackUrl {
  /** As the URL parser writes it, without credentials. */
  readonly url: string
  /** Value of `Authorization` (RFC 7617); null: the URL had no credentials. */
  readonly authorization: string | null
}

/**
 * Judges the text of a URL for the callback of one job: as for webhooks, but that it may have credentials, which are
 * taken away from it.
 *
 * @returns or what is wrong with it, after "the URL"
 */
export function judgeCallbackUrl(text: string, insecure: boolean): CallbackUrl | { readonly issue: string } {
  if (text.length > URL_LENGTH_MAX) return { issue: TOO_LONG }
  const url = NOT_IN_URL.test(text) || !ABSOLUTE.test(text) ? null : URL.parse(text)
  if (url === null) return { issue: 'must be an absolute https URL' }
  const credentials = [url.username, url.password].map(decoded)
  if (credentials.includes(null)) return { issue: 'must have credentials that are UTF-8' }
  const isAuthorized = url.username !== '' || url.password !== ''
  url.username = ''
  url.password = ''
  const judged = judgeWebhookUrl(url.href, insecure)
  if ('issue' in judged) return judged
  const basic = `Basic ${Buffer.from(credentials.join(':')).toString('base64')}`
  return { url: judged.url.href, authorization: isAuthorized ? basic : null }
}

/** Null: the percent-encoded bytes are not UTF-8. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

/** @param host as the URL parser writes it: lower case, IDNA-encoded, IPv4 in its dotted form */
function isPublicHost(host: string): boolean {
  return isIP(host) === 0 ? isPublicName(host) : isPublicAddress(host)
}

const HOST = /^(?=.{1,253}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const NUMBER = /^(\d+|0x[0-9a-f]*)$/

/**
 * Top-level domains whose names mean something else in every network: RFC 6761 and 6762, `arpa` for home.arpa (RFC
 * 8375), `internal` as ICANN reserved it, where clouds keep their metadata, and `localdomain` of hosts files.
 */
const PRIVATE_NAMES = /(?:^|\.)(?:localhost|localdomain|local|internal|arpa)$/

/**
 * True if a lower-case, IDNA-encoded text is the name of a host: at least two labels of letters, digits and hyphens,
 * without the dot of the root, and no IP address in any of its forms.
 */
export function isHostName(text: string): boolean {
  return HOST.test(text) && !NUMBER.test(text.slice(text.lastIndexOf('.') + 1))
}

/** True for the name of a host that is the same wherever it is asked for. */
function isPublicName(text: string): boolean {
  return isHostName(text) && !PRIVATE_NAMES.test(text)
}
