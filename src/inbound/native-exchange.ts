import { errorReply, GatewayError, toGatewayError } from '../errors.ts'
import { AnswerHolder, type AnswerOnItsWay } from './answer-holder.ts'
import { AnswerWriter } from './answer-writer.ts'
import type { EdgeContext, RequestFacts } from './edge-context.ts'
import type { Exchange, Reply, RequestBody, StreamedReply, WholeReply } from './exchange.ts'
import { logFailure } from './failure-log.ts'
import { NativeBody } from './native-body.ts'
import {
  type Answer,
  type AnswerHead,
  isStreamed,
  prepareAnswer,
  prepareStreamedHead,
  writeHead,
} from './reply.ts'
import { type RequestHead, requestIdOf } from './request-head.ts'
import { Socket } from './socket.ts'
import { StreamWriter } from './stream-writer.ts'
import type { HttpResponse } from './uws.ts'

const CLIENT_CLOSED_STATUS = 499

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

  readonly #context: EdgeContext
  readonly #socket: Socket
  readonly #body: NativeBody
  readonly #startedMs = performance.now()
  #closes: boolean
  #abort: AbortController | null = null
  #status: number | null = null
  #firstByteMs: number | null = null
  /** Of an answer that went out in one piece. */
  #sentBytes = 0
  #replied = false
  #finished = false
  #writer: AnswerWriter | null = null
  #stream: StreamWriter | null = null
  /** Whose memory the answer holds; undefined: nobody's. */
  #workspace: string | undefined
  #holder: AnswerHolder | null = null
  #timer: NodeJS.Timeout | undefined
  #onFinished: (() => void)[] = []

  constructor(res: HttpResponse, head: RequestHead, facts: RequestFacts, context: EdgeContext) {
    this.requestId = requestIdOf(head)
    this.method = head.method
    this.path = head.path
    this.query = head.query
    this.headers = head.headers
    this.contentLength = facts.contentLength
    this.params = facts.params
    this.pattern = facts.pattern
    this.#closes = facts.closes
    this.#context = context
    this.#socket = new Socket(res, this.#startedMs)
    this.#body = new NativeBody(this.#socket, context.budget, context.timing, this.#startedMs)
    context.open.add(this)
  }

  get body(): RequestBody {
    return this.#body
  }

  get peer(): string {
    return this.#socket.peer
  }

  get receivedBytes(): number {
    return this.#body.receivedBytes
  }

  get bodyMs(): number {
    return this.#body.waitedMs
  }

  get elapsedMs(): number {
    return performance.now() - this.#startedMs
  }

  get sentBytes(): number {
    return this.#writer?.sentBytes ?? this.#stream?.sentBytes ?? this.#sentBytes
  }

  get firstByteMs(): number | null {
    return this.#firstByteMs
  }

  get status(): number | null {
    return this.#status
  }

  get signal(): AbortSignal {
    if (this.#abort === null) {
      this.#abort = new AbortController()
      if (this.#status === CLIENT_CLOSED_STATUS) this.#abort.abort(new GatewayError('CLIENT_CLOSED'))
    }
    return this.#abort.signal
  }

  /** Whether an answer was given or none can be. */
  get settled(): boolean {
    return this.#replied || this.#finished
  }

  onFinished(callback: () => void): void {
    if (this.#finished) this.#guard(callback)
    else this.#onFinished.push(callback)
  }

  reply(reply: Reply, workspace?: string): void {
    this.#workspace = workspace
    if (isStreamed(reply)) this.#replyStreamed(reply)
    else if (!this.settled) this.#replyWhole(reply)
  }

  replyError(error: GatewayError): void {
    this.reply(this.#errorReply(error))
  }

  /**
   * What a handler threw: answered if that is still possible, and logged unless it is an answer in itself.
   */
  fail(thrown: unknown): void {
    const error = toGatewayError(thrown)
    if (error.code === 'CLIENT_CLOSED' && this.#finished) return
    if (error.code === 'INTERNAL' || this.#replied) this.#logFailure(thrown, 'a handler failed')
    this.replyError(error)
  }

  /** Takes a chunk from uWS. Never throws: nothing may escape into the native callback. */
  receive(chunk: ArrayBuffer, last: boolean): void {
    try {
      this.#body.receive(new Uint8Array(chunk), last)
    } catch (error) {
      this.fail(error)
    }
  }

  /** Instead of `receive`, where nobody can say whether a body follows: as a request it would be misread. */
  bar(): void {
    this.#body.bar()
  }

  /** The client left, or the connection was cut. uWS has invalidated the response. */
  left(): void {
    this.#socket.release()
    clearTimeout(this.#timer)
    if (this.#finished) return
    this.#status ??= CLIENT_CLOSED_STATUS
    this.#finish()
    this.#abort?.abort(new GatewayError('CLIENT_CLOSED'))
    this.#stream?.leave()
  }

  /** Called by the shared timer. */
  sweep(nowMs: number): void {
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
      this.#whenRead(() => this.#startStream(stream, head))
    } catch (error) {
      stream.leave()
      const answer = this.#unwritable(error)
      this.#whenRead(() => this.#send(answer))
    }
  }

  /** What is sent instead of an answer that could not be begun. */
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
      this.#context.nextTurn.add(send)
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
      this.#context.nextTurn.add(send)
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
      writeHead(res, head)
      if (this.#closes || this.#context.draining) res.writeHeader('connection', 'close')
    })
  }

  /** The answer to a HEAD, whose length nobody knows. */
  #sendHead(head: AnswerHead): void {
    const res = this.#socket.res
    if (res === null) return
    this.#status = head.status
    const close = this.#closes || this.#context.draining
    res.cork(() => {
      writeHead(res, head)
      if (close) res.end('', true)
      else res.endWithoutBody()
    })
    this.#finish()
  }

  /**
   * What may not be read as a request is never read: the connection stays paused, and uWS's timer closes it when the
   * client does not. `end` cannot close it, for after `write` its header would stand in the body.
   */
  #endStream(res: HttpResponse): void {
    if (this.#closes) this.#socket.pause()
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
        writeHead(res, answer)
        this.#writeBody(res, answer, close)
      })
    } catch (error) {
      this.#cut(error)
    }
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
  #hold(answer: AnswerOnItsWay): void {
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
    // What a handler names by a code of its own is in the line of the request.
    if (toGatewayError(error).code === 'INTERNAL') this.#logFailure(error, 'an answer was cut short')
    try {
      this.#socket.res?.close()
    } catch {
      // uWS holds the response complete, and nothing may escape into its callback.
    }
  }

  #finish(keepsSocket = false): void {
    this.#finished = true
    if (!keepsSocket) this.#socket.release()
    clearTimeout(this.#timer)
    this.#body.drop()
    this.#context.open.delete(this)
    if (this.#holder !== null) this.#context.budget.dismiss?.(this.#holder)
    for (const callback of this.#onFinished) this.#guard(callback)
    this.#onFinished = []
  }

  #guard(callback: () => void): void {
    try {
      callback()
    } catch (error) {
      this.#logFailure(error, 'a callback at the end of a request failed')
    }
  }

  /** What a body came to after its client had left is worth a line unless it is that it was left. */
  #logLate(error: unknown): void {
    if (toGatewayError(error).code !== 'CLIENT_CLOSED')
      this.#logFailure(error, 'an answer nobody reads failed')
  }

  #logFailure(error: unknown, message: string): void {
    logFailure(this.#context.log, this, error, message)
  }
}
