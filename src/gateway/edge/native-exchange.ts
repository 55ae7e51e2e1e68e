import { Cancellation, type CancelSignal } from '../../contracts/cancellation.ts'
import { GatewayError, toGatewayError } from '../../contracts/errors.ts'
import { type Logger, stackOf } from '../../contracts/log.ts'
import type { Clock } from '../../contracts/time.ts'
import { type AnswerContext, Answering, errorAnswer, prepared } from './answering.ts'
import { ArrivedRequest, type RequestFacts } from './arrived-request.ts'
import { NativeClientSocket, type UpgradeReply } from './client-socket.ts'
import type { Exchange, Reply, RequestBody } from './exchange.ts'
import { NativeBody } from './native-body.ts'
import { isStreamed, prepareUpgradeHead, writeHead } from './reply.ts'
import type { RequestHead } from './request-head.ts'
import { Socket } from './socket.ts'
import { leaveStream } from './stream-writer.ts'
import { StreamedAnswering } from './streamed-answering.ts'
import type { UploadTurns } from './upload-turns.ts'
import type { HttpResponse, us_socket_context_t } from './uws.ts'

const CLIENT_CLOSED_STATUS = 499

type Listener = Parameters<Exchange['onFinished']>[0]
/** Never pushed to: many have but one, and a list that is pushed to takes room for seventeen. */
const NO_LISTENERS: Listener[] = []
const NO_BYTES = Buffer.alloc(0)

/** State shared by all exchanges of one server. */
export interface EdgeContext extends AnswerContext {
  readonly clock: Clock
  readonly log: Logger
  readonly turns: UploadTurns
  /**
   * Every exchange that is not finished, in no order. No Set: a table that it has outgrown points to the next one and
   * holds its own entries, so that once a table is old, all that follow outlive the young generation.
   */
  readonly open: NativeExchange[]
}

/** One request and its answer over uWebSockets.js. Must be constructed in the turn of the route callback. */
export class NativeExchange extends ArrivedRequest implements Exchange {
  readonly #context: EdgeContext
  readonly #socket: Socket
  readonly #body: NativeBody
  readonly #startedMs: number
  /** Index among the open ones; -1 when it has ended. */
  #place: number
  #closes: boolean
  #cancellation: Cancellation | null = null
  #answering: Answering | null = null
  #finished = false
  /** Makes a WebSocket possible, in the turn of the route callback; null: in no other. */
  #handshake: us_socket_context_t | null = null
  #webSocket: NativeClientSocket | null = null
  /** Status of a WebSocket, or of a client that left before an answer. */
  #otherStatus: number | null = null
  #listeners = NO_LISTENERS

  constructor(res: HttpResponse, head: RequestHead, facts: RequestFacts, context: EdgeContext) {
    super(head, facts)
    this.#closes = facts.closes
    this.#context = context
    this.#startedMs = context.clock.now()
    this.#socket = new Socket(res, context.clock, this.#startedMs)
    this.#body = new NativeBody(this.#socket, context, this.#startedMs, facts.contentLength)
    this.#place = context.open.push(this) - 1
  }

  get body(): RequestBody {
    return this.#body
  }

  get peer(): string {
    return this.#socket.peer
  }

  get receivedBytes(): number {
    return this.#body.receivedBytes + (this.#webSocket?.receivedBytes ?? 0)
  }

  get bodyMs(): number {
    return this.#body.waitedMs
  }

  get elapsedMs(): number {
    return this.#context.clock.now() - this.#startedMs
  }

  get sentBytes(): number {
    return this.#answering?.sentBytes ?? this.#webSocket?.sentBytes ?? 0
  }

  get firstByteMs(): number | null {
    return this.#answering?.firstByteMs ?? null
  }

  get status(): number | null {
    return this.#answering?.status ?? this.#otherStatus
  }

  get signal(): CancelSignal {
    if (this.#cancellation === null) {
      this.#cancellation = new Cancellation()
      if (this.status === CLIENT_CLOSED_STATUS) this.#cancellation.abort(new GatewayError('CLIENT_CLOSED'))
    }
    return this.#cancellation
  }

  /** An answer was given or none can be. */
  get settled(): boolean {
    return this.#isReplied || this.#finished
  }

  /** The answer is to close the connection. */
  get closes(): boolean {
    return this.#closes
  }

  get handshake(): boolean {
    return this.#handshake !== null
  }

