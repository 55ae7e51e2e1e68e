import type { WebSocket, WebSocketBehavior } from 'uWebSockets.js'
import { GatewayError } from '../../contracts/errors.ts'
import type { RequestHead } from './request-head.ts'

/** A WebSocket to a client, from its handshake to its end. After that its methods do nothing. */
export interface ClientSocket {
  /**
   * Sends a message: a text, or bytes.
   *
   * @returns false when the client reads too slowly and the message is lost; the socket is cut then
   */
  send(message: string | Uint8Array): boolean
  /** Bytes that wait for the client. */
  readonly bufferedBytes: number
  /** Sends what waits and then a close frame. @param reason at most 123 bytes of UTF-8 */
  close(code: number, reason: string): void
}

/** Hears of the events of a client's WebSocket. Its methods must not throw. */
export interface ClientSocketListener {
  /** Headers of the answer to the handshake. */
  readonly headers?: Readonly<Record<string, string>>
  /** The handshake is answered. Called once, before anything else. */
  onOpen(socket: ClientSocket): void
  /** @param message valid during the call only; a text is UTF-8 that has been checked */
  onMessage(message: Uint8Array, isBinary: boolean): void
  /** Some of the waiting bytes went out: `bufferedBytes` tells how many are left. */
  onDrain?(): void
  /**
   * The connection is over, whoever has ended it. Called once.
   *
   * @param code of the close frame; 1006 without one
   */
  onClose(code: number): void
  /** The node is about to cut it. */
  onStopping(): void
}

/** Turns the connection into a WebSocket. */
export interface UpgradeReply {
  readonly status: 101
  readonly headers?: Readonly<Record<string, string>>
  /** As of any other answer. */
  readonly lines?: string
  /** The one of the subprotocols offered that is spoken; null: none was. */
  readonly protocol: string | null
  readonly listener: ClientSocketListener
}

/** Limits of a path's WebSockets. */
export interface SocketLimits {
  /** Largest message that is handed on. A client that sends much more is cut without a close frame. */
  readonly maxMessageBytes: number
}

/** A message a little over the limit is handed on, so that it can be refused in words. */
const OVER_LIMIT_BYTES = 64 * 1024
/** Bytes that may wait for a client that reads slowly; its messages are lost beyond. */
const BUFFERED_BYTES_MAX = 1024 * 1024
/** A client that has vanished is found within this time, s; pings go out a little before. */
const IDLE_SECONDS = 60

/** Kept by uWS with each socket. */
interface Attached {
  readonly socket: NativeClientSocket
}

/**
 * How uWS treats the WebSockets of a path. The handshake is given to `accept` like any request.
 *
 * @param left called when one closes, before its exchange is told
 */
export function socketBehavior(
  { maxMessageBytes }: SocketLimits,
  accept: NonNullable<WebSocketBehavior<Attached>['upgrade']>,
  left: () => void,
): WebSocketBehavior<Attached> {
  return {
    maxPayloadLength: maxMessageBytes + OVER_LIMIT_BYTES,
    maxBackpressure: BUFFERED_BYTES_MAX,
    idleTimeout: IDLE_SECONDS,
    sendPingsAutomatically: true,
    upgrade: accept,
    open: (ws) => ws.getUserData().socket.opened(ws),
    message: (ws, message, isBinary) => ws.getUserData().socket.received(new Uint8Array(message), isBinary),
    drain: (ws) => ws.getUserData().socket.drained(),
    close: (ws, code) => {
      left()
      ws.getUserData().socket.closed(code)
    },
  }
}

const KEY = /^[A-Za-z0-9+/]{22}==$/
const VERSION = '13'

/**
 * Why a request is not a handshake of a WebSocket, although its path is for them; null: it is one. uWS looks at the
 * length of the key alone, so that a proxy that takes the request for an ordinary one could be made to pass on others.
 */
export function handshakeFault({ headers }: Pick<RequestHead, 'headers'>): GatewayError | null {
  const { upgrade = '', connection = '', 'sec-websocket-version': version } = headers
  const options = connection.split(',').map((option) => option.trim().toLowerCase())
  if (upgrade.toLowerCase() !== 'websocket' || !options.includes('upgrade'))
    return new GatewayError('INVALID_REQUEST', 'this path takes WebSockets only')
  if (version !== VERSION)
    return new GatewayError('INVALID_REQUEST', 'Sec-WebSocket-Version must be 13', {
      headers: { 'sec-websocket-version': VERSION },
    })
  if (!KEY.test(headers['sec-websocket-key'] ?? ''))
    return new GatewayError('INVALID_REQUEST', 'Sec-WebSocket-Key must be the base64 of 16 bytes')
  return null
}

/** Subprotocols that a client offers, in its order. */
export function offeredProtocols(headers: RequestHead['headers']): readonly string[] {
  const offered = headers['sec-websocket-protocol'] ?? ''
  return offered
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

/** Bounds of a close frame (RFC 6455, section 5.5). */
const REASON_BYTES_MAX = 123

/** The exchange that became a WebSocket. */
interface SocketOwner {
  fail(thrown: unknown): void
  socketClosed(): void
}

export class NativeClientSocket implements ClientSocket {
  readonly #exchange: SocketOwner
  readonly #listener: ClientSocketListener
  #ws: WebSocket<Attached> | null = null
  receivedBytes = 0
  sentBytes = 0

  constructor(exchange: SocketOwner, listener: ClientSocketListener) {
    this.#exchange = exchange
    this.#listener = listener
  }

  get bufferedBytes(): number {
    return this.#ws?.getBufferedAmount() ?? 0
  }

  send(message: string | Uint8Array): boolean {
    const ws = this.#ws
    if (ws === null) return false
    const isBinary = typeof message !== 'string'
    const sent = ws.send(message, isBinary)
    this.sentBytes += message.length
    if (sent !== DROPPED) return true
    // A message that is lost would leave a hole in what the client has.
    ws.close()
    return false
  }

  close(code: number, reason: string): void {
    const ws = this.#ws
    if (ws === null) return
    ws.end(code, Buffer.from(reason).subarray(0, REASON_BYTES_MAX))
  }

  stopping(): void {
    this.#listener.onStopping()
  }

  opened(ws: WebSocket<Attached>): void {
    this.#ws = ws
    this.#guard(() => this.#listener.onOpen(this))
  }

  received(message: Uint8Array, isBinary: boolean): void {
    this.receivedBytes += message.length
    // Without a function for each message: a session brings fifty a second.
    try {
      this.#listener.onMessage(message, isBinary)
    } catch (error) {
      this.#failed(error)
    }
  }

  drained(): void {
    this.#guard(() => this.#listener.onDrain?.())
  }

  closed(code: number): void {
    this.#ws = null
    this.#guard(() => this.#listener.onClose(code))
    this.#exchange.socketClosed()
  }

  /** Keeps errors out of the native callback. */
  #guard(act: () => void): void {
    try {
      act()
    } catch (error) {
      this.#failed(error)
    }
  }

  #failed(error: unknown): void {
    this.#exchange.fail(error)
    this.#ws?.close()
  }
}

const DROPPED = 2
