import type { ByteBudget } from '../../contracts/budget.ts'
import { errorReply, type GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { Timer } from '../../contracts/time.ts'
import { AnswerHolder, type PendingAnswer } from './answer-holder.ts'
import { AnswerWriter } from './answer-writer.ts'
import type { WholeReply } from './exchange.ts'
import type { Due, ImmediateBatch } from './immediate-batch.ts'
import type { NativeBody } from './native-body.ts'
import { type Answer, type AnswerHead, prepareAnswer, writeHead } from './reply.ts'
import type { Socket } from './socket.ts'
import type { EdgeTiming } from './timing.ts'
import type { HttpResponse } from './uws.ts'

/** RFC 6797: a browser that was here once keeps to TLS for a year. */
const STRICT_TRANSPORT = 'max-age=31536000'

/** Parts of the edge that an answer works with. */
export interface AnswerContext {
  readonly budget: ByteBudget
  readonly timing: EdgeTiming
  readonly immediate: ImmediateBatch
  /** The most that may be written in one cork in chunks, see `loadUws`. */
  readonly corkBytes: number
  /** Once true, every answer closes its connection. */
  draining: boolean
}

export interface AnsweredExchange {
  readonly requestId: string
  readonly method: string
  readonly encrypted: boolean
  readonly elapsedMs: number
  /** The answer is to close the connection. */
  readonly closes: boolean
  closeAfter(): void
  /** The answer is out. @param keepsSocket the connection is still to be closed */
  finish(keepsSocket?: boolean): void
  logFailure(error: unknown, message: string): void
}

/** The error envelope as an answer. */
export function errorAnswer(error: GatewayError, requestId: string): WholeReply {
  const { status, headers, body } = errorReply(error, requestId)
  return { status, headers, body: JSON.stringify(body) }
}

/** Prepares an answer to be written, or the error that is sent instead where it cannot be. */
export function prepared(reply: WholeReply, exchange: AnsweredExchange): Answer {
  try {
    return prepareAnswer(reply, exchange.requestId)
  } catch (error) {
    return unwritable(error, exchange)
  }
}

/** The error that is sent instead of an answer that could not be started. */
export function unwritable(error: unknown, exchange: AnsweredExchange): Answer {
  const known = toGatewayError(error)
  if (known.code === 'INTERNAL') exchange.logFailure(error, 'an answer could not be written')
  return prepareAnswer(errorAnswer(known, exchange.requestId), exchange.requestId)
}

/** The whole answer to one request, from the reply to its last byte. */
export class Answering implements Due {
  protected readonly exchange: AnsweredExchange
  protected readonly socket: Socket
  protected readonly body: NativeBody
  protected readonly context: AnswerContext
  /** Status sent; null before. */
  status: number | null = null
  /** Workspace whose memory the answer holds; undefined: none. */
  readonly #workspace: string | undefined
  #answer: Answer | null = null
  #writer: AnswerWriter | null = null
  #holder: AnswerHolder | null = null
  #timer: Timer | null = null
  #lingers = false
  /** Bytes of an answer that was sent in one piece. */
  #sentBytes = 0

  constructor(
    exchange: AnsweredExchange,
    socket: Socket,
    body: NativeBody,
    context: AnswerContext,
    workspace: string | undefined,
  ) {
    this.exchange = exchange
    this.socket = socket
    this.body = body
    this.context = context
    this.#workspace = workspace
  }

  get sentBytes(): number {
    return this.#writer?.sentBytes ?? this.#sentBytes
  }

  /** As in `Exchange`. */
  get firstByteMs(): number | null {
    return null
  }

  /** Sends the answer in a later turn, once the request is read. */
  begin(answer: Answer): void {
    this.#answer = answer
    this.whenRead()
  }

  /** Called in that turn. */
  run(): void {
    this.send(this.#answer!)
  }

  /** Ms since the client last took something; 0 while it is not behind. */
  stalledMs(nowMs: number): number {
    return this.#writer?.stalledMs(nowMs) ?? 0
  }

  /** Called by the shared timer. */
  watch(): void {}

  /** The exchange is finished. */
  ended(): void {
    this.#timer?.close()
    if (this.#holder !== null) this.context.budget.dismiss?.(this.#holder)
  }

  /** The client left: the answer is not read any more. */
  leave(): void {}

  /**
   * Never in the turn in which the request was read: while the answer is pending uWS refuses a second
   * request hidden in the same bytes; a microtask would be too early.
   */
  protected whenRead(): void {
    if (this.body.ended) {
      this.body.drop()
      this.context.immediate.add(this)
    } else this.#discardFirst()
  }

  /**
   * Takes in the rest of the body, within bounds, before the answer: one that is followed at once by the closing of a
   * connection with unread bytes on it is lost to most clients.
   */
  #discardFirst(): void {
    const { clock } = this.socket
    const { discardMs, pauseMs } = this.context.timing
    const giveUp = () => {
      this.#timer?.close()
      this.body.stopDiscarding()
      this.exchange.closeAfter()
      this.#timer = clock.after(pauseMs, () => this.run())
    }
    this.#timer = clock.after(discardMs, giveUp)
    this.body.discard((ended) => {
      if (!ended) return giveUp()
      this.#timer?.close()
      this.context.immediate.add(this)
    })
  }

  /** A writer failed after its answer had begun. */
  onFailed(error: unknown): void {
    this.cut(error)
  }

  /** The last byte of the answer is with the kernel or in uWS's own small buffer. */
  onDone(close: boolean): void {
    if (close) this.#finishAndClose()
    else this.exchange.finish()
  }

  protected send(answer: Answer): void {
    const res = this.socket.res
    if (res === null) return
    const close = this.closes
    this.status = answer.status
    // A paused socket would not show that the client has left, and the writing would wait for ever.
    this.socket.resume()
    try {
      res.cork(() => {
        this.writeHead(res, answer)
        this.#writeBody(res, answer, close)
      })
    } catch (error) {
      this.cut(error)
    }
  }

  /** The connection is to be closed after the answer. */
  protected get closes(): boolean {
    return this.exchange.closes || this.context.draining
  }

  protected writeHead(res: HttpResponse, head: AnswerHead): void {
    writeHead(res, head)
    if (this.exchange.encrypted) res.writeHeader('strict-transport-security', STRICT_TRANSPORT)
  }

  #writeBody(res: HttpResponse, answer: Answer, close: boolean): void {
    this.#lingers = close && !this.body.ended
    const bodiless = this.isBodiless(answer.status)
    if (bodiless && close) {
      // endWithoutBody can leave the length to its caller or close, not both; to close matters more.
      res.end('', true)
      this.exchange.finish()
    } else if (bodiless) {
      if (this.exchange.method === 'HEAD') res.writeHeader('content-length', String(answer.length))
      res.endWithoutBody()
      this.exchange.finish()
    } else if (answer.whole !== null && (!this.#lingers || answer.length <= 1)) {
      res.end(answer.whole, close)
      this.#sentBytes = answer.length
      this.exchange.finish()
    } else {
      if (close) res.writeHeader('connection', 'close')
      this.#writer = new AnswerWriter(this.socket, answer, close, this)
      this.hold(this.#writer)
      this.#writer.start(res)
    }
  }

  /** Has the memory of an answer that is not out at once taken back where its reader is slow and others want it. */
  protected hold(answer: PendingAnswer): void {
    if (this.#workspace === undefined) return
    const cut = () => void this.socket.res?.close()
    this.#holder = new AnswerHolder(this.#workspace, answer, this.socket.clock.now(), cut)
    this.context.budget.enrol?.(this.#holder)
  }

  protected isBodiless(status: number): boolean {
    return this.exchange.method === 'HEAD' || status === 204 || status === 304
  }

  /**
   * The connection of a client that is still sending is closed by that client, or after a while: to close it at once
   * would take the answer back, for the kernel then resets the connection while the client has yet to read.
   */
  #finishAndClose(): void {
    this.exchange.finish(true)
    if (!this.#lingers) {
      this.#close()
      return
    }
    this.#timer = this.socket.clock.after(this.context.timing.lingerMs, () => this.#close())
    this.body.discard((ended) => {
      if (ended) this.#close()
      else this.body.stopDiscarding()
    })
  }

  #close(): void {
    this.#timer?.close()
    const { res } = this.socket
    this.socket.release()
    res?.close()
  }

  /** An answer that broke off half-way: the client must not take what it has for the whole. */
  protected cut(error: unknown): void {
    // Errors with a code of their own are already in the request's log line.
    if (toGatewayError(error).code === 'INTERNAL') this.exchange.logFailure(error, 'an answer was cut short')
    try {
      this.socket.res?.close()
    } catch {
      // uWS holds the response complete, and nothing may escape into its callback.
    }
  }
}
