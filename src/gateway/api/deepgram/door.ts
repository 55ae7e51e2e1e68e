import { hash } from 'node:crypto'
import { ERRORS, type GatewayError } from '../../../contracts/errors.ts'
import { ALPHABET, isOwnId } from '../../../contracts/ids.ts'
import { DEFAULT_LIMITS } from '../../../contracts/limits.ts'
import { type ClientSocketListener, offeredProtocols } from '../../edge/client-socket.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { renamed } from '../door-options.ts'
import type { Door } from '../endpoint.ts'
import { DeepgramFault } from '../openapi/deepgram-answers.ts'
import type { Answer, Content } from '../openapi/operation.ts'
import { CLOSE } from '../socket-messages.ts'

/** Subprotocols with which browsers send a key: the scheme, then the key. */
const SCHEMES = ['token', 'bearer']

/**
 * An id of ours as the UUID of the same 128 bits: Deepgram's contract says that ids of requests are UUIDs
 * (https://developers.deepgram.com/reference), and its Rust library takes nothing else. One that a caller chose stays.
 */
export function vendorId(id: string): string {
  const ulid = id.slice(id.indexOf('_') + 1)
  if (!isOwnId(id) || ulid.length > 26) return id
  const bits = [...ulid].reduce((sum, digit) => sum * 32n + BigInt(ALPHABET.indexOf(digit)), 0n)
  return uuid(bits.toString(16).padStart(32, '0'))
}

/** The UUID of a model or a voice, which have none with most providers. */
export function modelId(name: string): string {
  return uuid(hash('sha256', name).slice(0, 32))
}

function uuid(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Names of ours, and what these clients call the same. */
const NAMES: Readonly<Record<string, string>> = {
  input: 'text',
  voice: 'model',
  response_format: 'encoding',
  keyterms: 'keyterm',
  smart_formatting: 'smart_format',
  endpointing_ms: 'endpointing',
  'audio.url': 'url',
  'audio.upload_id': 'url',
}

/** Conventions of Deepgram's client libraries, which are given `/deepgram` as their base URL. */
const DOOR: Door = {
  name: 'deepgram',
  tag: 'Deepgram',
  requestIdHeader: 'dg-request-id',
  vendorId,
  errorHeader: 'dg-error',
  authorization: bearerOf,
  translateError: (error) => renamed(error, NAMES),
  names: NAMES,
  errorShape: {
    schema: DeepgramFault,
    members: ({ code, message }, id) => ({ err_code: code, err_msg: message, request_id: vendorId(id) }),
  },
}

/** Part of every endpoint of this door. */
export const DEEPGRAM = { tag: 'Deepgram', scope: 'inference', door: DOOR } as const

/** The same of a WebSocket, whose clients read the reason of a refusal in a header. */
export const DEEPGRAM_SOCKET = {
  ...DEEPGRAM,
  limits: { maxMessageBytes: DEFAULT_LIMITS.live_max_message_bytes },
  authorization({ headers }: Exchange): string | undefined {
    const [scheme = '', key] = offeredProtocols(headers)
    if (headers.authorization !== undefined) return bearerOf(headers)
    return SCHEMES.includes(scheme.toLowerCase()) && key !== undefined ? `Bearer ${key}` : undefined
  },
  protocol: ([first]: readonly string[]): string | null =>
    first !== undefined && SCHEMES.includes(first.toLowerCase()) ? first : null,
  refused: (error: GatewayError): ClientSocketListener => ({
    onOpen: (socket) => socket.close(...closeFor(error)),
    onMessage() {},
    onClose() {},
    onStopping() {},
  }),
} as const

/**
 * Code and reason as Deepgram has them. Never 1000 for a failure: its clients come again after any other code, and
 * take that one for the end.
 */
export function closeFor(error: GatewayError): readonly [code: number, reason: string] {
  const { code, message } = renamed(error, NAMES)
  if (code === 'OVERLOADED') return [CLOSE.goingAway, message]
  if (code === 'REQUEST_TIMEOUT') return [CLOSE.serverError, `NET-0001: ${message}`]
  if (ERRORS[code].status < 500) return [CLOSE.policy, `DATA-0000: ${message}`]
  return [CLOSE.serverError, `NET-0000: ${message}`]
}

/** `Token` is the scheme of its clients; keys of theirs that expire go as `Bearer`. */
export function bearerOf({ authorization }: Exchange['headers']): string | undefined {
  return authorization?.replace(/^Token +/i, 'Bearer ')
}

/** Documents an answer in Deepgram's shape. */
export function deepgramAnswer(contents: readonly Content[], headers: Answer['headers'] = []): Answer {
  return { status: 200, description: "Deepgram's answer", contents, headers }
}
