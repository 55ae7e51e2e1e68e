import type { Socket } from 'node:net'
import { AnswerParser, type AnswerSink } from './answer-parser.ts'
import { type Deadlines, Perishable } from './deadlines.ts'
import { headText, joinHead, type RequestHead } from './request-head.ts'

/**
 * One connection to a server, which serves one request at a time: writes it, feeds the parser of its answer, and
 * decides whether another request may follow.
 *
 * No request is sent twice here. From the moment that the first byte of one is written the server may have executed
 * it, and only who made the request can know whether that may happen again. A connection serves another request only if
 * the whole request is out, the answer has ended by its own length, and nothing follows it.
 *
 * Sockets are read into one buffer that all of them share (`onread`), which leaves out a buffer, a stream's queue and
 * three events per answer. The buffer is read to its end before the socket's callback returns; who keeps a part of an
 * answer copies it. A request may name memory of its own instead, into which the system then reads the body directly.
 */

/** Largest body that is copied to its head: one write and one packet for both. */
const JOINED_BYTES_MAX = 16 * 1024

const READ_BUFFER = Buffer.allocUnsafeSlow(64 * 1024)
/** Read where a request has memory of its own: few bytes of a body come with its head and have to be copied. */
const HEAD_BUFFER = READ_BUFFER.subarray(0, 16 * 1024)

/** A request on its way, and the receiver of its answer. */
export interface Exchange extends AnswerSink {
  readonly head: RequestHead
  /** A generator's chunks may lie in memory that is another's once the request is over. */
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | null
  readonly bodyBytes: number
  /** The connection is the request's from now on. */
  onAssigned(connection: Connection): void
  /** The server may have seen a part of it from now on. */
  onBegun(): void
  onEnd(): void
  onBroken(cause: Error): void
  /** Memory for the next bytes of the body; null or absent: they come to `onBody`. Asked for after each read. */
  place?(): Uint8Array | null
  /** So many bytes of the body were read to the beginning of the last `place`. */
  onPlaced?(bytes: number): void
}

type Chunks = AsyncIterable<Uint8Array> | Uint8Array[]

/** Keeps the connections of an origin. */
export interface ConnectionOwner {
  readonly deadlines: Deadlines
  /** Longest wait for a connection, TLS included. */
  readonly connectMs: number
  /** Its requests may name memory to read into. OpenSSL reads further than it is asked to, so never with TLS. */
  readonly readsInPlace: boolean
  /** The connection may serve another request. */
  onIdle(connection: Connection): void
  onClosed(connection: Connection): void
}

/** Way in which the socket hands over what it reads; false from `callback` holds the other side back. */
export interface ReadInto {
  readonly buffer: Uint8Array
  readonly callback: (bytes: number, buffer: Uint8Array) => boolean
}

/** Begins a connection, and names the event of its coming about. */
export type Dial = (onread: ReadInto) => {
  readonly socket: Socket
  readonly event: 'connect' | 'secureConnect'
}

class ConnectionEnded extends Error {
  override readonly name = 'ConnectionEnded'
}

/** The body is not as long as it was said to be. */
class WrongBodyLength extends Error {
  override readonly name = 'WrongBodyLength'
}

export class Connection extends Perishable implements AnswerSink {
  readonly #owner: ConnectionOwner
  readonly #socket: Socket
  readonly #parser = new AnswerParser(this)
  #exchange: Exchange | null = null
  #connected = false
  #closed = false
  /** The body of the request is not out yet. */
  #writing = false
  /** Lets the writer of the body continue. */
  #onWritten: (() => void) | null = null
  #paused = false
  #requests = 0
  /** When it became idle, by the clock's `now`. */
  idleSinceMs = 0

