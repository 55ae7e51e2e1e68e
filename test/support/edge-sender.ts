import { connect, type Socket } from 'node:net'
import { type Mutant, PLANTED_HEADER } from './edge-mutator.ts'

/** Longest part of an answer that is looked at, characters. */
const LOOKED_AT = 65_536
/** How many times the usual an answer may take. */
const LATENCIES = 3
/** By which the median follows each answer, and each that never comes: few that are slow by nature do not move it. */
const STEP_MS = 0.2
const STATUS_LINE = /HTTP\/1\.1 (\d{3}) /g

/** What came back for one mutant. */
export interface Outcome {
  /** Status of every answer, in order; empty when there was none. */
  readonly statuses: readonly string[]
  readonly text: string
}

/** How long answers take at present, ms: what all senders of a test have in common. */
export interface Latency {
  medianMs: number
}

/** One client, which opens a connection anew whenever the last one is of no more use. */
export class EdgeSender {
  readonly #port: number
  readonly #latency: Latency
  #socket: Socket | null = null
  #text = ''
  #wake: () => void = () => {}

  /** @param latency grown and shrunk by every answer; patience is what a client has beyond some of it */
  constructor(port: number, latency: Latency) {
    this.#port = port
    this.#latency = latency
  }

  async send({ pieces, manner, patienceMs }: Mutant): Promise<Outcome> {
    this.#socket ??= this.#open()
    const socket = this.#socket
    this.#text = ''
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) await new Promise((resolve) => setImmediate(resolve))
      socket.write(piece, 'latin1')
    }
    if (manner === 'leaves') {
      // The bytes are with the kernel in the next turn.
      await new Promise((resolve) => setImmediate(resolve))
      this.close()
    } else {
      if (manner === 'half') socket.end()
      await this.#answered(socket, patienceMs)
    }
    const text = this.#text
    // An answer that is not whole may be gone on with: the next request would be read into a body.
    if (manner !== 'stays' || !isWhole(text)) this.close()
    return { statuses: Array.from(text.matchAll(STATUS_LINE), ([, status = '']) => status), text }
  }

  close(): void {
    this.#socket?.destroy()
    this.#socket = null
  }

  #open(): Socket {
    const socket = connect({ port: this.#port, host: '127.0.0.1', allowHalfOpen: true })
    socket.setNoDelay(true)
    const gone = () => {
      if (this.#socket === socket) this.close()
      this.#wake()
    }
    socket.on('data', (chunk) => {
      if (this.#socket !== socket) return
      if (this.#text.length < LOOKED_AT) this.#text += chunk.toString('latin1')
      this.#wake()
    })
    socket.on('end', gone)
    socket.on('error', gone)
    socket.on('close', gone)
    return socket
  }

  /** Resolves with a whole answer, with the end of the connection, or when patience is over. */
  #answered(socket: Socket, patienceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const startedMs = performance.now()
      const latency = this.#latency
      const timer = setTimeout(
        () => {
          latency.medianMs += STEP_MS
          resolve()
        },
        patienceMs + LATENCIES * latency.medianMs,
      )
      this.#wake = () => {
        if (!socket.destroyed && !isWhole(this.#text)) return
        clearTimeout(timer)
        const tookMs = performance.now() - startedMs
        if (this.#text !== '') latency.medianMs += tookMs > latency.medianMs ? STEP_MS : -STEP_MS
        resolve()
      }
      this.#wake()
    })
  }
}

/** Whether an answer was split: what a request brought stands as a header of its own. */
export function isSplit(text: string): boolean {
  return text.includes(`\r\n${PLANTED_HEADER}:`)
}

/** Whether the last answer of what was received has come to its end. */
function isWhole(text: string): boolean {
  const start = text.lastIndexOf('HTTP/1.1 ')
  if (start < 0 || text.startsWith('HTTP/1.1 1', start)) return false
  const headEnd = text.indexOf('\r\n\r\n', start)
  if (headEnd < 0) return false
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(text.slice(start, headEnd + 2))?.[1]
  return length === undefined ? text.endsWith('\r\n0\r\n\r\n') : text.length >= headEnd + 4 + Number(length)
}
