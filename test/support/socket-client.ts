import type { Test } from 'tap'
import { WebSocket } from 'ws'

export type Message = Record<string, unknown> & { readonly type: string }

/** A caller on a WebSocket: keeps every message. */
export class SocketClient {
  readonly messages: Message[] = []
  /** When each of them came, on the clock of `performance.now()`. */
  readonly arrivedMs: number[] = []
  /** Answer to the handshake, where it was refused. */
  refusal: { error: Record<string, unknown> } | null = null
  readonly socket: WebSocket
  readonly closed: Promise<number>
  #waiting: (() => void)[] = []

  constructor(t: Pick<Test, 'teardown'>, socket: WebSocket) {
    this.socket = socket
    socket.on('error', () => {})
    socket.on('unexpected-response', (_, response) => {
      response.setEncoding('utf8')
      response.on('data', (body) => {
        this.refusal = JSON.parse(body)
      })
      response.on('end', () => socket.terminate())
    })
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      this.received(data, isBinary)
      this.#wake()
    })
    this.closed = new Promise((resolve) => {
      socket.on('close', (code) => {
        resolve(code)
        this.#wake()
      })
    })
    t.teardown(() => socket.terminate())
  }

  of(type: string): Message[] {
    return this.messages.filter((message) => message.type === type)
  }

  /** Waits for the `count`-th message of a type. @throws Error when the socket closes before */
  async message(type: string, count = 1): Promise<Message> {
    for (;;) {
      const found = this.of(type)[count - 1]
      if (found !== undefined) return found
      if (this.socket.readyState === WebSocket.CLOSED)
        throw new Error(`closed without ${type}: ${JSON.stringify(this.refusal ?? this.messages.at(-1))}`)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  send(message: object | Buffer | string): void {
    const isPlain = Buffer.isBuffer(message) || typeof message === 'string'
    this.socket.send(isPlain ? message : JSON.stringify(message))
  }

  protected received(data: Buffer, _isBinary: boolean): void {
    this.messages.push(JSON.parse(String(data)))
    this.arrivedMs.push(performance.now())
  }

  #wake(): void {
    for (const wake of this.#waiting.splice(0)) wake()
  }
}
