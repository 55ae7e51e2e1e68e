import { toGatewayError } from '../../contracts/errors.ts'
import { Answering, unwritable } from './answering.ts'
import type { StreamedReply } from './exchange.ts'
import { type AnswerHead, prepareStreamedHead } from './reply.ts'
import { StreamWriter } from './stream-writer.ts'
import type { HttpResponse } from './uws.ts'

/** An answer that is made while it is sent. One that cannot be started becomes a whole one, an error. */
export class StreamedAnswering extends Answering {
  #head: AnswerHead | null = null
  #stream: StreamWriter | null = null
  #firstByteMs: number | null = null

  /** Sends the answer in a later turn: once the request is read, unless the answer begins before. */
  beginStream(reply: StreamedReply): void {
    const stream = new StreamWriter(this.socket, reply.body, this.context, this)
    try {
      this.#head = prepareStreamedHead(reply, this.exchange.requestId)
    } catch (error) {
      stream.leave()
      this.begin(unwritable(error, this.exchange))
      return
    }
    this.#stream = stream
    if (reply.body.duplex && !this.body.ended) this.context.immediate.add(this)
    else this.whenRead()
  }

  override run(): void {
    if (this.#stream === null) super.run()
    else this.#start(this.#stream, this.#head!)
  }

  override get sentBytes(): number {
    return this.#stream?.sentBytes ?? super.sentBytes
  }

  override get firstByteMs(): number | null {
    return this.#firstByteMs
  }

  override stalledMs(nowMs: number): number {
    return this.#stream?.stalledMs(nowMs) ?? super.stalledMs(nowMs)
  }

  override watch(): void {
    this.#stream?.watch()
  }

  override leave(): void {
    this.#stream?.leave()
  }

  #start(stream: StreamWriter, head: AnswerHead): void {
    if (this.isBodiless(head.status)) {
      stream.leave()
      this.#sendHead(head)
      return
    }
    this.socket.resume()
    this.hold(stream)
    stream.start((res) => {
      this.status = head.status
      this.#firstByteMs = this.exchange.elapsedMs
      this.writeHead(res, head)
      if (this.closes) res.writeHeader('connection', 'close')
    })
  }

  /** Answers a HEAD whose length is unknown. */
  #sendHead(head: AnswerHead): void {
    const { res } = this.socket
    if (res === null) return
    this.status = head.status
    const close = this.closes
    res.cork(() => {
      this.writeHead(res, head)
      if (close) res.end('', true)
      else res.endWithoutBody()
    })
    this.exchange.finish()
  }

  /**
   * The last piece is out, and the response is to be ended. Leaves bytes that must not be parsed as a request unread:
   * the connection stays paused, and uWS's timer closes it if the client does not. `end` cannot close it, because after
   * `write` its header would end up in the body.
   */
  onEnded(res: HttpResponse): void {
    if (this.exchange.closes || !this.body.ended) this.socket.pause()
    res.end()
    this.exchange.finish()
  }

  /** The source failed, or the socket did. @param begun something has been sent */
  override onFailed(error: unknown, begun = true): void {
    if (begun) super.onFailed(error)
    else {
      this.#stream = null
      this.send(unwritable(error, this.exchange))
    }
  }

  /** Logs the failure of a source after it was left, unless the leaving is the failure. */
  onFailedLate(error: unknown): void {
    if (toGatewayError(error).code !== 'CLIENT_CLOSED')
      this.exchange.logFailure(error, 'an answer that is not read any more failed')
  }
}
