import type { LiveTerms } from '../../../contracts/calls.ts'
import { type GatewayError, toGatewayError } from '../../../contracts/errors.ts'
import type { ClientSocket, ClientSocketListener } from '../../edge/client-socket.ts'
import type { LiveRequest } from '../../live/dependencies.ts'
import type { LiveMessage, LiveSink } from '../../live/messages.ts'
import type { LiveSession } from '../../live/session.ts'
import { WholeFrames } from '../../media/pcm.ts'
import { warningHeaders } from '../fact-headers.ts'
import type { SocketCall } from '../socket-endpoint.ts'
import { CLOSE, checkMessageSize, nodeStops, readMessage, unaskedClose } from '../socket-messages.ts'
import { closeFor, vendorId } from './door.ts'

/** A session that a handshake asks for. */
export interface AskedSession {
  readonly call: LiveRequest['call']
  readonly live: LiveTerms
  readonly warnings: readonly string[]
}

/** One caller's WebSocket, of either version of Deepgram's protocol: audio goes in as binary frames. */
export abstract class DeepgramSocket implements ClientSocketListener, LiveSink {
  readonly headers: Readonly<Record<string, string>>
  protected readonly call: SocketCall
  protected readonly session: LiveSession
  protected readonly requestId: string
  readonly #frames: WholeFrames
  #socket: ClientSocket | null = null
  #isEnding = false
  #isOver = false

  /** @throws GatewayError as `LiveSessions.select` */
  constructor(call: SocketCall, { call: asked, live, warnings }: AskedSession) {
    const { deps, context, admitted } = call
    this.call = call
    this.requestId = vendorId(call.exchange.requestId)
    this.headers = warningHeaders(warnings)
    this.#frames = new WholeFrames(live.audio)
    const selection = deps.live.select(context, asked)
    this.session = deps.live.open({ context, call: asked, selection, sink: this, admitted })
  }

  /** Takes a message of the session. */
  abstract send(message: LiveMessage): void

  /** A text message. @throws GatewayError for one that the protocol does not have */
  protected abstract control(message: Readonly<Record<string, unknown>>): void

  /** The last that is said before the socket is closed. @param error why; null: the session is complete */
  protected abstract last(error: GatewayError | null): void

  onOpen(socket: ClientSocket): void {
    this.#socket = socket
    void this.session.start()
  }

  onMessage(message: Uint8Array, isBinary: boolean): void {
    if (this.#isOver) return
    try {
      const { live_max_message_bytes: most } = this.call.deps.services.snapshot().limits
      checkMessageSize(message, most, 'live_max_message_bytes')
      if (!isBinary) this.control(readMessage(message))
      else if (message.length === 0) this.finish()
      else this.#audio(message)
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
    if (this.#isEnding) this.#socket?.close(CLOSE.normal, '')
    else this.#socket?.close(...unaskedClose(this.session.facts().ended))
  }

  /** No more audio comes. */
  protected finish(): void {
    this.#isEnding = true
    this.session.end()
  }

  /** Bytes that the caller has not read. */
  protected get behindBytes(): number {
    return this.#socket?.bufferedBytes ?? 0
  }

  protected say(message: object): void {
    if (!this.#isOver) this.#socket?.send(JSON.stringify(message))
  }

  #audio(message: Uint8Array): void {
    // Messages after the end are ignored, as Deepgram does.
    if (this.#isEnding) return
    const whole = this.#frames.take(message)
    if (whole.length > 0) this.session.audio(whole)
  }
}
