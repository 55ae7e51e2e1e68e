import { Cancellation, type CancelSignal } from '../cancellation.ts'
import type { ByteBudget, HolderPace, MemoryHolder } from '../contracts/budget.ts'
import { errorReply, GatewayError, toGatewayError } from '../errors.ts'
import { type Logger, stackOf } from '../log.ts'
import { AnswerWriter } from './answer-writer.ts'
import { NativeClientSocket, type UpgradeReply } from './client-socket.ts'
import type { Exchange, Reply, RequestBody, StreamedReply, WholeReply } from './exchange.ts'
import { NativeBody } from './native-body.ts'
import {
  type Answer,
  type AnswerHead,
  isStreamed,
  prepareAnswer,
  prepareStreamedHead,
  prepareUpgradeHead,
  writeHead,
} from './reply.ts'
import { type RequestHead, requestIdOf } from './request-head.ts'
import { Socket } from './socket.ts'
import { StreamWriter } from './stream-writer.ts'
import type { EdgeTiming } from './timing.ts'
import type { UploadTurns } from './upload-turns.ts'
import type { HttpResponse, us_socket_context_t } from './uws.ts'

const CLIENT_CLOSED_STATUS = 499
/** RFC 6797: a browser that was here once keeps to TLS for a year. */
const STRICT_TRANSPORT = 'max-age=31536000'

type Listener = Parameters<Exchange['onFinished']>[0]
/** Never pushed to: many have but one, and a list that is pushed to takes room for seventeen. */
const NO_LISTENERS: Listener[] = []
const NO_BYTES = Buffer.alloc(0)

/** One request and its answer over uWebSockets.js. Must be constructed in the turn of the route callback. */
export class NativeExchange implements Exchange {
  readonly requestId: string
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string>>
  readonly contentLength: number | null
  readonly params: readonly string[]
  readonly pattern: string | null
  readonly encrypted: boolean
  readonly headFault: GatewayError | null

  readonly #context: EdgeContext
  readonly #socket: Socket
  readonly #body: NativeBody
  readonly #startedMs = performance.now()
  /** Where it stands among the open ones; -1 when it has ended. */
  #place: number
  #closes: boolean
  #cancellation: Cancellation | null = null
  #status: number | null = null
  #firstByteMs: number | null = null
  /** Bytes of an answer that was sent whole. */
  #sentBytes = 0
  #replied = false
  #finished = false
  #writer: AnswerWriter | null = null
  #stream: StreamWriter | null = null
  /** What a WebSocket can be made with, in the turn of the route callback; null: in no other. */
  #handshake: us_socket_context_t | null = null
  #webSocket: NativeClientSocket | null = null
  /** Workspace whose memory the answer holds; undefined: none. */
  #workspace: string | undefined
  #holder: AnswerHolder | null = null
  #timer: NodeJS.Timeout | undefined
  #listeners = NO_LISTENERS

  constructor(res: HttpResponse, head: RequestHead, facts: RequestFacts, context: EdgeContext) {
    this.requestId = requestIdOf(head)
    this.method = head.method
    this.path = head.path
    this.query = head.query
    this.headers = head.headers
    this.contentLength = facts.contentLength
    this.params = facts.params
    this.pattern = facts.pattern
    this.encrypted = facts.encrypted
    this.headFault = facts.headFault
    this.#closes = facts.closes
    this.#context = context
    this.#socket = new Socket(res, this.#startedMs)
    this.#body = new NativeBody(this.#socket, context, this.#startedMs)
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
    return performance.now() - this.#startedMs
  }

  get sentBytes(): number {
    return this.#writer?.sentBytes ?? this.#stream?.sentBytes ?? this.#webSocket?.sentBytes ?? this.#sentBytes
  }

  get firstByteMs(): number | null {
    return this.#firstByteMs
  }

  get status(): number | null {
    return this.#status
  }

