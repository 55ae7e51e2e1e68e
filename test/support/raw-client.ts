import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface RawResponse {
  readonly status: number
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** A client that writes exactly the bytes it is given, and reads responses framed by Content-Length or chunked. */
export class RawClient {
  readonly socket: Socket
  /** The server has ended or reset the connection. */
  closed = false
  #chunks: Buffer[] = []
  #wake: (() => void) | null = null
  readonly #gone: Promise<void>

  constructor(socket: Socket) {
    this.socket = socket
    socket.setNoDelay(true)
    socket.on('data', (chunk: Buffer) => {
      this.#chunks.push(chunk)
      this.#wake?.()
    })
    this.#gone = new Promise((resolve) => {
      const gone = () => {
        this.closed = true
        this.#wake?.()
        resolve()
      }
      socket.on('end', gone)
      socket.on('error', gone)
      socket.on('close', gone)
    })
  }

  /** @param ca of a TLS port: the authority of its certificate for localhost */
  static async connect(port: number, ca?: string): Promise<RawClient> {
    const address = { port, host: '127.0.0.1', allowHalfOpen: true }
    const socket =
      ca === undefined ? connect(address) : connectTls({ ...address, ca, servername: 'localhost' })
    await once(socket, ca === undefined ? 'connect' : 'secureConnect')
    return new RawClient(socket)
  }

  /**
   * Writes the pieces, each in a segment of its own, and waits until the kernel has them; a dead connection is silent.
   */
  async send(...pieces: (string | Uint8Array)[]): Promise<void> {
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) await new Promise((resolve) => setTimeout(resolve, 4))
      if (this.closed || piece.length === 0) continue
      const bytes = typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece
      const written = new Promise<void>((resolve) => this.socket.write(bytes, () => resolve()))
      await Promise.race([written, this.#gone])
    }
  }

  /** The next response, 1xx left out; null when the connection ends before it is complete or nothing comes in time. */
  async response(options: { timeoutMs?: number; head?: boolean } = {}): Promise<RawResponse | null> {
    const { timeoutMs = 5_000, head = false } = options
    const deadline = Date.now() + timeoutMs
    let wantedBytes = 0
    for (;;) {
      const parsed = this.#unreadBytes() < wantedBytes ? null : parse(this.#unread(), head)
      if (typeof parsed === 'number') wantedBytes = parsed
      else if (parsed !== null) {
        this.#chunks = [this.#unread().subarray(parsed.length)]
        wantedBytes = 0
        if (parsed.response.status >= 200) return parsed.response
        continue
      }
      if (this.closed || !(await this.#more(deadline))) return null
    }
  }

  /** Whether the server closes the connection in time. */
  async closes(timeoutMs = 5_000): Promise<boolean> {
    const deadline = Date.now() + timeoutMs
    while (!this.closed && (await this.#more(deadline)));
    return this.closed
  }

  /** Whether there is something to read, or the connection is closed, in time. */
  async receives(timeoutMs: number): Promise<boolean> {
    if (this.#unreadBytes() > 0 || this.closed) return true
    return this.#more(Date.now() + timeoutMs)
  }

  /** Everything received and not read as a response, once the connection is closed or silent for `quietMs`. */
  async rest(quietMs: number): Promise<string> {
    while (!this.closed && (await this.#more(Date.now() + quietMs)));
    const text = this.#unread().toString('latin1')
    this.#chunks = []
    return text
  }

  destroy(): void {
    this.socket.destroy()
  }

  #unreadBytes(): number {
    return this.#chunks.reduce((sum, chunk) => sum + chunk.length, 0)
  }

  #unread(): Buffer {
    const [first, ...others] = this.#chunks
    if (first === undefined || others.length > 0) this.#chunks = [Buffer.concat(this.#chunks)]
    return this.#chunks[0]!
  }

  /** Waits for the next event of the connection. @returns false when none comes before the deadline */
  async #more(deadline: number): Promise<boolean> {
    const woken = await new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), Math.max(0, deadline - Date.now()))
      this.#wake = () => {
        clearTimeout(timer)
        resolve(true)
      }
    })
    this.#wake = null
    return woken
  }
}

/**
 * The response at the start of `bytes`; null without a whole head, and the length it has when its body is not whole.
 */
function parse(bytes: Buffer, head: boolean): { response: RawResponse; length: number } | number | null {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return null
  const [first = '', ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(first)?.[1])
  if (!status) throw new Error(`not a response: ${JSON.stringify(first)}`)
  const headers = Object.fromEntries(
    lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    }),
  )
  const start = end + 4
  if (status < 200 || head) return { response: { status, headers, body: Buffer.alloc(0) }, length: start }
  if (headers['transfer-encoding'] === 'chunked') {
    const chunked = parseChunks(bytes, start)
    if (typeof chunked === 'number') return chunked
    return { response: { status, headers, body: chunked.body }, length: chunked.length }
  }
  const length = Number(headers['content-length'] ?? 0)
  if (bytes.length < start + length) return start + length
  const body = Buffer.from(bytes.subarray(start, start + length))
  return { response: { status, headers, body }, length: start + length }
}

/** The chunks from `start` on, strictly read; the least length that it needs when the last one is not there. */
function parseChunks(bytes: Buffer, start: number): { body: Buffer; length: number } | number {
  const chunks: Buffer[] = []
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd < 0) return bytes.length + 1
    const line = bytes.toString('latin1', at, lineEnd)
    if (!/^[0-9a-f]+$/i.test(line)) throw new Error(`not the size of a chunk: ${JSON.stringify(line)}`)
    const size = Number.parseInt(line, 16)
    at = lineEnd + 2
    if (bytes.length < at + size + 2) return at + size + 2
    if (bytes.toString('latin1', at + size, at + size + 2) !== '\r\n')
      throw new Error('a chunk without an end')
    if (size === 0) return { body: Buffer.concat(chunks), length: at + 2 }
    chunks.push(bytes.subarray(at, at + size))
    at += size + 2
  }
}
