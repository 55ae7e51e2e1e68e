import { type TSchema, Type } from 'typebox'
import { ERRORS, errorReply, GatewayError, toGatewayError } from '../../errors.ts'
import type { ClientSocket, ClientSocketListener } from '../../inbound/client-socket.ts'
import { type Fields, queryValues } from '../../inbound/form.ts'
import { isObject } from '../../inbound/json-body.ts'
import { invalid, invalidField } from '../../inbound/refusals.ts'
import { DEFAULT_LIMITS } from '../../limits.ts'
import type { LiveMessage, LiveSink } from '../../live/messages.ts'
import type { LiveSession } from '../../live/session.ts'
import { SELECTOR_FIELDS } from '../fields.ts'
import { optional } from '../json-request.ts'
import { CALL_ERRORS } from '../openapi/operation.ts'
import { type SocketCall, socketEndpoint } from '../socket-endpoint.ts'
import { LIVE_FIELDS, readLiveCall } from './live-call.ts'
import { queryFields, TRANSCRIPTION_FIELDS } from './transcription-request.ts'

const PROTOCOL = 'larkway.v1'
/** Browsers can send a key in no other place. */
const KEY_PROTOCOL = 'larkway.key.'
/** How long a caller that names no field in the query may take to send `start`. */
const START_MS = 10_000
/** A client that is so far behind gets no partials: the next one replaces them anyway. */
const BEHIND_BYTES = 64 * 1024
const NORMAL_CLOSE = 1000
const GOING_AWAY = 1001
/** Codes for applications begin here (RFC 6455, section 7.4.2); ours are this and the HTTP status of the error. */
const OWN_CODES = 4000

const { mode: _mode, stream: _stream, response_format: _format, ...OPTIONS } = TRANSCRIPTION_FIELDS
const FIELDS: Readonly<Record<string, TSchema>> = {
  ...OPTIONS,
  ...SELECTOR_FIELDS,
  ...LIVE_FIELDS,
  errors: optional(
    Type.Enum(['in_band']),
    'refusals come as a message on the socket, which browsers can read',
  ),
}

export const transcriptionStream = socketEndpoint({
  path: '/v1/transcription/stream',
  id: 'transcriptionStream',
  tag: 'Speech',
  summary: 'Transcribe live audio over a WebSocket',
  description:
    'Subprotocol `larkway.v1`; in a browser `larkway.v1, larkway.key.<key>`. The fields are query parameters, or ' +
    'the first message, `{"type":"start", …}`. Binary messages are audio. When a provider fails, another one ' +
    'goes on with what was not settled.',
  parameters: ['Purpose', queryFields(FIELDS)],
  scope: 'inference',
  limits: { maxMessageBytes: DEFAULT_LIMITS.live_max_message_bytes },
  errors: [...CALL_ERRORS, 'ROUTE_CONTROL_NOT_ALLOWED', 'REQUIRED_FEATURE_UNAVAILABLE'],
  authorization: ({ headers }) => headers.authorization ?? keyOffered(headers['sec-websocket-protocol']),
  protocol: (offered) => (offered.includes(PROTOCOL) ? PROTOCOL : null),
  open(call) {
    const fields = queryValues(call.exchange.query)
    const isGiven = [...fields.values.keys()].some((name) => name !== 'errors')
    return isGiven ? NativeSocket.ready(call, fields) : NativeSocket.waiting(call)
  },
  refused: (error, exchange) => ({
    onOpen(socket) {
      socket.send(errorMessage(error, exchange.requestId))
      socket.close(closeCode(error), error.code)
    },
    onMessage() {},
    onClose() {},
    onStopping() {},
  }),
})

function keyOffered(offered = ''): string | undefined {
  const names = offered.split(',').map((name) => name.trim())
  const key = names.find((name) => name.startsWith(KEY_PROTOCOL))
  return key === undefined ? undefined : `Bearer ${key.slice(KEY_PROTOCOL.length)}`
}

/** One caller's WebSocket in the gateway's own messages. */
class NativeSocket implements ClientSocketListener, LiveSink {
  readonly #call: SocketCall
  #session: LiveSession | null
  #socket: ClientSocket | null = null
  #waiting: NodeJS.Timeout | null = null
  #isOver = false