  get signal(): CancelSignal {
    if (this.#cancellation === null) {
      this.#cancellation = new Cancellation()
      if (this.#status === CLIENT_CLOSED_STATUS) this.#cancellation.abort(new GatewayError('CLIENT_CLOSED'))
    }
    return this.#cancellation
  }

  /** Whether an answer was given or none can be. */
  get settled(): boolean {
    return this.#replied || this.#finished
  }

  onFinished(listener: Listener): void {
    if (this.#finished) this.#tell(listener)
    else if (this.#listeners === NO_LISTENERS) this.#listeners = [listener]
    else this.#listeners.push(listener)
  }

  reply(reply: Reply, workspace?: string): void {
    this.#workspace = workspace
    if (isStreamed(reply)) this.#replyStreamed(reply)
    else if (!this.settled) this.#replyWhole(reply)
  }

  get handshake(): boolean {
    return this.#handshake !== null
  }

  upgrade(reply: UpgradeReply): void {
    const { res } = this.#socket
    const handshake = this.#handshake
    if (res === null || handshake === null || this.settled) throw new Error('it is too late for a WebSocket')
    const head = prepareUpgradeHead(reply, this.requestId)
    const { headers } = this
    const socket = new NativeClientSocket(this, reply.listener)
    this.#replied = true
    this.#status = head.status
    this.#webSocket = socket
    this.#socket.release()
    writeHead(res, head)
    const [key, extensions] = [headers['sec-websocket-key'] ?? '', headers['sec-websocket-extensions'] ?? '']
    res.upgrade({ socket }, key, reply.protocol ?? '', extensions, handshake)
  }

  /** The WebSocket that it became is over. */
  socketClosed(): void {
    if (!this.#finished) this.#finish()
  }

  /** Makes a WebSocket possible; null when the route callback returns, with which its turn is over. */
  offer(handshake: us_socket_context_t | null): void {
    this.#handshake = handshake
  }

  replyError(error: GatewayError): void {
    if (this.#webSocket !== null) this.#webSocket.stopping()
    else this.reply(this.#errorReply(error))
  }

  fail(thrown: unknown): void {
    const error = toGatewayError(thrown)
    if (error.code === 'CLIENT_CLOSED' && this.#finished) return
    if (error.code === 'INTERNAL' || this.#replied) this.#logFailure(thrown, 'a handler failed')
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
    clearTimeout(this.#timer)
    if (this.#finished) return
    this.#status ??= CLIENT_CLOSED_STATUS
    this.#finish()
    this.#cancellation?.abort(new GatewayError('CLIENT_CLOSED'))
    this.#stream?.leave()
  }

  /** Called by the shared timer. */
  sweep(nowMs: number): void {
    if (this.#webSocket !== null) return
    const { rearmMs, writeStallMs } = this.#context.timing
    this.#socket.rearm(nowMs, rearmMs)
    const stalledMs = this.#writer?.stalledMs(nowMs) ?? this.#stream?.stalledMs(nowMs) ?? 0
    if (stalledMs > writeStallMs) return void this.#socket.res?.close()
    this.#stream?.watch()
    try {
      this.#body.watch(nowMs)
    } catch (error) {
      this.fail(error)
    }
  }

  #errorReply(error: GatewayError): WholeReply {
    const { status, headers, body } = errorReply(error, this.requestId)
    return { status, headers, body: JSON.stringify(body) }
  }

  #replyWhole(reply: WholeReply): void {
    this.#replied = true
    let answer: Answer
    try {
      answer = prepareAnswer(reply, this.requestId)
    } catch (error) {
      answer = this.#unwritable(error)
    }
    this.#whenRead(() => this.#send(answer))
  }

  #replyStreamed(reply: StreamedReply): void {
    const stream = new StreamWriter(this.#socket, reply.body, {
      onEnded: (res) => this.#endStream(res),
      onFailed: (error, begun) => (begun ? this.#cut(error) : this.#send(this.#unwritable(error))),
      onFailedLate: (error) => this.#logLate(error),
    })
    if (this.settled) {
      stream.leave()
      return
    }
    this.#replied = true
    this.#stream = stream
    try {
      const head = prepareStreamedHead(reply, this.requestId)
      const start = () => this.#startStream(stream, head)
      if (reply.body.duplex && !this.#body.ended) this.#context.immediate.add(start)
      else this.#whenRead(start)
    } catch (error) {
      stream.leave()
      const answer = this.#unwritable(error)
      this.#whenRead(() => this.#send(answer))
    }
  }

  /** Reply sent instead of an answer that could not be started. */
  #unwritable(error: unknown): Answer {
    const known = toGatewayError(error)
    if (known.code === 'INTERNAL') this.#logFailure(error, 'an answer could not be written')
    return prepareAnswer(this.#errorReply(known), this.requestId)
  }

  /**
   * Never in the turn in which the request was read: while the answer is pending uWS refuses a second
   * request hidden in the same bytes; a microtask would be too early.
   */
  #whenRead(send: () => void): void {
    if (this.#body.ended) {
      this.#body.drop()
      this.#context.immediate.add(send)
    } else this.#discardThen(send)
  }

  /**
   * Takes in what the client is still sending, within bounds, before it is answered: an answer followed at
   * once by the closing of a connection with unread bytes on it is lost to most clients.
   */
  #discardThen(send: () => void): void {
    const { discardMs, pauseMs } = this.#context.timing
    const giveUp = () => {
      clearTimeout(this.#timer)
      this.#body.stopDiscarding()
      this.#closes = true
      this.#timer = setTimeout(send, pauseMs)
    }
    this.#timer = setTimeout(giveUp, discardMs)
    this.#body.discard((ended) => {
      if (!ended) return giveUp()
      clearTimeout(this.#timer)
      this.#context.immediate.add(send)
    })
  }

  #startStream(stream: StreamWriter, head: AnswerHead): void {
    if (this.#isBodiless(head.status)) {
      stream.leave()
      this.#sendHead(head)
      return
    }
    this.#socket.resume()
    this.#hold(stream)
    stream.start((res) => {
      this.#status = head.status
      this.#firstByteMs = this.elapsedMs
      this.#writeHead(res, head)
      if (this.#closes || this.#context.draining) res.writeHeader('connection', 'close')
    })
  }

  /** Answers a HEAD whose length is unknown. */
  #sendHead(head: AnswerHead): void {
    const res = this.#socket.res
    if (res === null) return
    this.#status = head.status
    const close = this.#closes || this.#context.draining
    res.cork(() => {
      this.#writeHead(res, head)
      if (close) res.end('', true)
      else res.endWithoutBody()
    })
    this.#finish()
  }

  /**
   * Leaves bytes that must not be parsed as a request unread: the connection stays paused, and uWS's timer closes it if
   * the client does not. `end` cannot close it, because after `write` its header would end up in the body.
   */
  #endStream(res: HttpResponse): void {
    if (this.#closes || !this.#body.ended) this.#socket.pause()
    res.end()
    this.#finish()
  }

  #send(answer: Answer): void {
    const res = this.#socket.res
    if (res === null) return
    const close = this.#closes || this.#context.draining
    this.#status = answer.status
    // A paused socket would not show that the client has left, and the writing would wait for nobody.
    this.#socket.resume()
    try {
      res.cork(() => {
        this.#writeHead(res, answer)
        this.#writeBody(res, answer, close)
      })
    } catch (error) {
      this.#cut(error)
    }
  }

  #writeHead(res: HttpResponse, head: AnswerHead): void {
    writeHead(res, head)
    if (this.encrypted) res.writeHeader('strict-transport-security', STRICT_TRANSPORT)
  }

  #writeBody(res: HttpResponse, answer: Answer, close: boolean): void {
    const lingers = close && !this.#body.ended
    const bodiless = this.#isBodiless(answer.status)
    if (bodiless && close) {
      // endWithoutBody can leave the length to its caller or close, not both; to close matters more.
      res.end('', true)
      this.#finish()
    } else if (bodiless) {
      if (this.method === 'HEAD') res.writeHeader('content-length', String(answer.length))
      res.endWithoutBody()
      this.#finish()
    } else if (answer.whole !== null && (!lingers || answer.length <= 1)) {
      res.end(answer.whole, close)
      this.#sentBytes = answer.length
      this.#finish()
    } else {
      if (close) res.writeHeader('connection', 'close')
      this.#writer = new AnswerWriter(this.#socket, answer, close, {
        onDone: () => (close ? this.#finishAndClose(lingers) : this.#finish()),
        onFailed: (error) => this.#cut(error),
      })
      this.#hold(this.#writer)
      this.#writer.start(res)
    }
  }

  /** Has the memory of an answer that is not out at once taken back where its reader is slow and others want it. */
  #hold(answer: PendingAnswer): void {
    if (this.#workspace === undefined) return
    this.#holder = new AnswerHolder(this.#workspace, answer, () => void this.#socket.res?.close())
    this.#context.budget.enrol?.(this.#holder)
  }

  #isBodiless(status: number): boolean {
    return this.method === 'HEAD' || status === 204 || status === 304
  }

  /**
   * The connection of a client that is still sending is closed by that client, or after a while: what
   * closes it at once takes the answer back, for the kernel then resets the connection while the client has
   * yet to read.
   */
  #finishAndClose(lingers: boolean): void {
    this.#finish(true)
    if (!lingers) {
      this.#close()
      return
    }
    this.#timer = setTimeout(() => this.#close(), this.#context.timing.lingerMs)
    this.#body.discard((ended) => {
      if (ended) this.#close()
      else this.#body.stopDiscarding()
    })
  }

  #close(): void {
    clearTimeout(this.#timer)
    const { res } = this.#socket
    this.#socket.release()
    res?.close()
  }

  /** An answer that broke off half-way: the client must not take what it has for the whole. */
  #cut(error: unknown): void {
    // Errors with a code of their own are already in the request's log line.
    if (toGatewayError(error).code === 'INTERNAL') this.#logFailure(error, 'an answer was cut short')
    try {
      this.#socket.res?.close()
    } catch {
      // uWS holds the response complete, and nothing may escape into its callback.
    }
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

  #finish(keepsSocket = false): void {
    this.#finished = true
    if (!keepsSocket) this.#socket.release()
    clearTimeout(this.#timer)
    this.#body.drop()
    this.#leaveOpen()
    if (this.#holder !== null) this.#context.budget.dismiss?.(this.#holder)
    const listeners = this.#listeners
    this.#listeners = NO_LISTENERS
    for (const listener of listeners) this.#tell(listener)
  }

  #tell(listener: Listener): void {
    try {
      if (typeof listener === 'function') listener()
      else listener.finished()
    } catch (error) {
      this.#logFailure(error, 'a callback at the end of a request failed')
    }
  }

  /** Logs a body's failure after its client has left, unless the leaving is the failure. */
  #logLate(error: unknown): void {
    if (toGatewayError(error).code !== 'CLIENT_CLOSED')
      this.#logFailure(error, 'an answer nobody reads failed')
  }

  #logFailure(error: unknown, message: string): void {
    logFailure(this.#context.log, this, error, message)
  }
}