  onFinished(listener: Listener): void {
    if (this.#finished) this.#tell(listener)
    else if (this.#listeners === NO_LISTENERS) this.#listeners = [listener]
    else this.#listeners.push(listener)
  }

  reply(reply: Reply, workspace?: string): void {
    if (isStreamed(reply)) {
      const streamed = new StreamedAnswering(this, this.#socket, this.#body, this.#context, workspace)
      if (this.settled) leaveStream(reply.body, streamed)
      else {
        this.#answering = streamed
        streamed.beginStream(reply)
      }
    } else if (!this.settled) {
      this.#answering = new Answering(this, this.#socket, this.#body, this.#context, workspace)
      this.#answering.begin(prepared(reply, this))
    }
  }

  upgrade(reply: UpgradeReply): void {
    const { res } = this.#socket
    const handshake = this.#handshake
    if (res === null || handshake === null || this.settled) throw new Error('it is too late for a WebSocket')
    const head = prepareUpgradeHead(reply, this.requestId)
    const { headers } = this
    const socket = new NativeClientSocket(this, reply.listener)
    this.#otherStatus = head.status
    this.#webSocket = socket
    this.#socket.release()
    writeHead(res, head)
    const [key, extensions] = [headers['sec-websocket-key'] ?? '', headers['sec-websocket-extensions'] ?? '']
    res.upgrade({ socket }, key, reply.protocol ?? '', extensions, handshake)
  }

  /** The WebSocket that it became is over. */
  socketClosed(): void {
    if (!this.#finished) this.finish()
  }

  /** Makes a WebSocket possible; null when the route callback returns, with which its turn is over. */
  offer(handshake: us_socket_context_t | null): void {
    this.#handshake = handshake
  }

  replyError(error: GatewayError): void {
    if (this.#webSocket !== null) this.#webSocket.stopping()
    else this.reply(errorAnswer(error, this.requestId))
  }

  fail(thrown: unknown): void {
    const error = toGatewayError(thrown)
    if (error.code === 'CLIENT_CLOSED' && this.#finished) return
    if (error.code === 'INTERNAL' || this.#isReplied) this.logFailure(thrown, 'a handler failed')
    this.replyError(error)
  }

  /** Takes a chunk from uWS. Never throws: nothing may escape into the native callback. */
  receive(chunk: ArrayBuffer, last: boolean): void {
    try {
      this.#body.receive(Buffer.from(chunk), last)
    } catch (error) {
      this.fail(error)
    }
  }

  /** Called instead of `receive` when the framing of the body is at fault. */
  receiveFault(error: GatewayError): void {
    try {
      this.#body.fail(error)
    } catch (thrown) {
      this.fail(thrown)
    }
  }

  /** Has the answer close the connection. */
  closeAfter(): void {
    this.#closes = true
  }

  /** Called instead of `receive` when no body follows. */
  receiveNothing(): void {
    this.#body.receive(NO_BYTES, true)
  }

  /** Called instead of `receive` when it is unknown whether a body follows: it could be misread as a request. */
  stopReading(): void {
    this.#body.stopReading()
  }

  /** The client left, or the connection was cut. uWS has invalidated the response. */
  left(): void {
    this.#socket.release()
    this.#answering?.ended()
    if (this.#finished) return
    this.#otherStatus ??= CLIENT_CLOSED_STATUS
    this.finish()
    this.#cancellation?.abort(new GatewayError('CLIENT_CLOSED'))
    this.#answering?.leave()
  }

  /** Called by the shared timer. */
  sweep(nowMs: number): void {
    if (this.#webSocket !== null) return
    const { rearmMs, writeStallMs } = this.#context.timing
    const answering = this.#answering
    this.#socket.rearm(nowMs, rearmMs)
    if (answering !== null && answering.stalledMs(nowMs) > writeStallMs) return void this.#socket.res?.close()
    answering?.watch()
    try {
      this.#body.watch(nowMs)
    } catch (error) {
      this.fail(error)
    }
  }

  /** The answer is out, or the client has left. @param keepsSocket the connection is still to be closed */
  finish(keepsSocket = false): void {
    this.#finished = true
    if (!keepsSocket) this.#socket.release()
    this.#body.drop()
    this.#leaveOpen()
    this.#answering?.ended()
    const listeners = this.#listeners
    this.#listeners = NO_LISTENERS
    for (const listener of listeners) this.#tell(listener)
  }

  /** Writes a line about a fault inside, with its stack. */
  logFailure(error: unknown, message: string): void {
    const { requestId, method, pattern } = this
    const path = pattern ?? undefined
    this.#context.log.error({ request_id: requestId, method, path, stack: stackOf(error) }, message)
  }

  get #isReplied(): boolean {
    return this.#answering !== null || this.#webSocket !== null
  }

  /** Takes this exchange out of the open ones; the last of them takes its place. */
  #leaveOpen(): void {
    const { open } = this.#context
    const place = this.#place
    if (place === -1) return
    this.#place = -1
    const last = open.pop()!
    if (last === this) return
    open[place] = last
    last.#place = place
  }

  #tell(listener: Listener): void {
    try {
      if (typeof listener === 'function') listener()
      else listener.finished()
    } catch (error) {
      this.logFailure(error, 'a callback at the end of a request failed')
    }
  }
}