  private constructor(call: SocketCall) {
    this.#call = call
    this.#session = null
  }

  /** @throws GatewayError for fields that are wrong, and as `LiveSessions.select` */
  static ready(call: SocketCall, fields: Fields): NativeSocket {
    const socket = new NativeSocket(call)
    socket.#session = socket.#open(fields)
    return socket
  }

  /** The fields come with the first message. */
  static waiting(call: SocketCall): NativeSocket {
    return new NativeSocket(call)
  }

  onOpen(socket: ClientSocket): void {
    this.#socket = socket
    if (this.#session !== null) return void this.#session.start()
    const late = () => this.end(new GatewayError('REQUEST_TIMEOUT', 'the message `start` did not come'))
    this.#waiting = setTimeout(late, START_MS)
  }

  onMessage(message: Uint8Array, isBinary: boolean): void {
    if (this.#isOver) return
    try {
      this.#checkSize(message)
      if (isBinary) this.#started().audio(message)
      else this.#told(readMessage(message))
    } catch (thrown) {
      const error = toGatewayError(thrown)
      if (this.#session === null) this.end(error)
      else this.#session.fail(error)
    }
  }

  onClose(): void {
    this.#isOver = true
    this.#stopWaiting()
    this.#session?.leave()
  }

  onStopping(): void {
    const error = new GatewayError('OVERLOADED', 'this node stops')
    if (this.#session === null) this.end(error)
    else this.#session.fail(error)
  }

  send(message: LiveMessage): void {
    const socket = this.#socket
    if (this.#isOver || socket === null) return
    if (message.type === 'partial' && socket.bufferedBytes > BEHIND_BYTES) return
    socket.send(JSON.stringify(message))
  }

  end(error: GatewayError | null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#stopWaiting()
    const { context, exchange } = this.#call
    if (error === null) return void this.#socket?.close(NORMAL_CLOSE, '')
    context.failure ??= error
    this.#socket?.send(errorMessage(error, exchange.requestId))
    this.#socket?.close(closeCode(error), error.code)
  }

  #open(fields: Fields): LiveSession {
    const { exchange, context, dependencies, admitted } = this.#call
    const call = readLiveCall(exchange, fields)
    const selection = dependencies.live.select(context, call)
    return dependencies.live.open({ context, call, selection, sink: this, admitted })
  }

  #checkSize({ length }: Uint8Array): void {
    const { live_max_message_bytes: most } = this.#call.dependencies.services.snapshot().limits
    if (length <= most) return
    const details = { limit: 'live_max_message_bytes', limit_bytes: most }
    throw new GatewayError('REQUEST_TOO_LARGE', 'the message is over live_max_message_bytes', { details })
  }

  #started(): LiveSession {
    if (this.#session === null) throw invalid('the first message must be `start`', 'type')
    return this.#session
  }

  #told(message: Record<string, unknown>): void {
    switch (message.type) {
      case 'start':
        return void this.#start(message)
      case 'finalize':
        return void this.#started().finalize(idOf(message))
      case 'keepalive':
        return void this.#started().keepAlive()
      case 'end':
        return void this.#started().end()
      default:
        throw invalidField('type', 'must be `start`, `finalize`, `keepalive` or `end`')
    }
  }

  #start({ type: _, audio = {}, ...fields }: Record<string, unknown>): void {
    if (this.#session !== null) throw invalid('the session has been started', 'type')
    if (!isObject(audio)) throw invalidField('audio', 'must be an object')
    this.#stopWaiting()
    this.#session = this.#open({ kind: 'json', value: { ...fields, ...audio } })
    void this.#session.start()
  }

  #stopWaiting(): void {
    if (this.#waiting !== null) clearTimeout(this.#waiting)
    this.#waiting = null
  }
}

function readMessage(message: Uint8Array): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(Buffer.from(message.buffer, message.byteOffset, message.length).toString('utf8'))
  } catch {
    throw invalid('a text message must be JSON')
  }
  if (!isObject(value)) throw invalid('a text message must be a JSON object')
  return value
}

const ID_LENGTH_MAX = 128

function idOf({ id }: Record<string, unknown>): string | null {
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
  return code === 'OVERLOADED' ? GOING_AWAY : OWN_CODES + ERRORS[code].status
}
