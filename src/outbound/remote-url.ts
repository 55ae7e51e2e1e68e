import type { UrlRejection } from '../schema/remote-audio.ts'
import { isPublicName } from './host-name.ts'

/** Longest URL, characters. */
const URL_LENGTH_MAX = 2048

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
 * Judges where a host redirects to: by the rules for a caller's own URL, once it is resolved against the URL
 * that was asked. Whatever is wrong with it is `redirect_rejected`, because the URL that the caller sent was
 * in order.
 *
 * @param location the header as received; refused with white space, control characters, backslashes or
 *                 anything but ASCII in it, when empty, and when longer than 2,048 characters
 * @param from what answered with it, as judged
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
