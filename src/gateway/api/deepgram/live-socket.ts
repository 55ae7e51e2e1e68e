import { type GatewayError, toGatewayError } from '../../../contracts/errors.ts'
import type { SessionEnd } from '../../../contracts/live.ts'
import type { ClientSocket, ClientSocketListener } from '../../edge/client-socket.ts'
import type { LiveMessage, LiveSink } from '../../live/messages.ts'
import type { LiveSession } from '../../live/session.ts'
import { WholeFrames } from '../../media/pcm.ts'
import { warningHeaders } from '../fact-headers.ts'
import type { SocketCall } from '../socket-endpoint.ts'
import { CLOSE, checkMessageSize, nodeStops, readMessage, unaskedClose } from '../socket-messages.ts'
import { closeFor, vendorId } from './door.ts'
import type { AskedSession } from './options.ts'

/** A session as its socket knows it. */
interface SocketSession {
  start(): Promise<void>
  end(): void
  leave(): void
  fail(error: GatewayError): void
  facts(): { readonly ended: SessionEnd | null }
}

/** One caller's WebSocket in messages of Deepgram's. */
export abstract class DeepgramSocket<Session extends SocketSession> implements ClientSocketListener {
  abstract readonly headers: Readonly<Record<string, string>>
  protected abstract readonly session: Session
  protected readonly call: SocketCall
  protected readonly requestId: string
  protected isEnding = false
  #socket: ClientSocket | null = null
  #isOver = false

  constructor(call: SocketCall) {
    this.call = call
    this.requestId = vendorId(call.exchange.requestId)
  }

  /** A message of the caller. @throws GatewayError for one that the protocol does not have */
  protected abstract take(message: Uint8Array, isBinary: boolean): void

  /** The last that is said before the socket is closed. @param error why; null: the session is complete */
  protected last(_error: GatewayError | null): void {}

  /** Bytes that the caller has not read. */
  get bufferedBytes(): number {
    return this.#socket?.bufferedBytes ?? 0
  }

  onOpen(socket: ClientSocket): void {
    this.#socket = socket
    void this.session.start()
  }

  onMessage(message: Uint8Array, isBinary: boolean): void {
    if (this.#isOver) return
    try {
      this.take(message, isBinary)
    } catch (thrown) {
      this.session.fail(toGatewayError(thrown))
    }
  }

  onClose(): void {
    this.#isOver = true
    this.session.leave()
  }

  onStopping(): void {
    this.session.fail(nodeStops())
  }

  end(error: GatewayError | null): void {
    if (this.#isOver) return
    this.last(error)
    this.#isOver = true
    if (error !== null) {
      this.call.context.failure ??= error
      return void this.#socket?.close(...closeFor(error))
    }
    if (this.isEnding) this.#socket?.close(CLOSE.normal, '')
    else this.#socket?.close(...unaskedClose(this.session.facts().ended))
  }

  /** No more comes of the caller. */
  protected finish(): void {
    this.isEnding = true
    this.session.end()
  }

  /** @throws GatewayError REQUEST_TOO_LARGE */
  protected checkSize(message: Uint8Array): void {
    const { live_max_message_bytes: most } = this.call.deps.services.snapshot().limits
    checkMessageSize(message, most, 'live_max_message_bytes')
  }

  protected say(message: object | Uint8Array): void {
    if (this.#isOver) return
    this.#socket?.send(message instanceof Uint8Array ? message : JSON.stringify(message))
  }
}

/** The same for either version of live transcription: audio goes in as binary frames. */
export abstract class ListeningSocket extends DeepgramSocket<LiveSession> implements LiveSink {
  readonly headers: Readonly<Record<string, string>>
  protected readonly session: LiveSession
  readonly #frames: WholeFrames

  /** @throws GatewayError as `LiveSessions.select` */
  constructor(socketCall: SocketCall, { call, live, warnings }: AskedSession) {
    super(socketCall)
    const { deps, context, admitted } = socketCall
    this.headers = warningHeaders(warnings)
    this.#frames = new WholeFrames(live.audio)
    const selection = deps.live.select(context, call)
    this.session = deps.live.open({ context, call, selection, sink: this, admitted })
  }

  /** Takes a message of the session. */
  abstract send(message: LiveMessage): void

  /** A text message. @throws GatewayError for one that the protocol does not have */
  protected abstract control(message: Readonly<Record<string, unknown>>): void

  protected take(message: Uint8Array, isBinary: boolean): void {
    this.checkSize(message)
    if (!isBinary) this.control(readMessage(message))
    else if (message.length === 0) this.finish()
    else this.#audio(message)
  }

  #audio(message: Uint8Array): void {
    // Messages after the end are ignored, as Deepgram does.
    if (this.isEnding) return
    const whole = this.#frames.take(message)
    if (whole.length > 0) this.session.audio(whole)
  }
}
