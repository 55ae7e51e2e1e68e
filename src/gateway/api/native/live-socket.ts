import { Type } from 'typebox'
import { ERRORS, errorReply, GatewayError, toGatewayError } from '../../../contracts/errors.ts'
import { DEFAULT_LIMITS } from '../../../contracts/limits.ts'
import type { Timer } from '../../../contracts/time.ts'
import type { ClientSocket, ClientSocketListener } from '../../edge/client-socket.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { type Fields, queryValues } from '../../edge/form.ts'
import { invalid, invalidField } from '../../edge/refusals.ts'
import { optional } from '../json-request.ts'
import { keyOffered, type SocketCall } from '../socket-endpoint.ts'
import { BEHIND_BYTES, CLOSE, checkMessageSize, nodeStops, readMessage } from '../socket-messages.ts'

const PROTOCOL = 'larkway.v1'
/** Browsers can send a key in no other place. */
const KEY_PROTOCOL = 'larkway.key.'
/** How long a caller that names no field in the query may take to send `start`. */
const START_MS = 10_000
/** Codes for applications begin here (RFC 6455, section 7.4.2); ours are this and the HTTP status of the error. */
const OWN_CODES = 4000

export const ERRORS_FIELD = optional(
  Type.Enum(['in_band']),
  'refusals come as a message on the socket, which browsers can read',
)

export type NativeMessage = Record<string, unknown>

/** A live session, as its socket knows it. */
interface SocketSession {
  start(): Promise<void>
  leave(): void
  fail(error: GatewayError): void
}

/** How a session takes a caller's messages. */
export interface SessionRules<Session extends SocketSession> {
  /** @throws GatewayError for fields that are wrong, and where no entry may serve the session */
  open(call: SocketCall, fields: Fields, socket: NativeSocket<Session>): Session
  /** @throws GatewayError */
  bytes(session: Session, message: Uint8Array): void
  /** Does what a message says that is not `start`. @throws GatewayError, also for an unknown type */
  handleMessage(session: () => Session, message: NativeMessage): void
  /** Some of what waited for the caller went out. */
  readonly drained?: (session: Session) => void
}

/** Facts that all WebSockets of the gateway's own protocol share. */
export function nativeSocket<Session extends SocketSession>(rules: SessionRules<Session>) {
  return {
    scope: 'inference' as const,
    limits: { maxMessageBytes: DEFAULT_LIMITS.live_max_message_bytes },
    authorization: ({ headers }: Exchange) => headers.authorization ?? keyOffered(headers, KEY_PROTOCOL),
    protocol: (offered: readonly string[]) => (offered.includes(PROTOCOL) ? PROTOCOL : null),
    open(call: SocketCall): ClientSocketListener {
      const fields = queryValues(call.exchange.query)
      const isGiven = [...fields.values.keys()].some((name) => name !== 'errors')
      return new NativeSocket(rules, call, isGiven ? fields : null)
    },
    refused: (error: GatewayError, exchange: Exchange): ClientSocketListener => ({
      onOpen(socket) {
        socket.send(errorMessage(error, exchange.requestId))
        socket.close(closeCode(error), error.code)
      },
      onMessage() {},
      onClose() {},
      onStopping() {},
    }),
  }
}

/** One caller's WebSocket in the gateway's own messages. */
export class NativeSocket<Session extends SocketSession> implements ClientSocketListener {
  readonly #rules: SessionRules<Session>
  readonly #call: SocketCall
  #session: Session | null = null
  #socket: ClientSocket | null = null
  #waiting: Timer | null = null
  #isOver = false

  /** @param fields null: they come with the first message. @throws GatewayError as the rules say */
  constructor(rules: SessionRules<Session>, call: SocketCall, fields: Fields | null) {
    this.#rules = rules
    this.#call = call
    if (fields !== null) this.#session = rules.open(call, fields, this)
  }

  get bufferedBytes(): number {
    return this.#socket?.bufferedBytes ?? 0
  }

  onOpen(socket: ClientSocket): void {
    this.#socket = socket
    if (this.#session !== null) return void this.#session.start()
    const late = () => this.end(new GatewayError('REQUEST_TIMEOUT', 'the message `start` did not come'))
    this.#waiting = this.#call.deps.services.clock.after(START_MS, late)
  }

  onMessage(message: Uint8Array, isBinary: boolean): void {
    if (this.#isOver) return
    try {
      const { live_max_message_bytes: most } = this.#call.deps.services.snapshot().limits
      checkMessageSize(message, most, 'live_max_message_bytes')
      if (isBinary) this.#rules.bytes(this.#started(), message)
      else this.#handleMessage(readMessage(message))
    } catch (thrown) {
      const error = toGatewayError(thrown)
      if (this.#session === null) this.end(error)
      else this.#session.fail(error)
    }
  }

  onDrain(): void {
    if (this.#session !== null) this.#rules.drained?.(this.#session)
  }

  onClose(): void {
    this.#isOver = true
    this.#stopWaiting()
    this.#session?.leave()
  }

  onStopping(): void {
    const error = nodeStops()
    if (this.#session === null) this.end(error)
    else this.#session.fail(error)
  }

  send(message: { readonly type: string }): void {
    const socket = this.#socket
    if (this.#isOver || socket === null) return
    if (message.type === 'partial' && socket.bufferedBytes > BEHIND_BYTES) return
    socket.send(JSON.stringify(message))
  }

  audio(bytes: Uint8Array): void {
    if (!this.#isOver) this.#socket?.send(bytes)
  }

  end(error: GatewayError | null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#stopWaiting()
    const { context, exchange } = this.#call
    if (error === null) return void this.#socket?.close(CLOSE.normal, '')
    context.failure ??= error
    this.#socket?.send(errorMessage(error, exchange.requestId))
    this.#socket?.close(closeCode(error), error.code)
  }

  #started(): Session {
    if (this.#session === null) throw invalid('the first message must be `start`', 'type')
    return this.#session
  }

  #handleMessage(message: NativeMessage): void {
    if (message.type === 'start') this.#start(message)
    else this.#rules.handleMessage(() => this.#started(), message)
  }

  #start({ type: _, ...fields }: NativeMessage): void {
    if (this.#session !== null) throw invalid('the session has been started', 'type')
    this.#stopWaiting()
    this.#session = this.#rules.open(this.#call, { kind: 'json', value: fields }, this)
    void this.#session.start()
  }

  #stopWaiting(): void {
    this.#waiting?.close()
    this.#waiting = null
  }
}

const ID_LENGTH_MAX = 128

/** The id of a message that is answered with it; null: it has none. @throws GatewayError */
export function messageId({ id }: NativeMessage): string | null {
  if (id === undefined || id === null) return null
  if (typeof id !== 'string' || id.length > ID_LENGTH_MAX)
    throw invalidField('id', `must be a string of at most ${ID_LENGTH_MAX} characters`)
  return id
}

function errorMessage(error: GatewayError, requestId: string): string {
  return JSON.stringify({ type: 'error', ...errorReply(error, requestId).body })
}

/** 4000 and the HTTP status of the error; 1001 where the node stops. */
function closeCode({ code }: GatewayError): number {
  return code === 'OVERLOADED' ? CLOSE.goingAway : OWN_CODES + ERRORS[code].status
}
