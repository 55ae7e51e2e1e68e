import { connect, isIP, type Socket } from 'node:net'
import { connect as connectSecure } from 'node:tls'
import { type AnswerHead, parseHead } from './s3-answer.ts'

/** Place of a server, out of its endpoint. */
export interface Origin {
  readonly secure: boolean
  /** Name or address, an IPv6 address without its brackets. */
  readonly host: string
  readonly port: number
}

export interface ConnectionTiming {
  /** How long a connection may take to come about. */
  readonly connectMs: number
  /** How long the store may take no byte, or send none, while it is its turn. */
  readonly stallMs: number
}

/** Holds a record of TLS, and the head of any answer; those of S3 servers are some 300 to 1,000 bytes. */
const OWN_BYTES = 16 * 1024
/** Idle connections are closed before servers do it, which would fail the next request. */
const IDLE_MS = 4_000
const HEAD_END = Buffer.from('\r\n\r\n')

const noop = () => {}

/** A reader that waits for bytes. */
interface Want {
  readonly target: Uint8Array
  /** Bytes that satisfy it, unless the connection ends. */
  readonly least: number
  /** Place of the bytes behind these. */
  readonly after: Uint8Array
  filled: number
  resolve(bytes: number): void
  reject(error: Error): void
}

/**
 * One connection to the store, for one request after the other. Bytes of an answer are read by the system straight
 * into the memory of their reader, and only when that asks for them; a chunk of a body may be used again as soon as
 * `write` has resolved, or the connection is destroyed. A failure ends the connection and all that wait for it.
 *
 * `node:http` reads 64 KiB at a time into fresh memory and hands every chunk through its parser and two streams.
 */
export class S3Connection {
  readonly #socket: Socket
  readonly #secure: boolean
  /** Where heads are read, and all that is encrypted: OpenSSL goes on when it is asked to stop. */
  readonly #own = Buffer.allocUnsafeSlow(OWN_BYTES)
  #headBytes = 0
  /** Bytes of a body that came before their reader asked for them. */
  #rest: Uint8Array[] = []
  /** Place of the bytes that come next. The system is told when some have come: a new place counts from then on. */
  #next: Uint8Array = this.#own
  #awaited: { resolve(head: AnswerHead): void; reject(error: Error): void } | null = null
  #want: Want | null = null
  #writing: ((error: Error) => void) | null = null
  #failure: Error | null = null
  #signal: AbortSignal | null = null
  readonly #timer: NodeJS.Timeout
  #isStoresTurn = false
  #requests = 0
  /** Called when it ends. */
  onEnd: () => void = noop

  /** Opens a connection. */
  static async open(
    origin: Origin,
    { connectMs, stallMs }: ConnectionTiming,
    signal: AbortSignal,
  ): Promise<S3Connection> {
    const connection = new S3Connection(origin, stallMs)
    const leave = () => connection.destroy(signal.reason)
    const late = () => connection.destroy(new Error(`no connection within ${connectMs} ms`))
    const timer = setTimeout(late, connectMs)
    signal.addEventListener('abort', leave, { once: true })
    try {
      await new Promise<void>((resolve, reject) => {
        connection.#writing = reject
        connection.#socket.once(origin.secure ? 'secureConnect' : 'connect', resolve)
      })
      connection.#writing = null
      return connection
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', leave)
    }
  }

