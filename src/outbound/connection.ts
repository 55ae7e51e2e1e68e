import type { Socket } from 'node:net'
import { AnswerParser, type AnswerSink } from './answer-parser.ts'
import { Deadlines, Perishable } from './deadlines.ts'
import { headText, joinHead, type RequestHead } from './request-head.ts'

/**
 * One connection to a provider, which serves one request at a time: writes it, feeds the parser of its answer, and
 * decides whether another request may follow.
 *
 * No request is sent twice here. From the moment that the first byte of one is written the provider may have executed
 * it, and only who made the request can know whether that may happen again. A connection serves another request only if
 * the whole request is out, the answer has ended by its own length, and nothing lies behind it.
 *
 * Sockets are read into one buffer that all of them share (`onread`), which leaves out a buffer, a stream's queue and
 * three events per answer. The buffer is read to its end before the socket's callback returns; who keeps a part of an
 * answer gets a copy of it.
 */

/** Longest wait for a connection, TLS included. */
const CONNECT_TIMEOUT_MS = 5_000

/** Largest body that is copied to its head: one write and one packet for both. */
const JOINED_BYTES_MAX = 16 * 1024

const READ_BUFFER = Buffer.allocUnsafeSlow(64 * 1024)

const deadlines = new Deadlines()

/** A request on its way, and what it is told. */
export interface Exchange {
  readonly head: RequestHead
  /** A generator's chunks may lie in memory that is another's once the request is over. */
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | null
  readonly bodyBytes: number
  /** From now on the connection is the request's. */
  onAssigned(connection: Connection): void
  /** From now on the provider may have seen a part of it. */
  onBegun(): void
  onHead(status: number, fields: string, encoding: string): void
  /** @param chunk the receiver's to keep */
  onBody(chunk: Buffer): void
  onEnd(): void
  onBroken(cause: Error): void
}

/** Keeps the connections of an origin. */
export interface ConnectionOwner {
  /** The connection may serve another request. */
  onIdle(connection: Connection): void
  onClosed(connection: Connection): void
}

/** Way in which the socket hands over what it reads; false from `callback` holds the other side back. */
export interface ReadInto {
  readonly buffer: Buffer
  readonly callback: (bytes: number) => boolean
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
  /** Lets the writer of the body go on. */
  #onWritten: (() => void) | null = null
  #paused = false
  /** When it became idle, on the clock of `performance.now()`. */
  idleSinceMs = 0

  constructor(owner: ConnectionOwner, dial: Dial) {
    super()
    this.#owner = owner
    deadlines.add(this, performance.now() + CONNECT_TIMEOUT_MS)
    const { socket, event } = dial({
      buffer: READ_BUFFER,
      callback: (bytes) => this.#read(READ_BUFFER, bytes),
    })
    this.#socket = socket
    socket.setNoDelay(true).setKeepAlive(true, 60_000)
    socket.once(event, () => this.#begin())
    socket.on('error', (cause) => this.#end(cause))
    socket.on('end', () => this.#end(new ConnectionEnded('the other side closed')))
    socket.on('close', () => this.#end(new ConnectionEnded('closed')))
  }

  /** How long the provider keeps it while it is idle, ms; null: it does not say. */
  get keepAliveMs(): number | null {
    return this.#parser.keepAliveMs
  }

  /** Sends a request, as soon as the connection has come about. */
  send(exchange: Exchange): void {
    this.#exchange = exchange
    exchange.onAssigned(this)
    if (this.#connected) this.#write(exchange)
  }

  /** Gives the request up: nothing of it is told any more. */
  abandon(exchange: Exchange): void {
    if (this.#exchange !== exchange) return
    this.#exchange = null
    this.close()
  }

  /** Stops reading behind the bytes that are here. To be called from `onBody` only. */
  pause(): void {
    this.#paused = true
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#socket.resume()
  }

  /** Whether it stands in the way of the process's end. */
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
    deadlines.remove(this)
    this.#socket.destroy()
    this.#onWritten?.()
    this.#owner.onClosed(this)
  }

  /** Called when connecting has taken too long. */
  override expire(): void {
    if (!this.#connected) this.#break(new ConnectionEnded(`no connection within ${CONNECT_TIMEOUT_MS} ms`))
  }

  onHead(status: number, fields: string, encoding: string): void {
    this.#exchange?.onHead(status, fields, encoding)
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    if (this.#exchange === null) return
    const chunk = Buffer.allocUnsafe(end - start)
    bytes.copy(chunk, 0, start, end)
    this.#exchange.onBody(chunk)
  }

  #begin(): void {
    deadlines.remove(this)
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
    else if (body instanceof Uint8Array) this.#writeBehind(text, body)
    else void this.#writeChunks(exchange, text, body)
  }

  /** Writes a head and the first part of its body in one system call. */
  #writeBehind(text: string, chunk: Uint8Array, onWritten?: () => void): void {
    this.#socket.cork()
    this.#socket.write(text, 'latin1')
    this.#socket.write(chunk, onWritten)
    this.#socket.uncork()
  }

  /** Writes a body chunk by chunk; the next one is asked for when the kernel has the last one. */
  async #writeChunks(exchange: Exchange, text: string, body: AsyncIterable<Uint8Array>): Promise<void> {
    this.#writing = true
    let leftBytes = exchange.bodyBytes
    let first = true
    try {
      for await (const chunk of body) {
        if (this.#exchange !== exchange) return
        leftBytes -= chunk.length
        if (leftBytes < 0) throw new WrongBodyLength()
        await this.#writeChunk(first ? text : null, chunk)
        first = false
      }
      if (this.#exchange !== exchange) return
      if (leftBytes > 0 || first) throw new WrongBodyLength()
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
      if (text !== null) this.#writeBehind(text, chunk, onWritten)
      else this.#socket.write(chunk, onWritten)
    })
  }

  /** @returns false to hold the provider back */
  #read(bytes: Buffer, length: number): boolean {
    const exchange = this.#exchange
    if (exchange === null) {
      // Bytes that nobody asked for would be taken for the answer to the next request.
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

  /** @param clean nothing lies behind the answer */
  #finish(exchange: Exchange, clean: boolean): void {
    this.#exchange = null
    this.#paused = false
    if (clean && !this.#writing && this.#parser.keepsAlive) this.#owner.onIdle(this)
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
