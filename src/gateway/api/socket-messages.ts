import { GatewayError } from '../../contracts/errors.ts'
import type { SessionEnd } from '../../contracts/live.ts'
import { isObject } from '../edge/json-body.ts'
import { invalid } from '../edge/refusals.ts'

/** Close codes of RFC 6455, section 7.4.1, that the live doors have in common. */
export const CLOSE = {
  normal: 1000,
  goingAway: 1001,
  noCode: 1005,
  policy: 1008,
  serverError: 1011,
} as const

/** A client that is so far behind gets no text that is not final: the next one replaces it anyway. */
export const BEHIND_BYTES = 64 * 1024

/** The error that ends the sessions of a node that stops. */
export function nodeStops(): GatewayError {
  return new GatewayError('OVERLOADED', 'this node stops')
}

/**
 * Close code and reason of a session that ended without an error although its client had not asked for that. Clients
 * come again after any other code than 1000: not where an operator has ended the session.
 */
export function unaskedClose(end: SessionEnd | null): readonly [code: number, reason: string] {
  if (end === 'operator') return [CLOSE.normal, 'an operator ended the session']
  if (end === 'drain') return [CLOSE.goingAway, 'this node stops; open another session']
  return [CLOSE.goingAway, 'the session has reached its longest duration']
}

/**
 * Refuses a message that is too long.
 *
 * @param limit name of the setting that the bound is of
 * @throws GatewayError REQUEST_TOO_LARGE
 */
export function checkMessageSize({ length }: Uint8Array, most: number, limit?: string): void {
  if (length <= most) return
  const details = { ...(limit === undefined ? {} : { limit }), limit_bytes: most }
  throw new GatewayError('REQUEST_TOO_LARGE', `the message is over ${limit ?? `${most} bytes`}`, { details })
}

/** Reads a text message. @throws GatewayError INVALID_REQUEST */
export function readMessage(message: Uint8Array): Record<string, unknown> {
  const text = Buffer.from(message.buffer, message.byteOffset, message.length).toString('utf8')
  const value = parseObject(text)
  if (value === null) throw invalid('a text message must be a JSON object')
  return value
}

/** A text as a JSON object; null when it is none. */
export function parseObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : null
  } catch {
    return null
  }
}