/** State shared by all exchanges of one server. */
export interface EdgeContext {
  readonly budget: ByteBudget
  readonly log: Logger
  readonly timing: EdgeTiming
  readonly immediate: ImmediateBatch
  readonly turns: UploadTurns
  /**
   * Every exchange that is not finished, in no order. No Set: a table that it has outgrown points to the next one and
   * holds its own entries, so that once a table is old, all that follow outlive the young generation.
   */
  readonly open: NativeExchange[]
  /** Once true, every answer closes its connection. */
  draining: boolean
}

/** Facts about a request that are known before its exchange is made. */
export interface RequestFacts {
  readonly contentLength: number | null
  readonly params: readonly string[]
  /** As in `Exchange`. */
  readonly pattern: string | null
  /**
   * Whether the connection is to be closed behind the answer: its next bytes are not to be trusted as a
   * request.
   */
  readonly closes: boolean
  /** As in `Exchange`. */
  readonly encrypted: boolean
  /** As in `Exchange`. */
  readonly headFault: GatewayError | null
}

/** How long an answer is read before its reader's pace is judged. */
const JUDGED_MS = 1_000
/** Held of an answer that is still being made: what waits for its reader here and in front of the provider. */
const STREAM_BYTES = 64 * 1024

interface PendingAnswer {
  /** Bytes handed to the socket so far. */
  readonly sentBytes: number
  /** Bytes that are not; infinite while the answer is still being made. */
  readonly leftBytes: number
  /** Ms since the client last took something; 0 while it is the client that waits. */
  stalledMs(nowMs: number): number
}