  constructor(owner: ConnectionOwner, dial: Dial) {
    super()
    this.#owner = owner
    const { deadlines, connectMs, readsInPlace } = owner
    deadlines.add(this, deadlines.clock.now() + connectMs)
    const { socket, event } = dial(readsInPlace ? this.#readInPlace() : this.#readShared())
    this.#socket = socket
    socket.setNoDelay(true).setKeepAlive(true, 60_000)
    socket.once(event, () => this.#begin())
    socket.on('error', (cause) => this.#end(cause))
    socket.on('end', () => this.#end(new ConnectionEnded('the other side closed')))
    socket.on('close', () => this.#end(new ConnectionEnded('closed')))
  }

  /** How long the server keeps it while it is idle, ms; null: it does not say. */
  get keepAliveMs(): number | null {
    return this.#parser.head.keepAliveMs
  }

  /** It has carried a request before the present one: the server may have closed it meanwhile. */
  get isReused(): boolean {
    return this.#requests > 1
  }

  /** Sends a request, as soon as the connection has come about. */
  send(exchange: Exchange): void {
    this.#requests += 1
    this.#exchange = exchange
    exchange.onAssigned(this)
    if (this.#connected) this.#write(exchange)
  }

  /** Gives the request up: its receiver hears no more of it. */
  abandon(exchange: Exchange): void {
    if (this.#exchange !== exchange) return
    this.#exchange = null
    this.close()
  }

  /** Stops reading after the bytes that are here. To be called while they are handed over. */
  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#socket.resume()
  }

  /** Lets the process end, or not, while the connection is open. */
  holdProcess(holds: boolean): void {
    if (holds) this.#socket.ref()
    else this.#socket.unref()
  }

  /** Ends its request, and itself. */
  end(reason: Error): void {
    this.#break(reason)
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    this.#owner.deadlines.remove(this)
    this.#socket.destroy()
    this.#onWritten?.()
    this.#owner.onClosed(this)
  }

  /** Called when connecting has taken too long. */
  override expire(): void {
    if (this.#connected) return
    const late = new ConnectionEnded(`no connection within ${this.#owner.connectMs} ms`)
    this.#break(Object.assign(late, { code: 'ETIMEDOUT' }))
  }

  onHead(status: number, fields: string, encoding: string): void {
    this.#exchange?.onHead(status, fields, encoding)
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    this.#exchange?.onBody(bytes, start, end)
  }

  #begin(): void {
    this.#owner.deadlines.remove(this)
    this.#connected = true
    if (this.#exchange !== null) this.#write(this.#exchange)
  }

  #write(exchange: Exchange): void {
    const { head, body, bodyBytes } = exchange
    this.#parser.begin()
    exchange.onBegun()
    if (body instanceof Uint8Array && body.length <= JOINED_BYTES_MAX) {
      this.#socket.write(joinHead(head, body))
      return
    }
    const text = headText(head, bodyBytes)
    if (body === null) this.#socket.write(text, 'latin1')
    else void this.#writeChunks(exchange, text, body instanceof Uint8Array ? [body] : body)
  }

  /** Writes a head and the first part of its body in one system call. */
  #writeAfter(text: string, chunk: Uint8Array, onWritten: () => void): void {
    this.#socket.cork()
    this.#socket.write(text, 'latin1')
    this.#socket.write(chunk, onWritten)
    this.#socket.uncork()
  }

  /** Writes a body chunk by chunk; the next one is asked for when the kernel has the last one. */
  async #writeChunks(exchange: Exchange, text: string, body: Chunks): Promise<void> {
    this.#writing = true
    let leftBytes = exchange.bodyBytes
    let first = true
    try {
      for await (const chunk of body) {
        if (this.#exchange !== exchange) return
        leftBytes -= chunk.length
        if (leftBytes < 0) throw new WrongBodyLength('the body is too long')
        await this.#writeChunk(first ? text : null, chunk)
        first = false
      }
      if (this.#exchange !== exchange) return
      if (leftBytes > 0 || first) throw new WrongBodyLength('the body is too short')
      this.#writing = false
    } catch (cause) {
      if (this.#exchange === exchange) this.#break(cause as Error)
    }
  }

  /** Resolves when the chunk is out, or the connection is closed. */
  #writeChunk(text: string | null, chunk: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const onWritten = () => {
        this.#onWritten = null
        resolve()
      }
      this.#onWritten = onWritten
      if (text !== null) this.#writeAfter(text, chunk, onWritten)
      else this.#socket.write(chunk, onWritten)
    })
  }

  #readShared(): ReadInto {
    return { buffer: READ_BUFFER, callback: (bytes) => this.#read(READ_BUFFER, bytes) }
  }

  /** The system is told where the next bytes go when some have come, so a place counts from the read after that. */
  #readInPlace(): ReadInto {
    const onread = {
      buffer: () => this.#place() ?? HEAD_BUFFER,
      callback: (bytes: number, buffer: Uint8Array) =>
        buffer === HEAD_BUFFER ? this.#read(HEAD_BUFFER, bytes) : this.#takePlaced(bytes),
    }
    // The types of Node 22 name a buffer only where its documentation has a function too.
    return onread as unknown as ReadInto
  }

  #place(): Uint8Array | null {
    const { bodyLeft } = this.#parser
    const place = bodyLeft === 0 ? null : this.#exchange?.place?.()
    return place?.subarray(0, bodyLeft) ?? null
  }

  /** @returns false to hold the server back */
  #takePlaced(bytes: number): boolean {
    const exchange = this.#exchange
    if (exchange === null) return true
    this.#parser.take(bytes)
    exchange.onPlaced!(bytes)
    if (this.#parser.done && this.#exchange === exchange) this.#finish(exchange, true)
    return !this.#paused
  }

  /** @returns false to hold the server back */
  #read(bytes: Buffer, length: number): boolean {
    const exchange = this.#exchange
    if (exchange === null) {
      // Bytes that answer no request would be taken for the answer to the next one.
      this.close()
      return true
    }
    try {
      const read = this.#parser.read(bytes, length)
      if (this.#parser.done && this.#exchange === exchange) this.#finish(exchange, read === length)
    } catch (cause) {
      this.#break(cause as Error)
    }
    return !this.#paused
  }

  /** @param clean nothing follows the answer */
  #finish(exchange: Exchange, clean: boolean): void {
    this.#exchange = null
    this.#paused = false
    if (clean && !this.#writing && this.#parser.head.keepsAlive) this.#owner.onIdle(this)
    else this.close()
    exchange.onEnd()
  }

  /** The socket has ended, with an answer whose end that is, or without. */
  #end(cause: Error): void {
    const exchange = this.#exchange
    const isReset = 'code' in cause && cause.code === 'ECONNRESET'
    const isOver = isReset || cause instanceof ConnectionEnded
    if (exchange !== null && isOver && this.#parser.finish(isReset)) this.#finish(exchange, false)
    else this.#break(cause)
  }

  #break(cause: Error): void {
    const exchange = this.#exchange
    this.#exchange = null
    this.close()
    exchange?.onBroken(cause)
  }
}
