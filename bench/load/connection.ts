import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Reply, replyReader } from './reply.ts'

/** How often a paced connection writes. */
const SLICE_MS = 10

/** A keep-alive connection that carries one request at a time; opened with the first, and again after a failure. */
export class Connection {
  readonly #port: number
  #socket: Socket | undefined
  #settle: { resolve: (reply: Reply) => void; reject: (error: Error) => void } | undefined

  constructor(port: number) {
    this.#port = port
  }

  /** One request and its answer. The whole request is one write: libuv feeds the socket from the same memory. */
  async exchange(bytes: Buffer, bytesPerSecond: number | null): Promise<Reply> {
    const socket = this.#socket ?? this.#open()
    const reply = new Promise<Reply>((resolve, reject) => {
      this.#settle = { resolve, reject }
    })
    reply.catch(() => {}) // it may fail while the request is still being paced
    if (bytesPerSecond === null) socket.write(bytes)
    else await paced(socket, bytes, bytesPerSecond, reply)
    return await reply
  }

  drop(): void {
    this.#socket?.destroy()
    this.#socket = undefined
  }

  #open(): Socket {
    const read = replyReader()
    const socket = connect({
      port: this.#port,
      host: '127.0.0.1',
      noDelay: true,
      onread: {
        buffer: Buffer.allocUnsafeSlow(64 * 1024),
        callback: (bytes, buffer) => {
          try {
            const reply = read(Buffer.from(buffer.buffer, buffer.byteOffset, bytes))
            if (!reply) return true
            const { connection } = reply.headers
            this.#settle?.resolve(reply)
            if (connection === 'close') this.drop()
          } catch (error) {
            this.#settle?.reject(error as Error)
          }
          return true
        },
      },
    })
    const fail = (error: Error) => {
      if (this.#socket !== socket) return // dropped, and perhaps succeeded by another
      this.drop()
      this.#settle?.reject(error)
    }
    socket.on('error', fail)
    socket.on('close', () => fail(new Error('the connection closed before the answer')))
    this.#socket = socket
    return socket
  }
}

/** Writes at a steady rate; a connection that was held up catches up. Ends early when the answer comes early. */
async function paced(
  socket: Socket,
  bytes: Buffer,
  bytesPerSecond: number,
  reply: Promise<Reply>,
): Promise<void> {
  let answered = false
  const early = reply.then(
    () => {
      answered = true
    },
    () => {
      answered = true
    },
  )
  const sliceBytes = Math.ceil((bytesPerSecond * SLICE_MS) / 1000)
  const started = performance.now()
  for (let offset = 0; offset < bytes.length && !answered; offset += sliceBytes) {
    const waitMs = started + (offset / bytesPerSecond) * 1000 - performance.now()
    if (waitMs > 1) await sleep(waitMs)
    const taken = new Promise<void>((done) => {
      socket.write(bytes.subarray(offset, offset + sliceBytes), () => done())
    })
    await Promise.race([taken, early])
  }
}