/** A large answer: a slow reader keeps the memory of all of it, and of its request, until the last byte is out. */
class AnswerHolder implements MemoryHolder {
  readonly workspace: string
  readonly #answer: PendingAnswer
  readonly #cut: () => void
  readonly #startedMs = performance.now()

  /** @param cut ends the connection */
  constructor(workspace: string, answer: PendingAnswer, cut: () => void) {
    this.workspace = workspace
    this.#answer = answer
    this.#cut = cut
  }

  pace(nowMs: number): HolderPace | null {
    const { sentBytes, leftBytes } = this.#answer
    const ms = nowMs - this.#startedMs
    if (ms < JUDGED_MS || this.#answer.stalledMs(nowMs) < JUDGED_MS) return null
    return { bytesPerSecond: (sentBytes * 1_000) / ms, bytesLeft: leftBytes }
  }

  end(): number {
    this.#cut()
    // A whole answer is given back with its request, a stream when its source has been left.
    return this.#answer.leftBytes === Number.POSITIVE_INFINITY ? STREAM_BYTES : 0
  }
}

/** A line about what went wrong inside, with its stack. */
function logFailure(
  log: Logger,
  { requestId, method, pattern }: Pick<Exchange, 'requestId' | 'method' | 'pattern'>,
  error: unknown,
  message: string,
): void {
  const path = pattern ?? undefined
  log.error({ request_id: requestId, method, path, stack: stackOf(error) }, message)
}

/** Does things in the next turn of the event loop, all that came up in this one together: one timer instead of many. */
export class ImmediateBatch {
  #due: (() => void)[] = []

  /** `act` must not throw. */
  add(act: () => void): void {
    this.#due.push(act)
    if (this.#due.length === 1) setImmediate(this.#run)
  }

  readonly #run = (): void => {
    const due = this.#due
    this.#due = []
    for (const act of due) act()
  }
}