  private constructor({ secure, host, port }: Origin, stallMs: number) {
    this.#secure = secure
    const onread = {
      buffer: () => this.#next,
      callback: (bytes: number, buffer: Uint8Array) => this.#take(bytes, buffer),
    }
    // The types of Node 22 name a buffer only where its documentation has a function too.
    const options = { host, port, noDelay: true, onread } as unknown as { host: string; port: number }
    const name = isIP(host) === 0 ? { servername: host } : {}
    this.#socket = secure ? connectSecure({ ...options, ...name }) : connect(options)
    this.#socket.on('error', (error) => this.destroy(error))
    this.#socket.on('end', () => this.#takeEnd())
    this.#socket.on('close', () => this.destroy(new Error('the store closed the connection')))
    this.#socket.on('timeout', () => this.destroy(new Error('idle')))
    // Refreshed whenever it becomes the store's turn, which is cheaper than a timer per chunk.
    this.#timer = setTimeout(() => {
      if (this.#isStoresTurn) this.destroy(new Error(`the store did nothing for ${stallMs} ms`))
    }, stallMs).unref()
  }

  get isOpen(): boolean {
    return this.#failure === null
  }

  /** Whether it has carried a request before the present one: then the store may have closed it meanwhile. */
  get isReused(): boolean {
    return this.#requests > 1
  }

  /** Ends the connection. What waits for it fails with `error`; bytes that were given to it are its no more. */
  destroy(error: Error): void {
    if (this.#failure !== null) return
    this.#failure = error
    clearTimeout(this.#timer)
    this.#signal?.removeEventListener('abort', this)
    this.#signal = null
    this.#socket.destroy()
    this.#awaited?.reject(error)
    this.#writing?.(error)
    this.#want?.reject(error)
    this.#awaited = null
    this.#writing = null
    this.#want = null
    this.onEnd()
  }

  /** Called when the signal of the request aborts. */
  handleEvent(): void {
    this.destroy(this.#signal?.reason)
  }

  /**
   * Begins a request; to be ended by `release`, or by `destroy`.
   *
   * @returns the head of its answer, which may come before all of the request has been written
   */
  begin(signal: AbortSignal): Promise<AnswerHead> {
    this.#requests += 1
    this.#socket.setTimeout(0)
    this.#socket.ref()
    this.#signal = signal
    signal.addEventListener('abort', this, { once: true })
    const { promise, resolve, reject } = Promise.withResolvers<AnswerHead>()
    promise.catch(noop)
    if (this.#failure === null) this.#awaited = { resolve, reject }
    else reject(this.#failure)
    if (signal.aborted) this.destroy(signal.reason)
    return promise
  }

  /** The answer has been read whole: the connection is free. */
  release(): void {
    this.#isStoresTurn = false
    this.#signal?.removeEventListener('abort', this)
    this.#signal = null
    if (this.#rest.length > 0) this.destroy(new Error('the store sent more than it had announced'))
    if (this.#failure !== null) return
    this.#socket.setTimeout(IDLE_MS)
    this.#socket.unref()
    this.#socket.resume()
  }

  /** Begins or ends the time in which the store has to do something. */
  awaitStore(isStoresTurn: boolean): void {
    this.#isStoresTurn = isStoresTurn
    if (isStoresTurn && this.#failure === null) this.#timer.refresh()
  }

  /** Resolves when the operating system has the bytes. */
  write(...chunks: readonly (Uint8Array | string)[]): Promise<void> {
    if (this.#failure !== null) return Promise.reject(this.#failure)
    this.awaitStore(true)
    return new Promise((resolve, reject) => {
      this.#writing = reject
      const done = (error?: Error | null) => {
        if (this.#writing === reject) this.#writing = null
        if (error) {
          reject(error)
          return
        }
        this.#isStoresTurn = false
        resolve()
      }
      const last = chunks.length - 1
      if (last > 0) this.#socket.cork()
      for (const [i, chunk] of chunks.entries()) {
        if (typeof chunk === 'string') this.#socket.write(chunk, 'latin1', i === last ? done : undefined)
        else this.#socket.write(chunk, i === last ? done : undefined)
      }
      if (last > 0) this.#socket.uncork()
    })
  }

  /**
   * Reads bytes of the body into `target`, at least `least` of them: fewer only when the store has ended.
   *
   * @param after memory for the bytes behind these, where the same reader goes on: the next target, or the beginning
   *              of it is; null when nothing is to follow
   */
  read(target: Uint8Array, least: number, after: Uint8Array | null): Promise<number> {
    let filled = 0
    while (filled < target.length) {
      const piece = this.#rest.shift()
      if (piece === undefined) break
      const part = piece.subarray(0, target.length - filled)
      target.set(part, filled)
      filled += part.length
      if (part.length < piece.length) this.#rest.unshift(piece.subarray(part.length))
    }
    if (filled >= least || this.#socket.readableEnded) return Promise.resolve(filled)
    if (this.#failure !== null) return Promise.reject(this.#failure)
    this.awaitStore(true)
    return new Promise((resolve, reject) => {
      this.#want = { target, least, after: after ?? this.#own, filled, resolve, reject }
      this.#socket.resume()
    })
  }

  /** Takes bytes as they arrive. @returns false to have no more of them for now */
  #take(bytes: number, buffer: Uint8Array): boolean {
    if (this.#want !== null) return this.#fill(this.#want, bytes, buffer)
    if (this.#awaited !== null) return this.#takeHead(bytes)
    if (this.#secure && this.#signal !== null) this.#rest.push(Uint8Array.from(buffer.subarray(0, bytes)))
    else this.destroy(new Error('the store sent bytes that nobody asked for'))
    return false
  }

  #fill(want: Want, bytes: number, buffer: Uint8Array): boolean {
    const { target } = want
    let used = bytes
    if (buffer.buffer === this.#own.buffer) {
      used = Math.min(bytes, target.length - want.filled)
      target.set(buffer.subarray(0, used), want.filled)
      if (used < bytes) this.#rest.push(Uint8Array.from(buffer.subarray(used, bytes)))
    }
    want.filled += used
    if (want.filled > target.length) {
      this.destroy(new Error('the store sent more than it had announced'))
      return false
    }
    if (want.filled < want.least) {
      if (!this.#secure) this.#next = target.subarray(want.filled)
      return true
    }
    if (!this.#secure) this.#next = want.after
    this.#want = null
    this.#isStoresTurn = false
    want.resolve(want.filled)
    return false
  }

  #takeHead(bytes: number): boolean {
    const seen = Math.max(0, this.#headBytes - HEAD_END.length + 1)
    this.#headBytes += bytes
    const come = this.#own.subarray(0, this.#headBytes)
    const end = come.indexOf(HEAD_END, seen)
    if (end < 0) {
      this.#next = this.#own.subarray(this.#headBytes)
      if (this.#next.length > 0) return true
      this.destroy(new Error(`the store's answer has a head over ${OWN_BYTES} bytes`))
      return false
    }
    const head = parseHead(come.toString('latin1', 0, end))
    const behind = end + HEAD_END.length
    this.#headBytes = 0
    this.#next = this.#own
    if (head === null) {
      this.destroy(new Error('the store sent no HTTP answer'))
      return false
    }
    if (head.status < 200) {
      // An interim answer stands before the real one.
      this.#own.copyWithin(0, behind, behind + come.length - behind)
      return come.length === behind ? true : this.#takeHead(come.length - behind)
    }
    if (come.length > behind) this.#rest.push(Uint8Array.from(come.subarray(behind)))
    this.#isStoresTurn = false
    const awaited = this.#awaited
    this.#awaited = null
    awaited?.resolve(head)
    return false
  }

  /** The store sends no more. A body without a length ends so; whatever else waits for bytes fails. */
  #takeEnd(): void {
    const want = this.#want
    this.#want = null
    want?.resolve(want.filled)
  }
}
