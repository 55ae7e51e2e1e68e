import { GatewayError } from '../errors.ts'
import { FRAMING } from './header-bytes.ts'
import type { RequestHead } from './request-head.ts'

/** How the body ends. `contentLength` is null for a chunked body and for none. */
export interface Framing {
  readonly contentLength: number | null
  readonly chunked: boolean
}

const DIGITS = /^[0-9]{1,15}$/
/** A name or IPv4 address with an optional port, or an IPv6 address in brackets with an optional port. */
const HOST = /^(?:[A-Za-z0-9._~!$&'()*+,;=%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?$/
const PRINTABLE_ASCII = /^[\x21-\x7e]*$/

/**
 * Judges what decides where a request ends, more strictly than uWS's parser: that one takes the first of
 * two Content-Lengths and any Transfer-Encoding as chunked, by which one request can hide another from a
 * proxy in front.
 *
 * @returns the framing, or INVALID_REQUEST, after which the connection must be closed: its next bytes mean
 *          nothing
 */
export function judgeFraming(head: RequestHead): Framing | GatewayError {
  if (head.method === '') return malformed('the method must be a token')
  const cut = head.cut.find((name) => FRAMING.includes(name))
  if (cut !== undefined) return malformed(`the header ${cut} must be visible ASCII`)
  const { hosts, contentLengths, transferEncodings } = head
  if (hosts.length !== 1 || !HOST.test(hosts[0]!)) return malformed('the header Host must name one host')
  if (!PRINTABLE_ASCII.test(head.path) || !PRINTABLE_ASCII.test(head.query))
    return malformed('the request target must be printable ASCII')
  if (contentLengths.length > 0 && transferEncodings.length > 0)
    return malformed('a request has Content-Length or Transfer-Encoding, never both')
  if (contentLengths.length > 1) return malformed('Content-Length is given more than once')
  if (contentLengths.length === 1 && !DIGITS.test(contentLengths[0]!))
    return malformed('Content-Length must be 1 to 15 digits')
  if (transferEncodings.length > 1 || (transferEncodings[0] ?? 'chunked').toLowerCase() !== 'chunked')
    return malformed('the only Transfer-Encoding taken is chunked')
  return {
    contentLength: contentLengths.length === 1 ? Number(contentLengths[0]) : null,
    chunked: transferEncodings.length === 1,
  }
}

function malformed(message: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', message)
}
